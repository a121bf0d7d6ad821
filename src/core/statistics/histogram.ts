const EXACT = 20
const ERROR = 0.045
const BASE = (1 + ERROR) / (1 - ERROR)
const LOG_BASE = Math.log(BASE)
/** From here on a quantile is a whole number; below it has one decimal. */
const WHOLE_FROM = 200

function bucket(ms: number): number {
  if (ms <= EXACT) return ms > 0 ? Math.round(ms) : 0
  return EXACT + Math.max(1, Math.ceil(Math.log(ms / EXACT) / LOG_BASE))
}

function bucketValue(index: number): number {
  if (index <= EXACT) return index
  const middle = (2 * EXACT * BASE ** (index - EXACT)) / (BASE + 1)
  return middle < WHOLE_FROM ? Math.round(middle * 10) / 10 : Math.round(middle)
}

/**
 * A histogram of milliseconds in buckets that grow by a constant factor: any quantile is within 5 % of the value that a
 * sorted list of all values would give, and the histogram of a union is the sum of the histograms.
 *
 * Whole numbers up to 20 have buckets of their own. Bucket 20 + k holds the values above 20 × BASE^(k-1), up to 20 × BASE^k.
 * The middle of such a bucket is within 4.5 % of all its values; rounding adds at most 0.25 %.
 */
export class Histogram {
  /** Counts by exact bucket, in an array: short durations are the most frequent ones. */
  readonly #exact: number[] = []
  #others: Map<number, number> | null = null

  /** `list`: as `encode` returns it. */
  static decode(list: readonly number[]): Histogram {
    const histogram = new Histogram()
    for (let at = 0; at + 1 < list.length; at += 2) histogram.#count(list[at]!, list[at + 1]!)
    return histogram
  }

  add(ms: number): void {
    this.#count(bucket(ms), 1)
  }

  #count(index: number, count: number): void {
    if (index <= EXACT) {
      this.#exact[index] = (this.#exact[index] ?? 0) + count
      return
    }
    this.#others ??= new Map()
    this.#others.set(index, (this.#others.get(index) ?? 0) + count)
  }

  merge(other: Histogram): void {
    for (const [index, count] of other.#buckets()) this.#count(index, count)
  }

  /** As one list: bucket, count, bucket, count, … by bucket. */
  encode(): number[] {
    return this.#buckets().flat()
  }

  #buckets(): [index: number, count: number][] {
    const exact = [...this.#exact.entries()].filter(([, count]) => count !== undefined)
    return [...exact, ...[...(this.#others ?? [])].sort(([a], [b]) => a - b)]
  }

  /**
   * The values at these ranks, each from 0 to 1: the smallest value that at least this share of all values does not exceed.
   * null: there are no values.
   */
  quantiles(ranks: readonly number[]): readonly number[] | null {
    const buckets = this.#buckets()
    const total = buckets.reduce((sum, [, count]) => sum + count, 0)
    if (total === 0) return null
    return ranks.map(rank => {
      let left = Math.max(1, Math.ceil(rank * total))
      for (const [index, count] of buckets) {
        left -= count
        if (left <= 0) return bucketValue(index)
      }
      return bucketValue(buckets.at(-1)![0])
    })
  }
}
