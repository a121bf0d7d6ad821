/**
 * A bulk operation is a job of a built-in workflow (definition/built-in.ts), with what it has to do as its input and what it
 * has done as previews of its one node. It needs nothing that other jobs do not have.
 *
 * 1. Its targets are the jobs that match the filter as they were at T0, when it was accepted: a job that has begun, ended,
 *    been retried or deleted since then is not changed. The last seq of each partition at T0 decides this (`onlyIf`).
 * 2. A page of targets is durable before the first of them gets its command. After a crash the page is repeated: what has
 *    been done refuses the command, and a fact that names the operation shows that it was done. The id of a fork follows from
 *    the operation and its origin, so the repetition finds it.
 */
import type { Json, JsonObject } from "../../core/json.ts"
import { type JobStatus, jobHasEnded, jobStatuses } from "../../core/states.ts"
import { isoTime } from "../../engine/clock.ts"
import { UmbraError } from "../../errors.ts"
import type { JobFilter } from "../../journal/port/journal.ts"
import { checkFilter, isNote, namedFilter, storable } from "../arguments.ts"
import { checkForkRequest, type ForkRequest } from "../fork/request.ts"
import type { StoredBackfill } from "../schedules/backfill.ts"

export const bulkVerbs = ["cancel", "retry", "fork", "delete"] as const
export type BulkVerb = (typeof bulkVerbs)[number]

/** As for a list of jobs. Only jobs without a parent unless `parentId` is given: a command to a job also applies to its children. */
export type BulkFilter = Omit<JobFilter, "owner" | "after" | "limit" | "deleted">

export interface BulkRequest {
  readonly verb: BulkVerb
  readonly filter: BulkFilter
  /** For `cancel`: stored with each job. */
  readonly reason?: string | undefined
  /** Targets per second; default 100. */
  readonly rate?: number | undefined
  /** For `fork`. Left out: as a fork of one job without parameters. */
  readonly fork?: BulkFork | undefined
}

/**
 * How each target is forked. A target that would repeat effects which `confirm` does not contain is refused. `confirm` may name
 * nodes that a target does not have; `from` and `overrides` may not.
 */
export type BulkFork = Pick<ForkRequest, "from" | "workflow" | "overrides" | "confirm">

export const USUAL_RATE = 100
export const HIGHEST_RATE = 10_000

/** A filter as it is stored and shown, with the names of `GET /jobs`. */
export interface ShownFilter {
  readonly status?: readonly JobStatus[]
  readonly workflow?: string
  readonly version?: number
  readonly labels?: { readonly [name: string]: string }
  /** `none`: only jobs without a parent. */
  readonly parent?: string
  readonly forked_from?: string
  readonly error_code?: string
  readonly fingerprint?: string
  readonly error_text?: string
  /** In seconds. */
  readonly min_duration?: number
  readonly created_from?: string
  readonly created_before?: string
}

/** The input of the operation's job. */
export interface StoredOperation {
  readonly verb: BulkVerb | "backfill"
  readonly filter: ShownFilter
  readonly reason: string | null
  readonly rate: number
  /** For `fork`: with the version that the name of a workflow meant at T0. */
  readonly fork?: BulkFork
  /** For `backfill`: its targets are ticks. Then there is no filter, `below` is null and `seqs` is empty. */
  readonly backfill?: StoredBackfill
  /** For `fork` and `backfill`: the token whose limit of unfinished jobs counts the new jobs, and that limit. */
  readonly submitted_by?: string | undefined
  readonly max_unfinished?: number | undefined
  /** The targets that were counted at T0; `complete: false`: there are more. */
  readonly matched: { readonly count: number; readonly complete: boolean }
  /** All ids of T0 are below this one; null: there was no job. */
  readonly below: string | null
  /** By partition: the seq of its last fact at T0. */
  readonly seqs: readonly number[]
}

export interface BulkCounts {
  /** Targets that got their command. */
  readonly processed: number
  readonly done: number
  readonly refused: number
}

/** A target that was left as it is. */
export interface BulkRefusal {
  /** null: it is a tick of a backfill. */
  readonly job_id: string | null
  readonly tick?: string
  readonly code: string
  readonly message: string
}

/** A preview of the operation's node: everything that a process needs to resume it. */
export interface BulkProgress extends BulkCounts {
  /** The next targets: ids of jobs, or ticks. They may have got their command already. */
  readonly page: readonly string[]
  /** Ids of later pages are below this one, ticks are after it; null: there is no later page. */
  readonly after: string | null
  /** The targets of the previous page that refused. */
  readonly refusals: readonly BulkRefusal[]
}

/** The signal that aborts an operation. */
export const abortSignal = "abort"

/** Checks what callers give, and fills in the states in which the verb has something to do. */
export function checkRequest(request: BulkRequest): BulkRequest & { readonly rate: number } {
  const { verb, filter, reason, fork } = request
  if (!bulkVerbs.includes(verb)) throw wrong(`verb must be one of ${bulkVerbs.join(", ")}`)
  if (typeof filter !== "object" || filter === null) throw wrong("filter must be an object")
  const unknown = Object.keys(filter).filter(name => !filterNames.has(name))
  if (unknown.length > 0) throw wrong(`filter has no field ${unknown.join(", ")}`)
  const { labels = {}, ...others } = filter
  if (Object.keys(labels).length === 0 && Object.values(others).every(value => value === undefined))
    throw wrong("filter must have at least one field, so that no operation affects every job by mistake")
  const rate = checkRate(request.rate)
  if (reason !== undefined && verb !== "cancel") throw wrong("reason is allowed with the verb cancel only")
  if (reason !== undefined && !(isNote(reason) && reason.length <= 1000))
    throw wrong(`the reason must be a text of at most 1,000 characters, ${storable}`)
  if (fork !== undefined && verb !== "fork") throw wrong("fork is allowed with the verb fork only")
  if (fork !== undefined) checkFork(fork)
  checkFilter(filter)
  const named = namedFilter(filter)
  const { statuses = usualStatuses[verb], parentId = null } = named
  if (!Array.isArray(statuses) || statuses.some(status => !targetStatuses.includes(status)))
    throw wrong(`statuses must be some of ${targetStatuses.join(", ")}`)
  return { verb, filter: { ...named, statuses, parentId }, reason, rate, fork }
}

export function checkRate(rate = USUAL_RATE): number {
  if (Number.isFinite(rate) && rate > 0 && rate <= HIGHEST_RATE) return rate
  throw wrong(`rate must be a number above 0, at most ${HIGHEST_RATE} jobs per second`)
}

const forkNames: ReadonlySet<string> = new Set<keyof BulkFork>(["from", "workflow", "overrides", "confirm"])

function checkFork(fork: BulkFork): void {
  checkForkRequest(fork)
  const [unknown] = Object.keys(fork).filter(name => !forkNames.has(name))
  if (unknown !== undefined)
    throw wrong(`${unknown} is for the fork of one job; those of many have ${[...forkNames].join(", ")}`)
}

const filterNames: ReadonlySet<string> = new Set<keyof BulkFilter>([
  ...(["statuses", "workflow", "version", "errorCode", "fingerprint", "errorText"] as const),
  ...(["minDurationMs", "labels", "parentId", "forkedFrom", "createdFrom", "createdBefore"] as const),
])

export const targetStatuses = jobStatuses.filter(status => status !== "DELETED")

const usualStatuses: { readonly [verb in BulkVerb]: readonly JobStatus[] } = {
  cancel: targetStatuses.filter(status => !jobHasEnded(status)),
  retry: ["FAILED", "CANCELLED", "EXPIRED"],
  fork: ["FAILED", "CANCELLED", "EXPIRED"],
  delete: targetStatuses.filter(jobHasEnded),
}

export function shownFilter(filter: BulkFilter): ShownFilter {
  const { statuses, workflow, version, labels, parentId, minDurationMs, createdFrom, createdBefore } = filter
  const shown = {
    ...{ status: statuses, workflow, version, labels },
    parent: parentId === null ? "none" : parentId,
    forked_from: filter.forkedFrom,
    error_code: filter.errorCode,
    fingerprint: filter.fingerprint,
    error_text: filter.errorText,
    min_duration: minDurationMs === undefined ? undefined : minDurationMs / 1000,
    created_from: createdFrom === undefined ? undefined : isoTime(createdFrom),
    created_before: createdBefore === undefined ? undefined : isoTime(createdBefore),
  }
  return Object.fromEntries(Object.entries(shown).filter(([, value]) => value !== undefined)) as ShownFilter
}

export function readFilter(shown: ShownFilter): BulkFilter {
  const { status, workflow, version, labels, parent, min_duration, created_from, created_before } = shown
  return {
    ...{ statuses: status, workflow, version, labels },
    parentId: parent === "none" ? null : parent,
    forkedFrom: shown.forked_from,
    errorCode: shown.error_code,
    fingerprint: shown.fingerprint,
    errorText: shown.error_text,
    minDurationMs: min_duration === undefined ? undefined : Math.round(min_duration * 1000),
    createdFrom: created_from === undefined ? undefined : Date.parse(created_from),
    createdBefore: created_before === undefined ? undefined : Date.parse(created_before),
  }
}

export function asJson(value: StoredOperation | BulkProgress | BulkCounts): JsonObject {
  return value as unknown as JsonObject
}

export function noSuchOperation(id: string): UmbraError {
  return new UmbraError(
    "E315",
    `There is no bulk operation ${id}. \`umbra bulk list\` shows those that exist.`,
  )
}

/** Of the operation's output, or of a preview. */
export function readCounts(value: Json): BulkCounts {
  const { processed, done, refused } = value as unknown as BulkCounts
  return { processed, done, refused }
}

function wrong(what: string): UmbraError {
  return new UmbraError("E309", `${what}.`)
}
