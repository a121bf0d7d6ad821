/**
 * The state of one rendering: the readable values and the remaining limits.
 *
 * 1. Code that builds text, a list or a mapping calls `text` or `items` with its size BEFORE building it.
 * 2. Code that walks over data calls `step`, so that work without output is bounded too.
 * 3. Faults never quote values, only types and names: a value may be a secret.
 */
import type { Json } from "../core/json.ts"
import type { ErrorCode } from "../errors.ts"
import type { Encode, Limits, Scope } from "./types.ts"

/** The worst templates found (test/template/hostile.test.ts) use these up in under 50 ms and 50 MB. */
export const defaultLimits: Limits = {
  steps: 200_000,
  characters: 5_000_000,
  items: 1_000_000,
  depth: 200,
  bytes: 16 * 1024 * 1024,
}

/** Why a rendering ends; leaving this folder it becomes an UmbraError with the template. */
export class Fault extends Error {
  readonly code: ErrorCode
  readonly missing: string | undefined
  readonly available: readonly string[]

  constructor(code: ErrorCode, message: string, missing?: string, available: readonly string[] = []) {
    super(message)
    this.code = code
    this.missing = missing
    this.available = available
  }
}

export const cannot = (message: string): Fault => new Fault("E202", message)

/** Characters whose native comparison or scan costs as much as one step of the interpreter. */
const CHARACTERS_PER_STEP = 32
/** The cost of an empty list or mapping, in items: its header is several words. */
const CONTAINER = 8

/** Mappings with more keys are hash tables inside V8: listing their keys takes some 100 ns each, not 10. */
const RECORD = 64

export class Run {
  scope: Scope
  readonly limits: Limits
  /** Encodes the values of expressions; null: they are printed unchanged. */
  readonly encode: Encode | null
  /** The template reads secrets: faults then show no computed key and no key of a value. */
  discreet = false
  /** Offset of the expression that is being evaluated, for messages. */
  at = 0
  #steps: number
  #characters: number
  #items: number
  #bytes: number
  readonly #keys = new Map<object, readonly string[]>()

  constructor(scope: Scope, limits: Limits, encode: Encode | null = null) {
    this.scope = scope
    this.limits = limits
    this.encode = encode
    this.#steps = limits.steps
    this.#characters = limits.characters
    this.#items = limits.items
    this.#bytes = limits.bytes
  }

  step(count = 1): void {
    this.#steps -= count
    if (this.#steps < 0) throw this.#exceeded("steps", this.limits.steps)
  }

  /** The cost of scanning text of this length without output. */
  scan(length: number): void {
    this.step(1 + Math.floor(length / CHARACTERS_PER_STEP))
  }

  text(length: number): void {
    this.#characters -= length
    if (this.#characters < 0) throw this.#exceeded("characters", this.limits.characters)
  }

  items(count: number): void {
    this.#items -= count + CONTAINER
    if (this.#items < 0) throw this.#exceeded("items", this.limits.items)
    this.step(1 + Math.floor(count / 4))
  }

  /** Counts a template's value that becomes part of the rendered value. */
  insert(value: Json): void {
    const size = jsonSize(value, this.#bytes)
    this.#bytes -= size
    if (this.#bytes >= 0) return
    if (Number.isFinite(size)) throw tooLarge(this.limits.bytes)
    throw new Fault("E203", `the rendered value nests deeper than ${DEEPEST} levels`)
  }

  nested(depth: number): void {
    if (depth > this.limits.depth) throw this.#exceeded("depth", this.limits.depth)
  }

  /** Keys of a mapping, listed once per rendering: a loop over `x | length` must not list them each time. */
  keys(mapping: object): readonly string[] {
    let keys = this.#keys.get(mapping)
    if (keys === undefined) {
      keys = Object.keys(mapping)
      this.step(1 + (keys.length > RECORD ? keys.length : keys.length >> 2))
      this.#keys.set(mapping, keys)
    }
    return keys
  }

  #exceeded(limit: keyof Limits, value: number): Fault {
    const most = grouped(value)
    const what = limit === "depth" ? `nests deeper than ${most} levels` : `needs more than ${most} ${limit}`
    return new Fault("E203", `the template ${what}; simplify the template, or use a handler`)
  }
}

const grouped = (value: number): string => String(value).replace(/\B(?=(?:\d{3})+$)/g, ",")

function tooLarge(most: number): Fault {
  return new Fault(
    "E405",
    `the rendered value exceeds ${grouped(most)} bytes of JSON, counted each time a value is inserted; pass a part of it or a reference, or raise the limit (UMBRA_MAX_OUTPUT_BYTES)`,
  )
}

// How large a value is as JSON, without making it JSON: a template can insert one value a thousand times, which costs
// nothing until the whole is serialized.

/** Sizes of large lists and mappings, which never change: the configs of ten thousand items may insert the same one. */
const known = new WeakMap<object, number>()
const LARGE = 4096
/** As outputs: recursion must stay far from the end of the stack. */
const DEEPEST = 500

/**
 * At least so many bytes, commas and quotes included: characters outside ASCII, escapes and long numbers take more. Stops
 * counting above `most`. Infinity: it is nested too deep, which no output or input is.
 */
function jsonSize(value: Json, most: number, depth = 0): number {
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
