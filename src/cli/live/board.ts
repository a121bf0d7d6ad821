/** What the live view shows of each node, updated by events: O(1) per event, whatever the size of the job. */

import type { RemoteEvent } from "../../client/index.ts"
import type { JsonObject } from "../../core/json.ts"
import { nodeStatuses } from "../../core/state.ts"
import { type JobStatus, jobHasEnded, type NodeStatus } from "../../core/states.ts"
import type { Progress } from "../../core/view/view.ts"
import type { JobActivity } from "../../jobs/activity.ts"

export interface BoardNode {
  readonly id: string
  status: NodeStatus
  attempt: number
  /** When its handler started, if known, or its items, and when the node ended. Milliseconds since 1970. */
  since: number | null
  /** How long its handler ran, once it has ended. null for a node that waited: its time is that from start to end. */
  ranMs: number | null
  until: number | null
  /** When the next attempt is due, while the node waits for it. */
  retryAt: number | null
  /** The last error, or what the node waits for. */
  note: string
  progress: string
  /** For a node with `for_each`. */
  items: { readonly total: number; done: number } | null
}

export class Board {
  readonly nodes: readonly BoardNode[]
  readonly counts: Record<NodeStatus, number>
  status: JobStatus = "PENDING"
  startedAt: number | null = null
  endedAt: number | null = null
  /** Number of QUEUED nodes that wait for their next attempt. */
  retrying = 0
  readonly #byId: ReadonlyMap<string, BoardNode>

  constructor(graph: { readonly nodes: readonly { readonly id: string }[] }) {
    this.nodes = graph.nodes.map(({ id }) => newNode(id))
    this.#byId = new Map(this.nodes.map(node => [node.id, node]))
    this.counts = { ...zero, PENDING: this.nodes.length }
  }

  apply(event: RemoteEvent): void {
    if (event.node === undefined) this.#applyToJob(event)
    else if (event.item !== undefined) applyToItems(this.#byId.get(event.node)!, event)
    else this.#applyToNode(this.#byId.get(event.node)!, event)
  }

  /**
   * The journal has running work only after a second; the process that runs it knows it at once. A node that has ended
   * meanwhile keeps its state until its event arrives, so that no node is shown going back.
   */
  observe({ running }: JobActivity, now: number): void {
    for (const { node: id, progress } of running) {
      const node = this.#byId.get(id)!
      if (node.status === "QUEUED") {
        node.since = now
        this.#setRetry(node, null)
        node.note = ""
        this.#move(node, "RUNNING")
      }
      if (node.status === "RUNNING") node.progress = progress === null ? "" : progressText(progress)
    }
  }

  node(id: string): BoardNode {
    return this.#byId.get(id)!
  }

  #applyToJob(event: RemoteEvent): void {
    if (event.to === undefined) return
    this.status = event.to as JobStatus
    const at = Date.parse(event.at)
    if (event.type === "job.pending") this.startedAt = at
    this.endedAt = jobHasEnded(this.status) ? at : null
  }

  #applyToNode(node: BoardNode, event: RemoteEvent): void {
    const { to, payload, attempt = node.attempt } = event
    if (to === undefined) return
    const at = Date.parse(event.at)
    node.attempt = attempt
    if (to === "WAITING" && typeof payload.items === "number")
      node.items ??= { total: payload.items, done: 0 }
    const hasWaited = node.status === "WAITING" || to === "WAITING"
    this.#move(node, to as NodeStatus)
    this.#setRetry(node, typeof payload.retry_at === "string" ? Date.parse(payload.retry_at) : null)
    if (hasWaited) node.ranMs = null
    else if (typeof payload.duration_ms === "number") node.ranMs = payload.duration_ms
    if (to === "QUEUED" || to === "PENDING") {
      node.since = null
      node.ranMs = null
      node.until = null
      node.note = faultText(payload)
    } else if (to === "RUNNING") {
      // Without a worker the start is not known.
      if (payload.worker !== undefined)
        node.since = typeof payload.started_at === "string" ? Date.parse(payload.started_at) : at
    } else if (to === "WAITING") {
      node.note = waitingText(payload)
      if (node.items !== null) node.since ??= at
    } else {
      node.until = at
      node.progress = ""
      node.note = to === "FAILED" ? failureText(payload) : ""
    }
  }

  #setRetry(node: BoardNode, at: number | null): void {
    this.retrying += Number(at !== null) - Number(node.retryAt !== null)
    node.retryAt = at
  }

  #move(node: BoardNode, to: NodeStatus): void {
    this.counts[node.status]--
    this.counts[to]++
    node.status = to
  }
}

const zero = Object.fromEntries(nodeStatuses.map(status => [status, 0])) as Record<NodeStatus, number>

function newNode(id: string): BoardNode {
  return {
    id,
    status: "PENDING",
    attempt: 1,
    since: null,
    ranMs: null,
    until: null,
    retryAt: null,
    note: "",
    progress: "",
    items: null,
  }
}

/** A line has room for the number of completed items only. */
function applyToItems(node: BoardNode, event: RemoteEvent): void {
  if (node.items === null || event.type !== "item.completed") return
  node.items.done++
  node.note = `${node.items.done} of ${node.items.total} items`
}

function progressText({ percent, message }: Progress): string {
  return [percent === null ? "" : `${Math.floor(percent)} %`, message ?? ""].filter(Boolean).join(" ")
}

export function faultText(payload: JsonObject): string {
  const fault = payload.fault as { code?: string; message?: string } | undefined
  return fault === undefined ? "" : `${fault.code} ${fault.message}`
}

function failureText(payload: JsonObject): string {
  return payload.cause === undefined ? faultText(payload) : `not run: ${payload.cause} failed`
}

export function waitingText(payload: JsonObject): string {
  const waiting = payload.waiting as
    | {
        kind: string
        name?: string
        until?: string
        provider?: string
        job_id?: string
        workflow?: string
      }
    | undefined
  if (typeof payload.items === "number") return `runs for ${payload.items} items`
  if (waiting === undefined) return ""
  const until = waiting.until === undefined ? "" : ` until ${waiting.until}`
  if (waiting.kind === "external") return `waits for provider ${waiting.provider}${until}`
  if (waiting.kind === "child") return `runs ${waiting.workflow} as job ${waiting.job_id}`
  return waiting.kind === "signal" ? `waits for signal ${waiting.name}${until}` : `sleeps${until}`
}
