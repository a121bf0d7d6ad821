/** Limits the number of messages per second, evenly spaced, with short bursts. */
export class RouteRate {
  readonly #intervalMs: number
  readonly #burstMs: number
  /** When the next message would begin if all were evenly spaced. */
  #next = 0

  /** null: no limit. */
  constructor(perSecond: number | null) {
    this.#intervalMs = perSecond === null ? 0 : 1000 / perSecond
    // A timer fires some milliseconds late: this burst makes up for it.
    this.#burstMs = Math.max(this.#intervalMs, 20)
  }

  mayBeginAt(now: number): number {
    return this.#intervalMs === 0 || this.#next - this.#burstMs < now ? 0 : this.#next - this.#burstMs + 1
  }

  begun(now: number): void {
    if (this.#intervalMs > 0) this.#next = Math.max(this.#next, now) + this.#intervalMs
  }
}
