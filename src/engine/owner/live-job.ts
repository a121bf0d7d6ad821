import type { Fact, ItemCompleted, NodeCompleted } from "../../core/facts.ts"
import { findTask } from "../../core/item-list.ts"
import type { Json } from "../../core/json.ts"
import { isInFlight, type JobState } from "../../core/state.ts"
import type { JobStatus } from "../../core/states.ts"
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

export interface Progress {
  readonly percent: number | null
  readonly message: string | null
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

/** A fact's `data` column. An output that is already text is inserted unchanged. */
export function encodeFact(fact: Fact, outputText?: string): string {
  if ((fact.type === "node_completed" || fact.type === "item_completed") && outputText !== undefined)
    return encodeCompleted(fact, outputText)
  const { type: _type, at: _at, ...data } = fact
  return JSON.stringify(data)
}

/** By far the commonest fact, encoded by hand. */
function encodeCompleted(fact: NodeCompleted | ItemCompleted, outputText: string): string {
  const ran = fact.ran_ms === 0 ? ',"ran_ms":0' : fact.ran_ms === undefined ? "" : `,"ran_ms":${fact.ran_ms}`
  let text = `{"node":${fact.node},"attempt":${fact.attempt}${ran}`
  if (fact.type === "item_completed") text += `,"item":${fact.item}`
  if (fact.held_ms !== undefined) text += `,"held_ms":${fact.held_ms}`
  if (fact.worker !== undefined) text += `,"worker":${JSON.stringify(fact.worker)}`
  if (fact.usage !== undefined) text += `,"usage":${JSON.stringify(fact.usage)}`
  if (fact.job_output !== undefined) text += `,"job_output":${JSON.stringify(fact.job_output)}`
  if (fact.job_fault !== undefined) text += `,"job_fault":${JSON.stringify(fact.job_fault)}`
  return `${text},"output":${outputText}}`
}

export function decodeFact(row: { readonly type: string; readonly at: number; readonly data: string }): Fact {
  return { ...(JSON.parse(row.data) as Record<string, Json>), type: row.type, at: row.at } as unknown as Fact
}
