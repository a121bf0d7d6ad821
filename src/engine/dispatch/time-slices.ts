import type { AttemptRef } from "../../core/commands.ts"
import type { Clock } from "../clock.ts"
import type { LiveJob } from "../owner/live-job.ts"

/**
 * Dispatching a node renders its templates, which may take milliseconds, and one commit can make a hundred thousand nodes
 * ready. Done without a break, no caller would get an answer meanwhile and the heartbeat would stop: peers would take the
 * partitions over, and block on the same job in their turn.
 *
 * 1. Dispatches that do not fit into a turn of the event loop wait for the next ones; jobs take turns, one node each.
 * 2. A waiting dispatch may have become obsolete: the dispatch function checks again.
 */
const TURN_MS = 10

export class TimeSlices {
  readonly #clock: Clock
  readonly #run: (job: LiveJob, at: AttemptRef) => void
  /** Jobs in the order of their turns. */
  readonly #waiting = new Map<LiveJob, { readonly list: AttemptRef[]; next: number }>()
  /** When this turn of the event loop began to dispatch; null: it has not. */
  #since: number | null = null
  #stopped = false

  constructor(clock: Clock, run: (job: LiveJob, at: AttemptRef) => void) {
    this.#clock = clock
    this.#run = run
  }

  dispatch(job: LiveJob, at: AttemptRef): void {
    if (this.#waiting.size === 0 && this.#hasTime()) this.#run(job, at)
    else this.#wait(job, at)
  }

  stop(): void {
    this.#stopped = true
    this.#waiting.clear()
  }

  #wait(job: LiveJob, at: AttemptRef): void {
    if (this.#stopped) return
    const waiting = this.#waiting.get(job)
    if (waiting === undefined) this.#waiting.set(job, { list: [at], next: 0 })
    else waiting.list.push(at)
  }

  #hasTime(): boolean {
    const now = this.#clock.now()
    if (this.#since !== null) return now - this.#since < TURN_MS
    this.#since = now
    setImmediate(() => this.#nextTurn())
    return true
  }

  #nextTurn(): void {
    this.#since = null
    while (this.#waiting.size > 0 && this.#hasTime()) this.#runNext()
  }

  #runNext(): void {
    const [job, waiting] = this.#waiting.entries().next().value!
    this.#waiting.delete(job)
    const at = waiting.list[waiting.next++]!
    if (waiting.next < waiting.list.length && !job.evicted) this.#waiting.set(job, waiting)
    this.#run(job, at)
  }
}
