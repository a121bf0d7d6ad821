/**
 * Checks a job's input against its workflow's schema: fills in defaults, then validates (schema-validator.ts). Synchronous
 * and bounded by steps; checks.ts decides in which thread it runs.
 */
import type { Json, JsonObject } from "../../core/json.ts"
import { checkJson } from "../document/json-value.ts"
import { ProblemList } from "../problem.ts"
import { DeadlineError } from "./deadline.ts"
import { withDefaults } from "./defaults.ts"
import { hasMoreSchemas, inspectSchema, type SchemaSafety } from "./input-schema.ts"
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
    let found = this.#prepared.get(schema)
    if (found === undefined) {
      found = { ...inspectSchema(schema), check: undefined }
      this.#prepared.set(schema, found)
    }
    return found
  }
}

const joinInput = (path: string): string =>
  path === "" || path.startsWith("[") ? `input${path}` : `input.${path}`
