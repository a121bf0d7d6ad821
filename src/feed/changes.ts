/**
 * Turns facts into the changes of a stream: the transitions of J18, each with the job or the node as it then was. Those
 * of the items of `for_each` are left out: ten thousand of them would drown the nodes; clients request them separately
 * (`GET /jobs/{job}/nodes/{node}/items`).
 */

import type { ExternalWaiting, Fact } from "../core/facts.ts"
import type { Json, JsonObject } from "../core/json.ts"
import { type JobStatus, jobHasEnded } from "../core/states.ts"
import { expand, type JobEvent } from "../core/view/events.ts"
import { pauseView, progressPercent } from "../core/view/view.ts"
import { isoTime } from "../engine/clock.ts"
import { jobError } from "../engine/owner/job-result.ts"
import { shownVersion } from "../engine/owner/snapshot.ts"
import type { FeedFact } from "../journal/port/feed.ts"
import { nextTurnIfLate } from "../turns.ts"
import {
  type FoldParts,
  foldJobs,
  type KnownJob,
  type KnownJobs,
  newKnownJob,
  readFact,
} from "./known-jobs.ts"
import { listNode } from "./progress.ts"

export interface Change {
  readonly kind: "job" | "node"
  readonly jobId: string
  readonly seq: number
  /** The index among the events of one fact: the last part of the event's idempotency key. */
  readonly place: number
  readonly at: number
  /** The new status of the job; null: it is a change of a node. */
  readonly status: JobStatus | null
  /** JSON. */
  readonly data: string
}

/** Applies the fact to the job. */
export function expandChanges(
  job: KnownJob,
  recorded: { readonly seq: number; readonly fact: Fact },
  { withNodes }: { readonly withNodes: boolean },
): Change[] {
  const { seq, fact } = recorded
  const before = progressPercent(job.state)
  const events = expand(job.state, job.id, recorded)
  job.seq = seq
  job.at = fact.at
  const last = events.findLastIndex(event => event.type.startsWith("job."))
  return events.flatMap((event, place): Change[] => {
    const common = { jobId: job.id, seq, place, at: fact.at }
    if (event.type.startsWith("job.")) {
      // A pause, or a new label, does not change the status.
      const status = (event.to as JobStatus | undefined) ?? job.state.status
      // An intermediate state has the progress from before the fact.
      const percent = place === last ? progressPercent(job.state) : before
      const line = jobLine(job, { status, percent, at: fact.at })
      const data = JSON.stringify(
        status === "PREVIEW" ? { ...line, preview: previewIn(event.payload) } : line,
      )
      return [{ kind: "job", ...common, status, data }]
    }
    if (!withNodes || !event.type.startsWith("node.")) return []
    return [{ kind: "node", ...common, status: null, data: JSON.stringify(nodeLine(event)) }]
  })
}

const previewIn = ({ data, ...where }: JsonObject) => shownPreview(where, data)

/** `where`: the node, or item of it, that published the preview. `data` undefined: it is too large for a stream. */
export function shownPreview(where: JsonObject, data: Json | undefined): JsonObject {
  return data === undefined ? { ...where, data_left_out: true } : { ...where, data }
}

/** The job as it is now. */
export function currentJobLine(job: KnownJob) {
  return jobLine(job, { status: job.state.status, percent: progressPercent(job.state), at: job.at })
}

function jobLine(
  { id, plan, state, message }: KnownJob,
  { status, percent, at }: { status: JobStatus; percent: number; at: number },
) {
  const hasEnded = jobHasEnded(status)
  return {
    job_id: id,
    workflow: state.workflow,
    workflow_version: shownVersion(state),
    status,
    progress_pct: percent,
    progress_message: hasEnded ? null : message,
    created_at: isoTime(state.createdAt),
    updated_at: isoTime(at),
    finished_at: hasEnded && state.finishedAt !== null ? isoTime(state.finishedAt) : null,
    labels: state.labels,
    error: hasEnded ? jobError(plan, state) : null,
    reason: hasEnded ? state.endReason : null,
    ...(state.startAt === null ? {} : { start_at: isoTime(state.startAt) }),
    ...(state.schedule === null
      ? {}
      : { schedule: { name: state.schedule.name, tick: isoTime(state.schedule.tick) } }),
    ...(state.paused === null
      ? {}
      : { paused: { ...pauseView(state.paused), at: isoTime(state.paused.at) } }),
  }
}

function nodeLine({ correlation_id, node, to, from, attempt, at, payload }: JobEvent): JsonObject {
  return {
    job_id: correlation_id,
    node: node ?? null,
    status: to ?? null,
    from: from ?? null,
    attempt: attempt ?? null,
    at: isoTime(at),
    ...(typeof payload.reason === "string" ? { reason: payload.reason } : {}),
    ...(typeof payload.message === "string" ? { message: payload.message } : {}),
    ...(typeof payload.items === "number" ? { items: payload.items } : {}),
    ...(typeof payload.via === "string" ? { via: payload.via } : {}),
    ...errorField(payload),
    ...waitingField(payload),
  }
}

function errorField({ fault, cause, item }: JsonObject): { error?: JsonObject } {
  if (fault === undefined) return {}
  const { code, message } = fault as { code: string; message: string }
  const where = { ...(cause === undefined ? {} : { node: cause }), ...(item === undefined ? {} : { item }) }
  return { error: { code, message, ...where } }
}

/** In the terms of the graph: why the node does not run right now. */
function waitingField({ reason, retry_at, waiting, pipeline, limit }: JsonObject): {
  waiting_on?: JsonObject
} {
  if (reason === "executions" && pipeline !== undefined && limit !== undefined)
    return { waiting_on: { kind: "executions", pipeline, limit } }
  if (typeof retry_at === "number") return { waiting_on: { kind: "retry", at: isoTime(retry_at) } }
  if (waiting === undefined) return {}
  const { kind, name, until, ...rest } = waiting as { kind: string; name?: string; until?: number }
  if (kind === "child") return { waiting_on: waiting as JsonObject }
  return {
    waiting_on: {
      kind,
      ...(name === undefined ? {} : { name }),
      ...(kind === "external" ? operationFields(rest as unknown as ExternalWaiting) : {}),
      until: until === undefined ? null : isoTime(until),
    },
  }
}

function operationFields({ provider, external_id, next_poll_at }: ExternalWaiting): JsonObject {
  return {
    provider,
    external_id,
    next_poll_at: next_poll_at === undefined ? null : isoTime(next_poll_at),
  }
}

export interface FactChanges {
  readonly row: FeedFact
  /** Its state after the last fact of the page. */
  readonly job: KnownJob
  readonly changes: readonly Change[]
  /** A node whose list made progress by this fact. */
  readonly list: number | null
}

/**
 * The changes of each fact. The jobs are removed from the known ones; the caller that delivers the changes adds them again.
 * A page that fails half way is read again, and no state may be left half applied.
 */
export async function expandFacts(
  parts: FoldParts,
  facts: readonly FeedFact[],
  { known, withNodes }: { known: KnownJobs; withNodes: (fact: FeedFact) => boolean },
): Promise<FactChanges[]> {
  const jobs = await jobsBefore(parts, facts, known)
  const expanded: FactChanges[] = []
  for (const row of facts) {
    await nextTurnIfLate()
    const fact = await readFact(parts.journal, row)
    if (fact === null) continue
    const job = jobs.get(row.jobId) ?? (await newKnownJob(parts, row.jobId, fact))
    if (job === null) continue
    jobs.set(row.jobId, job)
    const changes = expandChanges(job, { seq: row.seq, fact }, { withNodes: withNodes(row) })
    expanded.push({ row, job, changes, list: listNode(fact) })
  }
  return expanded
}

/** One read of the journal for all jobs of a page that are not known. New jobs begin in the page itself. */
async function jobsBefore(
  parts: FoldParts,
  facts: readonly FeedFact[],
  known: KnownJobs,
): Promise<Map<string, KnownJob>> {
  const jobs = new Map<string, KnownJob>()
  const missing = new Map<string, number>()
  for (const { jobId, seq, type } of facts) {
    if (jobs.has(jobId) || missing.has(jobId)) continue
    const job = known.get(jobId)
    if (job !== undefined) jobs.set(jobId, job)
    else if (type !== "job_submitted") missing.set(jobId, seq)
  }
  for (const jobId of jobs.keys()) known.evict(jobId)
  const found = await foldJobs(parts, [...missing.keys()], row => row.seq < missing.get(row.jobId)!)
  for (const [jobId, job] of found) jobs.set(jobId, job)
  return jobs
}
