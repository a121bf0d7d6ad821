/** Describes a problem of a request, as the rest of a sentence that begins with the name of the field. */
import type { Issue } from "../../definition/document/issues.ts"
import { Suggester } from "../../definition/suggest.ts"

export function unknownKey(key: string, known: readonly string[]): string {
  const nearest = new Suggester().nearest(key, known)
  if (nearest !== undefined) return `is unknown; did you mean ${nearest}?`
  if (known.length === 0) return "is unknown; none is allowed here"
  return `is unknown; allowed: ${known.join(", ")}`
}

export function wrongValue(issue: Issue, value: unknown): string {
  const isBody = issue.path.length === 0
  if (value === undefined || (value === null && isBody)) return `is missing; it ${must(issue)}`
  if (issue.code === "invalid_key") return must(issue)
  if (isRepeated(issue, value)) return `is given ${value.length} times; give it once`
  const length = issue.code === "too_big" && !isNumber(issue) ? lengthOf(value) : null
  if (length !== null) return `${must(issue)}; it has ${length}`
  return isPlain(issue, value) ? must(issue) : `${must(issue)}; it is ${shown(value)}`
}

/** Does the required form already show what is wrong with the value? */
function isPlain(issue: Issue, value: unknown): boolean {
  return lengthOf(value) === 0 || (isOurs(issue) && typeof value === "object")
}

/** A parameter that is given several times arrives as a list of texts. */
function isRepeated({ code, expected, path }: Issue, value: unknown): value is readonly string[] {
  const isOne = code === "invalid_type" && expected !== "object" && path.length === 1
  return isOne && Array.isArray(value) && value.length > 1 && value.every(one => typeof one === "string")
}

/** Has the schema its own text for the problem? The texts of zod are for programmers. */
export function isOurs({ message }: Issue): boolean {
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
        : `must have at most ${issue.maximum} ${unitOf(issue)}`
    default:
      return "has an invalid form"
  }
}

function atLeast(issue: Issue): string {
  const { minimum, inclusive } = issue
  if (isNumber(issue)) return `must be ${inclusive ? "at least" : "more than"} ${minimum}`
  return Number(minimum) === 1 ? "must not be empty" : `must have at least ${minimum} ${unitOf(issue)}`
}

/** Is the limit about a number's value, not about the number of characters or entries? */
function isNumber({ origin }: Issue): boolean {
  return origin === "number" || origin === "int"
}

/** For an integer beyond its bound zod also reports that it cannot be represented exactly: the bound is enough. */
export function isSaidBetter(issue: Issue, all: readonly Issue[]): boolean {
  const sameEnd = (other: Issue) => other.origin === "number" && other.code === issue.code
  const path = issue.path.join(".")
  return issue.origin === "int" && all.some(other => sameEnd(other) && other.path.join(".") === path)
}

function unitOf({ origin }: Issue): string {
  return origin === "string" ? "characters" : "entries"
}

function lengthOf(value: unknown): number | null {
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
