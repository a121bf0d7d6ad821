import { submittedPause } from "../../core/apply/pause.ts"
import type { Submit } from "../../core/commands.ts"
import { startTime } from "../../core/decide/start.ts"
import type { Json } from "../../core/json.ts"
import { type JobState, readNodeStatus } from "../../core/state.ts"
import { type JobStatus, jobHasEnded } from "../../core/states.ts"
import { pauseView } from "../../core/view/view.ts"
import type { JobRow } from "../../journal/port/journal.ts"
import { isoTime, maybeTime } from "../clock.ts"
import { isIdle, type JobError, jobError, jobFingerprint, outputInMemory, readEnd } from "./job-result.ts"
import type { LiveJob } from "./live-job.ts"

/** A job as users see it. */
export interface JobSnapshot {
  readonly job_id: string
  readonly workflow: string
  /** null: the job has a definition of its own, which is no version. */
  readonly workflow_version: number | null
  /** The hash of that definition; null: it runs a version. */
  readonly definition: string | null
  readonly owner: string
  /** Of a child job: the job it runs for. */
  readonly parent_id: string | null
  /** Of a fork: the job it was forked from. */
  readonly forked_from: string | null
  /** The tick of a schedule that started it; null: none did. */
  readonly schedule: JobSchedule | null
  readonly status: JobStatus
  readonly output: Json
  /** In lists: the job has an output that is too large for the list. */
  readonly output_left_out?: true
  readonly error: JobError | null
  /** Equal for errors that differ only in numbers, ids and quoted texts. null: no error, or of a release before 0.2. */
  readonly fingerprint: string | null
  /** Of a job that was cancelled or has expired: why. */
  readonly reason: string | null
  /**
   * The usage of all its attempts, failed and aborted ones included. null: for a job with something in flight, in lists
   * and in processes that do not run it; its graph has the usage.
   */
  readonly usage: { readonly [key: string]: number } | null
  /** While its status is PREVIEW, and not in lists: the last partial result of each node that is running. */
  readonly previews?: readonly JobPreview[]
  readonly labels: { readonly [key: string]: string }
  /** What people have noted on the job; null: nothing. */
  readonly note: JobNote | null
  /** Since when no node of the job begins; null: it is not paused. */
  readonly paused: JobPause | null
  readonly priority: number
  readonly created_at: string
  /** Of a delayed job: when it starts, or was to start; null: it started when it was submitted. */
  readonly start_at: string | null
  /** When its state last changed. */
  readonly updated_at: string
  readonly finished_at: string | null
}

export interface JobNote {
  readonly text: string
  readonly at: string
  /** The API token or JWT subject that wrote it; null: neither. */
  readonly by: string | null
}

export interface JobPause {
  readonly at: string
  /** The API token or JWT subject that paused it; null: neither. */
  readonly by: string | null
  readonly reason: string | null
  /** The job was submitted while its workflow was paused, and is resumed with it. */
  readonly of_workflow?: true
}

/** A tick of a schedule. */
export interface JobSchedule {
  readonly name: string
  readonly tick: string
}

function shownSchedule(schedule: JobState["schedule"]): JobSchedule | null {
  return schedule && { name: schedule.name, tick: isoTime(schedule.tick) }
}

function shownNote(note: JobState["note"]): JobNote | null {
  return note && { ...note, at: isoTime(note.at) }
}

function shownPause(paused: JobState["paused"]): JobPause | null {
  return paused && { ...pauseView(paused), at: isoTime(paused.at) }
}

export interface JobPreview {
  readonly node: string
  readonly preview: Json
}

/** The previews of a job whose status is PREVIEW; otherwise nothing. */
export function previewsField(state: JobState): { readonly previews?: readonly JobPreview[] } {
  if (state.status !== "PREVIEW") return {}
  const isAtWork = (node: number) =>
    !["COMPLETED", "FAILED", "CANCELLED"].includes(readNodeStatus(state, node))
  const found = [...state.previews].filter(([node]) => isAtWork(node))
  return { previews: found.map(([node, preview]) => ({ node: state.graph.nodes[node]!.id, preview })) }
}

/** A new job that has become durable. Its snapshots are made on demand: most callers need one of them, or none. */
export class Stored {
  readonly #id: string
  readonly #command: Submit
  readonly #createdAt: number
  readonly #job: LiveJob | "QUEUED" | null

  /** `job`: null if it is in the memory of another process, QUEUED if it waits in the store. */
  constructor(id: string, command: Submit, createdAt: number, job: LiveJob | "QUEUED" | null = null) {
    this.#id = id
    this.#command = command
    this.#createdAt = createdAt
    this.#job = job
  }

  /** The job as it was submitted, whatever has happened since. */
  get began(): JobSnapshot {
    return initialSnapshot(this.#id, this.#command, this.#createdAt, this.#job === "QUEUED")
  }

  /** null: the job has not ended, or this process does not know. */
  get ended(): JobSnapshot | null {
    if (this.#job === null || this.#job === "QUEUED" || this.#job.pendingBatches > 0) return null
    return endSnapshot(this.#job)
  }
}

function initialSnapshot(jobId: string, command: Submit, createdAt: number, isQueued: boolean): JobSnapshot {
  const created_at = isoTime(createdAt)
  const startAt = startTime(command, createdAt)
  const status = isQueued ? "QUEUED" : "PROCESSING"
  return {
    job_id: jobId,
    workflow: command.workflow,
    workflow_version: shownVersion(command),
    definition: command.definition?.hash ?? null,
    owner: command.owner,
    parent_id: null,
    forked_from: command.fork?.job_id ?? null,
    status: startAt === null ? status : "PENDING",
    output: null,
    error: null,
    fingerprint: null,
    reason: null,
    usage: {},
    labels: command.labels ?? {},
    schedule: command.schedule === undefined ? null : shownSchedule(command.schedule),
    note: null,
    paused: command.paused === undefined ? null : shownPause(submittedPause(command.paused, createdAt)),
    priority: command.priority,
    created_at,
    start_at: maybeTime(startAt),
    updated_at: created_at,
    finished_at: null,
  }
}

export function shownVersion({ workflowVersion }: { readonly workflowVersion: number }): number | null {
  return workflowVersion === 0 ? null : workflowVersion
}

/** The dispatch of a job that waited as a row is not recorded: its facts and its row are still QUEUED. */
export function shownStatus({ state: { status }, isQueued }: LiveJob): JobStatus {
  return status === "QUEUED" && !isQueued ? "PROCESSING" : status
}

/** null: a large part of its output is only in the journal. */
export function liveSnapshot(job: LiveJob): JobSnapshot | null {
  const { state } = job
  const output = state.status === "COMPLETED" ? outputInMemory(state) : null
  if (output === undefined) return null
  // A spread in between would make it slow to create, and this is done for each job that somebody waits for.
  const snapshot: JobSnapshot = {
    job_id: job.id,
    workflow: state.workflow,
    workflow_version: shownVersion(state),
    definition: state.definition,
    owner: state.owner,
    parent_id: state.parent?.job_id ?? null,
    forked_from: state.forkedFrom,
    status: shownStatus(job),
    output,
    error: jobError(job.plan, state),
    fingerprint: jobFingerprint(job),
    reason: state.endReason,
    usage: state.usage.size === 0 ? {} : Object.fromEntries(state.usage),
    labels: state.labels,
    schedule: shownSchedule(state.schedule),
    note: shownNote(state.note),
    paused: shownPause(state.paused),
    priority: state.priority,
    created_at: isoTime(state.createdAt),
    start_at: maybeTime(state.startAt),
    updated_at: isoTime(job.projected?.updatedAt ?? state.createdAt),
    finished_at: maybeTime(state.finishedAt),
  }
  return state.status === "PREVIEW" ? { ...snapshot, ...previewsField(state) } : snapshot
}

/** The final snapshot; null unless the job has ended, or as `liveSnapshot`. */
export function endSnapshot(job: LiveJob): JobSnapshot | null {
  return jobHasEnded(job.state.status) ? liveSnapshot(job) : null
}

/** The job has an output, which is only in the journal. */
export function lacksOutput({ status, output }: JobRow): boolean {
  return status === "COMPLETED" && output === null
}

/** `now`: by the engine's clock. */
export function rowSnapshot(row: JobRow, now: number): JobSnapshot {
  const { error, reason, usage, startAt, paused, schedule, note } = readEnd(row)
  // As in `liveSnapshot`.
  const snapshot: JobSnapshot = {
    job_id: row.id,
    workflow: row.workflow,
    workflow_version: shownVersion(row),
    definition: row.definition,
    owner: row.owner,
    parent_id: row.parentId,
    forked_from: row.forkedFrom,
    status: row.status,
    output: row.output === null ? null : JSON.parse(row.output),
    error,
    reason,
    fingerprint: row.fingerprint,
    usage: isIdle(row, now) ? usage : null,
    labels: row.labels === null ? {} : JSON.parse(row.labels),
    schedule: shownSchedule(schedule),
    note: shownNote(note),
    paused: shownPause(paused),
    priority: row.priority,
    created_at: isoTime(row.createdAt),
    start_at: maybeTime(startAt),
    updated_at: isoTime(row.updatedAt),
    finished_at: maybeTime(row.finishedAt),
  }
  return row.outputLeftOut || lacksOutput(row) ? { ...snapshot, output_left_out: true } : snapshot
}
