import type { BreakerState } from "../../core/pipeline/breaker.ts"

/** The current state of a route, for metrics and queries. */
export class RouteState {
  readonly #now: () => number
  #since: number
  #count = 0
  #rate = 0
  #latencyMs = 0
  /** How often a breaker opened, and closed again. */
  opened = 0
  closed = 0
  /** Dead letters of an earlier run that this run has retried. */
  retriedDead = 0

  constructor(now: () => number) {
    this.#now = now
    this.#since = now()
  }

  ended(latencyMs: number, messages: number): void {
    this.#count += messages
    this.#latencyMs =
      this.#latencyMs === 0 ? latencyMs : this.#latencyMs + (latencyMs - this.#latencyMs) * 0.05
  }

  breakerChanged(state: BreakerState): void {
    if (state === "open") this.opened += 1
    if (state === "closed") this.closed += 1
  }

  get latencyMs(): number {
    return Math.round(this.#latencyMs * 1000) / 1000
  }

  /** Messages per second, over the last seconds. */
  get rate(): number {
    const now = this.#now()
    const seconds = (now - this.#since) / 1000
    if (seconds >= 1) {
      const share = Math.min(1, seconds / 5)
      this.#rate += (this.#count / seconds - this.#rate) * (this.#rate === 0 ? 1 : share)
      this.#since = now
      this.#count = 0
    }
    return Math.round(this.#rate * 10) / 10
  }
}
