/**
 * Long computations that do not hold up the event loop: requests, streams and beats go on between their pieces.
 *
 * 1. Work is a generator, and yields wherever it may be interrupted. Done at once or in turns, it gives the same.
 * 2. All work in turns shares one turn of the event loop: however many documents come at once, the others wait for
 *    one piece only. Works take turns, so a small one is not behind a large one.
 */
export type Work<T> = Generator<undefined, T, undefined>

/** As `DispatchTurns` has it: what a request may wait for others' work. */
const TURN_MS = 10

export function atOnce<T>(work: Work<T>): T {
  for (;;) {
    const { done, value } = work.next()
    if (done) return value
  }
}

/** Resolves as soon as it is done: what fits into a turn that nobody else waits for, without waiting for one. */
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

/**
 * For many short works in a row: `undefined` while this turn of the event loop has time for another one, otherwise a
 * promise of the next turn.
 */
export function nextTurnIfLate(): Promise<void> | undefined {
  if (turnBegan === undefined) {
    turnBegan = performance.now()
    setImmediate(() => {
      turnBegan = undefined
    })
  }
  if (performance.now() - turnBegan < TURN_MS) return undefined
  return new Promise(resolve => setImmediate(resolve))
}

/** Each goes on for a piece; true: it is done. */
const waiting: (() => boolean)[] = []

function nextTurn(): void {
  const go = waiting[0]!
  const isDone = go()
  waiting.shift()
  if (!isDone) waiting.push(go)
  if (waiting.length > 0) setImmediate(nextTurn)
}
