import type { Fault } from "./faults.ts"
import type { Json, JsonObject } from "./json.ts"

/**
 * What can happen to a job. One fact is one row of the journal, for ever: these names and fields are the real API.
 *
 * 1. Facts are in the past tense and carry every time they need; `at` is when it was decided.
 * 2. A node is named by its position in the document, an attempt by its number.
 * 3. What follows from a fact (fan-in, readiness, fail-fast, the job's state) is derived by `apply`, never stored.
 * 4. A field may be added, with a meaning for facts that lack it. None is renamed or removed.
 */
export type Fact = { readonly at: number } & (
  | JobSubmitted
  | NodeStarted
  | NodeCompleted
  | NodeFailed
  | NodeWaiting
  | NodeSkipped
  | TasksLost
  | PreviewPublished
  | SignalReceived
  | SlotAwaited
  | SlotGranted
  | PollScheduled
  | JobFailed
  | JobCancelled
  | JobExpired
  | JobRetried
  | JobDeleted
  | JobSettled
  | NodeExpanded
  | ItemStarted
  | ItemCompleted
  | ItemFailed
  | ItemWaiting
  | ItemsLost
)

export interface JobSubmitted {
  readonly type: "job_submitted"
  readonly owner: string
  readonly workflow: string
  readonly workflow_version: number
  readonly input: Json
  readonly expires_at: number | null
  readonly ttl_seconds: number | null
  readonly priority: number
  readonly labels?: { readonly [key: string]: string }
  /** W3C Trace Context of the submission, for the spans of the job's attempts. Absent: it was not traced. */
  readonly traceparent?: string
  /** Which API token, or which subject of JWTs. Absent: neither. */
  readonly submitted_by?: string
  /** Of a child job: whose node it runs for. */
  readonly parent?: ParentLink
}

/** From a child job to the node that waits for it. */
export interface ParentLink {
  readonly job_id: string
  readonly node: number
  readonly item?: number
  /** Names of the workflows above, the outermost first: how deep it is, and that none runs itself. */
  readonly path: readonly string[]
}

/** Appended only for work that still runs after a second, and before work whose earlier attempt was lost. */
export interface NodeStarted extends StartFields {
  readonly type: "node_started"
  readonly node: number
  readonly attempt: number
}

interface StartFields {
  readonly worker: string
  /** The node is isolated, and no other isolated node runs in its process. Absent: others may. */
  readonly alone?: true
  /** With `alone`: another node died alone since this one last began alone. */
  readonly contested?: true
  /** The attempt began alone; from now on others run beside it, so a death says nothing about it. */
  readonly joined?: true
}

export interface NodeCompleted {
  readonly type: "node_completed"
  readonly node: number
  readonly attempt: number
  readonly output: Json
  readonly usage?: JsonObject
  /** An operation that nobody followed has ended before the attempt that was to submit it again. */
  readonly overtaken?: true
  /** With the last node of a workflow that has an `output` template: the job's output, rendered … */
  readonly job_output?: Json
  /** … or why it could not be: then the job fails although its nodes are done. */
  readonly job_fault?: Fault
}

/** With `retry_at` the node is tried again; without, it has failed for good and the job with it. */
export interface NodeFailed {
  readonly type: "node_failed"
  readonly node: number
  readonly attempt: number
  readonly fault: Fault
  readonly retry_at?: number
  /** The operation that the node waited for could not be followed any more; it may still run. */
  readonly abandoned?: true
  /** The provider has taken nothing and asked for time (429): no try was used up. */
  readonly postponed?: true
}

export interface NodeWaiting {
  readonly type: "node_waiting"
  readonly node: number
  readonly attempt: number
  readonly waiting: Waiting
}

/** What a node waits for after its handler has returned. */
export type Waiting =
  | { readonly kind: "timer"; readonly until: number; readonly output: Json }
  /** `default`: what it completes with at `until`; without, it fails. */
  | {
      readonly kind: "signal"
      readonly name: string
      readonly until?: number
      readonly default?: Json
    }
  /** A child job, whose end is this node's. It is in the same partition, and there before the node waits. */
  | {
      readonly kind: "child"
      readonly job_id: string
      readonly workflow: string
      readonly workflow_version: number
      readonly until?: undefined
    }
  | ExternalWaiting

/** An operation at a provider (X1). Past `until` the job expires; `next_poll_at` is absent if nobody can ask. */
export interface ExternalWaiting {
  readonly kind: "external"
  readonly provider: string
  readonly external_id: string
  readonly next_poll_at?: number
  readonly until?: number
}

export interface NodeSkipped {
  readonly type: "node_skipped"
  readonly node: number
  readonly job_output?: Json
  readonly job_fault?: Fault
}

/**
 * The process that had these attempts is gone. They go back to the queue with the next attempt number. `handed_over`: it
 * ended in order, so the nodes are not to blame.
 */
export interface TasksLost {
  readonly type: "tasks_lost"
  readonly nodes: readonly number[]
  readonly handed_over?: true
}

export interface PreviewPublished {
  readonly type: "preview_published"
  readonly node: number
  readonly attempt: number
  readonly data: Json
  readonly item?: number
}

/** `node`: the waiting node that it completes. Without: kept until a node asks for it. */
export interface SignalReceived {
  readonly type: "signal_received"
  readonly name: string
  readonly data: Json
  readonly node?: number
  readonly item?: number
  readonly job_output?: Json
  readonly job_fault?: Fault
}

/** The node, or an item of it, is ready, but all slots of its provider are taken: it has no worker until one is granted (X5). */
export interface SlotAwaited {
  readonly type: "slot_awaited"
  readonly node: number
  readonly item?: number
  readonly attempt: number
  readonly provider: string
}

export interface SlotGranted {
  readonly type: "slot_granted"
  readonly node: number
  readonly item?: number
  readonly attempt: number
}

/** A look at an operation that is not over, and when the next one is. */
export interface PollScheduled {
  readonly type: "poll_scheduled"
  readonly node: number
  readonly item?: number
  readonly attempt: number
  readonly next_poll_at: number
  /** `error`: the provider could not be asked. `hint`: nobody has asked yet. `postponed`: nor may anybody, by its rate or its own 429. */
  readonly because: "running" | "error" | "hint" | "postponed"
  readonly fault?: Fault
}

/** No node is to blame: the job cannot go on (its facts cannot be stored, its plan is gone). */
export interface JobFailed {
  readonly type: "job_failed"
  readonly fault: Fault
}

export interface JobCancelled {
  readonly type: "job_cancelled"
  readonly reason?: string
}

export interface JobExpired {
  readonly type: "job_expired"
}

export interface JobRetried {
  readonly type: "job_retried"
  readonly expires_at: number | null
}

export interface JobDeleted {
  readonly type: "job_deleted"
}

/** The job has ended and its relatives know: the parent has the result, children without a parent are cancelled. */
export interface JobSettled {
  readonly type: "job_settled"
}

/** `for_each` of the node was evaluated: this is its list, for ever. An empty one completes the node. */
export interface NodeExpanded {
  readonly type: "node_expanded"
  readonly node: number
  readonly attempt: number
  /** Absent: `items_of` says where it is. */
  readonly items?: readonly Json[]
  readonly items_of?: ListSource
  readonly job_output?: Json
  readonly job_fault?: Fault
}

/**
 * A list that the job has already, and which is not stored a second time: what the items of a node gave, or what is in
 * the job's input at the end of a path.
 */
export type ListSource = { readonly count: number } & (
  | { readonly node: number }
  | { readonly input: readonly (string | number)[] }
)

/** What happens to items means what the same means of a node; the last completion completes the node, too. */
export interface ItemStarted extends StartFields {
  readonly type: "item_started"
  readonly node: number
  readonly item: number
  readonly attempt: number
}

export interface ItemCompleted {
  readonly type: "item_completed"
  readonly node: number
  readonly item: number
  readonly attempt: number
  readonly output: Json
  readonly usage?: JsonObject
  readonly overtaken?: true
  readonly job_output?: Json
  readonly job_fault?: Fault
}

/** Without `retry_at`: the node has failed, and the job with it. */
export interface ItemFailed {
  readonly type: "item_failed"
  readonly node: number
  readonly item: number
  readonly attempt: number
  readonly fault: Fault
  readonly retry_at?: number
  readonly abandoned?: true
  readonly postponed?: true
}

export interface ItemWaiting {
  readonly type: "item_waiting"
  readonly node: number
  readonly item: number
  readonly attempt: number
  readonly waiting: Waiting
}

export interface ItemsLost {
  readonly type: "items_lost"
  readonly node: number
  readonly items: readonly number[]
  readonly handed_over?: true
}

export type ItemFact = { readonly at: number } & (
  | ItemStarted
  | ItemCompleted
  | ItemFailed
  | ItemWaiting
  | ItemsLost
  | ((SlotAwaited | SlotGranted | PollScheduled) & { readonly item: number })
)

export type FactType = Fact["type"]
