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
/** Resumes short works that wait for time, oldest first; those before `resumed` have been resumed. */
let late: (() => void)[] = []
let resumed = 0

/**
 * For many short works: `undefined` while this turn of the event loop has time for another one and none waits,
 * otherwise a promise that resolves in a turn that has. Works are resumed one by one: with 100,000 that wait, a turn
 * costs as much as the works that it has time for.
 */
export function nextTurnIfLate(): Promise<void> | undefined {
  if (late.length === 0 && hasTimeLeft()) return undefined
  return new Promise(resolve => {
    if (late.push(resolve) === 1) setImmediate(resumeLate)
  })
}

function hasTimeLeft(): boolean {
  if (turnBegan === undefined) {
    turnBegan = performance.now()
    setImmediate(() => {
      turnBegan = undefined
    })
  }
  return performance.now() - turnBegan < TURN_MS
}

/** A resumed work runs before the microtask that is queued here, so its time counts before the next one is resumed. */
function resumeLate(): void {
  if (!hasTimeLeft()) {
    setImmediate(resumeLate)
    return
  }
  late[resumed++]!()
  if (resumed * 2 > late.length) {
    late = late.slice(resumed)
    resumed = 0
  }
  if (late.length > 0) queueMicrotask(resumeLate)
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
