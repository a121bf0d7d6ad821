import type { Isolation } from "../core/suspects.ts"

/**
 * An isolated task of this process, from its arrival until its end. Times are of the monotonic clock, in
 * milliseconds.
 */
export interface Suspect {
  readonly isolation: Isolation | undefined
  readonly receivedAt: number
  /** NaN: its handler has not begun. */
  readonly begunAt: number
  readonly lane: { readonly hasRoom: boolean }
}

/**
 * A task that has died alone lets others go first: the tasks that were lost with it arrive within this time.
 */
const firstWaitMs = 250
const longestWaitMs = 1000

/**
 * Runs the tasks that may have crashed an earlier process one at a time, so that the next crash identifies
 * the cause.
 *
 * 1. Tasks that have never died alone come first, then the one whose death is longest ago.
 * 2. A task that has died alone waits a moment before it begins, so that those that have not can go first.
 * 3. If a task runs for longer than its time, the next one may run at the same time: the line never blocks
 *    for ever.
 */
export class SuspectLine<T extends Suspect> {
  readonly #waiting: T[] = []
  /** The task that runs alone. */
  #current: T | null = null
  #takenAt = 0
  #isOverdueReported = false

  /** The number of waiting tasks. */
  get size(): number {
    return this.#waiting.length
  }

  push(task: T): void {
    const { diedAt } = task.isolation!
    const before = this.#waiting.findIndex(other => other.isolation!.diedAt > diedAt)
    this.#waiting.splice(before < 0 ? this.#waiting.length : before, 0, task)
  }

  remove(task: T): void {
    const at = this.#waiting.indexOf(task)
    if (at >= 0) this.#waiting.splice(at, 1)
  }

  /** Takes the task that may begin now. It occupies the line until `release`. */
  take(now: number): T | undefined {
    if (this.#waiting.length === 0 || this.#current !== null) return undefined
    const at = this.#waiting.findIndex(task => readyAt(task) <= now && task.lane.hasRoom)
    if (at < 0) return undefined
    const [task] = this.#waiting.splice(at, 1)
    this.#current = task!
    this.#takenAt = now
    this.#isOverdueReported = false
    return task
  }

  /** The task has ended, or another one runs at the same time. */
  release(task: T): void {
    if (this.#current === task) this.#current = null
  }

  /** The task that has exceeded its time while others wait: returned once. */
  overdue(now: number): T | null {
    if (this.#current === null || this.#isOverdueReported || !(now >= this.#currentUntil)) return null
    this.#isOverdueReported = true
    return this.#current
  }

  /** When the passing of time alone changes something after `now`; Infinity: never. */
  nextCheckAt(now: number): number {
    let next = Number.POSITIVE_INFINITY
    if (this.#current === null) {
      for (const task of this.#waiting) if (readyAt(task) > now) next = Math.min(next, readyAt(task))
    } else if (this.#waiting.length > 0 && this.#currentUntil > now) next = this.#currentUntil
    return next
  }

  get #currentUntil(): number {
    const { begunAt, isolation } = this.#current!
    // Before it begins, the task may wait for a place in the rate of its provider, which must not block the
    // line either.
    return (Number.isNaN(begunAt) ? this.#takenAt : begunAt) + isolation!.seconds * 1000
  }
}

function readyAt({ isolation, receivedAt }: Suspect): number {
  const { deaths } = isolation!
  return deaths === 0 ? receivedAt : receivedAt + Math.min(longestWaitMs, firstWaitMs * 2 ** (deaths - 1))
}
