import type { Describe, StartTime } from "../core/commands.ts"
import type { Json } from "../core/json.ts"
import { checkJson } from "../definition/document/json-value.ts"
import { ProblemList } from "../definition/problem.ts"
import { parseIsoTime } from "../engine/clock.ts"
import { isJobId } from "../engine/ids.ts"
import type { JobCommand } from "../engine/remote/commands.ts"
import { parseReference } from "../engine/versions.ts"
import { UmbraError } from "../errors.ts"
import { searchedWords } from "../journal/fingerprint.ts"
import type { JobFilter } from "../journal/port/journal.ts"
import { isTraceparent } from "../trace.ts"
import type { SubmitOptions } from "./submit.ts"

/**
 * Checks the arguments of callers besides a workflow and its input, before anything is decided on them: callers may lack
 * types, and a store cannot keep everything that memory can. Throws E309.
 */
export function checkOptions(options: SubmitOptions & { readonly owner: string }): void {
  const { owner, priority, ttlSeconds, labels, idempotencyKey, traceparent, submittedBy } = options
  mustBeText("owner", owner, 200)
  if (idempotencyKey !== undefined) mustBeText("an idempotency key", idempotencyKey, 255)
  if (submittedBy !== undefined) mustBeText("the name of the submitter", submittedBy, 255)
  if (priority !== undefined && (!Number.isInteger(priority) || Math.abs(priority) > 1000))
    wrong("priority must be a whole number from -1000 to 1000")
  if (ttlSeconds != null && !(Number.isFinite(ttlSeconds) && ttlSeconds > 0))
    wrong("ttl_seconds must be a number above 0")
  if (labels !== undefined) checkLabels(labels)
  if (traceparent !== undefined && !isTraceparent(traceparent))
    wrong(
      "traceparent must have the format of W3C Trace Context: 00-<32 hex digits>-<16 hex digits>-<2 hex digits>",
    )
}

/** When a job starts, as callers give it: at most one of them. */
export interface StartOptions {
  /** A `Date`, or an ISO 8601 time with its zone. A time that has passed: at once. */
  readonly startAt?: Date | string | undefined
  /** Counted from when the engine decides, by its clock. */
  readonly delaySeconds?: number | undefined
}

const LONGEST_DELAY = 1e10
const LAST_START = Date.UTC(10_000, 0) - 1

export function hasStart({ startAt, delaySeconds }: StartOptions): boolean {
  return startAt !== undefined || delaySeconds !== undefined
}

/** The fields of the command. */
export function startFields({ startAt, delaySeconds }: StartOptions): StartTime {
  if (startAt !== undefined && delaySeconds !== undefined) wrong("give start_at or delay_seconds, not both")
  if (startAt === undefined) {
    if (delaySeconds === undefined) wrong("give start_at or delay_seconds")
    if (typeof delaySeconds !== "number" || !(delaySeconds >= 0 && delaySeconds <= LONGEST_DELAY))
      wrong(`delay_seconds must be a number from 0 to ${LONGEST_DELAY}`)
    return { delayMs: delaySeconds * 1000 }
  }
  const at = startAt instanceof Date ? startAt.getTime() : parseStart(String(startAt))
  if (at === null || !(at >= 0 && at <= LAST_START))
    wrong("start_at must be a time with its zone, such as 2026-11-15T12:00:00Z, from 1970 to 9999")
  return { startAt: at }
}

/** As the HTTP API: with seconds. */
function parseStart(text: string): number | null {
  return /T\d\d:\d\d:/.test(text) ? parseIsoTime(text) : null
}

/** Labels are shown in every row of a list: they are not meant for documents. */
const longestLabels = 65_536

function checkLabels(labels: unknown): void {
  const isMapping = typeof labels === "object" && labels !== null && !Array.isArray(labels)
  if (!isMapping || !Object.entries(labels).flat().every(isComparable))
    wrong(`labels must be texts by name, ${storable}`)
  if (JSON.stringify(labels).length > longestLabels)
    wrong(`labels must not be longer than ${longestLabels} characters in total`)
}

/** Comparable by a database: JSON can hold texts that a database cannot compare. */
export const storable = "without the character U+0000 and without lone surrogates"

function isComparable(value: unknown): value is string {
  return typeof value === "string" && !/[\0\p{Surrogate}]/u.test(value)
}

/** Returns the command to execute: the data of a signal is a copy. */
export function checkCommand(command: JobCommand, maxSignalBytes: number): JobCommand {
  if (command.type === "cancel") checkReason("a cancellation", command.reason)
  if (command.type === "pause") checkPause(command.by, command.reason)
  if (command.type !== "cancel" && command.type !== "retry" && command.type !== "delete") checkBy(command.by)
  if (command.type === "describe") checkDescription(command)
  if (command.type !== "signal") return command
  return { ...command, data: checkSignal(command.name, command.data, maxSignalBytes) }
}

export function checkPause(by: unknown, reason: unknown): void {
  checkReason("a pause", reason)
  checkBy(by)
}

function checkReason(what: string, reason: unknown): void {
  if (reason != null && !isNote(reason))
    wrong(`the reason of ${what} must be a text of at most 10,000 characters, ${storable}`)
}

function checkBy(by: unknown): void {
  if (by != null) mustBeText("by", by, 255)
}

function checkDescription({ labels, note }: Describe): void {
  if (labels === undefined && note === undefined) wrong("give labels, a note, or both")
  if (labels !== undefined) checkLabels(labels)
  if (note != null && !isNote(note))
    wrong(`a note must be null, or a text of at most 10,000 characters, ${storable}`)
}

export function isNote(text: unknown): text is string {
  return isComparable(text) && text.length <= 10_000
}

/** The data of a signal becomes a node's output, and has the same limits. A copy: the caller may change its own. */
function checkSignal(name: unknown, data: unknown, maxBytes: number): Json {
  mustBeText("a signal's name", name, 255)
  const problems = new ProblemList()
  checkJson(data, signalBounds, problems)
  const [problem] = problems.sorted()
  if (problem !== undefined)
    wrong(`a signal carries JSON, and ${problem.path || "this"} is not JSON (${problem.message})`)
  const text = JSON.stringify(data)
  if (Buffer.byteLength(text) > maxBytes) wrong(`a signal's data must not be larger than ${maxBytes} bytes`)
  return JSON.parse(text) as Json
}

/** Checks the filter of a list of jobs. */
export function checkFilter(filter: Partial<JobFilter>): void {
  const { limit, after, parentId, workflow, version, errorText, minDurationMs } = filter
  if (limit !== undefined && !(Number.isSafeInteger(limit) && limit >= 0))
    wrong("limit must be a whole number from 0")
  if (after != null && !isJobId(after)) wrong("after must be a job's id")
  if (parentId != null && !isJobId(parentId)) wrong("parentId must be a job's id, or null")
  if (filter.forkedFrom !== undefined && !isJobId(filter.forkedFrom)) wrong("forkedFrom must be a job's id")
  if (version !== undefined && (workflow === undefined || !Number.isSafeInteger(version)))
    wrong("version must be a whole number, and workflow must be given with it")
  if (errorText !== undefined && searchedWords(errorText).length === 0)
    wrong("errorText must contain a word of at least two letters; numbers and ids are not searched")
  if (minDurationMs !== undefined && !(Number.isFinite(minDurationMs) && minDurationMs >= 0))
    wrong("minDurationMs must be a number from 0")
}

/** Answers contain these times, with a year of four digits. */
export function checkRange(range: {
  readonly from?: number | undefined
  readonly to?: number | undefined
}): void {
  for (const [name, at] of Object.entries({ from: range.from, to: range.to }))
    if (at !== undefined && !(at >= 0 && at < Date.UTC(9999, 0)))
      wrong(`${name} must be a time in milliseconds since 1970, before the year 9999`)
}

/** The filter as stores compare it: `workflow` as a name, with its version if it is NAME@3, and codes as errors have them. */
export function namedFilter<F extends Pick<JobFilter, "errorCode" | "workflow" | "version">>(filter: F): F {
  const { errorCode, workflow } = filter
  const code = errorCode !== undefined && /^e\d+$/.test(errorCode) ? errorCode.toUpperCase() : errorCode
  const named = code === errorCode ? filter : { ...filter, errorCode: code }
  if (workflow === undefined || !workflow.includes("@")) return named
  const { name, version, alias } = parseReference(workflow)
  if (name === workflow) return named
  const list = `\`umbra alias list ${name}\``
  if (version === undefined)
    wrong(
      `workflow must be a name or NAME@VERSION: jobs do not record the alias "${alias ?? "latest"}" that they were submitted with. Give a version, such as ${name}@3; ${list} shows those of its aliases`,
    )
  if (filter.version !== undefined && filter.version !== version)
    wrong(`workflow has version ${version}, and version is ${filter.version}: give one of them`)
  return { ...named, workflow: name, version }
}

const signalBounds = { depth: 64, values: 10_000_000 }

/**
 * Names and keys are stored as text, which holds no NUL and no lone surrogate (two keys would become one), and compared in
 * indexes, which hold no long values.
 */
function mustBeText(what: string, value: unknown, longest: number): void {
  if (typeof value === "string" && value !== "" && value.length <= longest && !unfit.test(value)) return
  wrong(`${what} has 1 to ${longest} characters, and no control characters or lone surrogates`)
}

const unfit = /[\p{Cc}\p{Surrogate}]/u

function wrong(what: string): never {
  throw new UmbraError("E309", `${what}.`)
}

export function noSuchJob(jobId: string): UmbraError {
  return new UmbraError("E301", `Job ${jobId} does not exist. \`umbra jobs list\` shows those that do.`)
}
