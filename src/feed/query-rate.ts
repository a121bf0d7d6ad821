/** The streams of one owner query the store at most 100 times a second together. */
const MS_PER_STREAM = 10

/**
 * How often streams query the store for what nothing notifies them of. The more streams of one owner are open, the
 * longer each of them waits; those of other owners do not.
 */
export class QueryRate {
  readonly #open = new Map<string, number>()

  /** Counts a stream of the owner; returns a function that removes it from the count. */
  enter(owner: string): () => void {
    this.#open.set(owner, this.#count(owner) + 1)
    let isIn = true
    return () => {
      if (!isIn) return
      isIn = false
      const left = this.#count(owner) - 1
      if (left === 0) this.#open.delete(owner)
      else this.#open.set(owner, left)
    }
  }

  /** Until the next query of one stream of the owner. `least`: with few streams. */
  waitMs(owner: string, least: number): number {
    return Math.max(least, this.#count(owner) * MS_PER_STREAM)
  }

  #count(owner: string): number {
    return this.#open.get(owner) ?? 0
  }
}
