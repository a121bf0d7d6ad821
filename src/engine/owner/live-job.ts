import type { Broker } from "../../broker/port.ts"
import { wholeMs } from "../../core/attempt-times.ts"
import type { AttemptRef, Command } from "../../core/commands.ts"
import type { Fact, RunningAttempt } from "../../core/facts.ts"
import { findTask } from "../../core/item-list.ts"
import type { Json } from "../../core/json.ts"
import { isInFlight, type JobState, LargeOutput, ListOutput } from "../../core/state.ts"
import type { JobStatus } from "../../core/states.ts"
import type { Progress } from "../../core/view/view.ts"
import type { Plan } from "../../definition/plan.ts"

/** A job in its owner's memory. */
export interface LiveJob {
  readonly id: string
  readonly partition: number
  readonly plan: Plan
  readonly state: JobState
  /** The seq of its last fact. */
  seq: number
  /** When its last fact was decided. */
  at: number
  /** Length of its facts so far, as text. */
  size: number
  /** What the store's projection shows, or will show once the pending batches are durable; undefined: not known for sure. */
  projected: { status: JobStatus; wakeAt: number | null | undefined; updatedAt: number; used: string } | null
  /** Batches that hold facts of this job and are not durable yet. */
  pendingBatches: number
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
}

/** More nodes than any job has. */
const NODES = 2 ** 24

/** A node, or an item of it, as one number: a busy job has thousands of them in sets. */
export function taskKey({ node, item }: { readonly node: number; readonly item?: number }): number {
  return item === undefined ? node : (item + 1) * NODES + node
}

export function parseTaskKey(key: number): { readonly node: number; readonly item?: number } {
  return key < NODES ? { node: key } : { node: key % NODES, item: Math.floor(key / NODES) - 1 }
}

/** The task of the current attempt, as the broker names it; null: there is no such list. */
export function currentTask(
  { id, state }: LiveJob,
  task: { readonly node: number; readonly item?: number },
): {
  readonly jobId: string
  readonly node: number
  readonly item?: number
  readonly attempt: number
} | null {
  const place = findTask(state, task)
  return place === null ? null : { jobId: id, ...task, attempt: place.state.attempt[place.position]! }
}

/** Does the node, or the item, continue under a later attempt? */
export function hasLaterAttempt({ state }: LiveJob, task: Parameters<typeof findTask>[1]): boolean {
  const place = findTask(state, task)
  return place !== null && isInFlight(place.state, place.position)
}

export function newLiveJob(job: {
  id: string
  partition: number
  plan: Plan
  state: JobState
  seq: number
  at: number
  size: number
  projected: LiveJob["projected"]
}): LiveJob {
  // Field by field: a spread of the argument shows in profiles.
  return {
    id: job.id,
    partition: job.partition,
    plan: job.plan,
    state: job.state,
    seq: job.seq,
    at: job.at,
    size: job.size,
    projected: job.projected,
    pendingBatches: 0,
    evicted: false,
    alarmIndex: -1,
    alarmAt: 0,
    progress: null,
    running: new Set(),
    awaitingHandler: null,
    activePolls: null,
    evictingOutputs: null,
    fetched: null,
  }
}

export function decodeFact(row: { readonly type: string; readonly at: number; readonly data: string }): Fact {
  return { ...(JSON.parse(row.data) as Record<string, Json>), type: row.type, at: row.at } as unknown as Fact
}

/** May the command end attempts other than its own? A plain completion never does, and skips this work. */
export function mayEndAttempts({ type }: Command): boolean {
  switch (type) {
    case "failed":
    case "external":
    case "wake":
    case "recover":
    case "hand_over":
    case "fail_job":
    case "cancel":
      return true
    default:
      return false
  }
}

/** The job's attempts whose handler runs now, in this process or, as far as it has reported, in a worker process. */
export function runningAttempts(job: LiveJob, broker: Broker): RunningAttempt[] {
  const found: RunningAttempt[] = []
  for (const key of job.running) {
    const task = parseTaskKey(key)
    const current = currentTask(job, task)
    const running = current === null ? null : broker.runningTask(current)
    if (running === null) continue
    const { ranMs, worker, usage } = running
    found.push({ ...task, ran_ms: wholeMs(ranMs), worker, ...(usage === undefined ? {} : { usage }) })
  }
  return found
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
