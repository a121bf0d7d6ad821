/** ` (did you mean "upper"?)` for the closest of the known names, or nothing when none is close. */
export function didYouMean(name: string, known: Iterable<string>): string {
  let best: string | null = null
  let least = Math.max(1, Math.floor(name.length / 3)) + 1
  if (name.length > 40) return ""
  for (const candidate of known) {
    const distance = editDistance(name.toLowerCase(), candidate, least)
    if (distance < least) {
      least = distance
      best = candidate
    }
  }
  return best === null ? "" : ` (did you mean "${best}"?)`
}

/** Optimal string alignment distance: insertions, deletions, changes and swaps of neighbours. Stops counting at `bound`. */
export function editDistance(a: string, b: string, bound: number): number {
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
