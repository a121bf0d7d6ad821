import type { Broker, RunningTask, TaskName } from "../../broker/port.ts"
import { wholeMs } from "../../core/attempt-times.ts"
import type { AttemptRef, Command } from "../../core/commands.ts"
import type { Fact, RunningAttempt } from "../../core/facts.ts"
import type { Json } from "../../core/json.ts"
import {
  findTask,
  isInFlight,
  type JobPhase,
  type JobState,
  jobPhase,
  LargeOutput,
  ListOutput,
  parseTaskKey,
  type TaskRef,
  taskKey,
} from "../../core/state.ts"
import type { JobStatus } from "../../core/states.ts"
import type { Progress } from "../../core/view/view.ts"
import type { Plan } from "../../definition/plan.ts"
import type { OwnedPartition } from "../commit/batch.ts"
import type { Place } from "./job-queue.ts"
import type { PendingDecisions } from "./reports.ts"

/** A job in its owner's memory. */
export interface LiveJob {
  readonly id: string
  readonly partition: number
  readonly plan: Plan
  readonly state: JobState
  /** The seq of its last fact. */
  seq: number
  /** The seq of the fact with which it last began, ended, was retried or deleted; 0: it has no fact yet. */
  turnSeq: number
  /** Its phase after that fact. */
  phase: JobPhase
  /** When its last fact was decided. */
  at: number
  /** Length of its facts so far, as text. */
  size: number
  /** What the store's projection shows, or will show once the pending batches are durable; undefined: not known for sure. */
  projected: { status: JobStatus; wakeAt: number | null | undefined; updatedAt: number; used: string } | null
  /** What the statistics count of its last end, until its row has it. */
  stats: string | null
  /** Batches that hold facts of this job and are not durable yet. */
  pendingBatches: number
  /** Callers of `PartitionOwner.withJob` that use it now: it stays in memory. */
  users: number
  /** Discarded (fenced, parked, quarantined): code that still refers to the job must stop using it. */
  evicted: boolean
  /** Index in the alarm heap; -1: no alarm is set. */
  alarmIndex: number
  alarmAt: number
  /** Latest progress by task; never stored. */
  progress: Map<number, Progress> | null
  /** Keys of the tasks that a worker has right now. */
  readonly running: Set<number>
  /** Keys of ready tasks without a registered handler. */
  awaitingHandler: Set<number> | null
  /** Polls of operations in flight, by task. */
  activePolls: Map<number, AbortController> | null
  /** Keys of tasks whose output leaves memory as soon as it is durable: code that reads it now must keep a copy. */
  evictingOutputs: Set<number> | null
  /** Large outputs that the items of a node with `for_each` read, fetched once for all items. */
  fetched: Map<number, Promise<ReadonlyMap<number, Json>>> | null
  /** Hashes of artifacts that its checked facts refer to, as far as they were recorded here: it holds these. */
  artifacts: Set<string> | null
  /** It waits as a row for a place in memory; code that uses it now must not dispatch it. */
  isQueued: boolean
  /** Its labels have changed since its row was written. */
  isRelabelled: boolean
  /** Its place in the window of its queue; null: something has happened to it, or it needs none. */
  place: Place | null
}

/** What the parts of an owner may do to its jobs. */
export interface JobOwner {
  readonly jobs: ReadonlyMap<string, LiveJob>
  readonly owned: ReadonlyMap<number, OwnedPartition>
  readonly pendingDecisions: PendingDecisions
  /** For callers that need no answer. An unexpected error quarantines the job. */
  command(job: LiveJob, command: Command, outputText?: string): void
  /** Resolves when everything recorded of the job is durable. Rejects if this engine loses the partition before that. */
  durable(job: LiveJob): Promise<void>
  /** Called after an unexpected error: the job cannot continue. */
  quarantine(job: LiveJob, error: unknown): void
}

/** The task of the current attempt, as the broker names it; null: there is no such list. */
export function currentTask({ id, state }: LiveJob, { node, item }: TaskRef): TaskName | null {
  const place = findTask(state, { node, item })
  return place === null ? null : { jobId: id, node, item, attempt: place.state.attempt[place.position]! }
}

/** Does the node, or the item, continue under a later attempt? */
export function hasLaterAttempt({ state }: LiveJob, task: TaskRef): boolean {
  const place = findTask(state, task)
  return place !== null && isInFlight(place.state, place.position)
}

/** The optional fields are absent for a job that has no facts yet. */
type NewLiveJob = Pick<LiveJob, "id" | "partition" | "plan" | "state"> &
  Partial<Pick<LiveJob, "seq" | "turnSeq" | "at" | "size" | "projected">>

export function newLiveJob(job: NewLiveJob): LiveJob {
  // Field by field: a spread of the argument shows in profiles.
  return {
    id: job.id,
    partition: job.partition,
    plan: job.plan,
    state: job.state,
    seq: job.seq ?? 0,
    turnSeq: job.turnSeq ?? 0,
    phase: jobPhase(job.state),
    at: job.at ?? 0,
    size: job.size ?? 0,
    projected: job.projected ?? null,
    stats: null,
    pendingBatches: 0,
    users: 0,
    evicted: false,
    alarmIndex: -1,
    alarmAt: 0,
    progress: null,
    running: new Set(),
    awaitingHandler: null,
    activePolls: null,
    artifacts: null,
    evictingOutputs: null,
    fetched: null,
    isQueued: job.state.status === "QUEUED",
    isRelabelled: false,
    place: null,
  }
}

export function decodeFact(row: { readonly type: string; readonly at: number; readonly data: string }): Fact {
  // Not copied: to spread the fields into a new object takes longer than to parse them.
  const fact = JSON.parse(row.data) as Record<string, Json>
  fact.type = row.type
  fact.at = row.at
  return fact as unknown as Fact
}

/** The job's attempts whose handler runs now, in this process or, as far as it has reported, in a worker process. */
export function runningAttempts(job: LiveJob, broker: Broker): RunningAttempt[] {
  const found: RunningAttempt[] = []
  for (const key of job.running) {
    const task = parseTaskKey(key)
    const current = currentTask(job, task)
    const running = current === null ? null : broker.runningTask(current)
    if (running !== null) found.push(runningAttempt(task, running))
  }
  return found
}

export function runningAttempt(
  { node, item }: TaskRef,
  { ranMs, worker, usage }: RunningTask,
): RunningAttempt {
  return {
    node,
    item,
    ran_ms: wholeMs(ranMs),
    worker,
    usage,
  }
}

/**
 * Evicts an output that is too large for memory as soon as it is durable; it is read from the journal when needed.
 * Called right after its fact was recorded.
 */
export function evictOutput(
  job: LiveJob,
  completed: AttemptRef,
  bytes: number,
  durable: Promise<void>,
): void {
  const large = new LargeOutput(job.seq, bytes)
  const { state, position } = findTask(job.state, completed)!
  const key = taskKey(completed)
  job.evictingOutputs ??= new Set()
  job.evictingOutputs.add(key)
  durable.then(
    () => {
      job.evictingOutputs?.delete(key)
      state.outputs[position] = large
      const whole = job.state.outputs[completed.node]
      if (whole instanceof ListOutput) whole.partLeft()
    },
    () => {},
  )
}

/**
 * When nodes of this engine's jobs last died alone, and whether another node did so since a given one began. After a
 * restart the deaths are read from the jobs that are folded. None is missed: of two nodes the one that died later waits
 * behind the other in its process, so its job is in flight at least as long.
 */
export class DeathsAlone {
  /** The latest two deaths, of different nodes. */
  #latest: Death = none
  #second: Death = none

  learn({ id, state }: LiveJob): void {
    this.#learn(state, node => taskName(id, { node }))
    for (const [node, list] of state.lists) this.#learn(list.state, item => taskName(id, { node, item }))
  }

  #learn({ suspects }: JobState, formatName: (position: number) => string): void {
    for (const [position, { diedAt }] of suspects) if (diedAt > 0) this.note(formatName(position), diedAt)
  }

  note(name: string, at: number): void {
    if (name === this.#latest.name) this.#latest = { name, at: Math.max(at, this.#latest.at) }
    else if (at >= this.#latest.at) {
      this.#second = this.#latest
      this.#latest = { name, at }
    } else if (at > this.#second.at) this.#second = { name, at }
  }

  latestOther({ id }: LiveJob, of: TaskRef): number {
    return this.#latest.name === taskName(id, of) ? this.#second.at : this.#latest.at
  }
}

interface Death {
  readonly name: string
  readonly at: number
}

const none: Death = { name: "", at: Number.NEGATIVE_INFINITY }

function taskName(jobId: string, of: TaskRef): string {
  return `${jobId}/${taskKey(of)}`
}
