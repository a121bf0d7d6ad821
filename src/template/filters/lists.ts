import type { Json } from "../../core/json.ts"
import { order, sorted } from "../run/compare.ts"
import { flag, type Given, type Operation, operation, wholeNumber } from "../run/operation.ts"
import { binary } from "../run/operators.ts"
import { printJson } from "../run/print.ts"
import { characters, isList, isMapping, listOf, Missing, sequence, type Value } from "../run/values.ts"
import { cannot, type Run } from "../run.ts"
import { follow, keysOf, parts } from "./attribute.ts"

function ends(name: "first" | "last"): Operation {
  return operation("", (run, value) => {
    const items = sequence(run, value)
    const item = name === "first" ? items[0] : items[items.length - 1]
    return item === undefined ? Missing.because(`${name}: the list is empty; add | default(…)`) : item
  })
}

/** The first of the extremes, as in Python. */
function extreme(name: "min" | "max"): Operation {
  const sign = name === "min" ? 1 : -1
  return operation("case_sensitive? attribute?", (run, value, [caseSensitive, attribute]) => {
    const items = sequence(run, value)
    const keys = keysOf(run, items, attribute, flag(run, caseSensitive, false))
    if (items.length === 0) return Missing.because(`${name}: the list is empty; add | default(…)`)
    let best = 0
    for (let i = 1; i < items.length; i++) {
      run.step()
      if (sign * order(run, keys[i] as Json, keys[best] as Json) < 0) best = i
    }
    return items[best] as Value
  })
}

function sum(run: Run, value: Json, [attribute, start]: Given): Json {
  const path = attribute === undefined || attribute === null ? [] : parts(attribute)
  return sequence(run, value).reduce<Json>((total, item) => {
    run.step()
    return binary(run, "+", total, follow(run, item, path))
  }, start ?? 0)
}

function sort(run: Run, value: Json, [reverse, caseSensitive, attribute]: Given): Json {
  const items = sequence(run, value)
  const exact = flag(run, caseSensitive, false)
  const names = typeof attribute === "string" && attribute.includes(",") ? attribute.split(",", 10) : null
  const keys =
    names === null
      ? keysOf(run, items, attribute, exact)
      : transpose(
          run,
          names.map(name => keysOf(run, items, name, exact)),
          items.length,
        )
  return sorted(run, items, keys, flag(run, reverse, false))
}

function transpose(run: Run, columns: readonly Json[][], length: number): Json[] {
  run.items(length * (columns.length + 8))
  return listOf(length, i => columns.map(column => column[i] as Json))
}

function unique(run: Run, value: Json, [caseSensitive, attribute]: Given): Json {
  const items = sequence(run, value)
  const keys = keysOf(run, items, attribute, flag(run, caseSensitive, false))
  const seen = new Set<string>()
  run.items(items.length)
  return items.filter((_, i) => {
    const key = identity(run, keys[i] as Json)
    return !seen.has(key) && seen.add(key)
  })
}

/** A string that is equal for equal values: keys in order, booleans as the numbers they equal. */
function identity(run: Run, value: Json): string {
  run.step()
  if (typeof value === "string") {
    run.text(value.length)
    return `"${value}`
  }
  if (typeof value === "boolean") return String(Number(value))
  if (typeof value !== "object" || value === null) return String(value)
  return printJson(run, canonical(run, value, 0), 0)
}

function canonical(run: Run, value: Json, depth: number): Json {
  run.nested(depth)
  run.step()
  if (isList(value)) {
    run.items(value.length)
    return value.map(item => canonical(run, item, depth + 1))
  }
  if (isMapping(value)) {
    const keys = run.keys(value)
    run.items(keys.length * 8)
    return keys.toSorted().map(key => [key, canonical(run, value[key] as Json, depth + 1)])
  }
  return typeof value === "boolean" ? Number(value) : value
}

function reverse(run: Run, value: Json): Json {
  if (typeof value === "string") {
    run.text(value.length)
    return characters(run, value).reverse().join("")
  }
  const items = sequence(run, value)
  run.items(items.length)
  return items.toReversed()
}

function list(run: Run, value: Json): Json {
  return isList(value) ? value : sequence(run, value)
}

function positive(value: Json | undefined, name: string): number {
  const number = wholeNumber(value, name, 0)
  if (number < 1) throw cannot(`${name} must be at least 1`)
  return number
}

function batch(run: Run, value: Json, [linecount, fill]: Given): Json {
  const size = positive(linecount, "linecount")
  const items = sequence(run, value)
  const rows = Math.ceil(items.length / size)
  const filling = fill !== undefined && fill !== null && rows > 0
  run.items(rows * 8 + (filling ? rows * size : items.length))
  const result = listOf(rows, i => items.slice(i * size, (i + 1) * size))
  const short = result[rows - 1] as readonly Json[] | undefined
  if (filling && short !== undefined) {
    result[rows - 1] = [...short, ...listOf(size - short.length, () => fill)]
  }
  return result
}

/** This many columns of nearly equal length. */
function slice(run: Run, value: Json, [slices, fill]: Given): Json {
  const count = positive(slices, "slices")
  const items = sequence(run, value)
  run.items(count * 9 + items.length)
  const each = Math.floor(items.length / count)
  const longer = items.length % count
  return listOf(count, i => {
    const from = i * each + Math.min(i, longer)
    const part = items.slice(from, from + each + (i < longer ? 1 : 0))
    return fill !== undefined && fill !== null && i >= longer ? [...part, fill] : part
  })
}

export const listFilters: readonly (readonly [string, Operation])[] = [
  ["first", ends("first")],
  ["last", ends("last")],
  ["min", extreme("min")],
  ["max", extreme("max")],
  ["sum", operation("attribute? start?", sum)],
  ["sort", operation("reverse? case_sensitive? attribute?", sort)],
  ["unique", operation("case_sensitive? attribute?", unique)],
  ["reverse", operation("", reverse)],
  ["list", operation("", list)],
  ["batch", operation("linecount fill_with?", batch)],
  ["slice", operation("slices fill_with?", slice)],
]
