/**
 * Finds how many messages of a route to process at once from their latency: a gradient. While latency is close to that
 * with few messages in flight, there is room for more; when it rises, something behind the route is saturated, and fewer
 * are better. Pure: the times are arguments. docs/decisions/0023 gives the reasons, with the numbers.
 */
export interface ConcurrencyBounds {
  readonly min: number
  readonly max: number
  /** Up to this multiple of the least latency is acceptable. */
  readonly tolerance: number
  /** false: always `max`. */
  readonly adaptive: boolean
}

/** The number of messages of one sample. */
const SAMPLE = 20
/** The weight of a newly found limit: no single sample moves the limit far. */
const LIMIT_SHARE = 0.2
/**
 * The least latency is valid for this many samples. Then one sample is made with few messages in flight: with many, all
 * latencies rise, and slow would become the new normal.
 */
const BELIEVED = 200
const PROBE_SHARE = 0.25

export class Concurrency {
  readonly #bounds: ConcurrencyBounds
  #limit: number
  /** Milliseconds; 0: no sample yet. */
  #least = 0
  #sinceLeast = 0
  #isProbing = false
  #count = 0
  #sum = 0
  #mostInFlight = 0

  constructor(bounds: ConcurrencyBounds) {
    this.#bounds = bounds
    this.#limit = bounds.adaptive ? Math.min(bounds.max, Math.max(bounds.min, 4)) : bounds.max
  }

  get limit(): number {
    const share = this.#isProbing ? PROBE_SHARE : 1
    return Math.max(this.#bounds.min, Math.floor(this.#limit * share))
  }

  /** A message is done. `inFlight`: how many were in flight, itself included. */
  ended(latencyMs: number, inFlight: number): void {
    if (!this.#bounds.adaptive) return
    this.#sum += latencyMs
    this.#count += 1
    this.#mostInFlight = Math.max(this.#mostInFlight, inFlight)
    if (this.#count < SAMPLE) return
    this.#sampled(Math.max(this.#sum / this.#count, 0.001))
    this.#sum = 0
    this.#count = 0
    this.#mostInFlight = 0
  }

  /** The remote side reports overload (429, 503, a time-out). */
  overloaded(): void {
    if (this.#bounds.adaptive) this.#set(this.#limit * 0.9)
  }

  #sampled(latency: number): void {
    this.#sinceLeast += 1
    if (this.#isProbing || this.#least === 0 || latency < this.#least) {
      this.#least = Math.max(latency, 0.001)
      this.#sinceLeast = 0
      if (this.#isProbing) {
        this.#isProbing = false
        return
      }
    }
    if (this.#sinceLeast >= BELIEVED) this.#isProbing = true
    // With half of its places empty the route cannot show the effect of more places.
    if (this.#mostInFlight * 2 < this.#limit) return
    const gradient = Math.min(1, Math.max(0.5, (this.#bounds.tolerance * this.#least) / latency))
    const found = this.#limit * gradient + Math.sqrt(this.#limit)
    this.#set(this.#limit + (found - this.#limit) * LIMIT_SHARE)
  }

  #set(limit: number): void {
    this.#limit = Math.min(this.#bounds.max, Math.max(this.#bounds.min, limit))
  }
}
