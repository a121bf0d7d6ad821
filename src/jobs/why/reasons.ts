/**
 * Why the nodes of a job make no progress: computed from the graph that the API returns, merged with its live overlay, so that
 * `why` and `waiting_on` never disagree. Sentences are in text.ts.
 */
import type { NodeView, WaitingOn, WorkerWait } from "../../core/view/view.ts"
import type { NodeStatistics, Percentiles } from "../statistics.ts"

/**
 * The closed list of reasons. `limit` and `budget` are reserved. `worker`: ready for a worker; what it waits
 * for there is not known. `unexplained`: the engine found no reason, which is a defect of the engine.
 */
export const reasonKinds = [
  "running",
  "dependency",
  "slot",
  "rate",
  "retry",
  "timer",
  "signal",
  "provider",
  "child",
  "items",
  "no_worker",
  "worker_busy",
  "worker_refused",
  "worker_isolated",
  "worker",
  "paused",
  "breaker",
  "backpressure",
  "executions",
  "job_queue",
  "dispatching",
  "store_away",
  "owner_away",
  "starting",
  "quarantined",
  "unexplained",
  "limit",
  "budget",
  "start_time",
] as const

export type ReasonKind = (typeof reasonKinds)[number]

/** The reason of one node. */
export interface NodeReason {
  readonly kind: ReasonKind
  /** What nodes with the same reason have in common: the provider, the handler, the signal. */
  readonly subject: string
  readonly node: NodeView
}

/** Nodes with the same reason. */
export interface ReasonGroup {
  readonly kind: ReasonKind
  readonly subject: string
  readonly nodes: readonly NodeView[]
}

/** null: the node has ended. */
export function waitReason(node: NodeView): NodeReason | null {
  switch (node.status) {
    case "COMPLETED":
    case "SKIPPED":
    case "FAILED":
    case "CANCELLED":
      return null
    default: {
      const { kind, subject } =
        node.waiting_on === null ? ofStatus(node) : ofWait(node.waiting_on, node.handler)
      return { kind, subject, node }
    }
  }
}

type Found = Pick<NodeReason, "kind" | "subject">

function ofStatus({ status, handler }: NodeView): Found {
  return status === "RUNNING"
    ? { kind: "running", subject: handler }
    : { kind: "unexplained", subject: handler }
}

function ofWait(wait: WaitingOn, handler: string): Found {
  switch (wait.kind) {
    case "dependencies":
      return wait.nodes.length === 0
        ? { kind: "unexplained", subject: handler }
        : { kind: "dependency", subject: "" }
    case "slot":
    case "rate":
      return { kind: wait.kind, subject: wait.provider }
    case "external":
      return { kind: "provider", subject: wait.provider }
    case "signal":
      return { kind: "signal", subject: wait.name }
    case "worker":
      return { kind: workerKind(wait), subject: wait.handler }
    case "executions":
      return { kind: "executions", subject: wait.pipeline }
    default:
      return { kind: wait.kind, subject: "" }
  }
}

function workerKind({ reason }: WorkerWait): ReasonKind {
  switch (reason) {
    case "busy":
      return "worker_busy"
    case "none":
      return "no_worker"
    case "refused":
      return "worker_refused"
    case "isolated":
      return "worker_isolated"
    case "owner_away":
    case "job_queue":
    case "dispatching":
      return reason
    case "moving":
      return "starting"
    case "unknown":
      return "unexplained"
    default:
      return "worker"
  }
}

/**
 * Most nodes first; nodes that only wait for others, and running ones, come last: they are not causes. The overlay lists
 * a bounded number of tasks: the others of the same handler wait for the same.
 */
export function grouped(reasons: readonly NodeReason[]): ReasonGroup[] {
  const known = new Map<string, ReasonKind>()
  for (const { kind, subject } of reasons)
    if (kind.startsWith("worker_") || kind === "no_worker") known.set(subject, kind)
  const groups = new Map<string, { kind: ReasonKind; subject: string; nodes: NodeView[] }>()
  for (const { kind: found, subject, node } of reasons) {
    const kind = found === "worker" ? (known.get(subject) ?? found) : found
    const key = `${kind}\n${subject}`
    const group = groups.get(key)
    if (group === undefined) groups.set(key, { kind, subject, nodes: [node] })
    else group.nodes.push(node)
  }
  return [...groups.values()].sort((a, b) => rank(a.kind) - rank(b.kind) || b.nodes.length - a.nodes.length)
}

function rank(kind: ReasonKind): number {
  if (kind === "unexplained") return 0
  if (kind === "running") return 2
  return kind === "dependency" ? 3 : 1
}

/** The nodes from the given one to the cause: each waits for the next. */
export function chainFrom(start: NodeView, nodes: ReadonlyMap<string, NodeView>): NodeView[] {
  const chain = [start]
  for (let last = start; last.waiting_on?.kind === "dependencies"; ) {
    const open = last.waiting_on.nodes.map(id => nodes.get(id)!).filter(node => !chain.includes(node))
    const next = open.find(({ waiting_on }) => waiting_on?.kind !== "dependencies") ?? open[0]
    if (next === undefined) break
    chain.push(next)
    last = next
  }
  return chain
}

/** Since when the node waits for this, as far as the graph tells. */
export function waitStart(node: NodeView): number | null {
  const { status, waiting_on, queued_at, started_at, duration_ms } = node
  if (waiting_on?.kind === "paused") return waiting_on.at
  if (status === "RUNNING") return started_at
  if (status !== "WAITING" || started_at === null) return queued_at
  return started_at + (duration_ms ?? 0)
}

/** Before a handler begins. */
const queues: ReadonlySet<ReasonKind> = new Set([
  ...(["slot", "rate", "executions", "job_queue", "dispatching", "owner_away", "starting"] as const),
  ...(["no_worker", "worker_busy", "worker_refused", "worker_isolated"] as const),
])
/** Part of the run of a node. */
const runs: ReadonlySet<ReasonKind> = new Set(["running", "timer", "signal", "provider", "child", "items"])

/** What the time since `waitStart` is compared with; null: its duration depends on other nodes, retries or people. */
export function usualWait(
  kind: ReasonKind,
  { count, failed, queued_ms, duration_ms }: NodeStatistics,
): UsualWait | null {
  if (queues.has(kind)) return queued_ms === null ? null : { count, ...queued_ms }
  if (!runs.has(kind) || duration_ms === null) return null
  return { count: count - failed, ...duration_ms }
}

/** How long nodes like this usually wait before they run, or how long their runs take, waits included; in ms. */
export interface UsualWait extends Percentiles {
  readonly count: number
}

/** When the wait ends by itself; null: it does not, or this is not known. */
export function waitEnd({ waiting_on }: NodeView): number | null {
  switch (waiting_on?.kind) {
    case "retry":
      return waiting_on.at
    case "timer":
    case "rate":
    case "start_time":
      return waiting_on.until
    case "signal":
    case "external":
    case "items":
      return waiting_on.until
    default:
      return null
  }
}
