/**
 * Long computations that do not block the event loop: requests, streams and heartbeats continue between their pieces.
 *
 * 1. Work is a generator, and yields wherever it may be interrupted. The result is the same at once and in turns.
 * 2. All work in turns shares one time slice per turn of the event loop: however many documents arrive at once, other
 *    work waits for one slice only. Works alternate, so a small one does not wait behind a large one.
 */
export type Work<T> = Generator<undefined, T, undefined>

/** As in `TimeSlices`: how long a request may wait for other work. */
const TURN_MS = 10

export function atOnce<T>(work: Work<T>): T {
  for (;;) {
    const { done, value } = work.next()
    if (done) return value
  }
}

/** Resolves as soon as the work is done: without waiting for another turn if it fits into this one and no other work waits. */
export function inTurns<T>(work: Work<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const go = () => {
      try {
        const until = performance.now() + TURN_MS
        do {
          const { done, value } = work.next()
          if (done) {
            resolve(value)
            return true
          }
        } while (performance.now() < until)
        return false
      } catch (error) {
        reject(error)
        return true
      }
    }
    if (waiting.length === 0 && go()) return
    if (waiting.push(go) === 1) setImmediate(nextTurn)
  })
}

let turnBegan: number | undefined
/** Callers of `nextTurnIfLate` that wait, in order. */
let late: (() => void)[] = []

/**
 * For many short works in a row: `undefined` while this turn of the event loop has time for another one, otherwise a
 * promise that resolves in a later turn that has. Then the work may begin without asking again.
 */
export function nextTurnIfLate(): Promise<void> | undefined {
  if (late.length === 0 && isInTime()) return undefined
  return new Promise(resolve => {
    if (late.push(resolve) === 1) setImmediate(() => void beginLate())
  })
}

function isInTime(): boolean {
  if (turnBegan === undefined) {
    turnBegan = performance.now()
    setImmediate(() => {
      turnBegan = undefined
    })
  }
  return performance.now() - turnBegan < TURN_MS
}

/** Wakes no more callers than this turn has time for: to wake all of them in each turn takes longer than their work. */
async function beginLate(): Promise<void> {
  let next = 0
  // At least one: other work may have used up this turn.
  while (next < late.length && (isInTime() || next === 0)) {
    late[next++]!()
    // The work of the caller begins before this continues.
    await undefined
  }
  late = late.slice(next)
  if (late.length > 0) setImmediate(() => void beginLate())
}

/** Each runs one piece; true: it is done. */
const waiting: (() => boolean)[] = []

function nextTurn(): void {
  const go = waiting[0]!
  const isDone = go()
  waiting.shift()
  if (!isDone) waiting.push(go)
  if (waiting.length > 0) setImmediate(nextTurn)
}
