import { apply } from "../apply/apply.ts"
import { attemptStart, shownAttempt } from "../attempt-times.ts"
import type { Effect } from "../effects.ts"
import type { AttemptAborted, Fact, RunningAttempt } from "../facts.ts"
import type { JsonObject } from "../json.ts"
import type { Graph } from "../plan.ts"
import { findTask, type JobState, newJobState, nodeStatuses, readNodeStatus, type TaskRef } from "../state.ts"
import { type JobStatus, type NodeStatus, nodeMayBecome } from "../states.ts"
import {
  abortedPayload,
  aboutJobPayload,
  eventSource,
  jobPayload,
  nodePayload,
  plainPayload,
} from "./event-payload.ts"
import { changesAll, type ItemChange, ItemChanges } from "./item-events.ts"

/**
 * The journal as events: every transition is an event, derived ones included (J18).
 *
 * 1. No rule is repeated: a fact is applied, and the changes are read from the state.
 * 2. Every `from` → `to` is in the tables of states.ts, and each `from` is the previous `to`. States that were not
 *    recorded but must have occurred (RUNNING before a result, QUEUED before DISPATCHING) are inserted.
 * 3. The same facts give the same events with the same keys, in every process and every time.
 * 4. Cost: O(changes); O(nodes) only for facts that end or restart a job.
 *
 * The type is `job.`, `node.` or `item.` and the new state. Some are not transitions: `attempt.lost`, `attempt.aborted`,
 * `signal.received`, `slot.awaited`, `slot.granted`, `operation.polled`, `job.paused`, `job.resumed`,
 * `job.rescheduled` and `job.described`.
 */
export interface JobEvent {
  readonly type: EventType
  readonly source: EventSource
  /**
   * When it was decided; for a start without a fact of its own, when the handler began. So it may be earlier than the
   * time of the event before. Milliseconds since 1970.
   */
  readonly at: number
  /** The seq of the fact that caused it. */
  readonly seq: number
  /** The job. */
  readonly correlation_id: string
  /** Job, seq and index among the events of one fact. */
  readonly idempotency_key: string
  readonly node?: string
  /** For an item of a node with `for_each`: its index. */
  readonly item?: number
  /** The number that people see, not the fence of the facts. */
  readonly attempt?: number
  /** null: there was no state before. */
  readonly from?: JobStatus | NodeStatus | null
  readonly to?: JobStatus | NodeStatus
  readonly payload: JsonObject
}

export type EventType =
  | `job.${Lowercase<JobStatus>}`
  | `node.${Lowercase<NodeStatus>}`
  | `item.${Lowercase<NodeStatus>}`
  | "attempt.lost"
  | "attempt.aborted"
  | "signal.received"
  | "slot.awaited"
  | "slot.granted"
  | "operation.polled"
  | "job.paused"
  | "job.resumed"
  | "job.rescheduled"
  | "job.described"

/** What caused the event. `engine`: it follows from another event. */
export type EventSource = "command" | "worker" | "timer" | "signal" | "provider" | "engine"

export interface RecordedFact {
  readonly seq: number
  readonly fact: Fact
}

export function* expandJobFacts(
  jobId: string,
  graph: Graph,
  facts: Iterable<RecordedFact>,
): Generator<JobEvent, void, undefined> {
  const state = newJobState(graph)
  for (const recorded of facts) yield* expand(state, jobId, recorded)
}

/** Applies the fact to `state` (the job as it was before) and returns all events that it caused. */
export function expand(state: JobState, jobId: string, { seq, fact }: RecordedFact): JobEvent[] {
  const events = new EventList(state, jobId, { seq, fact })
  events.emitCause()
  const named = namedNodes(fact)
  const was = named.map(node => ({ status: readNodeStatus(state, node), attempt: shownAttempt(state, node) }))
  const all = changesAll(fact) ? state.nodeStatus.slice() : null
  const items = new ItemChanges(state, fact)
  const effects: Effect[] = []
  apply(state, fact, effects)
  const dispatched: number[] = []
  for (const effect of effects) {
    if (effect.type !== "dispatch" && effect.type !== "hold") continue
    if (effect.item === undefined) dispatched.push(effect.node)
    else items.dispatched(effect.node, effect.item)
  }
  if (fact.type === "attempt_aborted") events.emitAborted(fact)
  events.emitJobResuming()
  const emitItem = (change: ItemChange) =>
    events.emitItem({ ...change, was: events.wasOr(change.was, change.node, change.item) })
  const emitOthers = () => {
    if (all !== null) {
      for (let node = 0; node < all.length; node++)
        if (node !== named[0]) events.emitNode(node, nodeStatuses[all[node]!]!)
    } else if (fact.type !== "tasks_lost" && fact.type !== "job_resumed" && !isNoTransition(fact))
      for (const node of dispatched) events.emitNode(node, "PENDING")
  }
  // Causes come first: what the fact names, an item before its node; then the consequences.
  items.emitNamed(emitItem)
  for (const [index, node] of named.entries()) {
    const { status, attempt } = was[index]!
    events.emitNode(node, events.wasOr(status, node), attempt)
  }
  // A node begins before its items do, and is cancelled after them.
  if (fact.type === "job_retried") emitOthers()
  items.emitOthers(state, emitItem)
  if (fact.type !== "job_retried") emitOthers()
  events.emitJob(state.status)
  return events.list
}

function namedNodes(fact: Fact): readonly number[] {
  if (fact.type === "tasks_lost") return fact.nodes
  if (isNoTransition(fact) || fact.type === "attempt_aborted") return []
  if (fact.type === "items_lost" || fact.type === "job_expired") return []
  return "node" in fact && fact.node !== undefined ? [fact.node] : []
}

function isNoTransition(fact: Fact): fact is Fact & { type: keyof typeof plainEvents } {
  return fact.type in plainEvents
}

/** Facts about a node that do not change its state. */
const plainEvents = {
  slot_awaited: "slot.awaited",
  slot_granted: "slot.granted",
  poll_scheduled: "operation.polled",
} as const

/** Facts about the job that do not change its state. */
const aboutJob = {
  job_paused: "job.paused",
  job_resumed: "job.resumed",
  job_rescheduled: "job.rescheduled",
  job_described: "job.described",
} as const

class EventList {
  readonly list: JobEvent[] = []
  readonly #state: JobState
  readonly #jobId: string
  readonly #seq: number
  readonly #fact: Fact
  readonly #source: EventSource
  readonly #named: readonly number[]
  /** Attempts whose start was emitted before their loss. */
  readonly #begun = new Set<string>()
  /** For a fact that loses attempts: those that were running, by node, or by item. */
  #ran: ReadonlyMap<number, RunningAttempt> | null = null
  #job: JobStatus

  constructor(before: JobState, jobId: string, { seq, fact }: RecordedFact) {
    this.#state = before
    this.#jobId = jobId
    this.#seq = seq
    this.#fact = fact
    this.#source = eventSource(before, fact)
    this.#named = namedNodes(fact)
    this.#job = before.status
  }

  /** The event of the fact itself, where it is not a transition. */
  emitCause(): void {
    const fact = this.#fact
    if (fact.type === "signal_received")
      this.#add({
        type: "signal.received",
        source: "signal",
        payload: { name: fact.name, data: fact.data, kept: fact.node === undefined, by: fact.by ?? null },
      })
    if (isNoTransition(fact)) this.#emitPlain(fact)
    if (fact.type in aboutJob) this.#emitAboutJob(fact as Fact & { type: keyof typeof aboutJob })
    if (fact.type === "tasks_lost")
      for (const node of fact.nodes) this.#emitLost(this.#state, node, this.#nodeField(node))
    if (fact.type === "items_lost") {
      const list = this.#state.lists.get(fact.node)!.state
      for (const item of fact.items) this.#emitLost(list, item, { ...this.#nodeField(fact.node), item })
    }
  }

  #emitAboutJob(fact: Fact & { type: keyof typeof aboutJob }): void {
    this.#add({ type: aboutJob[fact.type], source: this.#source, payload: aboutJobPayload(fact) })
  }

  #emitPlain(fact: Fact & { type: keyof typeof plainEvents }): void {
    this.#add({
      type: plainEvents[fact.type],
      source: this.#source,
      ...this.#nodeField(fact.node),
      ...(fact.item === undefined ? {} : { item: fact.item }),
      attempt: this.#attemptAt(fact),
      payload: plainPayload(fact),
    })
  }

  #attemptAt(at: TaskRef): number {
    const place = findTask(this.#state, at)
    return place === null ? 1 : shownAttempt(place.state, place.position)
  }

  /** The state before the fact, or RUNNING for an attempt whose start was emitted meanwhile. */
  wasOr(was: NodeStatus, node: number, item?: number): NodeStatus {
    return this.#begun.size > 0 && this.#begun.has(`${node}/${item}`) ? "RUNNING" : was
  }

  /** `of`: the job, or one of its lists. */
  #emitLost(of: JobState, position: number, which: { node: string; item?: number }): void {
    const ran = this.#running(of, position)
    const started = of.started.get(position) ?? ran
    // According to facts the attempt had not begun: people see the same attempt, which continues to wait.
    if (started === undefined && readNodeStatus(of, position) === "QUEUED") return
    if (ran !== undefined && readNodeStatus(of, position) === "QUEUED")
      this.#emitBegun(of, position, which, ran)
    const isHandedOver = "handed_over" in this.#fact && this.#fact.handed_over === true
    this.#add({
      type: "attempt.lost",
      source: "engine",
      ...which,
      attempt: shownAttempt(of, position),
      payload: {
        ...(started === undefined ? {} : { started_at: started.at, worker: started.worker }),
        ...(isHandedOver ? { handed_over: true } : {}),
      },
    })
  }

  /** The lost attempt, if the fact records that it was running. */
  #running(of: JobState, position: number): Begun | undefined {
    const { running, at } = this.#fact as Fact & { readonly running?: readonly RunningAttempt[] }
    if (running === undefined) return undefined
    this.#ran ??= new Map(running.map(attempt => [attempt.item ?? attempt.node, attempt]))
    const found = this.#ran.get(position)
    return found && { at: attemptStart(of, position, found.ran_ms, at), worker: found.worker }
  }

  #emitBegun(of: JobState, position: number, which: { node: string; item?: number }, begun: Begun): void {
    this.#begun.add(`${"node" in this.#fact ? this.#fact.node : position}/${which.item}`)
    this.#add({
      type: which.item === undefined ? "node.running" : "item.running",
      source: "worker",
      at: begun.at,
      ...which,
      attempt: shownAttempt(of, position),
      from: "QUEUED",
      to: "RUNNING",
      payload: { worker: begun.worker },
    })
  }

  /** After the fact. What it records of an attempt that has ended is no transition any more. */
  emitAborted(fact: AttemptAborted & { readonly at: number }): void {
    const place = findTask(this.#state, fact)
    if (place === null) return
    const isCurrent = place.state.attempt[place.position] === fact.attempt
    this.#add({
      type: "attempt.aborted",
      source: this.#source,
      ...this.#nodeField(fact.node),
      ...(fact.item === undefined ? {} : { item: fact.item }),
      // The node may have been retried meanwhile.
      ...(isCurrent ? { attempt: shownAttempt(place.state, place.position) } : {}),
      payload: abortedPayload(this.#state, fact),
    })
  }

  /** The state of the job before those of its nodes. */
  emitJobResuming(): void {
    const { type } = this.#fact
    if (type === "job_submitted") {
      this.#emitJobTransition({ from: null, to: "PENDING" })
      if (this.#fact.start_at === undefined) this.#emitQueued(this.#fact.queued)
    } else if (type === "job_started") {
      this.#emitQueued(this.#fact.queued)
    } else if (type === "job_retried") {
      this.emitJob("QUEUED")
      this.emitJob("DISPATCHING")
    } else if (this.#job === "QUEUED") {
      if (this.#state.status === "PROCESSING" || this.#named.length > 0) this.#emitDispatched()
    } else if (this.#named.length > 0 && type !== "tasks_lost" && this.#job !== "PROCESSING")
      this.emitJob("PROCESSING")
  }

  #emitQueued(queued: true | undefined): void {
    this.emitJob("QUEUED")
    if (queued !== true) this.emitJob("DISPATCHING")
  }

  /** A job that waited in the store: its dispatch is not recorded, but certain. */
  #emitDispatched(): void {
    this.emitJob("DISPATCHING")
    this.emitJob("PROCESSING")
  }

  emitJob(to: JobStatus): void {
    if (this.#job !== to) this.#emitJobTransition({ from: this.#job, to })
  }

  /** `attempt`: before the fact, for a node that the fact names; absent: the change is a consequence. */
  emitNode(node: number, was: NodeStatus, attempt?: number): void {
    const fact = this.#fact
    const isNamed = attempt !== undefined
    const now = shownAttempt(this.#state, node)
    const to = readNodeStatus(this.#state, node)
    const isTriedAgain = isNamed && fact.type === "node_failed" && to === "QUEUED"
    if (was === to && !isTriedAgain) return
    let from = was
    const begun = attemptBegin(this.#state, node, to)
    for (const between of statesBetween(was, to, begun !== null)) {
      const source = isNamed ? this.#source : "worker"
      this.#addNode(node, {
        from,
        to: between,
        attempt: attempt ?? now,
        source,
        ...startPayload(between, begun),
      })
      from = between
    }
    this.#addNode(node, {
      from,
      to,
      attempt: now,
      source: isNamed ? this.#source : "engine",
      payload: nodePayload(this.#state, node, { fact, to, isNamed, job: this.#state }),
    })
  }

  emitItem({ node, item, was, attempt, isNamed, fact }: ItemChange): void {
    const list = this.#state.lists.get(node)!.state
    const to = readNodeStatus(list, item)
    const isTriedAgain = isNamed && fact.type === "node_failed" && to === "QUEUED"
    if (was === to && !isTriedAgain) return
    const source = isNamed ? this.#source : "engine"
    let from = was
    const which = { ...this.#nodeField(node), item }
    const add = (next: NodeStatus, of: number, fields: { payload: JsonObject; at?: number }) => {
      this.#add({ type: `item.${lower(next)}`, source, ...which, attempt: of, from, to: next, ...fields })
      from = next
    }
    const begun = attemptBegin(list, item, to)
    for (const between of statesBetween(was, to, begun !== null))
      add(between, attempt, startPayload(between, begun))
    add(to, shownAttempt(list, item), {
      payload: nodePayload(list, item, { fact, to, isNamed, job: this.#state }),
    })
  }

  #emitJobTransition({ from, to }: { from: JobStatus | null; to: JobStatus }): void {
    this.#job = to
    const isDerived = (this.#named.length > 0 && to !== "PREVIEW") || to === "PROCESSING"
    this.#add({
      type: `job.${lower(to)}`,
      source: isDerived ? "engine" : this.#source,
      from,
      to,
      payload: jobPayload(this.#state, this.#fact, to),
    })
  }

  #addNode(
    node: number,
    event: {
      from: NodeStatus
      to: NodeStatus
      attempt: number
      source: EventSource
      payload: JsonObject
      at?: number
    },
  ): void {
    const { to, source, ...rest } = event
    this.#add({ type: `node.${lower(to)}`, source, ...this.#nodeField(node), to, ...rest })
  }

  #nodeField(node: number): { node: string } {
    return { node: this.#state.graph.nodes[node]!.id }
  }

  /** `at`: absent: when the fact was decided. */
  #add(
    event: Omit<JobEvent, "at" | "seq" | "correlation_id" | "idempotency_key"> & { readonly at?: number },
  ): void {
    const { type, source, at = this.#fact.at, ...rest } = event
    this.list.push({
      type,
      source,
      at,
      seq: this.#seq,
      correlation_id: this.#jobId,
      idempotency_key: `${this.#jobId}:${this.#seq}:${this.list.length}`,
      ...rest,
    })
  }
}

interface Begun {
  readonly at: number
  readonly worker: string | null
}

/** When and where the attempt that has reached this state began, according to facts; null: they do not record it. */
function attemptBegin(state: JobState, node: number, to: NodeStatus): Begun | null {
  if (to !== "QUEUED") {
    const at = state.startedAt[node]!
    return at === 0 ? null : { at, worker: state.workers[node] ?? null }
  }
  const last = state.lastAttempts.get(node)
  return last === undefined || last.startedAt === null ? null : { at: last.startedAt, worker: last.worker }
}

function startPayload(to: NodeStatus, begun: Begun | null): { payload: JsonObject; at?: number } {
  if (to !== "RUNNING" || begun === null) return { payload: {} }
  return { at: begun.at, payload: begun.worker === null ? {} : { worker: begun.worker } }
}

/** States that are not recorded, but certain: an attempt with a result has run, a running one was queued. `ran`: a worker has reported so. */
function statesBetween(from: NodeStatus, to: NodeStatus, ran: boolean): readonly NodeStatus[] {
  if (nodeMayBecome(from, to)) return ran && from === "QUEUED" && to !== "RUNNING" ? ["RUNNING"] : []
  return nodeMayBecome(from, "RUNNING") ? ["RUNNING"] : ["QUEUED", "RUNNING"]
}

function lower<T extends string>(status: T): Lowercase<T> {
  return status.toLowerCase() as Lowercase<T>
}
