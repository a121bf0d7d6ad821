import type { Json } from "../core/json.ts"
import { checkJson } from "../definition/document/json-value.ts"
import { ProblemList } from "../definition/problem.ts"
import { isJobId } from "../engine/ids.ts"
import type { JobCommand } from "../engine/remote/commands.ts"
import { UmbraError } from "../errors.ts"
import type { JobFilter } from "../journal/port/journal.ts"
import { isTraceparent } from "../trace.ts"
import type { SubmitOptions } from "./submit.ts"

/**
 * What callers hand over beside a workflow and its input, checked before anything is decided on it: callers need not
 * have types, and a store cannot keep everything that memory can. Throws E309.
 */
export function checkOptions(options: SubmitOptions & { readonly owner: string }): void {
  const { owner, priority, ttlSeconds, labels, idempotencyKey, traceparent, submittedBy } = options
  mustBeText("owner", owner, 200)
  if (idempotencyKey !== undefined) mustBeText("an idempotency key", idempotencyKey, 255)
  if (submittedBy !== undefined) mustBeText("submittedBy", submittedBy, 255)
  if (priority !== undefined && (!Number.isInteger(priority) || Math.abs(priority) > 1000))
    wrong("priority must be a whole number from -1000 to 1000")
  if (ttlSeconds != null && !(Number.isFinite(ttlSeconds) && ttlSeconds > 0))
    wrong("ttl_seconds must be a number above 0")
  if (labels !== undefined) checkLabels(labels)
  if (traceparent !== undefined && !isTraceparent(traceparent))
    wrong(
      "traceparent must be as W3C Trace Context has it: 00-<32 hex digits>-<16 hex digits>-<2 hex digits>",
    )
}

/** Labels are shown with every line of a list: they are no place for documents. */
const longestLabels = 65_536

function checkLabels(labels: unknown): void {
  const isMapping = typeof labels === "object" && labels !== null && !Array.isArray(labels)
  if (!isMapping || !Object.entries(labels).flat().every(isComparable))
    wrong("labels must be texts by name, without the character U+0000 and without half characters")
  if (JSON.stringify(labels).length > longestLabels)
    wrong(`labels must not be longer than ${longestLabels} characters in all`)
}

/** By a database: JSON has texts that it cannot compare. */
function isComparable(value: unknown): boolean {
  return typeof value === "string" && !/[\0\p{Surrogate}]/u.test(value)
}

/** As it is to be carried out: what a signal carries is a copy. */
export function checkCommand(command: JobCommand, maxSignalBytes: number): JobCommand {
  if (command.type === "cancel") checkReason(command.reason)
  if (command.type !== "signal") return command
  return { ...command, data: checkSignal(command.name, command.data, maxSignalBytes) }
}

function checkReason(reason: unknown): void {
  if (reason !== undefined && !(typeof reason === "string" && reason.length <= 10_000))
    wrong("the reason of a cancellation must be a text of at most 10,000 characters")
}

/** What a signal carries becomes a node's output, and has its limits. A copy: the caller may go on with its own. */
function checkSignal(name: unknown, data: unknown, maxBytes: number): Json {
  mustBeText("a signal's name", name, 255)
  const problems = new ProblemList()
  checkJson(data, signalBounds, problems)
  const [problem] = problems.sorted()
  if (problem !== undefined)
    wrong(`a signal carries JSON, and ${problem.path || "this"} is none (${problem.message})`)
  const text = JSON.stringify(data)
  if (Buffer.byteLength(text) > maxBytes) wrong(`a signal's data must not be larger than ${maxBytes} bytes`)
  return JSON.parse(text) as Json
}

/** For a list of jobs. */
export function checkFilter({ limit, after, parentId }: Partial<JobFilter>): void {
  if (limit !== undefined && !(Number.isSafeInteger(limit) && limit >= 0))
    wrong("limit must be a whole number from 0")
  if (after != null && !isJobId(after)) wrong("after must be a job's id")
  if (parentId != null && !isJobId(parentId)) wrong("parentId must be a job's id, or null")
}

const signalBounds = { depth: 64, values: 10_000_000 }

/**
 * Names and keys are stored as text, which holds no NUL and no half of a character (two keys would become one), and
 * compared in indexes, which hold nothing long.
 */
function mustBeText(what: string, value: unknown, longest: number): void {
  if (typeof value === "string" && value !== "" && value.length <= longest && !unfit.test(value)) return
  wrong(`${what} has 1 to ${longest} characters, and no control characters or halves of one`)
}

const unfit = /[\p{Cc}\p{Surrogate}]/u

function wrong(what: string): never {
  throw new UmbraError("E309", `${what}.`)
}
