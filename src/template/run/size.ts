/**
 * How large a value is as JSON, without making it JSON: a template can insert one value a thousand times, which costs nothing
 * until the whole is serialized.
 */
import type { Json } from "../../core/json.ts"

/** Sizes of large lists and mappings, which never change: the configs of ten thousand items may insert the same one. */
const known = new WeakMap<object, number>()
const LARGE = 4096
/** As outputs: recursion must stay far from the end of the stack. */
export const DEEPEST = 500

/**
 * At least so many bytes, commas and quotes included: characters outside ASCII, escapes and long numbers take more. Stops
 * counting above `most`. Infinity: it is nested too deep, which no output or input is.
 */
export function jsonSize(value: Json, most: number, depth = 0): number {
  if (typeof value === "string") return value.length + 3
  if (typeof value === "number") return Number.isInteger(value) ? 2 : 4
  if (typeof value !== "object" || value === null) return 5
  const counted = known.get(value)
  if (counted !== undefined) return counted
  if (depth === DEEPEST) return Number.POSITIVE_INFINITY
  let size = 3
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length && size <= most; i++) size += jsonSize(value[i], most - size, depth + 1)
  } else {
    for (const key in value) {
      const inner = (value as { readonly [key: string]: Json })[key]!
      size += key.length + 3 + jsonSize(inner, most - size, depth + 1)
      if (size > most) break
    }
  }
  if (size >= LARGE && size <= most) known.set(value, size)
  return size
}
