/**
 * Validates requests against the schemas of their routes. All problems are reported at once, in sentences for people:
 * what is wrong, where it is, and what is expected there.
 */
import type { FastifySchemaCompiler } from "fastify"
import type { z } from "zod"
import { type Issue, keysAt, UNKNOWN_KEYS } from "../../definition/document/issues.ts"
import { valueAt } from "../../definition/document/json-value.ts"
import { formatPath } from "../../definition/problem.ts"
import { Suggester } from "../../definition/suggest.ts"
import { UmbraError } from "../../errors.ts"

/** The sentence contains this many problems; the list `errors` contains all. */
const TOLD = 5

/** Entries of all mappings of a request, for example labels: zod reports the problems of each without yielding. */
const MOST_ENTRIES = 10_000

export const requestCheck: FastifySchemaCompiler<z.ZodType> = ({ schema, httpPart = "body" }) => {
  const count = entryCounter(schema)
  const isEmpty = emptyCheck(schema, httpPart)
  const ofEmpty = isEmpty === null ? null : schema.safeParse({})
  return data => {
    // Most requests have none of the headers and parameters that a route knows.
    if (ofEmpty?.success && isEmpty!(data)) return { value: { ...(ofEmpty.data as object) } }
    if (count !== null && count(data) > MOST_ENTRIES)
      return {
        error: new UmbraError(
          "E633",
          `The mappings of the ${httpPart} have more than ${MOST_ENTRIES} entries.`,
        ),
      }
    const parsed = schema.safeParse(data)
    if (parsed.success) return { value: parsed.data }
    const issues = parsed.error.issues as readonly unknown[] as readonly Issue[]
    const unfoldedIssues = issues.flatMap(unfolded)
    const told = unfoldedIssues.filter(issue => !isSaidBetter(issue, unfoldedIssues))
    return { error: invalid(told, { part: httpPart, data, schema }) }
  }
}

/** A check that data has none of the keys of the schema, so that it is not parsed; null: for parts of a request without such a check. */
function emptyCheck(schema: z.ZodType, part: string): ((data: unknown) => boolean) | null {
  const { shape } = schema.def as ZodParts
  if (shape === undefined || (part !== "headers" && part !== "querystring")) return null
  const names = Object.keys(shape)
  // Other headers than those of the schema are allowed, other parameters are not.
  if (part === "headers") return data => isObject(data) && names.every(name => data[name] === undefined)
  return data => {
    for (const _ in data as object) return false
    return isObject(data)
  }
}

/** Counts the entries of mappings whose keys the schema does not name; null: it has no such mapping. */
type EntryCounter = ((data: unknown) => number) | null

function entryCounter(schema: z.ZodType | undefined): EntryCounter {
  if (schema === undefined) return null
  const { innerType, options, element, shape, keyType } = schema.def as ZodParts
  if (innerType !== undefined) return entryCounter(innerType)
  if (options !== undefined) {
    const counters = options.map(entryCounter).filter(counter => counter !== null)
    return counters.length === 0 ? null : data => Math.max(...counters.map(counter => counter(data)))
  }
  if (keyType !== undefined) return data => (isObject(data) ? Object.keys(data).length : 0)
  const ofElement = entryCounter(element)
  if (ofElement !== null)
    return data => (Array.isArray(data) ? data.reduce((sum, item) => sum + ofElement(item), 0) : 0)
  const ofKeys = Object.entries(shape ?? {}).flatMap(([key, part]) => {
    const counter = entryCounter(part)
    return counter === null ? [] : [{ key, counter }]
  })
  if (ofKeys.length === 0) return null
  return data => {
    if (!isObject(data)) return 0
    let sum = 0
    for (const { key, counter } of ofKeys) sum += counter(data[key])
    return sum
  }
}

function isObject(data: unknown): data is Record<string, unknown> {
  return typeof data === "object" && data !== null
}

/** What zod exposes of a schema; which fields exist depends on its kind. */
interface ZodParts {
  readonly innerType?: z.ZodType
  readonly options?: readonly z.ZodType[]
  readonly element?: z.ZodType
  readonly shape?: Readonly<Record<string, z.ZodType>>
  /** For a mapping whose keys the schema does not name. */
  readonly keyType?: z.ZodType
}

interface Checked {
  readonly part: string
  readonly data: unknown
  readonly schema: z.ZodType
}

interface Fault {
  /** `querystring.limit`, `body.jobs.1.workflow` */
  readonly path: string
  readonly subject: string
  /** What is wrong, without the name of the field. */
  readonly message: string
}

function invalid(issues: readonly Issue[], checked: Checked): UmbraError {
  const faults = issues.flatMap(issue => toFaults(issue, checked))
  const sentences = faults.slice(0, TOLD).map(({ subject, message }) => ended(`${subject} ${message}`))
  if (faults.length > TOLD) sentences.push(`And ${faults.length - TOLD} more.`)
  const errors = faults.map(({ path, message }) => ({ path, message }))
  return new UmbraError("E633", sentences.join(" "), { details: { errors } })
}

function toFaults(issue: Issue, { part, data, schema }: Checked): Fault[] {
  const at = (path: Issue["path"], message: string): Fault => ({
    path: [part, ...path].join("."),
    subject: formatSubject(part, path),
    message,
  })
  if (issue.code !== "unrecognized_keys")
    return [at(issue.path, wrongValue(issue, valueAt(data, issue.path)))]
  const known = keysAt(schema, issue.path)
  const keys = issue.keys ?? []
  const told = keys.slice(0, UNKNOWN_KEYS).map(key => at([...issue.path, key], unknownKey(key, known)))
  const more = keys.length - told.length
  return more === 0 ? told : [...told, at(issue.path, `has ${more} more unknown keys`)]
}

function formatSubject(part: string, path: Issue["path"]): string {
  const name = formatPath(path)
  switch (part) {
    case "querystring":
      return `The parameter ${name}`
    case "params":
      return `{${name}} in the path`
    case "headers":
      return `The header ${name}`
    default:
      return name === "" ? "The body" : `${name} in the body`
  }
}

/** If a value may have several forms, reports the problems of the form that was most likely meant. */
function unfolded(issue: Issue): readonly Issue[] {
  if (isOurs(issue)) return [issue]
  const form = issue.errors?.find(branch => branch.length > 0 && branch.every(isInside))
  if (form === undefined) return [issue]
  return form.flatMap(inner => unfolded({ ...inner, path: [...issue.path, ...inner.path] }))
}

/** Does the value have the right type, but wrong content? */
const isInside = ({ path, code }: Issue): boolean => path.length > 0 || code !== "invalid_type"

const ended = (sentence: string): string => (sentence.endsWith("?") ? sentence : `${sentence}.`)

/** Describes a problem of a request, as the rest of a sentence that begins with the name of the field. */
function unknownKey(key: string, known: readonly string[]): string {
  const nearest = new Suggester().nearest(key, known)
  if (nearest !== undefined) return `is unknown; did you mean ${nearest}?`
  if (known.length === 0) return "is unknown; none is allowed here"
  return `is unknown; allowed: ${known.join(", ")}`
}

function wrongValue(issue: Issue, value: unknown): string {
  const isBody = issue.path.length === 0
  if (value === undefined || (value === null && isBody)) return `is missing; it ${must(issue)}`
  if (issue.code === "invalid_key") return must(issue)
  if (isRepeated(issue, value)) return `is given ${value.length} times; give it once`
  const length = issue.code === "too_big" && !isNumber(issue) ? readLength(value) : null
  if (length !== null) return `${must(issue)}; it has ${length}`
  return isPlain(issue, value) ? must(issue) : `${must(issue)}; it is ${shown(value)}`
}

/** Does the required form already show what is wrong with the value? */
function isPlain(issue: Issue, value: unknown): boolean {
  return readLength(value) === 0 || (isOurs(issue) && typeof value === "object")
}

/** A parameter that is given several times arrives as a list of texts. */
function isRepeated({ code, expected, path }: Issue, value: unknown): value is readonly string[] {
  const isOne = code === "invalid_type" && expected !== "object" && path.length === 1
  return isOne && Array.isArray(value) && value.length > 1 && value.every(one => typeof one === "string")
}

/** Has the schema its own text for the problem? The texts of zod are for programmers. */
function isOurs({ message }: Issue): boolean {
  return !/^(Invalid|Too (small|big)|Unrecognized)\b/.test(message)
}

const kinds: Readonly<Record<string, string>> = {
  int: "a whole number",
  number: "a number",
  string: "text",
  boolean: "true or false",
  object: "an object",
  record: "an object",
  array: "a list",
}

function must(issue: Issue): string {
  if (isOurs(issue)) return issue.message
  switch (issue.code) {
    case "invalid_type":
      return `must be ${kinds[issue.expected ?? ""] ?? issue.expected}`
    case "invalid_value":
      return `must be ${(issue.values ?? []).map(String).join(" or ")}`
    case "invalid_key":
      return issue.issues?.[0] === undefined
        ? "has an invalid name"
        : `has a name that ${must(issue.issues[0])}`
    case "too_small":
      return atLeast(issue)
    case "too_big":
      return isNumber(issue)
        ? `must be at most ${issue.maximum}`
        : `must have at most ${issue.maximum} ${lengthUnit(issue)}`
    default:
      return "has an invalid form"
  }
}

function atLeast(issue: Issue): string {
  const { minimum, inclusive } = issue
  if (isNumber(issue)) return `must be ${inclusive ? "at least" : "more than"} ${minimum}`
  return Number(minimum) === 1 ? "must not be empty" : `must have at least ${minimum} ${lengthUnit(issue)}`
}

/** Is the limit about a number's value, not about the number of characters or entries? */
function isNumber({ origin }: Issue): boolean {
  return origin === "number" || origin === "int"
}

/** For an integer beyond its bound zod also reports that it cannot be represented exactly: the bound is enough. */
function isSaidBetter(issue: Issue, all: readonly Issue[]): boolean {
  const sameEnd = (other: Issue) => other.origin === "number" && other.code === issue.code
  const path = issue.path.join(".")
  return issue.origin === "int" && all.some(other => sameEnd(other) && other.path.join(".") === path)
}

function lengthUnit({ origin }: Issue): string {
  return origin === "string" ? "characters" : "entries"
}

function readLength(value: unknown): number | null {
  return typeof value === "string" || Array.isArray(value) ? value.length : null
}

const LONG = 40

/** As JSON, shortened for a message. */
function shown(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? "an empty list" : "a list"
  if (typeof value === "object" && value !== null) return "an object"
  const text = JSON.stringify(value)
  return text.length > LONG ? `${text.slice(0, LONG)}…` : text
}
