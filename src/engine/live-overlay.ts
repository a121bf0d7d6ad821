import type { Broker, PipelineNeeds, TaskWaits } from "../broker/port.ts"
import { placeOf } from "../core/item-list.ts"
import type { LiveGraph, LiveItem, LiveItems, LiveNode, LiveTask } from "../core/live-view.ts"
import { QUEUED, RUNNING, WAITING } from "../core/state.ts"
import { workerWait } from "../core/view.ts"
import { currentTask, type LiveJob, taskKey } from "./live-job.ts"
import { needsOf, withLacking } from "./pipeline-needs.ts"

/** The overlay of a job's nodes, or of a page of the items of one of them. */
export interface OverlayQuestion {
  readonly jobId: string
  /** By position; absent: the nodes of the job. */
  readonly node?: number
  readonly after?: number
  readonly limit?: number
}

export type Overlay = LiveGraph | LiveItems

export interface OverlayParts {
  readonly broker: Pick<Broker, "runningTask" | "waits">
  /** What of a pipeline's needs is not in this process. */
  readonly lacks: (needs: PipelineNeeds) => PipelineNeeds
  readonly now: () => number
}

/** Tasks that wait are listed up to this many: the rest is QUEUED by the graph alone. */
const MOST_QUEUED = 500

type TaskPlace = { readonly node: number; readonly item?: number }

/**
 * The live overlay (core/live-view.ts) of jobs that this process owns. `job` undefined: it is not in memory, so nothing
 * of it is in flight.
 */
export function overlayOf(
  job: LiveJob | undefined,
  question: OverlayQuestion,
  parts: OverlayParts,
): LiveGraph | LiveItems {
  const at = parts.now()
  const { node } = question
  if (node === undefined) return { at, nodes: job === undefined ? [] : nodesOf(new Tasks(job, parts, at)) }
  return { at, items: job === undefined ? [] : itemsOf(new Tasks(job, parts, at), { ...question, node }) }
}

function nodesOf(tasks: Tasks): LiveNode[] {
  const { plan } = tasks.job
  const found: LiveNode[] = []
  for (let node = 0; node < plan.nodes.length; node++) {
    const live = tasks.hasItems(node) ? tasks.list(node) : tasks.task({ node })
    if (live !== null) found.push({ id: plan.nodes[node]!.id, ...live })
  }
  return bounded(found)
}

function itemsOf(
  tasks: Tasks,
  { node, after = -1, limit = 100 }: OverlayQuestion & { readonly node: number },
): LiveItem[] {
  const size = tasks.job.state.lists.get(node)?.items.length ?? 0
  const found: LiveItem[] = []
  for (let index = after + 1; index < Math.min(size, after + 1 + limit); index++) {
    const live = tasks.task({ node, item: index })
    if (live !== null) found.push({ index, ...live })
  }
  return bounded(found)
}

function bounded<T extends LiveTask>(tasks: readonly T[]): T[] {
  let queued = 0
  return tasks.filter(({ status }) => status !== "QUEUED" || ++queued <= MOST_QUEUED)
}

/** One look at the tasks of one job: queues are ordered once for all of them. */
class Tasks {
  readonly job: LiveJob
  readonly #parts: OverlayParts
  readonly #now: number
  readonly #waits: TaskWaits

  constructor(job: LiveJob, parts: OverlayParts, now: number) {
    this.job = job
    this.#parts = parts
    this.#now = now
    this.#waits = parts.broker.waits()
  }

  hasItems(node: number): boolean {
    const { lists, nodeStatus } = this.job.state
    return nodeStatus[node] === WAITING && lists.has(node)
  }

  /** null: nothing of it is in flight, and nothing is known of it but what the facts say. */
  task(task: TaskPlace): LiveTask | null {
    const place = placeOf(this.job.state, task)
    if (place === null) return null
    const { state, position } = place
    const status = state.nodeStatus[position]
    const progress = this.job.progress?.get(taskKey(task)) ?? null
    if (status === WAITING) return progress === null ? null : { ...idle, status: "WAITING", progress }
    if (status !== QUEUED && status !== RUNNING) return null
    if (state.awaitingSlot.has(position) || (state.retryAt.get(position) ?? 0) > this.#now) return null
    return this.#running(task, progress) ?? this.#queued(task)
  }

  /** A node with `for_each`: that of its items which has run longest, or else that which waits first. */
  list(node: number): Omit<LiveNode, "id"> | null {
    const { state } = this.job.state.lists.get(node)!
    const progress = this.job.progress?.get(node) ?? null
    let first: LiveTask | null = null
    let running = 0
    for (let item = 0; item < state.nodeStatus.length; item++) {
      if (state.nodeStatus[item] !== QUEUED && state.nodeStatus[item] !== RUNNING) continue
      const live = this.task({ node, item })
      if (live === null) continue
      if (live.status === "RUNNING") running++
      if (first === null || isBefore(live, first)) first = live
    }
    if (first === null) return progress === null ? null : { ...idle, status: "WAITING", progress }
    return { ...first, progress, items: { running } }
  }

  #running(task: TaskPlace, progress: LiveTask["progress"]): LiveTask | null {
    const current = currentTask(this.job, task)
    const running = current === null ? null : this.#parts.broker.runningTask(current)
    if (running === null) return null
    const { worker, ranMs } = running
    return { ...idle, status: "RUNNING", worker, started_at: this.#now - Math.round(ranMs), progress }
  }

  #queued(task: TaskPlace): LiveTask {
    const { plan, unserved } = this.job
    const node = plan.nodes[task.node]!
    const current = currentTask(this.job, task)
    const wait = this.#waits.of(current!, node.handler, unserved?.has(taskKey(task)) === true)
    const waiting = { ...workerWait(node), ...wait }
    const lacking = plan.pipeline === null ? null : this.#parts.lacks(needsOf(plan.pipeline))
    return { ...idle, waiting_on: lacking === null ? waiting : withLacking(waiting, lacking) }
  }
}

const idle: LiveTask = { status: "QUEUED", worker: null, started_at: null, progress: null, waiting_on: null }

function isBefore(a: LiveTask, b: LiveTask): boolean {
  if (a.status !== b.status) return a.status === "RUNNING"
  return (a.started_at ?? 0) < (b.started_at ?? 0)
}
