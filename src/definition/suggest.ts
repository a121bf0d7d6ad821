/** "Did you mean": suggests the nearest known name, if one is near enough. Work is bounded for hostile documents. */
import { editDistance } from "../template/nearest.ts"

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
