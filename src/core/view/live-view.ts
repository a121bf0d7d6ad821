/**
 * The live overlay of a job: what only the process that runs the job knows and what is never recorded. It is kept apart
 * from the graph, which is read from the facts alone. `withLive` merges the two for people.
 *
 * 1. It is absent for jobs that have ended, and null if the process that runs the job did not answer in time.
 * 2. It lists nodes that are QUEUED, RUNNING or WAITING by the facts, and no others.
 */
import type { NodeStatus } from "../states.ts"
import type { Progress, WaitingOn, WorkflowStatus } from "./view.ts"

/** One attempt that was dispatched and has not ended, or a wait about which more is known than the facts record. */
export interface LiveTask {
  /** RUNNING: the handler runs. QUEUED: no handler has begun. WAITING: it waits for something else, and has progress. */
  readonly status: "RUNNING" | "QUEUED" | "WAITING"
  /** The worker whose handler runs. */
  readonly worker: string | null
  /** When the handler began, by the clock of the process that owns the job. */
  readonly started_at: number | null
  readonly progress: Progress | null
  /** For a QUEUED task. */
  readonly waiting_on: WaitingOn | null
}

export interface LiveNode extends LiveTask {
  readonly id: string
  /** For a node with `for_each`: how many of its items run. */
  readonly items?: { readonly running: number }
}

export interface LiveGraph {
  /** The time of this state, by the clock of the process that owns the job. */
  readonly at: number
  /** The job was dispatched, and no fact records that: its graph is QUEUED. */
  readonly status?: "PROCESSING"
  readonly nodes: readonly LiveNode[]
  /** starting: the engine has taken the job's partition and is loading its jobs. store_away: its database does not answer. */
  readonly engine?: "starting" | "store_away"
  /** Facts of the job are on their way to the store: the process knows more than the graph shows. */
  readonly storing?: true
}

export interface LiveItem extends LiveTask {
  /** From 0. */
  readonly index: number
}

export interface LiveItems {
  readonly at: number
  readonly items: readonly LiveItem[]
}

/** The parts of a node's view that the overlay changes. Times are numbers in process and text over HTTP. */
interface ShownTask {
  readonly status: NodeStatus
  readonly worker?: string | null
  readonly started_at?: unknown
  readonly progress: Progress | null
  readonly waiting_on: ShownWait | null
}

interface ShownNode extends ShownTask {
  readonly id: string
  readonly items?: { readonly total: number; readonly queued?: number; readonly running?: number }
}

interface ShownWait {
  readonly kind: WaitingOn["kind"]
}

interface ShownGraph {
  readonly status: string
  readonly workflow_status: WorkflowStatus | null
  readonly nodes: readonly ShownNode[]
  readonly live?: {
    readonly status?: "PROCESSING"
    readonly nodes: readonly (ShownTask & { readonly id: string })[]
  } | null
}

/** The graph merged with its overlay: RUNNING means that a handler runs, QUEUED names the worker it waits for. Without an overlay: unchanged. */
export function withLive<G extends ShownGraph>(graph: G): G {
  const { live } = graph
  if (live === undefined || live === null) return graph
  const byId = new Map(live.nodes.map(task => [task.id, task]))
  const nodes = graph.nodes.map(node => mergedNode(node, byId.get(node.id)))
  return {
    ...graph,
    status: graph.status === "QUEUED" ? (live.status ?? graph.status) : graph.status,
    nodes,
    workflow_status: graph.workflow_status === null ? null : workflowStatus(nodes),
    ready_queue: readyQueue(nodes),
    waiting_for: waitingFor(nodes),
  }
}

/** As `withLive`, for a page of items. */
export function withLiveItems<
  I extends ShownTask & { readonly index: number },
  P extends {
    readonly items: readonly I[]
    readonly live?: { readonly items: readonly (ShownTask & { readonly index: number })[] } | null
  },
>(page: P): P {
  const { live } = page
  if (live === undefined || live === null) return page
  const byIndex = new Map(live.items.map(task => [task.index, task]))
  return { ...page, items: page.items.map(item => mergedTask(item, byIndex.get(item.index))) }
}

function mergedNode(node: ShownNode, live: (ShownTask & Pick<ShownNode, "items">) | undefined): ShownNode {
  const merged = mergedTask(node, live)
  if (node.items === undefined || merged === node) return merged
  const { queued = 0, running = 0, ...items } = node.items
  const begun = Math.min(live?.items?.running ?? 0, queued + running)
  const rest = queued + running - begun
  return {
    ...merged,
    items: {
      ...items,
      ...(rest === 0 ? {} : { queued: rest }),
      ...(begun === 0 ? {} : { running: begun }),
    },
  }
}

function mergedTask<T extends ShownTask>(task: T, live: ShownTask | undefined): T {
  if (live === undefined || !isBegun(task.status)) return task
  if (live.status === "WAITING") return { ...task, progress: live.progress }
  const { status, progress } = live
  const waiting_on = status === "RUNNING" ? null : (live.waiting_on ?? task.waiting_on)
  const begun = "started_at" in task ? { worker: live.worker ?? null, started_at: live.started_at } : {}
  return { ...task, status, progress, waiting_on, ...begun }
}

/** Dispatched or waiting, and not done. */
export function isBegun(status: NodeStatus): boolean {
  return status === "QUEUED" || status === "RUNNING" || status === "WAITING"
}

/** The status of a job that has begun and not ended. */
export function workflowStatus(nodes: readonly ShownNode[]): WorkflowStatus {
  if (nodes.some(({ status }) => status === "RUNNING")) return "RUNNING"
  if (nodes.some(isReady)) return "READY_TO_RESUME"
  return nodes.reduce((sum, node) => sum + countWaits(node), 0) === 1 ? "WAITING_SINGLE" : "WAITING_PARALLEL"
}

/** The nodes that are ready for a worker. */
export function readyQueue(nodes: readonly ShownNode[]): string[] {
  return nodes.filter(isReady).map(({ id }) => id)
}

export function waitingFor<W extends ShownWait>(
  nodes: readonly { readonly id: string; readonly waiting_on: W | null }[],
): (W & { readonly node: string })[] {
  return nodes.flatMap(({ id, waiting_on }) =>
    waiting_on !== null && isWait(waiting_on) ? [{ node: id, ...waiting_on }] : [],
  )
}

function isReady({ waiting_on }: ShownTask): boolean {
  return waiting_on?.kind === "worker"
}

function isWait({ kind }: ShownWait): boolean {
  return kind !== "dependencies" && kind !== "worker"
}

/** Waiting items of a list count one by one, as nodes do. */
function countWaits({ waiting_on }: ShownTask): number {
  if (waiting_on === null || !isWait(waiting_on)) return 0
  const { waiting = 1 } = waiting_on as { readonly waiting?: number }
  return waiting_on.kind === "items" ? Math.max(1, waiting) : 1
}
