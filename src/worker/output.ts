/**
 * The return value of a handler, as JSON text and as the value that every later reader sees.
 *
 * 1. Only JSON values pass; everything else is rejected with its path, never silently changed.
 * 2. The value is parsed back from the text: there is no alias to it, and live state equals replayed state.
 * 3. Work is bounded by the size limit before the text is created: a small graph of shared parts can be huge
 *    as text.
 */

import type { StandardSchemaV1 } from "@standard-schema/spec"
import type { Json } from "../core/json.ts"
import { firstIssues } from "../definition/document/first-issues.ts"
import { formatPath } from "../definition/problem.ts"
import { type ErrorCode, UmbraError } from "../errors.ts"

export interface Checked {
  readonly value: Json
  readonly text: string
}

const nothing: Checked = Object.freeze({ value: null, text: "null" })

/** Deeper nesting is an accident (or a cycle), and would overflow the stack of later readers. */
const deepest = 500

export function isPromiseLike(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === "object" && value !== null && typeof (value as { then?: unknown }).then === "function"
  )
}

type Path = (string | number)[]

export function checkOutput(
  value: unknown,
  limits: { readonly maxBytes: number; readonly what: string },
): Checked {
  if (value === undefined || value === null) return nothing
  const check = new Check(limits.maxBytes)
  const problem = check.problem(value, 0)
  if (problem !== undefined) throw notJson(limits.what, problem)
  if (check.size > limits.maxBytes) throw tooLarge(limits)
  const text = JSON.stringify(value) as string | undefined
  if (text === undefined)
    throw notJson(limits.what, { what: "a value whose toJSON returns nothing", path: [] })
  // UTF-8 takes at most three bytes for a UTF-16 unit: most texts need no second check.
  if (text.length * 3 > limits.maxBytes && Buffer.byteLength(text) > limits.maxBytes) throw tooLarge(limits)
  return { value: typeof value === "string" ? value : (JSON.parse(text) as Json), text }
}

/**
 * The same check for a value that is passed on unchanged: nothing is serialized, and nothing is copied.
 * Values that are obviously plain cost one walk without an allocation.
 */
export function mustBeJson(
  value: unknown,
  limits: { readonly maxBytes: number; readonly what: string },
): void {
  stepsLeft = QUICK_STEPS
  if (isSurelyJson(value)) return
  const check = new Check(limits.maxBytes)
  const problem = check.problem(value, 0)
  if (problem !== undefined) throw notJson(limits.what, problem)
  if (check.size > limits.maxBytes) throw tooLarge(limits)
}

/** Larger values, cycles and deep nesting are left to `Check`, which is exact. */
const QUICK_STEPS = 2000
let stepsLeft = 0

/** false: it may be JSON nevertheless. */
function isSurelyJson(value: unknown): boolean {
  if (stepsLeft-- <= 0) return false
  if (typeof value !== "object") {
    if (typeof value === "number") return Number.isFinite(value)
    return typeof value === "string" || typeof value === "boolean"
  }
  if (value === null) return true
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) if (!isSurelyJson(value[i])) return false
    return true
  }
  if (Object.getPrototypeOf(value) !== Object.prototype) return false
  for (const key in value) {
    const member = (value as Record<string, unknown>)[key]
    if (member !== undefined && !isSurelyJson(member)) return false
  }
  return true
}

interface Problem {
  readonly what: string
  /** From the inside out. */
  readonly path: Path
}

class Check {
  /** A lower bound of the text's length. */
  size = 0
  readonly #max: number
  readonly #ancestors: object[] = []

  constructor(max: number) {
    this.#max = max
  }

  problem(value: unknown, depth: number): Problem | undefined {
    this.size += 1
    switch (typeof value) {
      case "string":
        this.size += value.length
        return undefined
      case "boolean":
        return undefined
      case "number":
        return Number.isFinite(value) ? undefined : { what: `the number ${value}`, path: [] }
      case "object":
        return value === null || this.size > this.#max ? undefined : this.#inside(value, depth)
      default:
        return { what: value === undefined ? "undefined" : `a ${typeof value}`, path: [] }
    }
  }

  #inside(value: object, depth: number): Problem | undefined {
    if (depth >= deepest) {
      const cycle = this.#ancestors.includes(value)
      return {
        what: cycle ? "a cycle (it contains itself)" : `nesting deeper than ${deepest} levels`,
        path: [],
      }
    }
    this.#ancestors[depth] = value
    if (Array.isArray(value)) return this.#items(value, depth + 1)
    const prototype = Object.getPrototypeOf(value)
    // Plain objects of another realm count too: their prototype is the Object.prototype of that realm.
    const plain = prototype === null || Object.getPrototypeOf(prototype) === null
    return plain
      ? this.#fields(value as Record<string, unknown>, depth + 1)
      : { what: instanceName(value), path: [] }
  }

  #items(list: unknown[], depth: number): Problem | undefined {
    for (let i = 0; i < list.length; i++) {
      const problem = this.problem(list[i], depth)
      if (problem !== undefined) return at(problem, i)
    }
    return undefined
  }

  #fields(fields: Record<string, unknown>, depth: number): Problem | undefined {
    for (const key of Object.keys(fields)) {
      this.size += key.length
      const value = fields[key]
      if (value === undefined) continue
      const problem = this.problem(value, depth)
      if (problem !== undefined) return at(problem, key)
    }
    return undefined
  }
}

function at(problem: Problem, key: string | number): Problem {
  problem.path.push(key)
  return problem
}

function instanceName(value: object): string {
  const name = value.constructor?.name
  const hint =
    value instanceof Date
      ? " (write date.toISOString())"
      : ArrayBuffer.isView(value)
        ? " (encode it as text)"
        : ""
  return `an instance of ${typeof name === "string" && name !== "" ? name : "a class"}${hint}`
}

function notJson(what: string, problem: Problem): UmbraError {
  const path = pathText(problem.path.reverse())
  const place = path === "" ? what : `${what} at ${path}`
  return new UmbraError(
    "E404",
    `The ${place} is ${problem.what}. Return plain JSON: null, booleans, finite numbers, text, lists and plain objects.`,
    {
      details: { path },
    },
  )
}

/** The two ends of a long path suffice. */
function pathText(path: Path): string {
  return path.length > 20
    ? `${formatPath(path.slice(0, 10))} … ${formatPath(path.slice(-10))}`
    : formatPath(path)
}

/** The setting that raises the limit, by the kind of value; a value in storage has a fixed limit. */
const settings = new Map([
  ["output", "UMBRA_MAX_OUTPUT_BYTES"],
  ["preview", "UMBRA_MAX_PREVIEW_BYTES"],
  ["usage", "UMBRA_MAX_PREVIEW_BYTES"],
  ["details", "UMBRA_MAX_PREVIEW_BYTES"],
  ["message", "UMBRA_MAX_MESSAGE_BYTES"],
  ["message for the next adapter", "UMBRA_MAX_EMITTED_BYTES"],
])

function tooLarge(limits: { readonly maxBytes: number; readonly what: string }): UmbraError {
  const setting = settings.get(limits.what)
  const raise = setting === undefined ? "" : `, or raise the limit (${setting})`
  return new UmbraError(
    "E405",
    `The ${limits.what} is larger than ${limits.maxBytes} bytes. Store it elsewhere and return a reference to it${raise}.`,
    { details: { max_bytes: limits.maxBytes } },
  )
}

/**
 * Checks a value against a Standard Schema: returns the schema's result, or throws an error that names every
 * path that does not match.
 */
interface SchemaCheck {
  readonly schema: StandardSchemaV1
  readonly value: unknown
  /** For example `config of handler "x"`. */
  readonly what: string
  readonly code: ErrorCode
}

const issuesShown = 10

/** Returns a promise only if the schema itself is asynchronous. */
export function checkSchema(check: SchemaCheck): unknown {
  const found = firstIssues(check.schema, check.value)
  if (found.length > 0) return accepted(check, { issues: found as StandardSchemaV1.FailureResult["issues"] })
  const result = check.schema["~standard"].validate(check.value)
  return result instanceof Promise ? result.then(late => accepted(check, late)) : accepted(check, result)
}

function accepted(check: SchemaCheck, result: StandardSchemaV1.Result<unknown>): unknown {
  if (result.issues === undefined) return result.value
  const issues = result.issues
    .slice(0, issuesShown)
    .map(({ message, path }) => ({ path: issuePath(path), message }))
  const text = issues.map(({ path, message }) => (path === "" ? message : `${path}: ${message}`)).join("; ")
  const more = result.issues.length > issuesShown ? ` (and ${result.issues.length - issuesShown} more)` : ""
  throw new UmbraError(check.code, `The ${check.what} does not match its schema: ${text}${more}.`, {
    details: { issues },
  })
}

function issuePath(path: StandardSchemaV1.Issue["path"]): string {
  const keys = (path ?? []).map(part => (typeof part === "object" ? part.key : part))
  return formatPath(keys.map(key => (typeof key === "number" ? key : String(key))))
}
