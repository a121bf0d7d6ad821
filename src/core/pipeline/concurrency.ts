/**
 * How many messages of a route are worth having in hand at once, found from how long they take: a gradient. While
 * messages take about as long as they usually do, there is room for more; when they take longer, something behind the
 * route is full, and fewer are better. Pure: the times are given. docs/decisions/0024 says why a gradient.
 */
export interface ConcurrencyBounds {
  readonly min: number
  readonly max: number
  /** How many times the usual latency is still fine. */
  readonly tolerance: number
  /** false: always `max`. */
  readonly adaptive: boolean
}

/** Messages of which one sample is made. */
const SAMPLE = 20
/** Share of a new sample in what is usual: the last hundred samples or so. */
const USUAL_SHARE = 0.02
/** Share of a newly found limit in the limit: no single sample moves it far. */
const LIMIT_SHARE = 0.2

export class Concurrency {
  readonly #bounds: ConcurrencyBounds
  #limit: number
  /** Milliseconds; 0: no sample yet. */
  #usual = 0
  #count = 0
  #sum = 0
  #mostInFlight = 0

  constructor(bounds: ConcurrencyBounds) {
    this.#bounds = bounds
    this.#limit = bounds.adaptive ? Math.min(bounds.max, Math.max(bounds.min, 4)) : bounds.max
  }

  get limit(): number {
    return Math.floor(this.#limit)
  }

  /** A message is done. `inFlight`: how many were in hand, itself included. */
  ended(latencyMs: number, inFlight: number): void {
    if (!this.#bounds.adaptive) return
    this.#sum += latencyMs
    this.#count += 1
    this.#mostInFlight = Math.max(this.#mostInFlight, inFlight)
    if (this.#count < SAMPLE) return
    this.#sampled(this.#sum / this.#count)
    this.#sum = 0
    this.#count = 0
    this.#mostInFlight = 0
  }

  /** The other side has too much to do, and says so (429, 503, a time-out). */
  overloaded(): void {
    if (this.#bounds.adaptive) this.#set(this.#limit * 0.9)
  }

  #sampled(latency: number): void {
    this.#usual = this.#usual === 0 ? latency : this.#usual + (latency - this.#usual) * USUAL_SHARE
    // What was slow for long and is fast again: believe it sooner.
    if (this.#usual > latency * 2) this.#usual *= 0.9
    // With half of its places empty the route does not show what more of them would do.
    if (this.#mostInFlight * 2 < this.#limit) return
    const gradient = Math.min(1, Math.max(0.5, (this.#bounds.tolerance * this.#usual) / Math.max(latency, 0.001)))
    const found = this.#limit * gradient + Math.sqrt(this.#limit)
    this.#set(this.#limit + (found - this.#limit) * LIMIT_SHARE)
  }

  #set(limit: number): void {
    this.#limit = Math.min(this.#bounds.max, Math.max(this.#bounds.min, limit))
  }
}
