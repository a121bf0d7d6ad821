/** Equality and order as in Python: by value, booleans are the numbers 0 and 1, different types have no order. */
import type { Json } from "../../core/json.ts"
import { cannot, type Run } from "../run.ts"
import { isList, isMapping, owns, typeName } from "./values.ts"

export function equal(run: Run, a: Json, b: Json, depth = 0): boolean {
  if (typeof a !== "object" || a === null || typeof b !== "object" || b === null)
    return equalScalars(run, a, b)
  if (a === b) return true
  run.nested(depth)
  if (isList(a) && isList(b)) {
    if (a.length !== b.length) return false
    run.step(1 + a.length)
    return a.every((item, i) => equal(run, item, b[i] as Json, depth + 1))
  }
  if (!isMapping(a) || !isMapping(b)) return false
  const keys = run.keys(a)
  if (keys.length !== run.keys(b).length) return false
  // Each key is looked up three times, possibly in a large hash table.
  run.step(1 + keys.length * 3)
  return keys.every(key => owns(b, key) && equal(run, a[key] as Json, b[key] as Json, depth + 1))
}

function equalScalars(run: Run, a: Json, b: Json): boolean {
  if (typeof a === "string" && typeof b === "string") {
    run.scan(Math.min(a.length, b.length))
    return a === b
  }
  return number(a) === number(b)
}

const number = (value: Json): Json => (typeof value === "boolean" ? Number(value) : value)

/** Negative, zero or positive. Throws for values without an order. */
export function order(run: Run, a: Json, b: Json, depth = 0): number {
  const x = number(a)
  const y = number(b)
  if (typeof x === "number" && typeof y === "number") return x - y
  if (typeof x === "string" && typeof y === "string") return orderText(run, x, y)
  if (isList(x) && isList(y)) {
    run.nested(depth)
    for (let i = 0; i < x.length && i < y.length; i++) {
      run.step()
      if (equal(run, x[i] as Json, y[i] as Json, depth + 1)) continue
      return order(run, x[i] as Json, y[i] as Json, depth + 1)
    }
    return x.length - y.length
  }
  throw cannot(
    `a ${typeName(a)} and a ${typeName(b)} cannot be ordered; convert one, e.g. with | int or | string`,
  )
}

/** By code point. UTF-16 order differs only where one side has a surrogate and the other a character above it. */
function orderText(run: Run, a: string, b: string): number {
  const length = Math.min(a.length, b.length)
  run.scan(length)
  let i = 0
  if (length < 8 || a.slice(0, 8) === b.slice(0, 8)) {
    while (i < length && a.charCodeAt(i) === b.charCodeAt(i)) i += 1
    run.scan(i * 8)
  } else {
    while (a.charCodeAt(i) === b.charCodeAt(i)) i += 1
  }
  if (i === length) return a.length - b.length
  return lifted(a.charCodeAt(i)) - lifted(b.charCodeAt(i))
}

const lifted = (unit: number): number => (unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit)

/** Sorts items by their keys: stable, and every comparison is counted. */
export function sorted(run: Run, items: readonly Json[], keys: readonly Json[], reverse: boolean): Json[] {
  run.items(items.length * 2)
  const positions = items.map((_, i) => i)
  const compare = (i: number, j: number): number => {
    run.step()
    return order(run, keys[i] as Json, keys[j] as Json)
  }
  // Reversed means reversed order with ties still in their original order, as in Python.
  positions.sort(reverse ? (i, j) => compare(j, i) : compare)
  return positions.map(i => items[i] as Json)
}
