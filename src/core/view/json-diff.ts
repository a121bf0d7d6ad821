import type { Json, JsonObject } from "../json.ts"
import { type Aligned, alignLists, MOST_PARTS, ValueNumbers } from "./align-lists.ts"

/**
 * A difference between two JSON values. The order of keys does not count. Elements of lists are aligned by value: one that was
 * inserted or removed is one change. Lists beyond the bounds are compared by position.
 */
export interface JsonChange {
  /** A JSON path in b, or in a for what was removed: `$.items[0].name`. */
  readonly path: string
  readonly kind: "added" | "removed" | "changed"
  /** The JSON text of the value, at most 200 characters of it. */
  readonly a?: string
  readonly b?: string
}

export interface JsonDiff {
  readonly changes: readonly JsonChange[]
  /** false: there are more changes, or more values, than the bounds allow. */
  readonly complete: boolean
}

export interface DiffBounds {
  readonly changes: number
  /** Pairs of values that are compared at most. */
  readonly values: number
}

const usualBounds: DiffBounds = { changes: 1000, values: 1_000_000 }
const SHOWN = 200

interface Pair {
  readonly path: string
  readonly a: Json | undefined
  readonly b: Json | undefined
}

/** Yields after each pair of values. A stack of its own: values may be nested deeper than functions can be called. */
export function* jsonDifference(
  a: Json,
  b: Json,
  bounds: DiffBounds = usualBounds,
): Generator<undefined, JsonDiff, undefined> {
  const changes: JsonChange[] = []
  // The pairs of a large list are made one by one: all at once they would take long.
  const stack: Iterator<Pair>[] = [[{ path: "$", a, b }].values()]
  const numbers = new ValueNumbers(bounds.values)
  let values = 0
  while (stack.length > 0) {
    const { done, value: pair } = stack.at(-1)!.next()
    if (done) {
      stack.pop()
      continue
    }
    if (++values > bounds.values) return { changes, complete: false }
    yield
    const inner = areLists(pair) ? pairElements(pair, yield* aligned(pair, numbers)) : pairObjects(pair)
    if (inner !== null) stack.push(inner)
    else if (!isSame(pair.a, pair.b)) {
      if (changes.length === bounds.changes) return { changes, complete: false }
      changes.push(describeChange(pair))
    }
  }
  return { changes, complete: true }
}

/** As `jsonDifference`, in one piece. */
export function diffJson(a: Json, b: Json, bounds?: DiffBounds): JsonDiff {
  const work = jsonDifference(a, b, bounds)
  for (;;) {
    const { done, value } = work.next()
    if (done) return value
  }
}

interface ListPair {
  readonly path: string
  readonly a: readonly Json[]
  readonly b: readonly Json[]
}

function areLists(pair: Pair): pair is ListPair {
  return Array.isArray(pair.a) && Array.isArray(pair.b)
}

/** null: elements are compared by position. */
function* aligned(
  { a, b }: ListPair,
  numbers: ValueNumbers,
): Generator<undefined, Aligned[] | null, undefined> {
  const length = Math.max(a.length, b.length)
  // One element each: there is nothing to align.
  if (length < 2 || length > MOST_PARTS) return null
  yield* numbers.number(a as Json)
  yield* numbers.number(b as Json)
  if (numbers.isExhausted) return null
  const [left, right] = [a, b].map(list => list.map(value => numbers.of(value)))
  return alignLists(left!, right!)
}

function* pairElements({ path, a, b }: ListPair, places: readonly Aligned[] | null): Generator<Pair> {
  const length = places?.length ?? Math.max(a.length, b.length)
  for (let i = 0; i < length; i++) {
    const at = places?.[i] ?? { a: i, b: i }
    const isRemoved = at.b === undefined || at.b >= b.length
    yield {
      path: `${path}[${isRemoved ? at.a : at.b}]`,
      a: at.a === undefined ? undefined : a[at.a],
      b: at.b === undefined ? undefined : b[at.b],
    }
  }
}

/** null: they are not both objects. */
function pairObjects({ path, a, b }: Pair): Generator<Pair> | null {
  return isObject(a) && isObject(b) ? pairedFields(path, a, b) : null
}

function* pairedFields(path: string, a: JsonObject, b: JsonObject): Generator<Pair> {
  for (const key of Object.keys(a))
    yield { path: `${path}${step(key)}`, a: a[key], b: Object.hasOwn(b, key) ? b[key] : undefined }
  for (const key of Object.keys(b))
    if (!Object.hasOwn(a, key)) yield { path: `${path}${step(key)}`, a: undefined, b: b[key] }
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}

function isSame(a: Json | undefined, b: Json | undefined): boolean {
  return typeof a !== "object" && a === b ? true : a === null && b === null
}

function describeChange({ path, a, b }: Pair): JsonChange {
  if (a === undefined) return { path, kind: "added", b: beginning(b!) }
  if (b === undefined) return { path, kind: "removed", a: beginning(a) }
  return { path, kind: "changed", a: beginning(a), b: beginning(b) }
}

function step(key: string): string {
  return /^[\p{L}_$][\p{L}\p{N}_$-]*$/u.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`
}

/** The beginning of the JSON text, without writing the whole of a large value. */
function beginning(value: Json): string {
  let text = ""
  const rest: (string | { readonly value: Json })[] = [{ value }]
  while (rest.length > 0 && text.length <= SHOWN) {
    const next = rest.pop()!
    if (typeof next === "string") text += next
    else if (typeof next.value === "string") text += JSON.stringify(next.value.slice(0, SHOWN + 1))
    else if (typeof next.value !== "object" || next.value === null) text += JSON.stringify(next.value)
    else rest.push(...splitValue(next.value))
  }
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text
}

/** In reverse order: the last is written first. */
function splitValue(value: readonly Json[] | JsonObject): (string | { readonly value: Json })[] {
  const isList = Array.isArray(value)
  const parts: (string | { readonly value: Json })[] = [isList ? "[" : "{"]
  // No more than can be shown: each has at least two characters.
  const entries = isList ? value.slice(0, SHOWN) : Object.entries(value).slice(0, SHOWN)
  for (const [i, entry] of entries.entries()) {
    if (i > 0) parts.push(",")
    if (isList) parts.push({ value: entry as Json })
    else
      parts.push(`${JSON.stringify((entry as [string, Json])[0])}:`, { value: (entry as [string, Json])[1] })
  }
  parts.push(isList ? "]" : "}")
  return parts.reverse()
}
