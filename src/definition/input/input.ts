/**
 * Checks a job's input against its workflow's schema: fills in defaults, then validates (schema-validator.ts). Synchronous
 * and bounded by steps; checks.ts decides in which thread it runs.
 */

import type { Json, JsonObject } from "../../core/json.ts"
import { valueIn } from "../../core/maps.ts"
import { checkJson, isObject } from "../document/json-value.ts"
import { ProblemList } from "../problem.ts"
import { DeadlineError } from "./deadline.ts"
import { hasMoreSchemas, inspectSchema, resolveReference, type SchemaSafety } from "./input-schema.ts"
import {
  type Check,
  type CheckRun,
  type InputProblem,
  problemsShown,
  StepsSpentError,
} from "./schema-checks.ts"
import { compileSchema, type Matchers } from "./schema-validator.ts"

export type InputCheck =
  | { readonly value: Json; readonly problems?: undefined; readonly more?: undefined }
  /** `more`: the number of further problems. */
  | { readonly value?: undefined; readonly problems: readonly InputProblem[]; readonly more: number }

export const refused = (message: string): Exclude<InputCheck, { problems?: undefined }> => ({
  problems: [{ path: "input", message }],
  more: 0,
})

const inputBounds = { depth: 64, values: 10_000_000 }

/**
 * The validator recurses, and V8 ends the process if a pattern is compiled when the stack is full. That happens after more
 * than 550 frames of the validator; half of that is left to the caller.
 */
const stackFrames = 256

export type ReadInput =
  | { readonly given: Json; readonly depth: number; readonly values: number; readonly problems?: undefined }
  | { readonly problems: readonly InputProblem[]; readonly more: number }

/** Is it JSON at all? A missing input means an empty mapping. */
export function readInput(input: unknown): ReadInput {
  const given = input ?? {}
  const faults = new ProblemList()
  const size = checkJson(given, inputBounds, faults)
  if (faults.size === 0) return { given: given as Json, ...size }
  const problems = faults
    .sorted()
    .slice(0, problemsShown)
    .map(({ path, message }) => ({ path: joinInput(path), message }))
  return { problems, more: faults.size - problems.length }
}

interface Prepared extends SchemaSafety {
  /** Compiled at first use: a schema that is checked in a thread is not compiled here. */
  check: Check | undefined
}

export class InputChecker {
  readonly #matchers: Matchers
  /** Cached for as long as the schema object lives. */
  readonly #prepared = new WeakMap<JsonObject, Prepared>()
  readonly #large = new WeakSet<JsonObject>()

  constructor(matchers: Matchers) {
    this.#matchers = matchers
  }

  /** null: it has more schemas than this limit, and was not analysed further. */
  inspect(schema: JsonObject, most: number): SchemaSafety | null {
    if (this.#large.has(schema)) return null
    const known = this.#prepared.get(schema)
    if (known !== undefined || !hasMoreSchemas(schema, most)) return known ?? this.#prepare(schema)
    this.#large.add(schema)
    return null
  }

  /** Throws `StepsSpentError` if it needs more steps. */
  check(schema: JsonObject, { given, depth }: { given: Json; depth: number }, run: CheckRun): InputCheck {
    const prepared = this.#prepare(schema)
    const { unsafe, chain, hasDefaults } = prepared
    if (unsafe !== undefined) return refused(`The schema cannot be used. ${unsafe}`)
    if (chain * (depth + 1) > stackFrames)
      return refused("The input is nested too deeply for its schema. Flatten it.")
    try {
      prepared.check ??= compileSchema(schema, this.#matchers)
      const value = hasDefaults ? withDefaults(schema, given, run) : given
      if (prepared.check(value, run, null)) return { value }
      return { problems: run.problems, more: run.more }
    } catch (error) {
      if (error instanceof StepsSpentError || error instanceof DeadlineError) throw error
      return refused("The input could not be checked. Simplify the patterns and references of its schema.")
    }
  }

  #prepare(schema: JsonObject): Prepared {
    return valueIn(this.#prepared, schema, () => ({ ...inspectSchema(schema), check: undefined }))
  }
}

const joinInput = (path: string): string =>
  path === "" || path.startsWith("[") ? `input${path}` : `input.${path}`

/**
 * Fills in defaults where a value is missing. The given value is copied, never changed. Follows `properties`, `items`, `allOf` and local `$ref`: the parts of a schema that apply to every value. A default
 * inside `anyOf`, `oneOf` or `if` is not applied, since the matching branch is not known yet.
 */
function withDefaults(schema: JsonObject, input: Json, run: CheckRun): Json {
  return fill(schema, input, { root: schema, run })
}

interface Filling {
  readonly root: JsonObject
  /** Counts the steps: references that double at each level would never end. */
  readonly run: CheckRun
}

function fill(schema: unknown, value: Json, filling: Filling): Json {
  // Three steps of a check take as long as one of these.
  filling.run.spend(3)
  if (!isObject(schema)) return value
  const { root } = filling
  let filled = value
  if (typeof schema.$ref === "string") filled = fill(resolveReference(root, schema.$ref), filled, filling)
  if (Array.isArray(schema.allOf)) for (const part of schema.allOf) filled = fill(part, filled, filling)
  if (Array.isArray(filled)) return fillItems(schema, filled as readonly Json[], filling)
  if (isObject(schema.properties) && isObject(filled))
    return fillProperties(schema.properties, filled as JsonObject, filling)
  return filled
}

function fillItems(
  schema: Readonly<Record<string, unknown>>,
  items: readonly Json[],
  filling: Filling,
): Json {
  const first = Array.isArray(schema.prefixItems) ? schema.prefixItems.length : 0
  if (!isObject(schema.items)) return items
  return items.map((item, i) => (i < first ? item : fill(schema.items, item, filling)))
}

function fillProperties(
  properties: Readonly<Record<string, unknown>>,
  value: JsonObject,
  filling: Filling,
): Json {
  const filled: Record<string, Json> = { ...value }
  filling.run.spend(Object.keys(filled).length >> 2)
  for (const [key, property] of Object.entries(properties)) {
    const given = Object.hasOwn(filled, key) ? filled[key] : findDefault(property, filling)
    if (given !== undefined) filled[key] = fill(property, given, filling)
  }
  return filled
}

function findDefault(schema: unknown, { root, run }: Filling): Json | undefined {
  let current = schema
  // A reference may lead to another; cycles were rejected with the definition.
  while (isObject(current)) {
    if (current.default !== undefined) {
      const text = JSON.stringify(current.default)
      run.spend(text.length >> 3)
      return JSON.parse(text) as Json
    }
    if (typeof current.$ref !== "string") return undefined
    current = resolveReference(root, current.$ref)
  }
  return undefined
}
