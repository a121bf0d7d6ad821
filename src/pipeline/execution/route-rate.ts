/** At most so many messages in a second, evenly, with short bursts. */
export class RouteRate {
  readonly #intervalMs: number
  readonly #burstMs: number
  /** When the next would be begun if all were begun evenly. */
  #next = 0

  /** null: no limit. */
  constructor(perSecond: number | null) {
    this.#intervalMs = perSecond === null ? 0 : 1000 / perSecond
    // A timer is some milliseconds late: what it missed may be made up for.
    this.#burstMs = Math.max(this.#intervalMs, 20)
  }

  mayBeginAt(now: number): number {
    return this.#intervalMs === 0 || this.#next - this.#burstMs < now ? 0 : this.#next - this.#burstMs + 1
  }

  begun(now: number): void {
    if (this.#intervalMs > 0) this.#next = Math.max(this.#next, now) + this.#intervalMs
  }
}
