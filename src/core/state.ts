import type { AttemptRef } from "./commands.ts"
import type { ExternalWaiting } from "./facts.ts"
import type { JobState, TaskRef, Usage } from "./job-state.ts"
import type { Json } from "./json.ts"
import type { Graph } from "./plan.ts"
import { type NodeStatus, nodeTransitions } from "./states.ts"

export type * from "./job-state.ts"

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

/** Most jobs have none of these: one shared empty map saves an allocation each. */
const noEntries: ReadonlyMap<never, never> = new Map<never, never>()
export const noneHeld: ReadonlySet<number> = new Set()

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
    return (this.#map ?? noEntries).keys() as unknown as MapIterator<K>
  }

  values(): MapIterator<V> {
    return (this.#map ?? noEntries).values() as unknown as MapIterator<V>
  }

  entries(): MapIterator<[K, V]> {
    return (this.#map ?? noEntries).entries() as unknown as MapIterator<[K, V]>
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

type Counters = Pick<JobState, "attempt" | "tries" | "losses">

function newCounters(size: number): Counters {
  return {
    attempt: new Int32Array(size).fill(1),
    tries: new Uint16Array(size),
    losses: new Uint16Array(size),
  }
}

/** By size: counters of jobs with few nodes, shared until one of them changes. Most nodes complete at the first try. */
const firstTries: readonly Counters[] = Array.from({ length: ON_HEAP + 1 }, (_, size) => newCounters(size))
const nonePolled: Set<number> = new Set()

/** To be called before `attempt`, `tries` or `losses` change, and before `remaining` changes other than by a decrement. */
export function ownCounters(state: JobState): void {
  const own = state as Counters & { remaining: Int32Array }
  if (state.remaining === state.graph.inDegrees) own.remaining = state.remaining.slice()
  const size = state.nodeStatus.length
  if (state.attempt === firstTries[size]?.attempt) Object.assign(own, newCounters(size))
}

export function addPolling(state: JobState, node: number): void {
  if (state.polling === nonePolled) state.polling = new Set()
  state.polling.add(node)
}

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
  const counters = size > ON_HEAP ? newCounters(size) : firstTries[size]!
  return {
    graph,
    status: "PENDING",
    owner: "",
    workflow: "",
    workflowVersion: 0,
    definition: null,
    forkedFrom: null,
    reused: noEntries,
    forkedChildren: noEntries,
    input: null,
    priority: 0,
    labels: {},
    note: null,
    paused: null,
    traceparent: null,
    submittedBy: null,
    schedule: null,
    retryDefaults: null,
    ttlSeconds: null,
    createdAt: 0,
    startAt: null,
    expiresAt: null,
    finishedAt: null,
    endedAs: null,
    endReason: null,
    fault: null,
    output: undefined,
    nodeStatus: new Uint8Array(size),
    // A job with one node never decrements it.
    remaining: size === 1 ? graph.inDegrees : graph.inDegrees.slice(),
    attempt: counters.attempt,
    tries: counters.tries,
    losses: counters.losses,
    outputs: new Array(size),
    queuedAt: timesAt(0),
    endedAt: timesAt(1),
    startedAt: timesAt(2),
    workers: new Array(size),
    worker: undefined,
    waitingSince: noEntries,
    lastAttempts: noEntries,
    spentAttempts: noEntries,
    abortedRuns: noEntries,
    unfinished: size,
    active: 0,
    retryAt: new LazyMap(),
    waiting: new LazyMap(),
    awaitingSlot: new LazyMap(),
    held: noneHeld,
    pollAt: new LazyMap(),
    polls: new LazyMap(),
    polling: nonePolled,
    operations: new LazyMap(),
    unfollowed: noEntries,
    resumes: 0,
    started: new LazyMap(),
    suspects: new LazyMap(),
    faults: new LazyMap(),
    previews: new LazyMap(),
    signals: new LazyMap(),
    usage: new LazyMap(),
    nodeUsage: noEntries,
    childUsage: noEntries,
    lists: noEntries,
    places,
    room: places,
    nextHeld: size,
    continuesOnFailure,
    failures: 0,
    parent: null,
    children: noEntries,
    orphans: [],
    unsettled: false,
    earliestTimer: Number.POSITIVE_INFINITY,
    unknownFacts: 0,
    counted: null,
  }
}

type SharedMap =
  | ("waitingSince" | "lastAttempts" | "spentAttempts" | "abortedRuns")
  | ("unfollowed" | "nodeUsage" | "childUsage" | "lists" | "children")
type Own<M> = M extends ReadonlyMap<infer K, infer V> ? Map<K, V> : never

/** A map of the job, to be changed: while it is empty, jobs share it. */
export function ownMap<F extends SharedMap>(state: Pick<JobState, F>, name: F): Own<JobState[F]> {
  if (state[name].size === 0) state[name] = new Map() as never
  return state[name] as unknown as Own<JobState[F]>
}

/** The amounts that the node has used so far, to be added to. */
export function ensureNodeUsage(state: JobState, node: number): Usage {
  return sumsIn(ownMap(state, "nodeUsage"), node)
}

export function ensureChildUsage(state: JobState, jobId: string): Usage {
  return sumsIn(ownMap(state, "childUsage"), jobId)
}

function sumsIn<K>(usages: Map<K, Usage>, key: K): Usage {
  const known = usages.get(key)
  if (known !== undefined) return known
  const none: Usage = Object.create(null)
  usages.set(key, none)
  return none
}

/** The node's operation at its provider, whether it is followed or not. */
export function findOperation(state: JobState, node: number): ExternalWaiting | null {
  const waiting = state.waiting.get(node)
  return waiting?.kind === "external" ? waiting : (state.unfollowed.get(node) ?? null)
}

export function followed(state: JobState, node: number): void {
  if (state.unfollowed.size > 0) ownMap(state, "unfollowed").delete(node)
}

export function readNodeStatus(state: JobState, node: number): NodeStatus {
  return nodeStatuses[state.nodeStatus[node]!]!
}

/** Is the node running, or about to be dispatched? */
export function isInFlight({ nodeStatus }: JobState, node: number): boolean {
  return nodeStatus[node] === QUEUED || nodeStatus[node] === RUNNING
}

/** A job that was deleted after that still has its output. */
export function hasCompleted({ status, unfinished, fault }: JobState): boolean {
  return status === "COMPLETED" || (status === "DELETED" && unfinished === 0 && fault === null)
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

/** The job is stored, and waits for its start time. Without facts a state is PENDING too. */
export function isDelayed({ status, startAt }: Pick<JobState, "status" | "startAt">): boolean {
  return status === "PENDING" && startAt !== null
}

export type JobPhase = "open" | "ended" | "deleted"

export function jobPhase({ finishedAt, status }: JobState): JobPhase {
  if (finishedAt === null) return "open"
  return status === "DELETED" ? "deleted" : "ended"
}

/** An output that is too large to keep in memory: it is read from its fact. */
export class LargeOutput {
  readonly seq: number
  readonly bytes: number
  /** The job that has the fact; undefined: the job itself. */
  readonly jobId: string | undefined
  constructor(seq: number, bytes: number, jobId?: string) {
    this.seq = seq
    this.bytes = bytes
    this.jobId = jobId
  }
}

/**
 * The outputs of a node's items, in their order; some may be too large to keep. They are read as a whole repeatedly, so
 * the result is cached, and dropped when a part leaves memory (`partLeft`).
 */
export class ListOutput {
  readonly outputs: readonly (Output | undefined)[]
  #large: readonly LargeOutput[] | undefined
  #whole: readonly Json[] | undefined

  constructor(outputs: readonly (Output | undefined)[]) {
    this.outputs = outputs
  }

  get large(): readonly LargeOutput[] {
    this.#large ??= this.outputs.filter(part => part instanceof LargeOutput)
    return this.#large
  }

  /** A copy: the reader keeps it while parts of this one leave memory. */
  whole(read: (large: LargeOutput) => Json): readonly Json[] {
    if (this.large.length > 0) return this.outputs.map(part => wholeOutput(part ?? null, read))
    this.#whole ??= this.outputs.slice() as Json[]
    return this.#whole
  }

  partLeft(): void {
    this.#large = undefined
    this.#whole = undefined
  }
}

export type Output = Json | LargeOutput | ListOutput

/** The output as JSON; `read` returns the value for a part that is not in memory. */
export function wholeOutput(output: Output, read: (large: LargeOutput) => Json): Json {
  if (output instanceof LargeOutput) return read(output)
  return output instanceof ListOutput ? output.whole(read) : output
}

export function largeParts(output: Output | undefined): readonly LargeOutput[] {
  if (output instanceof LargeOutput) return [output]
  return output instanceof ListOutput ? output.large : noParts
}

const noParts: readonly LargeOutput[] = []

/** The output for display: a part that is not in memory is shown by its size and the seq of its fact. */
export function shownOutput(output: Output): Json {
  return wholeOutput(output, ({ bytes, seq }) => ({ $large: { bytes, seq } }))
}

/** J12 */
export const skippedOutput: Json = Object.freeze({ skipped: true })
