/**
 * Turns the value that a handler threw into the stored fault, and decides whether a retry may help (J13).
 *
 * 1. Total: any value may be thrown, getters may throw, causes may form a ring; the result is always a fault.
 * 2. The stored fault is bounded and holds no stack: stacks go to the log.
 * 3. `clean` sees every text before it is cut, so no half of a secret can survive the cut.
 */
import type { Json, JsonObject } from "./json.ts"

/** Why an attempt failed, as stored and shown. `retryable` and `retry_after_seconds` decide about a retry. */
export interface Fault {
  /** A code of src/errors.ts, or the code of the user's own error. */
  readonly code: string
  readonly message: string
  readonly retryable: boolean
  /** The pause that the remote side asked for (`Retry-After`). */
  readonly retry_after_seconds?: number | undefined
  readonly details?: JsonObject | undefined
}

export interface FaultOptions {
  /** Milliseconds since 1970: `Retry-After` may be a date. */
  readonly now: number
  /** Removes secrets from a text. */
  readonly clean?: ((text: string) => string) | undefined
  /** The name of the code that threw, for a message where the thrown value has none. Default: handler. */
  readonly thrower?: string
}

const unknownError = "E401"
const messageLength = 2_000
const detailsLength = 8_000
const causesRead = 5
/** A service that asks for a pause of more than a year has a wrong clock. */
const longestWait = 365 * 24 * 3600

const retryableCodes = new Set([
  "RATE_LIMITED",
  "ABORT_ERR",
  "EAI_AGAIN",
  "ECONNABORTED",
  "ECONNREFUSED",
  "ECONNRESET",
  "EHOSTDOWN",
  "EHOSTUNREACH",
  "ENETDOWN",
  "ENETRESET",
  "ENETUNREACH",
  "ENOTFOUND",
  "EPIPE",
  "ESOCKETTIMEDOUT",
  "ETIMEDOUT",
  "UND_ERR_BODY_TIMEOUT",
  "UND_ERR_CLOSED",
  "UND_ERR_CONNECT_TIMEOUT",
  "UND_ERR_DESTROYED",
  "UND_ERR_HEADERS_TIMEOUT",
  "UND_ERR_SOCKET",
])

/** Wrong arguments and untrusted certificates stay wrong until a person changes something. */
const finalCodes = [
  /^ERR_INVALID_/,
  /^UND_ERR_INVALID_/,
  /^CERT_/,
  /SELF_SIGNED_CERT/,
  /^UNABLE_TO_/,
  /^ERR_TLS_CERT/,
]
const finalNames = new Set(["ZodError", "$ZodError", "ValidationError", "SchemaError"])

/** 429 and 5xx are transient, and so are 408 (request timeout) and 425 (too early); other 4xx are not. */
export function isRetryableStatus(status: number): boolean {
  return status >= 500 || status === 429 || status === 408 || status === 425
}

const overloadStatuses = new Set<unknown>([429, 503])

/** The remote side reports overload. Other failures carry no information about load. */
export function isOverload({ code, retry_after_seconds, details }: Fault): boolean {
  return retry_after_seconds !== undefined || code === "RATE_LIMITED" || overloadStatuses.has(details?.status)
}

/** The code of a node whose process died too often while it ran. */
export const lostTooOften = "E417"

/** The limit of concurrent pipeline executions is reached. */
export const executionsFull = "E702"

/** The pipeline that found no place, and the limit of executions; null: the fault is of another kind. */
export function executionsFullIn(fault: Fault | undefined): { pipeline: string; limit: number } | null {
  if (fault?.code !== executionsFull) return null
  const { pipeline, limit } = fault.details ?? {}
  return typeof pipeline === "string" && typeof limit === "number" ? { pipeline, limit } : null
}

/** The remote side accepted nothing and asks for a later request: 429. */
export function isRateLimited({ code, details }: Fault): boolean {
  return code === "E409" || code === "RATE_LIMITED" || details?.status === 429
}

export function toFault(thrown: unknown, options: FaultOptions): Fault {
  const clean = options.clean ?? (text => text)
  const errors = causes(thrown)
  const wait = firstFound(errors, error => requestedWait(error, options.now))
  const details = errorDetails(errors, clean)
  return {
    code: firstFound(errors, error => unsuspectedCode(error, clean)) ?? unknownError,
    message: cut(clean(errorMessage(thrown, errors, options.thrower ?? "handler")), messageLength),
    retryable: isRetryable(errors),
    retry_after_seconds: wait,
    ...(details === undefined ? {} : { details }),
  }
}

/**
 * A failure that is not known to be final is retried: most failures of code that talks to other systems are transient,
 * tries are counted, and a needless retry costs a minute where giving up wrongly costs the job.
 */
function isRetryable(errors: readonly object[]): boolean {
  const stated = errors.length === 0 ? undefined : read(errors[0]!, "retryable")
  if (typeof stated === "boolean") return stated
  const code = firstFound(errors, errorCode)
  if (code !== undefined && retryableCodes.has(code)) return true
  const status = firstFound(errors, httpStatus)
  if (status !== undefined) return isRetryableStatus(status)
  if (code !== undefined && finalCodes.some(pattern => pattern.test(code))) return false
  return !errors.some(isValidation)
}

function isValidation(error: object): boolean {
  return finalNames.has(String(read(error, "name"))) || Array.isArray(read(error, "issues"))
}

/** `Retry-After` in seconds or as an HTTP date; undefined if it is neither. */
export function retryAfterSeconds(value: unknown, now: number): number | undefined {
  if (typeof value === "number") return boundedWait(value)
  if (typeof value !== "string") return undefined
  const text = value.trim()
  if (/^\d+(\.\d+)?$/.test(text)) return boundedWait(Number(text))
  const date = httpDate(text)
  return date === undefined ? undefined : boundedWait((date - now) / 1000)
}

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
const datePattern = /^[A-Z][a-z]{2}, (\d{2}) ([A-Z][a-z]{2}) (\d{4}) (\d{2}):(\d{2}):(\d{2}) GMT$/

/** Milliseconds since 1970 of `Sun, 06 Nov 1994 08:49:37 GMT`: core has no calendar to use. */
function httpDate(text: string): number | undefined {
  const [, day, name, year, hours, minutes, seconds] = datePattern.exec(text) ?? []
  const month = months.indexOf(name ?? "")
  if (month < 0) return undefined
  // March counts as the first month, so that the leap day is the last day of its year.
  const y = Number(year) - (month < 2 ? 1 : 0)
  const daysBefore = Math.floor((153 * ((month + 10) % 12) + 2) / 5) + Number(day) - 1
  const days = 365 * y + Math.floor(y / 4) - Math.floor(y / 100) + Math.floor(y / 400) + daysBefore - 719_468
  return (((days * 24 + Number(hours)) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000
}

function boundedWait(seconds: number): number | undefined {
  if (Number.isNaN(seconds)) return undefined
  return Math.min(longestWait, Math.max(0, Math.ceil(seconds * 1000) / 1000))
}

/** The thrown object and its causes, nearest first. `fetch failed` has the reason only in its cause. */
function causes(thrown: unknown): object[] {
  const found: object[] = []
  let next = thrown
  while (isObject(next) && found.length < causesRead && !found.includes(next)) {
    found.push(next)
    const several = read(next, "errors")
    next = read(next, "cause") ?? (Array.isArray(several) ? several[0] : undefined)
  }
  return found
}

/** Keys of services often look like codes: a text that contains a secret is not a code. */
function unsuspectedCode(error: object, clean: (text: string) => string): string | undefined {
  const code = errorCode(error)
  return code === undefined || clean(code) === code ? code : undefined
}

function errorCode(error: object): string | undefined {
  const code = read(error, "code")
  return typeof code === "string" && /^[A-Za-z][A-Za-z0-9_.:-]{0,63}$/.test(code) ? code : undefined
}

/** Where fetch-like libraries (axios, got, cloud SDKs) put the HTTP status. */
function httpStatus(error: object): number | undefined {
  const places = [
    read(error, "status"),
    read(error, "statusCode"),
    read(read(error, "response"), "status"),
    read(read(error, "$metadata"), "httpStatusCode"),
  ]
  return places.find(
    (place): place is number =>
      typeof place === "number" && Number.isInteger(place) && place >= 400 && place < 600,
  )
}

function requestedWait(error: object, now: number): number | undefined {
  return (
    retryAfterSeconds(read(error, "retryAfterSeconds"), now) ??
    retryAfterSeconds(header(read(error, "headers")), now) ??
    retryAfterSeconds(header(read(read(error, "response"), "headers")), now)
  )
}

function header(headers: unknown): unknown {
  if (typeof read(headers, "get") !== "function")
    return read(headers, "retry-after") ?? read(headers, "Retry-After")
  try {
    return (headers as { get(name: string): unknown }).get("retry-after")
  } catch {
    return undefined
  }
}

function errorMessage(thrown: unknown, errors: readonly object[], thrower: string): string {
  if (typeof thrown === "string") return thrown === "" ? `The ${thrower} threw an empty string.` : thrown
  if (errors.length === 0) return `The ${thrower} threw ${describe(thrown)}.`
  const texts: string[] = []
  for (const error of errors) {
    const message = read(error, "message")
    if (typeof message === "string" && message !== "" && !texts.some(text => text.includes(message)))
      texts.push(message)
  }
  if (texts.length > 0) return texts.join(": ")
  const name = read(thrown, "name")
  if (typeof name === "string" && name !== "") return `The ${thrower} threw ${name} without a message.`
  return `The ${thrower} threw an object: ${asText(thrown)}`
}

function describe(value: unknown): string {
  return value === undefined || value === null ? String(value) : `the ${typeof value} ${String(value)}`
}

function errorDetails(errors: readonly object[], clean: (text: string) => string): JsonObject | undefined {
  const status = firstFound(errors, httpStatus)
  const stated = errors.length === 0 ? undefined : read(errors[0]!, "details")
  const details = isObject(stated) && !Array.isArray(stated) ? stated : {}
  const all = status === undefined ? details : { status, ...details }
  const text = asText(all)
  if (text === "{}") return undefined
  if (text.length > detailsLength) return { truncated: true, text: cut(clean(text), detailsLength) }
  try {
    return cleaned(JSON.parse(text) as Json, clean) as JsonObject
  } catch {
    return undefined
  }
}

/** Passes every text of a value, keys included, through `clean`. Numbers too: a secret may be all digits. */
export function cleaned(value: Json, clean: (text: string) => string): Json {
  if (typeof value === "string") return clean(value)
  if (typeof value === "number") {
    const text = String(value)
    const safe = clean(text)
    return safe === text ? value : safe
  }
  if (Array.isArray(value)) return value.map(item => cleaned(item, clean))
  if (value === null || typeof value !== "object") return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [clean(key), cleaned(item, clean)]))
}

function asText(value: unknown): string {
  try {
    return JSON.stringify(value) ?? "{}"
  } catch {
    return "{}"
  }
}

/** At most `length` characters, never half of a surrogate pair. */
export function cut(text: string, length: number): string {
  if (text.length <= length) return text
  const last = text.charCodeAt(length - 2)
  const end = last >= 0xd800 && last <= 0xdbff ? length - 2 : length - 1
  return `${text.slice(0, end)}…`
}

function firstFound<T>(errors: readonly object[], find: (error: object) => T | undefined): T | undefined {
  for (const error of errors) {
    const found = find(error)
    if (found !== undefined) return found
  }
  return undefined
}

function isObject(value: unknown): value is object {
  return (typeof value === "object" && value !== null) || typeof value === "function"
}

function read(value: unknown, key: string): unknown {
  if (!isObject(value)) return undefined
  try {
    return (value as Record<string, unknown>)[key]
  } catch {
    return undefined
  }
}
