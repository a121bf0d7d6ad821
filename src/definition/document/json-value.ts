/** Checks whether a value is JSON, and copies it with sorted keys. */

import { createHash, type Hash } from "node:crypto"
import type { Json, JsonObject } from "../../core/json.ts"
import type { Work } from "../../turns.ts"
import type { ProblemList } from "../problem.ts"

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}

/** The value at a path of own properties, `undefined` if there is none. */
export function valueAt(source: unknown, path: readonly PropertyKey[]): unknown {
  let value = source
  for (const key of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined
    value = (value as Record<PropertyKey, unknown>)[key]
  }
  return value
}

/** A copy with another value at an existing path. */
export function withValueAt(source: Json, [key, ...rest]: readonly (string | number)[], value: Json): Json {
  if (key === undefined) return value
  const copy = (Array.isArray(source) ? [...source] : { ...(source as JsonObject) }) as Record<
    PropertyKey,
    Json
  >
  copy[key] = withValueAt(copy[key]!, rest, value)
  return copy as Json
}

/** Bounds on a value: `depth` of nesting, and the total of `values` (objects in code may share parts without end). */
export interface JsonBounds {
  readonly depth: number
  readonly values: number
}

/**
 * Reports everything below `root` that JSON cannot represent. Objects in code may contain `undefined`, which means that
 * the key is absent. Returns the levels of nesting and the number of values.
 */
export function checkJson(root: unknown, bounds: JsonBounds, problems: ProblemList): JsonBounds {
  const check = new JsonCheck(bounds, problems)
  check.visit(root, bounds.depth)
  return { depth: bounds.depth - check.deepest, values: bounds.values - check.left }
}

class JsonCheck {
  readonly #bounds: JsonBounds
  readonly #problems: ProblemList
  readonly #path: (string | number)[] = []
  /** The containers around the current value; a list, since it is short. */
  readonly #open: object[] = []
  /** Number of values that are still allowed. */
  left: number
  /** Levels that were left at the deepest value. */
  deepest: number
  /** Reported once: a hostile document may have a million such values. */
  #isTooDeep = false

  constructor(bounds: JsonBounds, problems: ProblemList) {
    this.#bounds = bounds
    this.#problems = problems
    this.left = bounds.values
    this.deepest = bounds.depth
  }

  visit(value: unknown, depth: number): void {
    if (--this.left < 0) {
      if (this.left === -1) this.#refuse(`More than ${this.#bounds.values} values. Split the document.`)
    } else if (typeof value === "object" && value !== null) this.#container(value, depth)
    else if (typeof value === "number") {
      if (!Number.isFinite(value))
        this.#refuse(`${value} is not a JSON value. Write a finite number or a string.`)
    } else if (value !== null && typeof value !== "string" && typeof value !== "boolean") {
      const advice = "Write a string, number, boolean, list or mapping."
      this.#refuse(`Type "${typeof value}" is not part of JSON. ${advice}`)
    }
  }

  #container(value: object, depth: number): void {
    if (this.#open.includes(value)) {
      this.#refuse("This object contains itself. Remove the circular reference.")
    } else if (depth === 0) {
      if (!this.#isTooDeep)
        this.#refuse(`Nested more than ${this.#bounds.depth} levels deep (limit depth). Flatten it.`)
      this.#isTooDeep = true
    } else {
      this.#open.push(value)
      if (depth - 1 < this.deepest) this.deepest = depth - 1
      if (Array.isArray(value)) this.#list(value, depth - 1)
      else this.#mapping(value, depth - 1)
      this.#open.pop()
    }
  }

  #list(value: readonly unknown[], depth: number): void {
    for (let i = 0; i < value.length; i++) {
      this.#path.push(i)
      this.visit(value[i], depth)
      this.#path.pop()
    }
  }

  #mapping(value: object, depth: number): void {
    const prototype: unknown = Object.getPrototypeOf(value)
    if (prototype !== Object.prototype && prototype !== null) {
      this.#refuse(
        `A ${value.constructor?.name ?? "class"} object is not a JSON value. Write a plain object.`,
      )
      return
    }
    for (const key of Object.keys(value)) {
      const member = (value as Record<string, unknown>)[key]
      if (member === undefined) continue
      this.#path.push(key)
      if (key === "__proto__") this.#refuse('The key "__proto__" is not allowed. Choose another.')
      else this.visit(member, depth)
      this.#path.pop()
    }
  }

  #refuse(message: string): void {
    this.#problems.add("E101", this.#path, message)
  }
}

/** A copy with sorted keys. Integer-like keys always come first: JavaScript orders them so. */
export function sortedCopy(value: unknown): Json {
  if (typeof value !== "object" || value === null) return value as Json
  if (Array.isArray(value)) return value.map(sortedCopy)
  const source = value as Record<string, unknown>
  const copy: Record<string, Json> = {}
  const keys = Object.keys(source)
  for (const key of keys.length > 1 ? keys.sort() : keys) {
    const member = source[key]
    if (member !== undefined) copy[key] = sortedCopy(member)
  }
  return copy
}

export const emptyObject: JsonObject = Object.freeze({})

/** The canonical form of a definition, and its hash. */

/** The keys of a definition whose values differ from the defaults, sorted; `undefined`: there are none. Keys without a default are left out. */
export function withoutDefaults(definition: object, defaults: object): JsonObject | undefined {
  const kept: Record<string, Json> = {}
  for (const key of Object.keys(defaults).sort()) {
    const value = (definition as Record<string, Json | null | undefined>)[key]
    const usual = (defaults as Record<string, Json>)[key]
    if (value == null || value === usual) continue
    const said = isObject(value) && isObject(usual) ? withoutDefaults(value, usual) : value
    if (said !== undefined) kept[key] = said
  }
  return Object.keys(kept).length === 0 ? undefined : kept
}

/** Nodes per step: the whole text of a large workflow would take tens of megabytes. */
const nodesPerUpdate = 1000

/** sha256 of `JSON.stringify(canonical)`. */
export function* hashCanonical(canonical: JsonObject): Work<string> {
  const hash = createHash("sha256")
  let separator = "{"
  for (const [key, value] of Object.entries(canonical)) {
    hash.update(`${separator}${JSON.stringify(key)}:`)
    if (key === "nodes") yield* hashNodes(hash, value as readonly Json[])
    else hash.update(JSON.stringify(value))
    separator = ","
  }
  return hash.update("}").digest("hex")
}

function* hashNodes(hash: Hash, nodes: readonly Json[]): Work<void> {
  for (let i = 0; i < nodes.length; i += nodesPerUpdate) {
    const text = JSON.stringify(nodes.slice(i, i + nodesPerUpdate)).slice(1, -1)
    hash.update(`${i === 0 ? "[" : ","}${text}`)
    yield
  }
  hash.update("]")
}
