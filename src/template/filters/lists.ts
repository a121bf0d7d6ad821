import type { Json } from "../../core/json.ts"
import { didYouMean } from "../nearest.ts"
import { equal, order, sorted } from "../run/compare.ts"
import { child, markGroup } from "../run/lookup.ts"
import {
  applyNamed,
  flag,
  type Given,
  type Named,
  type Operation,
  operation,
  text,
  wholeNumber,
} from "../run/operation.ts"
import { binary } from "../run/operators.ts"
import { printJson } from "../run/print.ts"
import { tests } from "../run/tests.ts"
import {
  characters,
  data,
  isList,
  isMapping,
  Missing,
  makeList,
  sequence,
  truthy,
  typeName,
  type Value,
} from "../run/values.ts"
import { cannot, type Run } from "../run.ts"
import { listPairs, recase } from "./text-work.ts"

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
    const keys = comparisonKeys(run, items, attribute, flag(run, caseSensitive, false))
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
      ? comparisonKeys(run, items, attribute, exact)
      : transpose(
          run,
          names.map(name => comparisonKeys(run, items, name, exact)),
          items.length,
        )
  return sorted(run, items, keys, flag(run, reverse, false))
}

function transpose(run: Run, columns: readonly Json[][], length: number): Json[] {
  run.items(length * (columns.length + 8))
  return makeList(length, i => columns.map(column => column[i] as Json))
}

function unique(run: Run, value: Json, [caseSensitive, attribute]: Given): Json {
  const items = sequence(run, value)
  const keys = comparisonKeys(run, items, attribute, flag(run, caseSensitive, false))
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
  const result = makeList(rows, i => items.slice(i * size, (i + 1) * size))
  const short = result[rows - 1] as readonly Json[] | undefined
  if (filling && short !== undefined) {
    result[rows - 1] = [...short, ...makeList(size - short.length, () => fill)]
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
  return makeList(count, i => {
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

/** `attribute="a.b.0"`: the path that filters read in each item. */
type Path = readonly (string | number)[]

const MAX_PARTS = 100

export function parts(attribute: Json): Path {
  if (typeof attribute === "number") return [attribute]
  if (typeof attribute !== "string")
    throw cannot(`attribute must be a string or number, not a ${typeName(attribute)}`)
  const split = attribute.split(".", MAX_PARTS + 1)
  if (split.length > MAX_PARTS) throw cannot(`attribute must have at most ${MAX_PARTS} parts`)
  return split.map(part => (/^\d{1,9}$/.test(part) ? Number(part) : part))
}

/** The value at the path, which may be a missing value. */
function look(run: Run, item: Json, path: Path, otherwise?: Json): Value {
  let value: Value = item
  for (const part of path) {
    run.step()
    const found = child(run, value, part)
    if (found === undefined && otherwise === undefined) return absent(run, value, path)
    value = found ?? (found === null ? null : (otherwise as Json))
  }
  return value
}

export const follow = (run: Run, item: Json, path: Path): Json => data(look(run, item, path))

function absent(run: Run, _value: Value, path: Path): Missing {
  const shown = run.discreet ? "" : ` "${path.join(".")}"`
  return Missing.because(
    `an item has no attribute${shown}; give the filter a default, or select the items that have it`,
  )
}

/** Keys by which items are ordered, grouped or compared; text ignores case by default. */
function comparisonKeys(
  run: Run,
  items: readonly Json[],
  attribute: Json | undefined,
  caseSensitive: boolean,
): Json[] {
  run.items(items.length)
  const path = attribute === undefined || attribute === null ? [] : parts(attribute)
  return items.map(item => foldCase(run, follow(run, item, path), caseSensitive))
}

function foldCase(run: Run, value: Json, caseSensitive: boolean): Json {
  if (caseSensitive || typeof value !== "string") return value
  return recase(run, value, whole => whole.toLowerCase())
}

function dictSort(run: Run, value: Json, [caseSensitive, by, reverse]: Given): Json {
  const pairs = listPairs(run, value) as readonly (readonly [string, Json])[]
  const side = text(by, "by", "key")
  if (side !== "key" && side !== "value") throw cannot('dictsort: by must be "key" or "value"')
  const exact = flag(run, caseSensitive, false)
  run.items(pairs.length)
  const keys = pairs.map(([key, item]) => foldCase(run, side === "key" ? key : item, exact))
  return sorted(run, pairs, keys, flag(run, reverse, false))
}

/** Groups by equal attribute, in its order; each group is a pair that also has `.grouper` and `.list`. */
function groupBy(run: Run, value: Json, [attribute, otherwise, caseSensitive]: Given): Json {
  const items = sequence(run, value)
  const path = parts(attribute as Json)
  run.items(items.length * 3)
  const names = items.map(item => data(look(run, item, path, otherwise ?? undefined)))
  const keys = names.map(name => foldCase(run, name, flag(run, caseSensitive, false)))
  const positions = sorted(
    run,
    items.map((_, i) => i),
    keys,
    false,
  ) as number[]
  const groups: Json[][] = []
  let members: Json[] = []
  let last: Json | undefined
  for (const i of positions) {
    if (last === undefined || !equal(run, last, keys[i] as Json)) {
      members = []
      run.items(8)
      groups.push(markGroup([names[i] as Json, members]))
      last = keys[i] as Json
    }
    members.push(items[i] as Json)
  }
  return groups
}

export const mappingFilters: readonly (readonly [string, Operation])[] = [
  ["items", operation("", listPairs)],
  ["dictsort", operation("case_sensitive? by? reverse?", dictSort)],
  ["groupby", operation("attribute default? case_sensitive?", groupBy)],
]

/** Filters that apply another filter or a test to each item. */
type Known = ReadonlyMap<string, Operation>

function find(known: Known, name: Json | undefined, what: string): { operation: Operation; title: string } {
  if (typeof name !== "string") throw cannot(`the name of a ${what} must be a string`)
  const found = known.get(name)
  if (found === undefined) throw cannot(`unknown ${what}${didYouMean(name, known.keys())}`)
  return { operation: found, title: `${what} "${name}"` }
}

/** Keeps the items for which the test (or their truth value) is `wanted`. */
function selecting(wanted: boolean, byAttribute: boolean): Operation {
  return operation(byAttribute ? "attribute test? ..." : "test? ...", (run, value, given) => {
    const path = byAttribute ? parts(given[0] as Json) : []
    const [test, ...rest] = byAttribute ? given.slice(1) : given
    const check = test === undefined ? null : find(tests, test, "test")
    const holds = (item: Value) =>
      truthy(run, data(check === null ? item : applyNamed(run, check, item, rest)))
    const items = sequence(run, value)
    run.items(items.length)
    return items.filter(item => {
      run.step(2)
      return holds(look(run, item, path)) === wanted
    })
  })
}

export function mapping(known: () => Known): Operation {
  return operation("filter? ... **", (run, value, given, named) => {
    const items = sequence(run, value)
    run.items(items.length)
    const each = mapper(run, known(), given, named)
    return items.map(item => {
      run.step(2)
      return data(each(item))
    })
  })
}

/** Either the name of a filter and its arguments, or `attribute=` and optionally `default=`. */
function mapper(run: Run, known: Known, given: Given, named: Named): (item: Json) => Value {
  const [name, ...rest] = given
  if (name !== undefined) {
    const filter = find(known, name, "filter")
    return item => applyNamed(run, filter, item, rest, named)
  }
  const options = new Map(named)
  const attribute = options.get("attribute")
  if (attribute === undefined) throw cannot('map needs the name of a filter, or attribute="…"')
  const path = parts(attribute)
  const otherwise = options.get("default")
  return item => look(run, item, path, otherwise ?? undefined)
}

export const selectingFilters: readonly (readonly [string, Operation])[] = [
  ["select", selecting(true, false)],
  ["reject", selecting(false, false)],
  ["selectattr", selecting(true, true)],
  ["rejectattr", selecting(false, true)],
]
