/** A histogram in plain numbers: adding a value costs a few comparisons, readers do the rest. */
export class MetricHistogram {
  /** Upper bounds, rising; values above the last are counted in one more bucket. */
  readonly bounds: readonly number[]
  readonly counts: Float64Array
  sum = 0

  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.counts = new Float64Array(bounds.length + 1)
  }

  add(amount: number): void {
    const { bounds } = this
    let place = 0
    while (place < bounds.length && amount > bounds[place]!) place++
    this.counts[place]!++
    this.sum += amount
  }
}

export const secondsBounds: readonly number[] = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
]
