/** "Did you mean": suggests the nearest known name, if one is near enough. Work is bounded for hostile documents. */

/** Characters compared over one validation, some 20 ms; after that, messages have no suggestion. */
const comparisonBudget = 2_000_000

export class Suggester {
  #left = comparisonBudget

  /** ` Did you mean "x"?` or an empty string: for the end of a message. */
  hint(wrong: string, known: Iterable<string>): string {
    const nearest = this.nearest(wrong, known)
    return nearest === undefined ? "" : ` Did you mean "${nearest}"?`
  }

  /** The same as a sentence; without a near name it lists the known ones. */
  advice(wrong: string, known: readonly string[]): string {
    const nearest = this.nearest(wrong, known)
    if (nearest !== undefined) return `Did you mean "${nearest}"?`
    return `Available: ${known.slice(0, 20).join(", ") || "none"}.`
  }

  nearest(wrong: string, known: Iterable<string>): string | undefined {
    if (wrong.length > 64) return undefined
    const lower = wrong.toLowerCase()
    // One mistake per three characters, at most three: a name of two letters resembles any other.
    let bound = Math.min(3, Math.floor(wrong.length / 3)) + 1
    let best: string | undefined
    for (const name of known) {
      if (--this.#left <= 0) break
      if (Math.abs(name.length - wrong.length) >= bound) continue
      this.#left -= wrong.length * name.length
      const distance = editDistance(lower, name.toLowerCase(), bound)
      if (distance >= bound) continue
      bound = distance
      best = name
      if (distance === 0) break
    }
    return best
  }
}

/** Optimal string alignment distance: insertions, deletions, changes and swaps of neighbours. Stops counting at `bound`. */
function editDistance(a: string, b: string, bound: number): number {
  let beforeLast: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    let smallest = i
    for (let j = 1; j <= b.length; j++) {
      const change = a[i - 1] === b[j - 1] ? 0 : 1
      let cost = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + change)
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      if (swapped) cost = Math.min(cost, beforeLast[j - 2]! + 1)
      row.push(cost)
      if (cost < smallest) smallest = cost
    }
    if (smallest >= bound) return bound
    beforeLast = last
    last = row
  }
  return last[b.length]!
}
