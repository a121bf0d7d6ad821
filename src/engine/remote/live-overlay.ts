import type { Broker, PipelineNeeds, TaskName } from "../../broker/port.ts"
import { isRunningAt } from "../../core/attempt-times.ts"
import {
  findTask,
  isDelayed,
  type JobState,
  QUEUED,
  RUNNING,
  type TaskRef,
  taskKey,
  WAITING,
} from "../../core/state.ts"
import type { LiveGraph, LiveItem, LiveItems, LiveNode, LiveTask } from "../../core/view/live-view.ts"
import { type TaskWait, workerWait } from "../../core/view/view.ts"
import { pipelineNeeds, withMissing } from "../dispatch/pipeline-needs.ts"
import { currentTask, type LiveJob } from "../owner/live-job.ts"
import { shownStatus } from "../owner/snapshot.ts"
import type { AwayOwner } from "./known-engines.ts"

/** A query for the overlay of a job's nodes, or of a page of the items of one node. */
export interface OverlayQuery {
  readonly jobId: string
  /** By position; absent: the nodes of the job. */
  readonly node?: number
  readonly after?: number
  readonly limit?: number
}

export type Overlay = LiveGraph | LiveItems

export interface OverlayParts {
  readonly broker: Pick<Broker, "runningTask" | "waits" | "remote" | "has">
  readonly owner: OverlayOwner
  /** Which of a pipeline's needs this process does not have. */
  readonly lacks: (needs: PipelineNeeds) => PipelineNeeds
  readonly now: () => number
}

/** What the owner of the jobs knows of tasks that no broker has. */
export interface OverlayOwner {
  /** Between the fact that made the task ready and the broker, or between the worker's report and its fact. */
  isDispatching(job: LiveJob, task: TaskName): boolean
  /** The place in the rate of a provider that the task waits for; null: it does not. */
  rateWait(task: TaskName): { readonly provider: string; readonly until: number | null } | null
  /** Tasks of the partition are not dispatched here any more. */
  isLeaving(partition: number): boolean
  readonly store: { readonly isAvailable: boolean }
}

/** Waiting tasks are listed up to this many; the others are shown as QUEUED by the graph alone. */
const MAX_QUEUED = 500

/**
 * The live overlay (core/view/live-view.ts) of jobs that this process owns. `job` undefined: it is not in memory, so
 * nothing of it is in flight.
 */
export function liveOverlay(
  job: LiveJob | undefined,
  query: OverlayQuery,
  parts: OverlayParts,
): LiveGraph | LiveItems {
  const at = parts.now()
  const away = parts.owner.store.isAvailable ? {} : ({ engine: "store_away" } as const)
  // A job that waits as a row may be in memory for a command.
  if (job === undefined || shownStatus(job) === "QUEUED" || isDelayed(job.state))
    return query.node === undefined ? { at, nodes: [], ...away } : { at, items: [] }
  const isStoring = query.node === undefined && job.pendingBatches > 0
  const storing = isStoring ? ({ storing: true } as const) : {}
  const found = { ...overlay(new Tasks(job, at, inFlight(job, parts, at)), query, at), ...away, ...storing }
  const mayBeStoredAsQueued = job.state.status === "QUEUED" || job.pendingBatches > 0
  return mayBeStoredAsQueued && "nodes" in found ? { ...found, status: "PROCESSING" } : found
}

/** The ready tasks of a job for which this engine knows no reason why they do not run: it has lost them. */
export function lostTasks(job: LiveJob, parts: OverlayParts): LiveNode[] {
  const { nodes } = liveOverlay(job, { jobId: job.id }, parts) as LiveGraph
  return nodes.filter(({ waiting_on }) => waiting_on?.kind === "worker" && waiting_on.reason === "unknown")
}

export interface AwayParts {
  readonly owner: AwayOwner
  /** The live worker that holds the task; null: none is known. */
  readonly holder: (task: TaskName) => string | null
  readonly now: number
}

/**
 * The overlay of a job that no live engine owns. A recorded start counts as running only while a live worker holds the
 * task: everything that ran in the owner's own process has ended with it.
 */
export function awayOverlay(state: JobState, query: OverlayQuery, parts: AwayParts): Overlay {
  const { owner, holder, now } = parts
  const { engine, beat } = owner
  const cause =
    engine === null ? "no engine runs" : `${engine} has stopped reporting, and no other engine runs`
  const wait = { reason: "owner_away", last_seen_at: beat, cause } as const
  const of = (task: TaskRef): LiveTask => {
    const { state: own, position } = findTask(state, task)!
    const isStarted = isRunningAt(own, position, now)
    const attempt = own.attempt[position]!
    const worker = isStarted ? holder({ jobId: query.jobId, ...task, attempt }) : null
    if (worker !== null)
      return { ...idle, status: "RUNNING", worker, started_at: own.startedAt[position] || null }
    return { ...idle, waiting_on: { ...workerWait(state.graph.nodes[task.node]!), ...wait } }
  }
  return overlay(new Tasks({ state, progress: null }, now, of), query, now)
}

/** Of a job that its owner does not have in memory: it waits in the store for its turn. */
export function rowOverlay(
  state: JobState,
  live: LiveGraph,
  position: Pick<TaskWait, "position" | "position_is_minimum">,
): LiveGraph {
  if (state.status !== "QUEUED" || live.nodes.length > 0 || live.engine === "starting") return live
  const of = ({ node }: TaskRef): LiveTask => {
    return {
      ...idle,
      waiting_on: { ...workerWait(state.graph.nodes[node]!), reason: "job_queue", ...position },
    }
  }
  return { ...live, nodes: liveNodes(new Tasks({ state, progress: null }, live.at, of)) }
}

function overlay(tasks: Tasks, query: OverlayQuery, at: number): Overlay {
  const { node } = query
  return node === undefined
    ? { at, nodes: liveNodes(tasks) }
    : { at, items: liveItems(tasks, { ...query, node }) }
}

function liveNodes(tasks: Tasks): LiveNode[] {
  const { nodes } = tasks.job.state.graph
  const found: LiveNode[] = []
  for (let node = 0; node < nodes.length; node++) {
    const live = tasks.hasItems(node) ? tasks.list(node) : tasks.task({ node })
    if (live !== null) found.push({ id: nodes[node]!.id, ...live })
  }
  return bounded(found)
}

function liveItems(
  tasks: Tasks,
  { node, after = -1, limit = 100 }: OverlayQuery & { readonly node: number },
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
  return tasks.filter(({ status }) => status !== "QUEUED" || ++queued <= MAX_QUEUED)
}

/** The state of a task that is ready and has not ended. Valid for one answer: queues are ordered once for all tasks of the job. */
function inFlight(job: LiveJob, parts: OverlayParts, now: number): (task: TaskRef) => LiveTask {
  const { broker, lacks, owner } = parts
  const { plan, awaitingHandler } = job
  const waits = broker.waits()
  const lacking = plan.pipeline === null ? null : lacks(pipelineNeeds(plan.pipeline))
  return task => {
    const current = currentTask(job, task)!
    const running = broker.runningTask(current)
    if (running !== null)
      return {
        ...idle,
        status: "RUNNING",
        worker: running.worker,
        started_at: now - Math.round(running.ranMs),
      }
    const recorded = broker.remote?.isUncertain(current) === true ? recordedStart(job, task, now) : undefined
    if (recorded !== undefined)
      return { ...idle, status: "RUNNING", worker: recorded.worker, started_at: recorded.at }
    const node = plan.nodes[task.node]!
    const rate = owner.rateWait(current)
    if (rate !== null) return { ...idle, waiting_on: { kind: "rate", ...rate } }
    const isUnserved = awaitingHandler?.has(taskKey(task)) === true
    const wait =
      isUnserved || broker.has(current)
        ? waits.of(current, node.handler, isUnserved)
        : { reason: ownReason(job, current, { owner, now }) }
    const waiting = { ...workerWait(node), ...wait }
    return { ...idle, waiting_on: lacking === null ? waiting : withMissing(waiting, lacking) }
  }
}

/** A retry that is due waits until the facts of its lane are stored. After this time its alarm counts as lost. */
const MAX_OVERDUE_MS = 60_000

/** Why no broker has a task that is ready. */
function ownReason(
  job: LiveJob,
  task: TaskName,
  { owner, now }: { readonly owner: OverlayOwner; readonly now: number },
): TaskWait["reason"] {
  if (job.isQueued) return "job_queue"
  const { state, position } = findTask(job.state, task)!
  const overdueMs = now - (state.retryAt.get(position) ?? Number.NEGATIVE_INFINITY)
  if (owner.isDispatching(job, task) || overdueMs < MAX_OVERDUE_MS) return "dispatching"
  return owner.isLeaving(job.partition) ? "moving" : "unknown"
}

function recordedStart({ state: job }: LiveJob, task: TaskRef, now: number) {
  const { state, position } = findTask(job, task)!
  return isRunningAt(state, position, now) ? state.started.get(position) : undefined
}

/** The tasks of one job, for one overlay. */
class Tasks {
  readonly job: Pick<LiveJob, "state" | "progress">
  readonly #now: number
  readonly #inFlight: (task: TaskRef) => LiveTask

  constructor(job: Tasks["job"], now: number, inFlight: (task: TaskRef) => LiveTask) {
    this.job = job
    this.#now = now
    this.#inFlight = inFlight
  }

  hasItems(node: number): boolean {
    const { lists, nodeStatus } = this.job.state
    return nodeStatus[node] === WAITING && lists.has(node)
  }

  /** null: nothing of it is in flight, and only its facts are known. */
  task(task: TaskRef): LiveTask | null {
    const place = findTask(this.job.state, task)
    if (place === null) return null
    const { state, position } = place
    const status = state.nodeStatus[position]
    const progress = this.job.progress?.get(taskKey(task)) ?? null
    if (status === WAITING) return progress === null ? null : { ...idle, status: "WAITING", progress }
    if (status !== QUEUED && status !== RUNNING) return null
    if (state.awaitingSlot.has(position) || state.held.has(position)) return null
    const retryAt = state.retryAt.get(position)
    if (retryAt !== undefined && (state.paused !== null || retryAt > this.#now)) return null
    const live = this.#inFlight(task)
    return live.status === "RUNNING" ? { ...live, progress } : live
  }

  /** A node with `for_each`: the item that has run longest, or else the one that waits first. */
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
}

const idle: LiveTask = { status: "QUEUED", worker: null, started_at: null, progress: null, waiting_on: null }

function isBefore(a: LiveTask, b: LiveTask): boolean {
  if (a.status !== b.status) return a.status === "RUNNING"
  return (a.started_at ?? 0) < (b.started_at ?? 0)
}
