/** Reports deviations from a schema as E101 with our own texts, for documents with nodes and with routes. */
import type { z } from "zod"
import type { DefinitionLimits } from "../limits.ts"
import { type DocumentPath, formatPath, type ProblemList } from "../problem.ts"
import type { Suggester } from "../suggest.ts"
import { firstIssues, type SchemaParts } from "./first-issues.ts"
import { isObject, valueAt } from "./json-value.ts"

export interface ShapeContext {
  readonly problems: ProblemList
  readonly suggest: Suggester
  readonly limits: DefinitionLimits
}

export interface ShapeWords {
  /** The name of this kind of document. */
  readonly document: string
  /** The name of an entry of a list, by the list's key. */
  readonly entries: Readonly<Record<string, string>>
  /** What is expected under a key, or (`key[]`) in its list, where the text of the schema is not enough. */
  readonly expected: Readonly<Record<string, string>>
}

export interface ShapeCheck {
  readonly schema: z.ZodType
  readonly source: unknown
  /** The path of `source` in the document. */
  readonly path: DocumentPath
  readonly words: ShapeWords
}

export interface Issue {
  readonly code: string
  readonly message: string
  readonly path: readonly (string | number)[]
  readonly keys?: readonly string[]
  readonly origin?: string
  readonly expected?: string
  readonly inclusive?: boolean
  readonly minimum?: number | bigint
  readonly maximum?: number | bigint
  readonly values?: readonly unknown[]
  readonly issues?: readonly Issue[]
  readonly errors?: readonly (readonly Issue[])[]
}

/** Unknown keys of one mapping that are reported one by one, since this does not yield. */
export const UNKNOWN_KEYS = 100

/** Reports deviations from the schema, and returns them: their paths start at `source`. */
export function checkShape(check: ShapeCheck, context: ShapeContext): readonly Issue[] {
  let found = firstIssues(check.schema, check.source) as readonly unknown[]
  if (found.length === 0) found = check.schema.safeParse(check.source).error?.issues ?? []
  if (found.length === 0) return []
  const issues = (found as readonly Issue[]).flatMap(unfolded)
  // A key that is probably misspelt: that the correct key is missing is a consequence.
  const meant = new Set<string | undefined>()
  for (const { keys = [], path } of issues.filter(({ code }) => code === "unrecognized_keys")) {
    const known = keysAt(check.schema, path)
    for (const key of keys.slice(0, UNKNOWN_KEYS))
      meant.add(reportUnknownKey([...path, key], known, check, context))
    const more = keys.length - UNKNOWN_KEYS
    if (more > 0) context.problems.add("E101", [...check.path, ...path], `${more} more unknown keys.`)
  }
  for (const issue of issues) {
    if (issue.code === "unrecognized_keys") continue
    const { path } = issue
    const isMissing = valueAt(check.source, path) === undefined
    if (isMissing && path.length === 1 && meant.has(String(path[0]))) continue
    const isKey = issue.code === "invalid_key"
    const text = isKey ? wrongKey(issue) : isMissing ? missing(issue, check) : wrong(issue, check)
    context.problems.add("E101", [...check.path, ...path], text, isKey ? { key: true } : {})
  }
  return issues
}

/** Reports anything but a mapping. `rule`: "A node must be a mapping with …". */
export function isMapping(
  source: unknown,
  rule: string,
  path: DocumentPath,
  { problems }: Pick<ShapeContext, "problems">,
): source is Record<string, unknown> {
  if (isObject(source)) return true
  problems.add("E101", path, `${rule}; this is ${describe(source)}.`)
  return false
}

/** The valid part of an entry. `lists`: of a list with an invalid item the other items are kept. */
export function without(
  source: Record<string, unknown>,
  issues: readonly Issue[],
  lists: readonly string[] = [],
): Record<string, unknown> {
  if (issues.length === 0) return source
  const sound = { ...source }
  for (const { path } of issues) {
    const key = String(path[0])
    if (path.length === 1 || !lists.includes(key)) delete sound[key]
  }
  return sound
}

/** If a value may have several forms, the problems of the form that was most likely meant. */
function unfolded(issue: Issue): readonly Issue[] {
  const form = issue.errors?.find(branch => branch.every(isInside))
  if (form === undefined || form.length === 0) return [issue]
  return form.flatMap(inner => unfolded({ ...inner, path: [...issue.path, ...inner.path] }))
}

/** Is the issue inside the value, so that the value itself has the right form? */
const isInside = ({ path, code }: Issue): boolean => path.length > 0 || code === "unrecognized_keys"

function wrongKey({ path, issues }: Issue): string {
  const key = JSON.stringify(path.at(-1))
  return `The key ${key} is not allowed here; expected ${issues?.[0]?.message ?? "another"}.`
}

function missing(issue: Issue, { path, words }: ShapeCheck): string {
  const above = [...path, ...issue.path.slice(0, -1)]
  const list = above.findLast((part, i) => typeof part === "string" && typeof above[i + 1] === "number")
  const owner = (list === undefined ? undefined : words.entries[list]) ?? words.document
  return `The ${owner} has no "${String(issue.path.at(-1))}". Add it: ${expected(issue, words)}.`
}

function wrong(issue: Issue, { source, words }: ShapeCheck): string {
  const { path } = issue
  const what = formatPath(path.slice(path.findLastIndex(part => typeof part === "string")))
  return `"${what}" is ${describe(valueAt(source, path))}; expected ${expected(issue, words)}.`
}

/** Returns the key that was probably meant. */
function reportUnknownKey(
  inner: DocumentPath,
  known: readonly string[],
  { path }: ShapeCheck,
  { problems, suggest }: ShapeContext,
): string | undefined {
  const key = String(inner.at(-1))
  const nearest = suggest.nearest(key, known)
  const advice = nearest === undefined ? `Allowed: ${known.join(", ")}.` : `Did you mean "${nearest}"?`
  problems.add("E101", [...path, ...inner], `Unknown key ${JSON.stringify(key)}. ${advice}`, { key: true })
  return nearest
}

/** The keys of the mapping that the schema has at a path. */
export function keysAt(schema: z.ZodType | undefined, path: DocumentPath): readonly string[] {
  const known = (schema?.def ?? {}) as SchemaParts
  if (known.innerType !== undefined) return keysAt(known.innerType, path)
  if (known.options !== undefined)
    return known.options.map(option => keysAt(option, path)).find(keys => keys.length > 0) ?? []
  const [step, ...rest] = path
  if (step === undefined) return Object.keys(known.shape ?? {})
  return keysAt(known.element ?? known.valueType ?? known.shape?.[step], rest)
}

/** The types of zod, in words. */
export const kinds: Readonly<Record<string, string>> = {
  int: "a whole number",
  number: "a number",
  string: "text",
  boolean: "true or false",
  object: "a mapping",
  record: "a mapping",
}

function expected(issue: Issue, words: ShapeWords): string {
  const last = issue.path.at(-1)
  const key = typeof last === "number" ? `${issue.path.at(-2)}[]` : String(last)
  if (Object.hasOwn(words.expected, key)) return words.expected[key]!
  if (issue.code === "invalid_type") return kinds[issue.expected ?? ""] ?? `a ${issue.expected}`
  if (issue.code === "invalid_value")
    return issue.values?.map(value => JSON.stringify(value)).join(" or ") ?? ""
  if (issue.code === "too_small") {
    if (issue.origin === "string") return "text that is not empty"
    return `${issue.inclusive ? "at least" : "more than"} ${issue.minimum}`
  }
  if (issue.code === "too_big")
    return `at most ${issue.maximum}${issue.origin === "string" ? " characters" : ""}`
  return issue.message.replace(/^Invalid input: expected /, "")
}

/** Describes the value that was found, shortened for a message. */
export function describe(value: unknown): string {
  if (value === null) return "nothing (null)"
  if (Array.isArray(value)) return value.length === 0 ? "an empty list" : "a list"
  if (typeof value === "object") return "a mapping"
  if (typeof value === "string") return value.length > 40 ? `"${value.slice(0, 40)}…"` : JSON.stringify(value)
  return String(value)
}
