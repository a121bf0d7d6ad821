import type { AttemptRef } from "../../core/commands.ts"
import type { Clock } from "../clock.ts"
import type { LiveJob } from "../owner/live-job.ts"

/**
 * Handing a node out renders its templates, which may take milliseconds, and one commit can make a hundred thousand nodes
 * ready. Done in one go nobody would be answered meanwhile, and the beat would stop: peers would take the partitions
 * over, and stand still over the same job in their turn.
 *
 * 1. What does not fit into a turn of the event loop waits for the next ones; jobs take turns, one node each.
 * 2. Whatever waits may have become void meanwhile: whoever hands it out looks again.
 */
const TURN_MS = 10

export class TimeSlices {
  readonly #clock: Clock
  readonly #hand: (job: LiveJob, at: AttemptRef) => void
  /** In the order of their turns. */
  readonly #waiting = new Map<LiveJob, { readonly list: AttemptRef[]; next: number }>()
  /** When this turn of the event loop began to hand out; null: it has not. */
  #since: number | null = null
  #stopped = false

  constructor(clock: Clock, hand: (job: LiveJob, at: AttemptRef) => void) {
    this.#clock = clock
    this.#hand = hand
  }

  dispatch(job: LiveJob, at: AttemptRef): void {
    if (this.#waiting.size === 0 && this.#hasTime()) this.#hand(job, at)
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
    while (this.#waiting.size > 0 && this.#hasTime()) this.#handNext()
  }

  #handNext(): void {
    const [job, waiting] = this.#waiting.entries().next().value!
    this.#waiting.delete(job)
    const at = waiting.list[waiting.next++]!
    if (waiting.next < waiting.list.length && !job.evicted) this.#waiting.set(job, waiting)
    this.#hand(job, at)
  }
}
