/**
 * Where a text occurs in another, in linear time. V8's own search is quadratic for some long needles
 * ("b" + "a" × 500,000 in "a" × 1,000,000 takes over a second), so those go through Knuth-Morris-Pratt.
 */
import type { Run } from "../run.ts"

/** Below this many comparisons in the worst case the native search is used: 1 ms. */
const NATIVE = 1_000_000

export type Find = (from: number) => number

/** A function that finds the next occurrence at or after an offset, or -1. `needle` is not empty. */
export function finder(run: Run, text: string, needle: string): Find {
  run.scan(text.length + needle.length)
  if (needle.length > text.length) return () => -1
  if (needle.length === 1 || text.length * needle.length < NATIVE) return from => text.indexOf(needle, from)
  run.scan((text.length + needle.length) * 4)
  run.items(needle.length)
  return linear(text, needle)
}

function linear(text: string, needle: string): Find {
  const fallback = borders(needle)
  return from => {
    let matched = 0
    for (let i = from; i < text.length; i++) {
      const unit = text.charCodeAt(i)
      while (matched > 0 && needle.charCodeAt(matched) !== unit) matched = fallback[matched - 1] as number
      if (needle.charCodeAt(matched) === unit) matched += 1
      if (matched === needle.length) return i - matched + 1
    }
    return -1
  }
}

/** For each prefix, the length of its longest border. */
function borders(needle: string): Int32Array {
  const lengths = new Int32Array(needle.length)
  let length = 0
  for (let i = 1; i < needle.length; i++) {
    while (length > 0 && needle.charCodeAt(i) !== needle.charCodeAt(length))
      length = lengths[length - 1] as number
    if (needle.charCodeAt(i) === needle.charCodeAt(length)) length += 1
    lengths[i] = length
  }
  return lengths
}

/** Offsets of occurrences that do not overlap, at most `most` of them. */
export function occurrences(run: Run, text: string, needle: string, most: number): number[] {
  const find = finder(run, text, needle)
  const found: number[] = []
  for (let at = find(0); at !== -1 && found.length < most; at = find(at + needle.length)) {
    run.step()
    found.push(at)
  }
  return found
}
