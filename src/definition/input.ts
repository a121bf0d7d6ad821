/**
 * A job's input against its workflow's schema: defaults filled in, then validated. The validator interprets the schema
 * (no code is generated), in bounded time: hostile patterns and references end in a problem, not in a hung process.
 */
import { format as knownFormats, type OutputUnit, type Schema, Validator } from "@cfworker/json-schema"
import type { Json, JsonObject } from "../core/json.ts"
import { DeadlineError, withinDeadline } from "./deadline.ts"
import { withDefaults } from "./input-defaults.ts"
import { inspectSchema, type SchemaSafety } from "./input-schema.ts"
import { checkJson, isObject } from "./json-value.ts"
import { formatPath, ProblemList } from "./problem.ts"

export interface InputProblem {
  /** For example `input.items[2].price`. */
  readonly path: string
  readonly message: string
}

export type InputCheck =
  | { readonly value: Json; readonly problems?: undefined }
  | { readonly value?: undefined; readonly problems: readonly InputProblem[] }

const inputBounds = { depth: 64, values: 10_000_000 }
const deadlineMilliseconds = 500

/**
 * The validator recurses, and V8 ends the process if a pattern is compiled where the stack runs out. It runs out after
 * some 550 of the validator's frames; half of that is left to whoever calls us.
 */
const stackFrames = 256

/** No input means an empty mapping. Preparing a schema is remembered for as long as the schema object lives. */
export function checkInput(schema: JsonObject | null, input: unknown): InputCheck {
  const given = input ?? {}
  const faults = new ProblemList()
  const depth = checkJson(given, inputBounds, faults)
  if (faults.size > 0) {
    return { problems: faults.sorted().map(({ path, message }) => ({ path: joinInput(path), message })) }
  }
  if (schema === null) return { value: given as Json }
  try {
    const { validator, isRisky, unsafe, chain } = prepare(schema)
    if (unsafe !== undefined) return refused(`The schema cannot be used. ${unsafe}`)
    if (chain * (depth + 1) > stackFrames)
      return refused("The input is nested too deeply for its schema. Flatten it.")
    const work = (): InputCheck => {
      const value = withDefaults(schema, given as Json)
      const { valid, errors } = validator.validate(value)
      return valid ? { value } : { problems: explain(errors) }
    }
    return isRisky ? withinDeadline(deadlineMilliseconds, work) : work()
  } catch (error) {
    const late = error instanceof DeadlineError
    const what = late ? `could not be checked within ${deadlineMilliseconds} ms` : "could not be checked"
    return refused(`The input ${what}. Simplify the patterns and references of its schema.`)
  }
}

const refused = (message: string): InputCheck => ({ problems: [{ path: "input", message }] })

interface Prepared extends SchemaSafety {
  readonly validator: Validator
  readonly isRisky: boolean
}

const prepared = new WeakMap<JsonObject, Prepared>()

function prepare(schema: JsonObject): Prepared {
  let found = prepared.get(schema)
  if (found === undefined) {
    const risk = { isRisky: false }
    // A copy: the validator writes into the schema it is given.
    const validator = new Validator(copySchema(schema, risk) as Schema, "2020-12", false)
    found = { validator, ...risk, ...inspectSchema(schema) }
    prepared.set(schema, found)
  }
  return found
}

/** Keywords whose cost a hostile schema can raise beyond any bound. */
const riskyKeywords = new Set(["pattern", "patternProperties", "$ref", "uniqueItems", "format"])

/** Their values are data, not schemas. */
const dataKeywords = new Set(["const", "enum", "default", "examples"])

function copySchema(value: Json, risk: { isRisky: boolean }): Json {
  if (Array.isArray(value)) return value.map(item => copySchema(item, risk))
  if (!isObject(value)) return value
  const copy: Record<string, Json> = {}
  for (const [key, member] of Object.entries(value)) {
    if (riskyKeywords.has(key)) risk.isRisky = true
    // Unknown formats are remarks for people; the validator would look them up on the prototype, too.
    if (key === "format" && typeof member === "string" && !Object.hasOwn(knownFormats, member)) continue
    copy[key] = dataKeywords.has(key) ? structuredClone(member as Json) : copySchema(member as Json, risk)
  }
  return copy
}

/** Keywords whose error only says that something further in is wrong, which is in the list as well. */
const wrappers = new Set(
  [
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "$ref",
  ].concat(["items", "prefixItems", "unevaluatedItems", "allOf", "if", "dependentSchemas"]),
)

function explain(errors: readonly OutputUnit[]): InputProblem[] {
  const choices = errors.filter(
    ({ keyword }) => keyword === "anyOf" || keyword === "oneOf" || keyword === "contains",
  )
  const causes = errors.filter(
    error =>
      !wrappers.has(error.keyword) &&
      !choices.some(choice => error.keywordLocation.startsWith(`${choice.keywordLocation}/`)),
  )
  const problems = (causes.length > 0 ? causes : errors).map(problemOf)
  const seen = new Set<string>()
  return problems.filter(({ path, message }) => {
    const key = `${path} ${message}`
    return seen.has(key) ? false : seen.add(key)
  })
}

function problemOf({ instanceLocation, keyword, error }: OutputUnit): InputProblem {
  const path = pathOf(instanceLocation)
  const missing = keyword === "required" ? /"(.*)"\.$/s.exec(error)?.[1] : undefined
  if (missing !== undefined)
    return { path: `input${suffix([...path, missing])}`, message: "This value is required." }
  return { path: `input${suffix(path)}`, message: wording(keyword, error) }
}

function wording(keyword: string, error: string): string {
  if (keyword === "false") return "This key is not known to the workflow. Remove it."
  const type = /^Instance type "(.*)" is invalid\. Expected "(.*)"\.$/.exec(error)
  if (type !== null) return `Expected ${type[2]!.replaceAll('", "', " or ")}, found ${type[1]}.`
  return error.replace(/^Instance /, "The value ")
}

function pathOf(pointer: string): (string | number)[] {
  return pointer
    .split("/")
    .slice(1)
    .map(part => {
      const key = decodePointer(part)
      return /^(0|[1-9][0-9]*)$/.test(key) ? Number(key) : key
    })
}

const decodePointer = (part: string): string => part.replaceAll("~1", "/").replaceAll("~0", "~")

const suffix = (path: (string | number)[]): string => formatPath(["input", ...path]).slice("input".length)

const joinInput = (path: string): string =>
  path === "" || path.startsWith("[") ? `input${path}` : `input.${path}`
