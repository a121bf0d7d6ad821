import type { ScheduleTick } from "../../core/facts.ts"
import { jobOutput } from "../../core/job-output.ts"
import type { Json } from "../../core/json.ts"
import { type JobState, type Note, type Pause, wholeOutput } from "../../core/state.ts"
import { type JobStatus, jobHasEnded } from "../../core/states.ts"
import { noReason, unknownExpiry } from "../../core/view/reasons.ts"
import type { Plan } from "../../definition/plan.ts"
import { fingerprint } from "../../journal/fingerprint.ts"
import type { JobRow } from "../../journal/port/journal.ts"
import type { LiveJob } from "./live-job.ts"

/** `undefined`: a part of the output is too large for memory, and is read from the journal. */
export function outputInMemory(state: JobState): Json | undefined {
  let isComplete = true
  const output = jobOutput(state, part =>
    wholeOutput(part, () => {
      isComplete = false
      return null
    }),
  )
  return isComplete ? output : undefined
}

/**
 * Limit for the output in the job's row. Ten thousand items can make an output of 100 MB: writing it a second time
 * blocked the event loop for a second, with three copies of it. Above this limit it is read from the journal, which has its parts.
 */
const MAX_ROW_OUTPUT = 1024 * 1024

/** null: there is none, or it is read from the journal. */
export function jobOutputText({ state, size }: LiveJob): string | null {
  if (state.status !== "COMPLETED") return null
  const output = outputInMemory(state)
  // Every part of an output is in a fact: most jobs are too small to be measured.
  if (output === undefined || (size > MAX_ROW_OUTPUT && isLonger(output, MAX_ROW_OUTPUT))) return null
  return JSON.stringify(output)
}

/** Is its text longer than `most`, approximately? Reads no more of the value than necessary. */
function isLonger(value: Json, most: number): boolean {
  let length = 0
  const rest: Json[] = [value]
  while (rest.length > 0 && length <= most) {
    const part = rest.pop()!
    length += typeof part === "string" ? part.length + 2 : 1
    if (typeof part !== "object" || part === null) continue
    if (!Array.isArray(part)) for (const key of Object.keys(part)) length += key.length + 3
    for (const member of Object.values(part)) rest.push(member)
  }
  return length > most
}

export interface JobError {
  readonly code: string
  readonly message: string
  /** The node that caused the error, if one did. */
  readonly node?: string
  /** Of a node with `for_each`: the item, from 0. */
  readonly item?: number
}

export function jobError(plan: Plan, state: JobState): JobError | null {
  const { fault } = state
  if (fault === null) return null
  const { code, message } = fault.fault
  return {
    code,
    message,
    ...(fault.node === undefined ? {} : { node: plan.nodes[fault.node]!.id }),
    ...(fault.item === undefined ? {} : { item: fault.item }),
  }
}

/**
 * The row's column `error`: the error of a job that failed, the reason of one that was cancelled or has expired; and, if
 * there are any, the usage of the job, its start time, its pause, its schedule and its note.
 */
export function jobErrorText({ plan, state }: Pick<LiveJob, "plan" | "state">): string | null {
  const error = jobError(plan, state)
  const reason = state.endReason === null ? null : { reason: state.endReason }
  const { usage, startAt, paused, schedule, note } = state
  if (usage.size === 0 && startAt === null && paused === null && schedule === null && note === null)
    return error === null && reason === null ? null : JSON.stringify(error ?? reason)
  return JSON.stringify({
    ...(error ?? reason),
    usage: usage.size === 0 ? undefined : Object.fromEntries(usage),
    start_at: startAt ?? undefined,
    paused: paused ?? undefined,
    schedule: schedule ?? undefined,
    note: note ?? undefined,
  })
}

/** null: the job has no error. */
export function jobFingerprint({ plan, state }: Pick<LiveJob, "plan" | "state">): string | null {
  const error = jobError(plan, state)
  return error === null ? null : fingerprint(error)
}

/** Reads the end of a job from its row, and the usage of the job when the row was written. */
export function readEnd({ error: text, status }: Pick<JobRow, "error" | "status">): JobEnd {
  const stored = (text === null ? {} : JSON.parse(text)) as StoredEnd
  const { usage = {}, reason = null, start_at = null, paused = null, ...more } = stored
  const { schedule = null, note = null, ...error } = more
  return {
    startAt: start_at,
    paused,
    schedule,
    note,
    error: "code" in error ? (error as JobError) : null,
    reason: reason ?? defaultReasons[status] ?? null,
    usage,
  }
}

export function jobIsPaused(row: Pick<JobRow, "error" | "status">): boolean {
  return readEnd(row).paused !== null
}

/** A text that changes whenever the usage of the job changes. */
export function usageKey({ usage }: JobState): string {
  return usage.size === 0 ? "" : JSON.stringify([...usage])
}

/** A row is written whenever its job becomes idle, so it has all usage; while something is in flight it may lag. */
export function isIdle({ status, wakeAt }: Pick<JobRow, "status" | "wakeAt">, now: number): boolean {
  return jobHasEnded(status) || wakeAt === null || wakeAt > now
}

/** Releases before 0.2 did not store the reason in the row. */
const defaultReasons: { readonly [status in JobStatus]?: string } = {
  CANCELLED: noReason,
  EXPIRED: unknownExpiry,
}

type StoredEnd = Partial<JobError> & {
  readonly reason?: string
  readonly usage?: Usage
  readonly start_at?: number
  readonly paused?: Pause
  readonly schedule?: ScheduleTick
  readonly note?: Note
}

interface JobEnd {
  readonly error: JobError | null
  readonly reason: string | null
  readonly usage: Usage
  readonly startAt: number | null
  readonly paused: Pause | null
  readonly schedule: ScheduleTick | null
  readonly note: Note | null
}

interface Usage {
  readonly [key: string]: number
}
