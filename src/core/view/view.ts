import { isRunningAt } from "../attempt-times.ts"
import type { ExternalWaiting, Waiting } from "../facts.ts"
import { executionsFullIn, type Fault } from "../faults.ts"
import type { Json, JsonObject } from "../json.ts"
import type { DeadLettersView, RouteView } from "../pipeline/view.ts"
import type { Adjacency, RuleNode } from "../plan.ts"
import {
  FAILED,
  hasCompleted,
  isDelayed,
  isDone,
  type JobState,
  type Pause,
  PENDING,
  QUEUED,
  RUNNING,
  readNodeStatus,
  resumeToken,
  WAITING,
} from "../state.ts"
import { type JobStatus, jobHasEnded, type NodeStatus } from "../states.ts"
import { nextTimer } from "../timers.ts"
import { type AttemptFields, attemptFields } from "./attempt-view.ts"
import { type ItemCounts, itemCounts } from "./item-view.ts"
import { isBegun, type LiveGraph, readyQueue, waitingFor, workflowStatus } from "./live-view.ts"
import { reasonField } from "./reasons.ts"

/**
 * A job's shadow graph as JSON for people and programs: `GET /jobs/{id}/graph` and the CLI. Times are milliseconds
 * since 1970; src/jobs/iso-times.ts formats them for callers.
 *
 * 1. Nothing here is stored and nothing is decided: it is computed from the state, which is folded from facts, and a
 *    time. What is never recorded is in the live overlay (live-view.ts).
 * 2. `progress_pct` never falls, and is 100 only for a job that completed: it counts nodes that are done for ever.
 */

/** A handler's report on its progress. The latest wins; never stored. */
export interface Progress {
  /** 0 to 100; null: not known. */
  readonly percent: number | null
  readonly message: string | null
}

/**
 * The status of the job as a whole; null before it begins and after it has ended.
 * RUNNING: a node is RUNNING. In the graph alone that is a node whose start was recorded; with the overlay merged in, one
 * whose handler runs.
 * READY_TO_RESUME: no node is RUNNING, and at least one is ready for a worker.
 * WAITING_SINGLE, WAITING_PARALLEL: no node is RUNNING or ready; one node or item, or several, wait for a time, a signal,
 * a provider or a slot of one, or a place among the executions.
 */
export type WorkflowStatus = "RUNNING" | "WAITING_SINGLE" | "WAITING_PARALLEL" | "READY_TO_RESUME"

/** Why a node does not run right now. */
export type WaitingOn =
  | { readonly kind: "dependencies"; readonly nodes: readonly string[] }
  | { readonly kind: "retry"; readonly at: number }
  | { readonly kind: "timer"; readonly until: number }
  | {
      readonly kind: "signal"
      readonly name: string
      readonly until: number | null
      readonly default?: Json
      /** JSON Schema of the data that is accepted. Absent: any. */
      readonly schema?: JsonObject
    }
  | {
      readonly kind: "child"
      readonly job_id: string
      readonly workflow: string
      readonly workflow_version: number
    }
  /** Items of `for_each`, none of which runs: how many wait, for what, and the latest time of the first. */
  | {
      readonly kind: "items"
      readonly waiting: number
      readonly until: number | null
      readonly waits: ItemWaits
    }
  | {
      readonly kind: "external"
      readonly provider: string
      readonly external_id: string
      readonly next_poll_at: number | null
      readonly until: number | null
      readonly polls: number
      /** When the last poll ended; null: there was none. */
      readonly last_poll_at: number | null
      /** Why the last poll of the operation failed. */
      readonly poll_error: ErrorView | null
    }
  /** `position`: in the queue for the slot, from 1; null in the graph without its overlay. */
  | { readonly kind: "slot"; readonly provider: string; readonly position: number | null }
  /** A place in the rate of the provider. `until`: there is none before this time, pauses that the provider requested included. Part of the live overlay only. */
  | { readonly kind: "rate"; readonly provider: string; readonly until: number | null }
  /** A place for the execution of this pipeline: `limit` executions are running (max_executions). */
  | { readonly kind: "executions"; readonly pipeline: string; readonly limit: number }
  /** The job is paused: the node is ready, or would continue, when the job is resumed. */
  | ({ readonly kind: "paused" } & PauseView)
  /** The start time of the job: no node begins before it. */
  | { readonly kind: "start_time"; readonly until: number }
  /** A worker with this handler; with `provider`, one that also knows that provider. */
  | WorkerWait

/** How many items wait for each of these; kinds without waiting items are left out. */
export type ItemWaits = {
  readonly [kind in Waiting["kind"] | "retry" | "executions" | "slot" | "paused"]?: number
}

/** Since when no node of the job begins. */
export interface PauseView {
  readonly at: number
  /** The API token or JWT subject that paused it; null: neither. */
  readonly by: string | null
  readonly reason: string | null
  /** The job was submitted while its workflow was paused, and is resumed with it. */
  readonly of_workflow?: true
}

export interface WorkerWait extends Partial<TaskWait> {
  readonly kind: "worker"
  readonly handler: string
  readonly provider?: string
  /** For a pipeline that its owning process cannot run: adapters that are missing there. */
  readonly adapters?: readonly string[]
  /** For such a pipeline: the process has no Redis to reach workers. */
  readonly redis?: true
}

/** Why no handler has begun a task that is ready: part of the live overlay only. */
export interface TaskWait {
  /**
   * busy: live workers have the handler, but no free place. none: no live worker has the handler. refused: a worker
   * rejected the task. isolated: its process died during an earlier attempt, so it waits to run alone. owner_away: no
   * live engine owns the job, so no worker gets its tasks. job_queue: the job is QUEUED behind others of its owner,
   * workflow and time to live, and is not dispatched yet. dispatching: its facts are being stored, its config is rendered, or its start is being stored. moving: another engine
   * is about to take the job over, or this one has just begun to. unknown: the engine has lost the task, which is a defect.
   */
  readonly reason:
    | "busy"
    | "none"
    | "refused"
    | "isolated"
    | "owner_away"
    | "job_queue"
    | "dispatching"
    | "moving"
    | "unknown"
  /** busy: tasks that wait in the same queue, this one included. */
  readonly queued?: number
  /** busy: the place of this task among them, from 1. job_queue: the place of the job among the QUEUED ones. */
  readonly position?: number
  /** job_queue: only so many were counted; the position may be later. */
  readonly position_is_minimum?: true
  /** none: the worker that had the handler last; null: none is known. */
  readonly last_worker?: string | null
  /** none: when that worker last reported. owner_away: when the engine that owned the job did. */
  readonly last_seen_at?: number | null
  /** refused: the worker's message. none: why no worker can be reached. owner_away: the engine that is not reachable. */
  readonly cause?: string
}

export interface ErrorView {
  readonly code: string
  readonly message: string
  readonly details?: JsonObject
  /** For a job: the node that failed. For a node: the one whose failure made it fail. */
  readonly node?: string
  /** The item of the node that failed, counted from 0. */
  readonly item?: number
}

/** Of a node, or of an item. */
export interface TaskView extends AttemptFields {
  readonly status: NodeStatus
  /** CANCELLED: why. */
  readonly reason?: string
  readonly waiting_on: WaitingOn | null
  readonly error: ErrorView | null
  /** Never recorded: null in the graph without its overlay. */
  readonly progress: Progress | null
  readonly preview?: Json
  /** The job that does this node's work, once there is one. */
  readonly child_job_id?: string
  /** Of a fork: the job whose result of this node it has taken over. */
  readonly reused_from?: string
  /** Of a fork: its output was set by the request. */
  readonly pinned?: true
}

export interface NodeView extends TaskView {
  readonly id: string
  readonly handler: string
  /** Dependencies that are not done. */
  readonly incoming: number
  /** For a node with `for_each`: how many of its items are in each state. */
  readonly items?: ItemCounts
}

export interface GraphView {
  readonly status: JobStatus
  /** The job that it was forked from; absent: none. */
  readonly forked_from?: string
  readonly workflow_status: WorkflowStatus | null
  /** Absent: the job is not paused. */
  readonly paused?: PauseView
  /** X1: changes with each resume. */
  readonly resume_token: string
  readonly progress_pct: number
  readonly nodes: readonly NodeView[]
  readonly edges: readonly { readonly from: string; readonly to: string }[]
  /** Ready for a worker, but with none yet. */
  readonly ready_queue: readonly string[]
  readonly waiting_for: readonly (WaitingOn & { readonly node: string })[]
  /** Nodes begun and not done, and nodes done (COMPLETED or SKIPPED). */
  readonly pending_operations: number
  readonly completed_operations: number
  readonly usage: { readonly [key: string]: number }
  /** For a pipeline. */
  readonly routes?: readonly RouteView[]
  /** For a pipeline. */
  readonly dead_letters?: DeadLettersView
  /** What is never recorded. null: not known; absent: the job has ended. */
  readonly live?: LiveGraph | null
  /** Operations with an unknown id that may be running at a provider. From the store, not from facts. */
  readonly unseen_operations?: readonly UnseenOperation[]
}

/** The job ended while its submission was in flight, and the submission was not answered. */
export interface UnseenOperation {
  readonly node: string
  readonly item?: number
  readonly provider: string
  /** When the job ended. */
  readonly since: number
  /** Until when it holds a slot of its provider. */
  readonly held_until: number
}

/** `now`: retry times up to this count as due. */
export function graphView(state: JobState, { now }: { readonly now: number }): GraphView {
  const nodes = state.graph.nodes.map((_, node) => nodeView(state, node, now))
  const isOpen = state.status !== "PENDING" && !jobHasEnded(state.status)
  return {
    status: state.status,
    ...(state.forkedFrom === null ? {} : { forked_from: state.forkedFrom }),
    workflow_status: isOpen ? workflowStatus(nodes) : null,
    ...(state.paused === null ? {} : { paused: pauseView(state.paused) }),
    resume_token: resumeToken(state),
    progress_pct: progressPercent(state),
    nodes,
    edges: graphEdges(state),
    ready_queue: readyQueue(nodes),
    waiting_for: waitingFor(nodes),
    pending_operations: nodes.filter(({ status }) => isBegun(status)).length,
    completed_operations: nodes.length - state.unfinished,
    usage: Object.fromEntries(state.usage),
  }
}

export function nodeView(state: JobState, node: number, now: number): NodeView {
  const { id, handler } = state.graph.nodes[node]!
  const preview = state.previews.get(node)
  const child = state.children.get(node)
  const status = shownStatus(state, node, now)
  return {
    id,
    handler,
    status,
    ...reasonField(state, status),
    ...attemptFields(state, node, now),
    incoming: Math.max(0, state.remaining[node]!),
    waiting_on: waitingOn(state, node, now),
    error: nodeError(state, node),
    progress: null,
    ...(preview === undefined ? {} : { preview }),
    ...(child === undefined ? {} : { child_job_id: child }),
    ...reusedField(state, node),
    ...(state.lists.has(node) ? { items: itemCounts(state.lists.get(node)!, now) } : {}),
  }
}

/** Of a node, or of an item. */
export function reusedField({ reused }: JobState, node: number): Pick<NodeView, "reused_from" | "pinned"> {
  const from = reused.size === 0 ? undefined : reused.get(node)
  if (from === undefined) return {}
  return from === null ? { pinned: true } : { reused_from: from }
}

/** The shown status of a node with `for_each` follows its items: RUNNING if one runs, else QUEUED if one is ready for a worker. */
export function shownStatus(state: JobState, node: number, now: number): NodeStatus {
  const list = state.nodeStatus[node] === WAITING ? state.lists.get(node)?.state : undefined
  if (list === undefined) return shownTaskStatus(state, node, now)
  if (runsItem(list, now)) return "RUNNING"
  return hasReadyItem(list, now) ? "QUEUED" : "WAITING"
}

/** Of a node without items, or of an item: QUEUED until its handler is known to have begun. */
export function shownTaskStatus(state: JobState, position: number, now: number): NodeStatus {
  const status = readNodeStatus(state, position)
  return status === "RUNNING" && !isRunningAt(state, position, now) ? "QUEUED" : status
}

function runsItem(list: JobState, now: number): boolean {
  for (const item of list.started.keys()) if (isRunningAt(list, item, now)) return true
  return false
}

function hasReadyItem({ active, retryAt, paused }: JobState, now: number): boolean {
  if (active > 0 || paused !== null) return active > 0
  for (const at of retryAt.values()) if (at <= now) return true
  return false
}

/** null: its handler runs, or it has ended. */
export function waitingOn(state: JobState, node: number, now: number): WaitingOn | null {
  switch (state.nodeStatus[node]) {
    case PENDING:
      if (state.remaining[node] === 0 && isDelayed(state)) return startWait(state)
      return { kind: "dependencies", nodes: openDependencies(state, node) }
    case QUEUED: {
      const provider = state.awaitingSlot.get(node)
      if (provider !== undefined) return { kind: "slot", provider, position: null }
      const at = state.retryAt.get(node)
      if (state.held.has(node)) return pausedWait(state)
      if (at === undefined) return workerWait(state.graph.nodes[node]!)
      if (at <= now) return pausedWait(state) ?? workerWait(state.graph.nodes[node]!)
      return executionsView(state.faults.get(node)?.fault) ?? { kind: "retry", at }
    }
    case WAITING: {
      const list = state.lists.get(node)?.state
      if (list !== undefined) return itemsWait(state, node, list, now)
      const waiting = state.waiting.get(node)!
      if (waiting.kind === "external") return operationView(state, node, waiting)
      const isDue = waiting.until !== undefined && waiting.until <= now
      return (isDue ? pausedWait(state) : null) ?? waitView(waiting, state.graph.nodes[node]!)
    }
    case RUNNING:
      return isRunningAt(state, node, now) ? null : workerWait(state.graph.nodes[node]!)
    default:
      return null
  }
}

/** The first nodes of a delayed job. While it is paused it does not start, whatever the time. */
function startWait(state: JobState): WaitingOn {
  return pausedWait(state) ?? { kind: "start_time", until: state.startAt! }
}

/** null: the job is not paused. */
function pausedWait({ paused }: JobState): WaitingOn | null {
  return paused === null ? null : { kind: "paused", ...pauseView(paused) }
}

export function pauseView({ at, by, reason, ofWorkflow }: Pause): PauseView {
  if (!ofWorkflow) return { at, by, reason }
  const text = reason === null ? "workflow paused" : `workflow paused: ${reason}`
  return { at, by, reason: text, of_workflow: true }
}

function itemsWait(state: JobState, node: number, list: JobState, now: number): WaitingOn | null {
  if (runsItem(list, now)) return null
  if (hasReadyItem(list, now)) return workerWait(state.graph.nodes[node]!)
  return { kind: "items", waiting: waitingItems(list), until: nextTimer(list), waits: itemWaits(list) }
}

/** How many items wait for what. */
function itemWaits({ waiting, retryAt, awaitingSlot, held, faults }: JobState): ItemWaits {
  const counts: { -readonly [kind in keyof ItemWaits]: number } = {}
  const count = (kind: keyof ItemWaits) => {
    counts[kind] = (counts[kind] ?? 0) + 1
  }
  for (const { kind } of waiting.values()) count(kind)
  for (const item of retryAt.keys())
    count(executionsFullIn(faults.get(item)?.fault) === null ? "retry" : "executions")
  if (awaitingSlot.size > 0) counts.slot = awaitingSlot.size
  if (held.size > 0) counts.paused = held.size
  return counts
}

/** null: it waits for another reason. */
function executionsView(fault: Fault | undefined): WaitingOn | null {
  const place = executionsFullIn(fault)
  return place === null ? null : { kind: "executions", ...place }
}

/** What a ready task waits for, according to facts. */
export function workerWait({ handler, provider }: RuleNode): WorkerWait {
  return provider == null ? { kind: "worker", handler } : { kind: "worker", handler, provider }
}

function waitingItems({ waiting, retryAt, awaitingSlot, held }: JobState): number {
  return waiting.size + retryAt.size + awaitingSlot.size + held.size
}

function operationView(state: JobState, node: number, waiting: ExternalWaiting): WaitingOn {
  const polls = state.polls.get(node)
  return {
    kind: "external",
    provider: waiting.provider,
    external_id: waiting.external_id,
    next_poll_at: state.pollAt.get(node) ?? null,
    until: waiting.until ?? null,
    polls: polls?.count ?? 0,
    last_poll_at: polls?.at ?? null,
    poll_error: polls?.fault ? errorView(state, polls.fault, {}) : null,
  }
}

/** `default` only where there is one: without, the node fails at `until`. */
function waitView(waiting: Exclude<Waiting, ExternalWaiting>, { signal }: RuleNode): WaitingOn {
  switch (waiting.kind) {
    case "timer":
      return { kind: "timer", until: waiting.until }
    case "signal": {
      const { kind, name, until = null, default: otherwise } = waiting
      const schema = signal?.name === name ? signal.schema : waiting.schema
      return {
        ...{ kind, name, until },
        ...(otherwise === undefined ? {} : { default: otherwise }),
        ...(schema === undefined ? {} : { schema }),
      }
    }
    case "child": {
      const { kind, job_id, workflow, workflow_version } = waiting
      return { kind, job_id, workflow, workflow_version }
    }
  }
}

function openDependencies(state: JobState, node: number): string[] {
  return neighbours(state.graph.dependencies, node)
    .filter(dependency => !isDone(state, dependency))
    .map(dependency => state.graph.nodes[dependency]!.id)
}

function neighbours({ starts, items }: Adjacency, node: number): number[] {
  return Array.from(items.subarray(starts[node], starts[node + 1]))
}

/** A node that is done does not show its earlier failures. Waiting for a place among the executions is not a failure. */
export function nodeError(state: JobState, node: number): ErrorView | null {
  const failed = state.faults.get(node)
  if (failed === undefined || isDone(state, node)) return null
  if (state.nodeStatus[node] !== FAILED && executionsFullIn(failed.fault) !== null) return null
  return errorView(state, failed.fault, { node: failed.cause, item: failed.item })
}

function errorView(
  state: JobState,
  fault: Fault,
  { node, item }: { readonly node?: number | undefined; readonly item?: number | undefined },
): ErrorView {
  return {
    code: fault.code,
    message: fault.message,
    ...(fault.details === undefined ? {} : { details: fault.details }),
    ...(node === undefined ? {} : { node: state.graph.nodes[node]!.id }),
    ...(item === undefined ? {} : { item }),
  }
}

function graphEdges({ graph }: JobState): { from: string; to: string }[] {
  return graph.nodes.flatMap(({ id }, node) =>
    neighbours(graph.dependencies, node).map(dependency => ({ from: graph.nodes[dependency]!.id, to: id })),
  )
}

/** The percentage of nodes that are done for ever, as a whole number. */
export function progressPercent(state: JobState): number {
  if (hasCompleted(state)) return 100
  const size = state.graph.nodes.length
  let done = size - state.unfinished
  for (const [node, { items, state: list }] of state.lists)
    if (!isDone(state, node)) done += (items.length - list.unfinished) / items.length
  return Math.min(99, Math.floor((done * 100) / size))
}
