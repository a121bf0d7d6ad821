interface Bucket {
  left: number
  at: number
  perSecond: number
}

/** A token bucket per key: a rate per second, with a burst of twice that and of at least one. Idle keys use no memory. */
export class Rate {
  readonly #now: () => number
  readonly #buckets = new Map<string, Bucket>()

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** Seconds to wait; 0: allowed, and one token was taken. */
  take(key: string, perSecond: number): number {
    const bucket = this.#filled(key, perSecond)
    if (bucket.left < 1) return (1 - bucket.left) / perSecond
    bucket.left--
    return 0
  }

  /** As `take`, but takes no token. */
  look(key: string, perSecond: number): number {
    const { left } = this.#filled(key, perSecond)
    return left < 1 ? (1 - left) / perSecond : 0
  }

  #filled(key: string, perSecond: number): Bucket {
    const now = this.#now()
    const bucket = this.#buckets.get(key) ?? { left: burst(perSecond), at: now, perSecond }
    bucket.left = leftOf(bucket, now)
    bucket.at = now
    if (this.#buckets.size > MANY) this.#forget(now)
    this.#buckets.set(key, bucket)
    return bucket
  }

  /** A full bucket has no information and is removed. */
  #forget(now: number): void {
    for (const [key, bucket] of this.#buckets)
      if (leftOf(bucket, now) >= burst(bucket.perSecond)) this.#buckets.delete(key)
    if (this.#buckets.size > MANY) this.#buckets.clear()
  }
}

/** Even a slow rate allows one request. */
function burst(perSecond: number): number {
  return Math.max(1, 2 * perSecond)
}

function leftOf({ left, at, perSecond }: Bucket, now: number): number {
  return Math.min(burst(perSecond), left + ((now - at) / 1000) * perSecond)
}

const MANY = 10_000
