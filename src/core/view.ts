import type { ExternalWaiting, Waiting } from "./facts.ts"
import type { Fault } from "./faults.ts"
import { type ItemCounts, itemCounts } from "./item-view.ts"
import type { Json, JsonObject } from "./json.ts"
import type { RouteView } from "./pipeline/view.ts"
import type { Adjacency, RuleNode } from "./plan.ts"
import { isDone, type JobState, nodeStatusOf, PENDING, QUEUED, resumeToken, WAITING } from "./state.ts"
import { type JobStatus, jobHasEnded, type NodeStatus } from "./states.ts"
import { nextTimer } from "./timers.ts"

/**
 * A job's shadow graph as JSON for people and programs: `GET /jobs/{id}/graph` and the CLI. Times are milliseconds
 * since 1970; who tells them to others writes them out (src/engine/iso-times.ts).
 *
 * 1. Nothing here is stored and nothing decides: it is read off the state.
 * 2. `progress_pct` never falls, and is 100 only for a job that completed: it counts nodes that are done for ever.
 */

/** What only the process that runs the job knows: which nodes a worker has in hand, and how far it is. */
export interface LiveOverlay {
  isRunning(node: number): boolean
  progress?(node: number): Progress | undefined
}

/** How far a handler says it is. Latest wins; never stored. */
export interface Progress {
  /** 0 to 100; null: not known. */
  readonly percent: number | null
  readonly message: string | null
}

/**
 * How the job as a whole stands; null before and after its life.
 * RUNNING: a node is in a worker's hands (without an overlay: a node has been handed out).
 * READY_TO_RESUME: nothing runs, but a node is ready for a worker: what the job waited for has come.
 * WAITING_SINGLE, WAITING_PARALLEL: nothing runs and nothing is ready; one node or item, or several, wait for a time, a
 * signal, a provider or a slot of one.
 */
export type WorkflowStatus = "RUNNING" | "WAITING_SINGLE" | "WAITING_PARALLEL" | "READY_TO_RESUME"

/** Why a node does not run right now. */
export type WaitingOn =
  | { readonly kind: "dependencies"; readonly nodes: readonly string[] }
  | { readonly kind: "retry"; readonly at: number }
  | { readonly kind: "timer"; readonly until: number }
  | { readonly kind: "signal"; readonly name: string; readonly until: number | null; readonly default?: Json }
  | {
      readonly kind: "child"
      readonly job_id: string
      readonly workflow: string
      readonly workflow_version: number
    }
  /** Items of `for_each`, none of which runs: how many wait, and until when at the latest for the first. */
  | { readonly kind: "items"; readonly waiting: number; readonly until: number | null }
  | {
      readonly kind: "external"
      readonly provider: string
      readonly external_id: string
      readonly next_poll_at: number | null
      readonly until: number | null
      readonly polls: number
      /** Why the last look at the operation failed. */
      readonly poll_error: ErrorView | null
    }
  | { readonly kind: "slot"; readonly provider: string; readonly position: number | null }
  /**
   * A worker with this handler; with `provider`, one that also knows that provider. Of a pipeline that its owner cannot
   * run: adapters that are missing there, and whether it has no Redis to reach workers.
   */
  | {
      readonly kind: "worker"
      readonly handler: string
      readonly provider?: string
      readonly adapters?: readonly string[]
      readonly redis?: true
    }

export interface ErrorView {
  readonly code: string
  readonly message: string
  readonly details?: JsonObject
  /** Of a job: the node that failed. Of a node: the one whose failure brought it down. */
  readonly node?: string
  /** The item of the node that failed, counted from 0. */
  readonly item?: number
}

export interface NodeView {
  readonly id: string
  readonly handler: string
  readonly status: NodeStatus
  readonly attempt: number
  readonly tries: number
  readonly losses: number
  /** Dependencies that are not done. */
  readonly incoming: number
  readonly queued_at: number | null
  /** Recorded only for work that takes more than a second. */
  readonly started_at: number | null
  readonly finished_at: number | null
  readonly worker: string | null
  readonly waiting_on: WaitingOn | null
  readonly error: ErrorView | null
  readonly progress: Progress | null
  readonly preview?: Json
  /** The job that does this node's work, once there is one. */
  readonly child_job_id?: string
  /** Of a node with `for_each`: how many of its items are in each state. */
  readonly items?: ItemCounts
}

export interface GraphView {
  readonly status: JobStatus
  readonly workflow_status: WorkflowStatus | null
  /** X1: another after each resume. */
  readonly resume_token: string
  readonly progress_pct: number
  readonly nodes: readonly NodeView[]
  readonly edges: readonly { readonly from: string; readonly to: string }[]
  /** Ready for a worker, none has it yet. */
  readonly ready_queue: readonly string[]
  readonly waiting_for: readonly (WaitingOn & { readonly node: string })[]
  /** Nodes begun and not done, and nodes done (COMPLETED or SKIPPED). */
  readonly pending_operations: number
  readonly completed_operations: number
  readonly usage: { readonly [key: string]: number }
  /** Of a pipeline. */
  readonly routes?: readonly RouteView[]
  /** Operations that may be running at a provider and whose id nobody knows. From the store, not from facts. */
  readonly unseen_operations?: readonly UnseenOperation[]
}

/** The job ended while its submission was in flight, and it was not answered. */
export interface UnseenOperation {
  readonly node: string
  readonly item?: number
  readonly provider: string
  /** When the job ended. */
  readonly since: number
  /** Until when it holds a slot of its provider. */
  readonly held_until: number
}

/** `places`: where nodes stand in the queue for a slot of their provider, from 1. */
export function graphView(
  state: JobState,
  live?: LiveOverlay,
  places: ReadonlyMap<number, number | null> = new Map(),
): GraphView {
  const nodes = state.graph.nodes.map((_, node) => nodeView(state, node, live, places))
  return {
    status: state.status,
    workflow_status: workflowStatus(state, nodes, live),
    resume_token: resumeToken(state),
    progress_pct: progressOf(state),
    nodes,
    edges: edgesOf(state),
    ready_queue: nodes.filter(isReady).map(({ id }) => id),
    waiting_for: nodes.flatMap(({ id, waiting_on }) =>
      waiting_on !== null && isWait(waiting_on) ? [{ node: id, ...waiting_on }] : [],
    ),
    pending_operations: nodes.filter(({ status }) => isBegun(status)).length,
    completed_operations: nodes.length - state.unfinished,
    usage: Object.fromEntries(state.usage),
  }
}

function nodeView(
  state: JobState,
  node: number,
  live: LiveOverlay | undefined,
  places: ReadonlyMap<number, number | null>,
): NodeView {
  const { id, handler } = state.graph.nodes[node]!
  const list = isDone(state, node) ? undefined : state.lists.get(node)?.state
  const runs =
    list === undefined
      ? state.nodeStatus[node] === QUEUED && live?.isRunning(node) === true
      : state.nodeStatus[node] === WAITING && list.active > 0
  const status = runs ? "RUNNING" : nodeStatusOf(state, node)
  const started = state.started.get(node)
  const preview = state.previews.get(node)
  const child = state.children.get(node)
  return {
    id,
    handler,
    status,
    attempt: state.attempt[node]!,
    tries: state.tries[node]!,
    losses: state.losses[node]!,
    incoming: state.remaining[node]!,
    queued_at: state.queuedAt[node] || null,
    started_at: started?.at ?? null,
    finished_at: state.endedAt[node] || null,
    worker: started?.worker ?? null,
    waiting_on: runs ? null : waitingOn(state, node, places.get(node) ?? null),
    error: nodeError(state, node),
    progress: (status === "RUNNING" || status === "WAITING" ? live?.progress?.(node) : undefined) ?? null,
    ...(preview === undefined ? {} : { preview }),
    ...(child === undefined ? {} : { child_job_id: child }),
    ...(state.lists.has(node) ? { items: itemCounts(state.lists.get(node)!) } : {}),
  }
}

/** null: it runs, or it is over. */
/** `position`: its place in the queue for a slot. */
export function waitingOn(state: JobState, node: number, position: number | null = null): WaitingOn | null {
  switch (state.nodeStatus[node]) {
    case PENDING:
      return { kind: "dependencies", nodes: openDependencies(state, node) }
    case QUEUED: {
      const provider = state.awaitingSlot.get(node)
      if (provider !== undefined) return { kind: "slot", provider, position }
      const at = state.retryAt.get(node)
      return at === undefined ? workerView(state.graph.nodes[node]!) : { kind: "retry", at }
    }
    case WAITING: {
      const list = state.lists.get(node)?.state
      if (list !== undefined) return { kind: "items", waiting: waitingItems(list), until: nextTimer(list) }
      const waiting = state.waiting.get(node)!
      if (waiting.kind === "external") return operationView(state, node, waiting)
      return waitView(waiting)
    }
    default:
      return null
  }
}

function workerView({ handler, provider }: RuleNode): WaitingOn {
  return provider == null ? { kind: "worker", handler } : { kind: "worker", handler, provider }
}

function waitingItems({ waiting, retryAt, awaitingSlot }: JobState): number {
  return waiting.size + retryAt.size + awaitingSlot.size
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
    poll_error: polls?.fault ? errorView(state, polls.fault, {}) : null,
  }
}

/** `default` only where there is one: without, the node fails at `until`. */
function waitView(waiting: Exclude<Waiting, ExternalWaiting>): WaitingOn {
  switch (waiting.kind) {
    case "timer":
      return { kind: "timer", until: waiting.until }
    case "signal": {
      const { kind, name, until = null, default: otherwise } = waiting
      return otherwise === undefined ? { kind, name, until } : { kind, name, until, default: otherwise }
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

/** A node that is done has got over its earlier failures. */
export function nodeError(state: JobState, node: number): ErrorView | null {
  const failed = state.faults.get(node)
  return failed === undefined || isDone(state, node)
    ? null
    : errorView(state, failed.fault, { node: failed.cause, item: failed.item })
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

function workflowStatus(
  state: JobState,
  nodes: readonly NodeView[],
  live: LiveOverlay | undefined,
): WorkflowStatus | null {
  if (state.status === "PENDING" || jobHasEnded(state.status)) return null
  const ready = nodes.some(isReady)
  if (nodes.some(({ status }) => status === "RUNNING") || (live === undefined && ready)) return "RUNNING"
  if (ready) return "READY_TO_RESUME"
  const waits = nodes.reduce((sum, node) => sum + waitsOf(node), 0)
  return waits === 1 ? "WAITING_SINGLE" : "WAITING_PARALLEL"
}

function isReady({ waiting_on }: NodeView): boolean {
  return waiting_on?.kind === "worker"
}

function isWait({ kind }: WaitingOn): boolean {
  switch (kind) {
    case "dependencies":
    case "worker":
      return false
    default:
      return true
  }
}

/** The items of a list wait side by side, as nodes do. */
function waitsOf({ waiting_on }: NodeView): number {
  if (waiting_on === null || !isWait(waiting_on)) return 0
  return waiting_on.kind === "items" ? Math.max(1, waiting_on.waiting) : 1
}

function isBegun(status: NodeStatus): boolean {
  return status === "QUEUED" || status === "RUNNING" || status === "WAITING"
}

function edgesOf({ graph }: JobState): { from: string; to: string }[] {
  return graph.nodes.flatMap(({ id }, node) =>
    neighbours(graph.dependencies, node).map(dependency => ({ from: graph.nodes[dependency]!.id, to: id })),
  )
}

/** Whole percents of the nodes, of those that are done for ever. */
export function progressOf(state: JobState): number {
  if (hasCompleted(state)) return 100
  const size = state.graph.nodes.length
  let done = size - state.unfinished
  for (const [node, { items, state: list }] of state.lists)
    if (!isDone(state, node)) done += (items.length - list.unfinished) / items.length
  return Math.min(99, Math.floor((done * 100) / size))
}

/** A DELETED job still shows what it came to. */
function hasCompleted({ status, unfinished, fault }: JobState): boolean {
  return status === "COMPLETED" || (status === "DELETED" && unfinished === 0 && fault === null)
}
