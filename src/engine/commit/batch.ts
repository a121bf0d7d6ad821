import { submittedPause } from "../../core/apply/pause.ts"
import type { Effect } from "../../core/effects.ts"
import type { Fact, ItemCompleted, JobSubmitted, NodeCompleted } from "../../core/facts.ts"
import { isBusy, resetEarliestTimer, wakeAt } from "../../core/timers.ts"
import { UmbraError } from "../../errors.ts"
import { fingerprint } from "../../journal/fingerprint.ts"
import type {
  HeldRow,
  JobChange,
  NewDefinition,
  NewFact,
  NewJob,
  NewMessage,
  Batch as StoredBatch,
} from "../../journal/port/journal.ts"
import type { NewFire, ScheduleChange } from "../../journal/port/schedules.ts"
import { jobErrorText, jobFingerprint, jobOutputText, usageKey } from "../owner/job-result.ts"
import type { LiveJob } from "../owner/live-job.ts"
import type { End } from "../statistics/ended-facts.ts"
import type { OperationRows } from "./operation-rows.ts"

/** Facts that are committed together, and the effects to perform after the commit. */
export class Batch {
  readonly facts: NewFact[] = []
  readonly epochs = new Map<number, number>()
  readonly jobs = new Set<LiveJob>()
  /** New jobs that wait as rows. */
  readonly queued: QueuedRow[] = []
  /** Jobs that the database rejected, once the outcome is known. */
  readonly refused = new Set<string>()
  readonly answers: MessageAnswer[] = []
  readonly messages: NewMessage[] = []
  readonly waiters: Waiter[] = []
  /** Effects in the order they were caused, and the job of each. */
  readonly effects: Effect[] = []
  readonly effectJobs: LiveJob[] = []
  bytes = 0
  /** Jobs that ended with facts of this batch, for the statistics. */
  readonly ends: EndedJob[] = []
  /** By partition: the highest seq of the rows of ended jobs in this batch. */
  readonly lastEnded = new Map<number, number>()
  /** Rows to write without a fact: with the error for a quarantined job, null for a job that leaves quarantine. */
  readonly rows = new Map<LiveJob, string | null>()
  /** null: nothing in this batch concerns providers. */
  operations: OperationRows | null = null
  /** What forks of this batch hold; null: there is no fork. */
  holds: Holds | null = null
  /** Ticks of schedules; null: there is none. */
  ticks: Ticks | null = null

  get isEmpty(): boolean {
    const { facts, answers, messages, waiters, rows } = this
    // A waiter must be answered even if the rest of the batch was dropped.
    const isWithoutRows =
      facts.length === 0 && answers.length === 0 && messages.length === 0 && this.ticks === null
    return isWithoutRows && waiters.length === 0 && rows.size === 0
  }

  /**
   * The batch as sent to the store. Called when no further fact can join: every fact applied so far is in this batch or
   * an earlier one, so the live state is exactly what the projection must show.
   */
  close(now: number): ClosedBatch {
    const newJobs: NewJob[] = [...this.queued]
    const changedJobs: JobChange[] = []
    for (const job of this.jobs) {
      if (job.evicted) continue
      makeTimerExact(job)
      if (!projectionChanged(job, now)) continue
      if (job.projected === null) newJobs.push(jobRow(job))
      else changedJobs.push(jobRow(job))
      job.stats = null
      const { status } = job.state
      // Seqs rise from job to job only within a partition, and jobs of a batch are in the order of their first facts.
      if (job.state.finishedAt !== null)
        this.lastEnded.set(job.partition, Math.max(job.seq, this.lastEnded.get(job.partition) ?? 0))
      job.isRelabelled = false
      job.projected = { status, wakeAt: wakeAt(job.state), updatedAt: job.at, used: usageKey(job.state) }
    }
    for (const [job, error] of this.rows)
      if (error !== null && !changedJobs.some(({ id }) => id === job.id))
        changedJobs.push(quarantinedRow(job, error, now))
    const fences = [...this.epochs]
      .map(([partition, epoch]) => ({ partition, epoch }))
      .sort((a, b) => a.partition - b.partition)
    const { facts, answers, messages, operations, holds, ticks } = this
    const rows = operations === null ? {} : { begun: operations.begun, left: operations.left }
    return { fences, facts, newJobs, changedJobs, answers, messages, ...rows, ...holds, ...ticks }
  }

  /** Removes everything of a partition whose memory is discarded. */
  forget(partition: number, error: Error): void {
    if (!this.epochs.delete(partition)) return
    keep(this.facts, fact => fact.partition !== partition)
    keep(this.queued, job => job.partition !== partition)
    keep(this.ends, end => end.partition !== partition)
    keep(this.answers, answer => answer.partition !== partition)
    keep(this.messages, message => message.cause?.partition !== partition)
    for (const job of this.rows.keys()) if (job.partition === partition) this.rows.delete(job)
    this.operations?.keep(row => row.partition !== partition)
    if (this.holds !== null) this.holds = filterHolds(this.holds, row => row.partition !== partition)
    if (this.ticks !== null) this.ticks = filterTicks(this.ticks, row => row.partition !== partition)
    for (const waiter of this.waiters) if (waiter.partition === partition) waiter.reject(error)
  }

  /** Removes everything of an evicted job. */
  drop(jobId: string): void {
    keep(this.facts, fact => fact.jobId !== jobId)
    keep(this.queued, job => job.id !== jobId)
    this.dropEnds(jobId)
    keep(this.answers, answer => answer.jobId !== jobId)
    this.operations?.keep(row => row.jobId !== jobId)
    if (this.holds !== null) this.holds = filterHolds(this.holds, row => holderId(row) !== jobId)
    if (this.ticks !== null)
      this.ticks = filterTicks(this.ticks, row => !("jobId" in row) || row.jobId !== jobId)
  }

  dropEnds(jobId: string): void {
    keep(this.ends, end => end.jobId !== jobId)
  }
}

export interface EndedJob extends End {
  readonly jobId: string
  readonly partition: number
}

/** What forks refer to outside of themselves. */
export interface Holds {
  readonly held: HeldRow[]
  readonly definitions: NewDefinition[]
}

interface Ticks {
  readonly schedules: ScheduleChange[]
  readonly fires: NewFire[]
}

function filterTicks(
  { schedules = [], fires = [] }: Pick<ClosedBatch, "schedules" | "fires">,
  isKept: (row: ScheduleChange | NewFire) => boolean,
): Ticks {
  return { schedules: schedules.filter(isKept), fires: fires.filter(isKept) }
}

function filterHolds(
  { held = [], definitions = [] }: Pick<ClosedBatch, "held" | "definitions">,
  isKept: (row: HeldRow | NewDefinition) => boolean,
): Holds {
  return { held: held.filter(isKept), definitions: definitions.filter(isKept) }
}

function holderId(row: HeldRow | NewDefinition): string {
  return "by" in row ? row.by : row.jobId
}

/** The row of a job that waits for a place in memory, or for its start time. */
export interface QueuedRow extends NewJob {
  /** Its only one. */
  readonly fact: NewFact
  readonly ttlSeconds: number | null
}

export interface QueuedSubmission {
  readonly id: string
  readonly partition: number
  readonly fact: JobSubmitted & { readonly at: number }
  readonly wakeAt: number | null
}

export function queuedRow({ id, partition, fact, wakeAt }: QueuedSubmission, stored: NewFact): QueuedRow {
  const { at, labels } = fact
  return {
    id,
    partition,
    seq: stored.seq,
    status: fact.start_at === undefined ? "QUEUED" : "PENDING",
    updatedAt: at,
    finishedAt: null,
    wakeAt,
    output: null,
    error: rowText(fact),
    fingerprint: null,
    owner: fact.owner,
    workflow: fact.workflow,
    workflowVersion: fact.workflow_version ?? 0,
    parentId: null,
    labels: labels !== undefined && hasKeys(labels) ? JSON.stringify(labels) : null,
    priority: fact.priority,
    createdAt: at,
    submittedBy: fact.submitted_by ?? null,
    forkedFrom: fact.fork?.job_id ?? null,
    definition: fact.definition ?? null,
    ttlSeconds: fact.ttl_seconds,
    fact: stored,
  }
}

/** The column `error`, as `jobErrorText` gives it for a job in memory. */
function rowText({ at, start_at, paused, schedule }: QueuedSubmission["fact"]): string | null {
  if (start_at === undefined && paused === undefined && schedule === undefined) return null
  return JSON.stringify({
    start_at,
    paused: paused === undefined ? undefined : submittedPause(paused, at),
    schedule,
  })
}

interface MessageAnswer {
  readonly messageId: number
  readonly partition: number
  readonly jobId: string
  readonly answer: string
}

/** The batch as sent to the store, with the job of each answer: a rejected job gets no answer either. */
export interface ClosedBatch extends StoredBatch {
  readonly answers: readonly MessageAnswer[]
}

/** Filters in place, without a spread: a batch may hold more facts than a call can have arguments. */
function keep<T>(list: T[], isKept: (item: T) => boolean): void {
  let length = 0
  for (const item of list) if (isKept(item)) list[length++] = item
  list.length = length
}

export interface Waiter {
  readonly partition: number
  /** The epoch with which this engine owned the partition when the waiter was added; undefined: it did not own it. */
  readonly epoch: number | undefined
  readonly jobId: string
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/**
 * An idle job may leave memory; then only the alarm in its row brings it back. An alarm that is too early would be
 * used up before its time, and there is no second one.
 */
function makeTimerExact({ state }: LiveJob): void {
  if (!isBusy(state) && state.finishedAt === null) resetEarliestTimer(state)
}

/** A busy job's alarm may be any time in the past: the next owner of the partition loads the job in any case. */
function projectionChanged(job: LiveJob, now: number): boolean {
  const { projected } = job
  if (projected === null || projected.status !== job.state.status) return true
  const wake = wakeAt(job.state)
  if (wake === projected.wakeAt) return !isBusy(job.state) && usageKey(job.state) !== projected.used
  return !(isBusy(job.state) && typeof projected.wakeAt === "number" && projected.wakeAt <= now)
}

/**
 * `wake_at` of a quarantined job: due, so the next owner of its partition loads it, and only this job. In this process
 * the cursor over due jobs has already passed it.
 */
export const QUARANTINED_AT = 1

/** The job's state may be half changed: the row keeps its status. */
function quarantinedRow(job: LiveJob, error: string, now: number): JobChange {
  const { id, partition, seq, state } = job
  const { owner, workflow, workflowVersion, createdAt, labels } = state
  return {
    ...{ id, partition, seq, status: job.projected!.status, updatedAt: now },
    ...{ finishedAt: null, wakeAt: QUARANTINED_AT, output: null, error },
    ...{ owner, workflow, workflowVersion, createdAt },
    fingerprint: fingerprint(JSON.parse(error)),
    labels: hasKeys(labels) ? JSON.stringify(labels) : null,
  }
}

/** Written out: an object that is spread and gets more fields is a hash table, ten times as large. */
function jobRow(job: LiveJob): NewJob {
  const { state } = job
  const { labels } = state
  return {
    id: job.id,
    partition: job.partition,
    seq: job.seq,
    status: state.status,
    updatedAt: job.at,
    finishedAt: state.finishedAt,
    wakeAt: wakeAt(state),
    output: jobOutputText(job),
    error: jobErrorText(job),
    fingerprint: jobFingerprint(job),
    stats: job.stats,
    owner: state.owner,
    workflow: state.workflow,
    workflowVersion: state.workflowVersion,
    createdAt: state.createdAt,
    labels: hasKeys(labels) ? JSON.stringify(labels) : null,
    isRelabelled: job.isRelabelled,
    parentId: state.parent?.job_id ?? null,
    priority: state.priority,
    submittedBy: state.submittedBy,
    forkedFrom: state.forkedFrom,
    definition: state.definition,
  }
}

function hasKeys(object: object): boolean {
  for (const _ in object) return true
  return false
}

export function without(stored: ClosedBatch, jobId: string): ClosedBatch {
  return filtered(stored, id => id !== jobId)
}

export function withoutPartition(stored: ClosedBatch, partition: number): ClosedBatch {
  const isOther = (row: { readonly partition: number }) => row.partition !== partition
  return {
    fences: stored.fences.filter(isOther),
    facts: stored.facts.filter(isOther),
    newJobs: stored.newJobs.filter(isOther),
    changedJobs: stored.changedJobs.filter(isOther),
    answers: stored.answers.filter(isOther),
    messages: stored.messages.filter(message => message.cause?.partition !== partition),
    begun: stored.begun?.filter(isOther) ?? [],
    left: stored.left?.filter(isOther) ?? [],
    ...filterHolds(stored, isOther),
    ...filterTicks(stored, isOther),
  }
}

export function filtered(stored: ClosedBatch, keep: (jobId: string) => boolean): ClosedBatch {
  return {
    fences: stored.fences,
    facts: stored.facts.filter(fact => keep(fact.jobId)),
    newJobs: stored.newJobs.filter(job => keep(job.id)),
    changedJobs: stored.changedJobs.filter(job => keep(job.id)),
    answers: stored.answers.filter(answer => keep(answer.jobId)),
    messages: stored.messages.filter(message => keep(message.jobId)),
    begun: stored.begun?.filter(row => keep(row.jobId)) ?? [],
    left: stored.left?.filter(row => keep(row.jobId)) ?? [],
    ...filterHolds(stored, row => keep(holderId(row))),
    // A tick is decided even if the database rejects its job.
    ...filterTicks(stored, row =>
      "jobId" in row ? keep(row.scheduleId) && (row.jobId === null || keep(row.jobId)) : keep(row.id),
    ),
  }
}

/** A fact's `data` column. An output that is already text is inserted unchanged. */
export function encodeFact(fact: Fact, outputText?: string): string {
  if ((fact.type === "node_completed" || fact.type === "item_completed") && outputText !== undefined)
    return encodeCompleted(fact, outputText)
  // A field that is undefined is left out of the text. A rest pattern, which removes it, is much slower.
  return JSON.stringify({ ...fact, type: undefined, at: undefined })
}

/** By far the commonest fact, encoded by hand. */
function encodeCompleted(fact: NodeCompleted | ItemCompleted, outputText: string): string {
  const ran = fact.ran_ms === 0 ? ',"ran_ms":0' : fact.ran_ms === undefined ? "" : `,"ran_ms":${fact.ran_ms}`
  let text = `{"node":${fact.node},"attempt":${fact.attempt}${ran}`
  if (fact.type === "item_completed") text += `,"item":${fact.item}`
  if (fact.held_ms !== undefined) text += `,"held_ms":${fact.held_ms}`
  if (fact.log_lines !== undefined) text += `,"log_lines":${fact.log_lines}`
  if (fact.log_run !== undefined) text += `,"log_run":${fact.log_run}`
  if (fact.worker !== undefined) text += `,"worker":${JSON.stringify(fact.worker)}`
  if (fact.usage !== undefined) text += `,"usage":${JSON.stringify(fact.usage)}`
  if (fact.job_output !== undefined) text += `,"job_output":${JSON.stringify(fact.job_output)}`
  if (fact.job_fault !== undefined) text += `,"job_fault":${JSON.stringify(fact.job_fault)}`
  return `${text},"output":${outputText}}`
}

/** A partition that this engine owns. */
export interface OwnedPartition {
  readonly epoch: number
  nextSeq: number
  /** It is being handed over: its next owner dispatches what is ready. */
  isDeparting?: boolean
}

export function partitionMoved(partition: number): UmbraError {
  return new UmbraError(
    "E610",
    `Partition ${partition} is now owned by another engine; send the command again.`,
  )
}
