/** ` (did you mean "upper"?)` for the closest of the known names, or nothing when none is close. */
export function didYouMean(name: string, known: Iterable<string>): string {
  let best: string | null = null
  let least = Math.max(1, Math.floor(name.length / 3)) + 1
  if (name.length > 40) return ""
  for (const candidate of known) {
    const distance = edits(name.toLowerCase(), candidate)
    if (distance < least) {
      least = distance
      best = candidate
    }
  }
  return best === null ? "" : ` (did you mean "${best}"?)`
}

/** Insertions, deletions, changes and swaps of neighbours that turn one into the other. */
function edits(a: string, b: string): number {
  let before: number[] = []
  let previous = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const change = (previous[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1)
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      const swap = swapped ? (before[j - 2] as number) + 1 : change
      row.push(Math.min(change, swap, (previous[j] as number) + 1, (row[j - 1] as number) + 1))
    }
    before = previous
    previous = row
  }
  return previous[b.length] as number
}
