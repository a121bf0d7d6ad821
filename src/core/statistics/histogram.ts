const EXACT = 20
const ERROR = 0.045
const BASE = (1 + ERROR) / (1 - ERROR)
const LOG_BASE = Math.log(BASE)
/** From here on a quantile is a whole number; below it has one decimal. */
const WHOLE_FROM = 200
/** The buckets of a sum of many histograms that are counted in an array: for times up to a million years. */
const SUMMED = 400
const ZERO = 48
const NINE = 57
const COMMA = 44
const CLOSED = 93
/** Buckets from here on: fractions below 20, and values below 0. No larger value has such a bucket. */
const FRACTIONS = 10_000
const NEGATIVE = 20_000

function bucket(ms: number): number {
  if (ms <= EXACT) return ms > 0 ? Math.round(ms) : 0
  return EXACT + Math.max(1, Math.ceil(Math.log(ms / EXACT) / LOG_BASE))
}

/** `amount`: any finite number. */
function amountBucket(amount: number): number {
  if (amount < 0) return NEGATIVE + amountBucket(-amount)
  if (amount >= EXACT || Number.isInteger(amount)) return bucket(amount)
  return FRACTIONS + Math.floor((Math.log(EXACT) - Math.log(amount)) / LOG_BASE)
}

function bucketValue(index: number): number {
  if (index <= EXACT) return index
  if (index >= NEGATIVE) return -bucketValue(index - NEGATIVE)
  if (index >= FRACTIONS) {
    const middle = (2 * EXACT * BASE ** (FRACTIONS - index)) / (BASE + 1)
    return Number(middle.toPrecision(4))
  }
  const middle = (2 * EXACT * BASE ** (index - EXACT)) / (BASE + 1)
  return middle < WHOLE_FROM ? Math.round(middle * 10) / 10 : Math.round(middle)
}

/**
 * A histogram of milliseconds, or of amounts, in buckets that grow by a constant factor: any quantile is within 5 % of the
 * value that a sorted list of all values would give, and the histogram of a union is the sum of the histograms.
 *
 * Whole numbers up to 20 have buckets of their own. Bucket 20 + k holds the values above 20 × BASE^(k-1), up to 20 × BASE^k.
 * The middle of such a bucket is within 4.5 % of all its values; rounding adds at most 0.25 %. Fractions of amounts have such
 * buckets below 20, and so do amounts below 0.
 */
export class Histogram {
  /** Counts by exact bucket, in an array: short durations are the most frequent ones. */
  readonly #exact: number[] = []
  #others: Map<number, number> | null = null
  /** Instead of both, once a stored text was added: a sum of thousands of texts is many additions to few buckets. */
  #summed: Float64Array | null = null

  /** `list`: as `encode` returns it. */
  addEncoded(list: readonly number[]): void {
    for (let at = 0; at + 1 < list.length; at += 2) this.#count(list[at]!, list[at + 1]!)
  }

  /**
   * Adds a list as `encode` returns it from within a JSON text: from the place after its "[". Returns the place after its
   * "]". Several times faster than `JSON.parse` and `addEncoded`.
   */
  addText(text: string, from: number): number {
    const summed = this.#sum()
    for (let at = from; ; at++) {
      let [index, count] = [0, 0]
      let code = text.charCodeAt(at)
      for (; code >= ZERO && code <= NINE; code = text.charCodeAt(++at)) index = index * 10 + code - ZERO
      if (code !== COMMA) throw notPairs()
      code = text.charCodeAt(++at)
      for (; code >= ZERO && code <= NINE; code = text.charCodeAt(++at)) count = count * 10 + code - ZERO
      if (index < SUMMED) summed[index]! += count
      else this.#count(index, count)
      if (code === CLOSED) return at + 1
      if (code !== COMMA) throw notPairs()
    }
  }

  #sum(): Float64Array {
    if (this.#summed !== null) return this.#summed
    const buckets = this.#buckets()
    this.#exact.length = 0
    this.#others = null
    this.#summed = new Float64Array(SUMMED)
    for (const [index, count] of buckets) this.#count(index, count)
    return this.#summed
  }

  add(ms: number): void {
    this.#count(bucket(ms), 1)
  }

  /** Sums of amounts may be too large for a number: these are left out. */
  addAmount(amount: number): void {
    if (Number.isFinite(amount)) this.#count(amountBucket(amount), 1)
  }

  #count(index: number, count: number): void {
    if (this.#summed !== null && index < SUMMED) {
      this.#summed[index]! += count
      return
    }
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
    const exact = [...(this.#summed ?? this.#exact).entries()].filter(([, count]) => count)
    return [...exact, ...[...(this.#others ?? [])].sort(([a], [b]) => a - b)]
  }

  /**
   * The values at these ranks, each from 0 to 1: the smallest value that at least this share of all values does not exceed.
   * null: there are no values.
   */
  quantiles(ranks: readonly number[]): readonly number[] | null {
    const buckets = this.#buckets()
    if ((buckets.at(-1)?.[0] ?? 0) >= FRACTIONS) buckets.sort(([a], [b]) => bucketValue(a) - bucketValue(b))
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

function notPairs(): SyntaxError {
  return new SyntaxError("A histogram is a list of pairs of numbers.")
}
