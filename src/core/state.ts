import type {
  AbortedRun,
  EndedAttempt,
  NodeFault,
  Note,
  Pause,
  Polls,
  SpentAttempts,
  Start,
  Suspect,
  TaskRef,
  Usage,
} from "./attempt-records.ts"
import type { AttemptRef } from "./commands.ts"
import type { ExternalWaiting, ParentLink, Waiting } from "./facts.ts"
import type { Fault } from "./faults.ts"
import type { ItemList } from "./item-list.ts"
import type { Json } from "./json.ts"
import type { Output } from "./outputs.ts"
import type { Graph, RetryPolicy } from "./plan.ts"
import { type JobStatus, type NodeStatus, nodeTransitions } from "./states.ts"
import type { CountedBefore } from "./statistics/job-figures.ts"

export type * from "./attempt-records.ts"
export * from "./outputs.ts"

/** Node states as small numbers, for typed arrays: a job of 100,000 nodes costs a few megabytes. */
export const nodeStatuses = Object.keys(nodeTransitions) as NodeStatus[]
const code = (status: NodeStatus) => nodeStatuses.indexOf(status)
export const PENDING = code("PENDING")
export const QUEUED = code("QUEUED")
export const RUNNING = code("RUNNING")
export const WAITING = code("WAITING")
export const COMPLETED = code("COMPLETED")
export const SKIPPED = code("SKIPPED")
export const FAILED = code("FAILED")
export const CANCELLED = code("CANCELLED")

/** The shadow graph of one job: its facts, folded. Changed by `apply` and by the functions of timers.ts that take due timers. */
export interface JobState {
  readonly graph: Graph
  status: JobStatus
  owner: string
  workflow: string
  /** 0: it has a definition of its own. */
  workflowVersion: number
  /** The hash of a definition that is no version of its workflow; null: it runs a version. */
  definition: string | null
  /** The job that it was forked from; null: none. */
  forkedFrom: string | null
  /** Nodes whose result was taken over: by node, the job that has it; null: it was set by the request of the fork. */
  reused: ReadonlyMap<number, string | null>
  /** By node, or by item: the child job of the origin that its child is forked from. */
  forkedChildren: ReadonlyMap<number, string>
  input: Json
  priority: number
  labels: { readonly [key: string]: string }
  /** What people have noted on the job, when, and the API token or JWT subject that did; null: nothing. */
  note: Note | null
  /** Set while no node of the job begins. */
  paused: Pause | null
  /** The trace that the job belongs to; null: none. */
  traceparent: string | null
  /** The API token, or the subject of the JWT, that submitted it; null: neither. */
  submittedBy: string | null
  /** The `retry` policy of nodes that do not set it; null: as compiled. */
  retryDefaults: RetryPolicy | null
  ttlSeconds: number | null
  createdAt: number
  expiresAt: number | null
  finishedAt: number | null
  /** The status with which it ended, also once it is DELETED; null: it has not ended. */
  endedAs: JobStatus | null
  /** Why it was cancelled, or expired; null: it was neither. */
  endReason: string | null
  /** Why the job failed; `node` is absent when no node caused it. */
  fault: { readonly fault: Fault; readonly node?: number; readonly item?: number } | null
  /** The rendered `output` template, once there is one. */
  output: Json | undefined

  readonly nodeStatus: Uint8Array
  /** Dependencies that are not done yet. */
  readonly remaining: Int32Array
  /** Number of the current attempt, from 1. Fences results. */
  readonly attempt: Int32Array
  /** Failures that count against the node's retry policy. */
  readonly tries: Uint16Array
  /** Attempts known to have started when their process died. */
  readonly losses: Uint16Array
  readonly outputs: (Output | undefined)[]
  /** When the node was last queued, and when it ended; 0: not yet. */
  readonly queuedAt: Float64Array
  readonly endedAt: Float64Array
  /** When the handler of the current attempt began, according to facts; 0: not known, or not yet. */
  readonly startedAt: Float64Array
  /** The worker that ran it. */
  readonly workers: (string | undefined)[]
  /** The worker that the latest fact named. */
  worker: string | undefined
  /** For nodes whose handler returned a wait, or whose items run: since when. */
  waitingSince: ReadonlyMap<number, number>
  /** For nodes that were retried: the attempt before the current one. */
  lastAttempts: ReadonlyMap<number, EndedAttempt>
  /** Attempts that have begun and do not count against the retry policy. */
  spentAttempts: ReadonlyMap<number, SpentAttempts>
  /** By node: its latest attempt that a fact ended without a report of its worker. The report may follow. */
  abortedRuns: ReadonlyMap<number, AbortedRun>
  /** Nodes that are neither COMPLETED nor SKIPPED. */
  unfinished: number
  /** Nodes QUEUED or RUNNING that wait neither for a retry time nor for a slot nor for the end of a pause: they are in flight. */
  active: number

  readonly retryAt: Map<number, number>
  readonly waiting: Map<number, Waiting>
  /** Ready nodes that have no slot of their provider yet, with its name. */
  readonly awaitingSlot: Map<number, string>
  /** Ready nodes that do not begin because the job is paused. */
  held: ReadonlySet<number>
  /** When the operation that a node waits for is polled next, and the results of the polls so far. */
  readonly pollAt: Map<number, number>
  readonly polls: Map<number, Polls>
  /** Nodes whose operation is being polled right now. Not recorded: after a crash it is polled again. */
  readonly polling: Set<number>
  /** Operations of a node that ended without a result: the next one must be new for the provider too. */
  readonly operations: Map<number, number>
  /**
   * Nodes whose operation may be running although it is not followed: an attempt to submit it ended without an answer
   * (null), or it could not be polled any more. It keeps its slot until the next attempt follows it.
   */
  unfollowed: ReadonlyMap<number, ExternalWaiting | null>
  /** Number of waits that have ended: the fence for commands to a job that has continued since. */
  resumes: number
  /** Attempts known to have started: by node, when and where. */
  readonly started: Map<number, Start>
  /** Nodes that lost an attempt with its process and have not ended one since: their next start is made durable before it happens. */
  readonly suspects: Map<number, Suspect>
  readonly faults: Map<number, NodeFault>
  readonly previews: Map<number, Json>
  readonly signals: Map<string, Json[]>
  readonly usage: Map<string, number>
  /** By node that reported usage. */
  nodeUsage: ReadonlyMap<number, Usage>
  /** By child job: the part of its usage that is counted here. A child may fail, be counted, and continue. */
  childUsage: ReadonlyMap<string, Usage>
  /** By node with `for_each`, once its list is known. */
  lists: ReadonlyMap<number, ItemList>
  /** The number of nodes that may be in flight at once. */
  readonly places: number
  /** The number of free places. */
  room: number
  /** No node before this one waits for a place. */
  nextHeld: number
  /** A failed node does not end it before the others have ended: a list whose items continue. */
  readonly continuesOnFailure: boolean
  /** Nodes that have failed while it continues. */
  failures: number
  /** Set for a child job. */
  parent: ParentLink | null
  /** Child jobs by the node that they run for, since it first waited. */
  children: ReadonlyMap<number, string>
  /** Child jobs that no node waits for any more, since this job has ended. */
  orphans: readonly string[]
  /** It has ended, and relatives must be notified: the parent of its result, orphans of its end. */
  unsettled: boolean
  /** Not later than the earliest timer; may be early after a timer was removed. */
  earliestTimer: number
  /** Facts of types that this release does not know: they were ignored. */
  unknownFacts: number
  /** null: the job was never retried. */
  counted: CountedBefore | null
}

/** Most jobs have none of these: shared empty maps save an allocation each. */
const noTimes: ReadonlyMap<number, number> = new Map()
const noAttempts: ReadonlyMap<number, EndedAttempt> = new Map()
const noneSpent: ReadonlyMap<number, SpentAttempts> = new Map()
const noneAborted: ReadonlyMap<number, AbortedRun> = new Map()
const noUsage: ReadonlyMap<number, Usage> = new Map()
const noChildUsage: ReadonlyMap<string, Usage> = new Map()
const noLists: ReadonlyMap<number, ItemList> = new Map()
const noChildren: ReadonlyMap<number, string> = new Map()
const noneReused: ReadonlyMap<number, string | null> = new Map()
export const noneHeld: ReadonlySet<number> = new Set()
export const noneUnfollowed: ReadonlyMap<number, ExternalWaiting | null> = new Map()

/**
 * Maps and sets that take no memory until something is added: a job has a dozen of them, most stay empty, and there may
 * be a hundred thousand jobs in memory. An empty `Map` takes 200 bytes, one of these 16.
 */
class LazyMap<K, V> implements Map<K, V> {
  #map: Map<K, V> | undefined

  get size(): number {
    return this.#map === undefined ? 0 : this.#map.size
  }

  get(key: K): V | undefined {
    return this.#map === undefined ? undefined : this.#map.get(key)
  }

  has(key: K): boolean {
    return this.#map?.has(key) ?? false
  }

  set(key: K, value: V): this {
    this.#map ??= new Map()
    this.#map.set(key, value)
    return this
  }

  delete(key: K): boolean {
    return this.#map?.delete(key) ?? false
  }

  clear(): void {
    this.#map = undefined
  }

  forEach(callback: (value: V, key: K, map: Map<K, V>) => void): void {
    this.#map?.forEach(callback)
  }

  keys(): MapIterator<K> {
    return (this.#map ?? noTimes).keys() as unknown as MapIterator<K>
  }

  values(): MapIterator<V> {
    return (this.#map ?? noTimes).values() as unknown as MapIterator<V>
  }

  entries(): MapIterator<[K, V]> {
    return (this.#map ?? noTimes).entries() as unknown as MapIterator<[K, V]>
  }

  [Symbol.iterator](): MapIterator<[K, V]> {
    return this.entries()
  }

  get [Symbol.toStringTag](): string {
    return "Map"
  }
}

/** The most 64-bit numbers that a typed array holds on the heap. */
const ON_HEAP = 8

/** A job; or, with `places` and `continuesOnFailure`, the items of a list. */
export function newJobState(
  graph: Graph,
  {
    places = Number.POSITIVE_INFINITY,
    continuesOnFailure = false,
  }: { places?: number; continuesOnFailure?: boolean } = {},
): JobState {
  const size = graph.nodes.length
  // A typed array of more than 64 bytes is an allocation outside of the heap: the times of a large job share one.
  const times = size > ON_HEAP ? new Float64Array(3 * size) : null
  const timesAt = (part: number) => times?.subarray(part * size, (part + 1) * size) ?? new Float64Array(size)
  return {
    graph,
    status: "PENDING",
    owner: "",
    workflow: "",
    workflowVersion: 0,
    definition: null,
    forkedFrom: null,
    reused: noneReused,
    forkedChildren: noChildren,
    input: null,
    priority: 0,
    labels: {},
    note: null,
    paused: null,
    traceparent: null,
    submittedBy: null,
    retryDefaults: null,
    ttlSeconds: null,
    createdAt: 0,
    expiresAt: null,
    finishedAt: null,
    endedAs: null,
    endReason: null,
    fault: null,
    output: undefined,
    nodeStatus: new Uint8Array(size),
    remaining: graph.inDegrees.slice(),
    attempt: new Int32Array(size).fill(1),
    tries: new Uint16Array(size),
    losses: new Uint16Array(size),
    outputs: new Array(size),
    queuedAt: timesAt(0),
    endedAt: timesAt(1),
    startedAt: timesAt(2),
    workers: new Array(size),
    worker: undefined,
    waitingSince: noTimes,
    lastAttempts: noAttempts,
    spentAttempts: noneSpent,
    abortedRuns: noneAborted,
    unfinished: size,
    active: 0,
    retryAt: new LazyMap(),
    waiting: new LazyMap(),
    awaitingSlot: new LazyMap(),
    held: noneHeld,
    pollAt: new LazyMap(),
    polls: new LazyMap(),
    polling: new Set(),
    operations: new LazyMap(),
    unfollowed: noneUnfollowed,
    resumes: 0,
    started: new LazyMap(),
    suspects: new LazyMap(),
    faults: new LazyMap(),
    previews: new LazyMap(),
    signals: new LazyMap(),
    usage: new LazyMap(),
    nodeUsage: noUsage,
    childUsage: noChildUsage,
    lists: noLists,
    places,
    room: places,
    nextHeld: size,
    continuesOnFailure,
    failures: 0,
    parent: null,
    children: noChildren,
    orphans: [],
    unsettled: false,
    earliestTimer: Number.POSITIVE_INFINITY,
    unknownFacts: 0,
    counted: null,
  }
}

export function addList(state: JobState, node: number, list: ItemList): void {
  if (state.lists === noLists) state.lists = new Map()
  ;(state.lists as Map<number, ItemList>).set(node, list)
}

export function setWaitingSince(state: JobState, node: number, at: number): void {
  if (state.waitingSince === noTimes) state.waitingSince = new Map()
  ;(state.waitingSince as Map<number, number>).set(node, at)
}

export function setLastAttempt(state: JobState, node: number, ended: EndedAttempt): void {
  if (state.lastAttempts === noAttempts) state.lastAttempts = new Map()
  ;(state.lastAttempts as Map<number, EndedAttempt>).set(node, ended)
}

export function setSpentAttempts(state: JobState, node: number, spent: SpentAttempts): void {
  if (state.spentAttempts === noneSpent) state.spentAttempts = new Map()
  ;(state.spentAttempts as Map<number, SpentAttempts>).set(node, spent)
}

export function setAbortedRun(state: JobState, node: number, run: AbortedRun): void {
  if (state.abortedRuns === noneAborted) state.abortedRuns = new Map()
  ;(state.abortedRuns as Map<number, AbortedRun>).set(node, run)
}

/** The amounts that the node has used so far, to be added to. */
export function usageOf(state: JobState, node: number): Usage {
  if (state.nodeUsage === noUsage) state.nodeUsage = new Map()
  return sumsIn(state.nodeUsage as Map<number, Usage>, node)
}

export function childUsageOf(state: JobState, jobId: string): Usage {
  if (state.childUsage === noChildUsage) state.childUsage = new Map()
  return sumsIn(state.childUsage as Map<string, Usage>, jobId)
}

function sumsIn<K>(usages: Map<K, Usage>, key: K): Usage {
  const known = usages.get(key)
  if (known !== undefined) return known
  const none: Usage = Object.create(null)
  usages.set(key, none)
  return none
}

export function rememberChild(state: JobState, node: number, jobId: string): void {
  if (state.children === noChildren) state.children = new Map()
  ;(state.children as Map<number, string>).set(node, jobId)
}

/** The node's operation at its provider, whether it is followed or not. */
export function operationOf(state: JobState, node: number): ExternalWaiting | null {
  const waiting = state.waiting.get(node)
  return waiting?.kind === "external" ? waiting : (state.unfollowed.get(node) ?? null)
}

export function followed(state: JobState, node: number): void {
  if (state.unfollowed.size > 0) (state.unfollowed as Map<number, ExternalWaiting | null>).delete(node)
}

export function nodeStatusOf(state: JobState, node: number): NodeStatus {
  return nodeStatuses[state.nodeStatus[node]!]!
}

/** Is the node running, or about to be dispatched? */
export function isInFlight({ nodeStatus }: JobState, node: number): boolean {
  return nodeStatus[node] === QUEUED || nodeStatus[node] === RUNNING
}

/** X1: changes with each resume. Not a secret: it shows whether the job has continued since it was read. */
export function resumeToken({ resumes, lists }: JobState): string {
  let ended = resumes
  for (const { state: list } of lists.values()) ended += list.resumes
  return `r${ended}`
}

/** Is the node finished with an output that others can read? */
export function isDone({ nodeStatus }: JobState, node: number): boolean {
  return nodeStatus[node] === COMPLETED || nodeStatus[node] === SKIPPED
}

/** Where the state of a node or an item is: in the job, or in one of its lists. null: there is no such list. */
export function findTask(
  state: JobState,
  { node, item }: TaskRef,
): { readonly state: JobState; readonly position: number } | null {
  if (item === undefined) return { state, position: node }
  const list = state.lists.get(node)
  return list === undefined ? null : { state: list.state, position: item }
}

/** Only the fields that name an attempt. */
export function attemptRef({ node, item, attempt }: AttemptRef): AttemptRef {
  return { node, item, attempt }
}

/** Is this the current attempt, and is it running or about to be dispatched? A held one is not. */
export function isCurrent(state: JobState, task: AttemptRef): boolean {
  const { node, attempt, item } = task
  const own = item === undefined ? state : state.lists.get(node)?.state
  const position = item ?? node
  if (own === undefined || own.attempt[position] !== attempt || !isInFlight(own, position)) return false
  return own.held.size === 0 || !own.held.has(position)
}

/** More nodes than any job has. */
const NODES = 2 ** 24

/** A task as one number: a busy job has thousands of them in sets. */
export function taskKey({ node, item }: TaskRef): number {
  return item === undefined ? node : (item + 1) * NODES + node
}

export function parseTaskKey(key: number): { readonly node: number; readonly item?: number } {
  return key < NODES ? { node: key } : { node: key % NODES, item: Math.floor(key / NODES) - 1 }
}
