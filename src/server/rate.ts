/** So many a second, with a burst of twice that, for each key. Keys that have been quiet cost nothing. */
export class Rate {
  readonly #perSecond: number
  readonly #now: () => number
  readonly #buckets = new Map<string, { left: number; at: number }>()

  constructor(perSecond: number, now: () => number = () => performance.now()) {
    this.#perSecond = perSecond
    this.#now = now
  }

  /** Seconds to wait; 0: go on, and one less is left. */
  take(key: string): number {
    const bucket = this.#filled(key)
    if (bucket.left < 1) return (1 - bucket.left) / this.#perSecond
    bucket.left--
    return 0
  }

  /** As `take`, without taking. */
  look(key: string): number {
    const { left } = this.#filled(key)
    return left < 1 ? (1 - left) / this.#perSecond : 0
  }

  #filled(key: string): { left: number; at: number } {
    const [now, most] = [this.#now(), 2 * this.#perSecond]
    const bucket = this.#buckets.get(key) ?? { left: most, at: now }
    bucket.left = Math.min(most, bucket.left + ((now - bucket.at) / 1000) * this.#perSecond)
    bucket.at = now
    if (this.#buckets.size > MANY) this.#forget(now)
    this.#buckets.set(key, bucket)
    return bucket
  }

  /** A bucket that has had time to fill says nothing. */
  #forget(now: number): void {
    for (const [key, { at }] of this.#buckets) if (now - at > 2000) this.#buckets.delete(key)
    if (this.#buckets.size > MANY) this.#buckets.clear()
  }
}

const MANY = 10_000
