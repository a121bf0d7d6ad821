import type { Fault } from "./faults.ts"
import type { Json, JsonObject } from "./json.ts"

/**
 * What can happen to a job. One fact is one row of the journal, kept for ever: these names and fields are the real API.
 *
 * 1. Facts are in the past tense and carry every time they need; `at` is when the fact was decided.
 * 2. A node is named by its position in the document, an attempt by its number.
 * 3. Consequences of a fact (fan-in, readiness, fail-fast, the job's state) are derived by `apply`, never stored.
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
  | AttemptAborted
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
  | JobPaused
  | JobResumed
  | JobDescribed
  | JobStarted
  | JobRescheduled
  | NodeExpanded
  | ItemStarted
  | ItemCompleted
  | ItemFailed
  | ItemWaiting
  | ItemsLost
)

/** The owner of jobs that were submitted without an owner: by the library, the command line, a server without tokens. */
export const localOwner = "local"

export interface JobSubmitted {
  readonly type: "job_submitted"
  readonly owner: string
  readonly workflow: string
  /** null: the job has a definition of its own. */
  readonly workflow_version: number | null
  /** The hash of a definition that is no version of its workflow (a fork with a changed definition). */
  readonly definition?: string
  readonly input: Json
  readonly expires_at: number | null
  readonly ttl_seconds: number | null
  readonly priority: number
  readonly labels?: { readonly [key: string]: string }
  /** W3C Trace Context of the submission, for the spans of the job's attempts. Absent: it was not traced. */
  readonly traceparent?: string
  /** The API token, or the subject of the JWT, that submitted the job. Absent: neither. */
  readonly submitted_by?: string
  /** For a child job: the node that it runs for. */
  readonly parent?: ParentLink
  /** The `retry` policy of nodes that do not set it. Absent: as the definition was compiled, which is 3 tries from 15 s on. */
  readonly retry_defaults?: RecordedRetryPolicy
  /** Its engine had no place for it: it was not dispatched, and waits in the store. */
  readonly queued?: true
  /** A delayed job: it is PENDING until a `job_started` follows. `expires_at` is null until then. Absent: it starts at once. */
  readonly start_at?: number
  /** Its workflow is paused: it begins when it is resumed. */
  readonly paused?: { readonly by?: string; readonly reason?: string }
  /** The tick of a schedule that started it. Absent: none did. */
  readonly schedule?: ScheduleTick
  /** The job that it was forked from, and what it takes over from there. */
  readonly fork?: ForkRecord
  /** The outputs that the request of a fork sets, in the order of `fork.nodes` that name them. */
  readonly pinned?: readonly Json[] | undefined
  /** The job of the bulk operation that forked it, or started it for a tick. Absent: none did. */
  readonly operation?: string | undefined
  /** Of a fork without a node to run: as in `NodeCompleted`. */
  readonly job_output?: Json
  readonly job_fault?: Fault
}

/** A tick of a schedule, in milliseconds since 1970. */
export interface ScheduleTick {
  readonly name: string
  readonly tick: number
}

/**
 * What a fork takes over. Results stay where they are: each is named by the fact that has it, of the origin or of a job
 * that the origin itself took it over from; so a reference never leads to another reference. Rows of `held` keep these
 * jobs in the store, and all of them are in the partition of the fork, where a seq belongs to one fact.
 */
export interface ForkRecord {
  /** The origin. */
  readonly job_id: string
  /** The jobs whose facts hold the results. */
  readonly jobs: readonly string[]
  readonly nodes: readonly ReusedNode[]
  /** Child jobs of the origin that did not complete: the child of the same node, or item, is forked from it. */
  readonly children?: readonly ForkedChild[] | undefined
}

/** A position in the new job's document with its result. */
export type ReusedNode = { readonly node: number } & (
  | { readonly skipped: true }
  /** Its output is in this fact. `job`: index in `jobs`. */
  | ResultRef
  /** Its output is given with the fork. `pinned`: index in `pinned`. */
  | { readonly pinned: number }
  /** Of a node with `for_each`: its list, and the items that need not run. */
  | { readonly list: ReusedList; readonly items: readonly ReusedItem[] }
)

interface ResultRef {
  readonly job: number
  readonly seq: number
}

/** Where the list is: as in `ListSource`, or in the fact that recorded it. */
export type ReusedList = ListSource | ({ readonly count: number } & ResultRef)

export type ReusedItem = readonly [item: number, job: number, seq: number]

export interface ForkedChild {
  readonly node: number
  readonly item?: number
  readonly job_id: string
}

/** A retry policy as stored in facts. */
export interface RecordedRetryPolicy {
  readonly max_attempts: number
  readonly initial_seconds: number
  readonly max_seconds: number
  readonly multiplier: number
  readonly jitter: number
}

/** From a child job to the node that waits for it. */
export interface ParentLink {
  readonly job_id: string
  readonly node: number
  readonly item?: number
  /** Names of the workflows above, the outermost first: gives the depth, and detects a workflow that runs itself. */
  readonly path: readonly string[]
}

/** How long the handler ran whose result the fact records, by the worker's monotonic clock: from `at - ran_ms` on (core/attempt-times.ts). */
export interface Ran {
  /** Absent: no handler ran for this fact, or a release before 0.2 wrote it. */
  readonly ran_ms?: number
  /** How long the worker held the task before its handler began. Absent: less than a millisecond. */
  readonly held_ms?: number | undefined
  /** The number of the last line that the attempt has logged. Absent: none. Lines after the last stored one were lost. `log_run`: the run that has logged them. */
  readonly log_lines?: number | undefined
  readonly log_run?: number | undefined
  /** Absent although `ran_ms` is present: the worker named by the latest earlier fact, among the facts of the job's nodes or among those of the items of one node. */
  readonly worker?: string
}

/** An attempt whose handler was running when the fact that ended it was decided. */
export interface RunningAttempt {
  readonly node: number
  readonly item?: number | undefined
  readonly ran_ms: number
  readonly worker: string
  /** The usage that it had reported by then. Absent: nothing, or a release before 0.2 wrote the fact. */
  readonly usage?: JsonObject | undefined
}

/** Attempts that ran until the fact ended them; at most 1,000. Absent: none is known. */
interface Ends {
  readonly running?: readonly RunningAttempt[]
}

/** Appended only for work that still runs after a second, and before work whose earlier attempt was lost. */
export interface NodeStarted {
  readonly type: "node_started"
  readonly node: number
  readonly attempt: number
  readonly worker: string
  /** How long the handler had run by then. Absent: it begins now, or this was not known. */
  readonly ran_ms?: number
  /** The node is isolated, and no other isolated node runs in its process. Absent: others may. */
  readonly alone?: true
  /** Stored before the handler began. Absent in facts of releases before 0.2. */
  readonly announced?: true
  /** With `alone`: another node died alone since this one last began alone. */
  readonly contested?: true
  /** The attempt began alone; from now on others run beside it, so a death does not count against it. */
  readonly joined?: true
}

export interface NodeCompleted extends Ran {
  readonly type: "node_completed"
  readonly node: number
  readonly attempt: number
  readonly output: Json
  readonly usage?: JsonObject
  /** How the result of an operation at a provider arrived. Absent: it is a handler's result, or was recorded before 0.2. */
  readonly via?: "webhook" | "poll"
  /** An operation that was not followed has ended before the attempt that was to submit it again. */
  readonly overtaken?: true
  /** With the last node of a workflow that has an `output` template: the job's rendered output … */
  readonly job_output?: Json
  /** … or why it could not be rendered: then the job fails although its nodes are done. */
  readonly job_fault?: Fault
}

/** With `retry_at` the node is retried; without, it has failed permanently and the job with it. */
export interface NodeFailed extends Ran, Ends {
  readonly type: "node_failed"
  readonly node: number
  readonly attempt: number
  readonly fault: Fault
  /** The usage that the handler reported before it failed. */
  readonly usage?: JsonObject | undefined
  readonly retry_at?: number
  /** How the failure of an operation at a provider was reported. */
  readonly via?: "webhook" | "poll"
  /** The operation that the node waited for could not be polled any more; it may still run. */
  readonly abandoned?: true
  /** The provider accepted nothing and asked for a pause (429), or no execution is free (E702): no try was used up. */
  readonly postponed?: true
}

export interface NodeWaiting extends Ran {
  readonly type: "node_waiting"
  readonly node: number
  readonly attempt: number
  readonly waiting: Waiting
  readonly usage?: JsonObject
}

/** What a node waits for after its handler has returned. */
export type Waiting =
  | { readonly kind: "timer"; readonly until: number; readonly output: Json }
  /** `default`: the output with which it completes at `until`; without, it fails. `schema`: of the data, if the handler declares one. */
  | {
      readonly kind: "signal"
      readonly name: string
      readonly until?: number
      readonly default?: Json
      readonly schema?: JsonObject
    }
  /** A child job, whose end is this node's end. It is in the same partition, and exists before the node waits. */
  | {
      readonly kind: "child"
      readonly job_id: string
      readonly workflow: string
      readonly workflow_version: number
      readonly until?: undefined
    }
  | ExternalWaiting

/** An operation at a provider (X1). After `until` the job expires; `next_poll_at` is absent if the provider cannot be polled. */
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
 * The process that had these attempts has died. They go back to the queue with the next attempt number. `handed_over`:
 * it shut down cleanly, so the nodes did not cause its end.
 */
export interface TasksLost extends Ends {
  readonly type: "tasks_lost"
  readonly nodes: readonly number[]
  readonly handed_over?: true
}

/**
 * A worker reports on an attempt that another fact has ended (a cancellation, a failure elsewhere, a loss), and that fact did
 * not record all of this. It may follow the end of the job.
 */
export interface AttemptAborted extends OfAttempt {
  readonly type: "attempt_aborted"
  /** How long its handler had run when it was aborted; with `ended`, in total. Absent: its start was recorded before. */
  readonly ran_ms?: number
  /** Its handler has ended. */
  readonly ended?: true | undefined
  /** As in `Ran`. */
  readonly held_ms?: number | undefined
  readonly worker: string
  /** The usage that no earlier fact has counted. */
  readonly usage?: JsonObject | undefined
}

/** An attempt at a node, or at an item of it. */
interface OfAttempt {
  readonly node: number
  readonly item?: number | undefined
  readonly attempt: number
}

export interface PreviewPublished extends OfAttempt {
  readonly type: "preview_published"
  readonly data: Json
}

/** `node`: the waiting node that the signal completes. Absent: the signal is kept until a node waits for it. */
export interface SignalReceived {
  readonly type: "signal_received"
  readonly name: string
  readonly data: Json
  /** The API token, or the subject of the JWT, that sent it. Absent: neither, or a release before 0.2 wrote the fact. */
  readonly by?: string
  readonly node?: number
  readonly item?: number
  readonly job_output?: Json
  readonly job_fault?: Fault
}

/** The node, or an item of it, is ready, but all slots of its provider are taken: it is not dispatched until one is granted (X5). */
export interface SlotAwaited extends OfAttempt {
  readonly type: "slot_awaited"
  readonly provider: string
}

export interface SlotGranted extends OfAttempt {
  readonly type: "slot_granted"
}

/** A poll of an operation that has not ended, and the time of the next one. */
export interface PollScheduled extends OfAttempt {
  readonly type: "poll_scheduled"
  readonly next_poll_at: number
  /** `error`: the poll failed. `hint`: a webhook asked for a poll. `postponed`: the rate, or the provider's own 429, allows no poll yet. */
  readonly because: "running" | "error" | "hint" | "postponed"
  readonly fault?: Fault
}

/** The job cannot continue, and no node caused it (its facts cannot be stored, its plan does not exist any more). */
export interface JobFailed extends Ends {
  readonly type: "job_failed"
  readonly fault: Fault
}

export interface JobCancelled extends Ends {
  readonly type: "job_cancelled"
  /** Absent: no reason was given. */
  readonly reason?: string | undefined
  /** The job of the bulk operation that cancelled it. Absent: a caller, or its parent. */
  readonly operation?: string
}

/** With `node`: an operation of that node, or of that item of it, did not end within its provider's time limit. */
export interface JobExpired extends Ends {
  readonly type: "job_expired"
  readonly node?: number
  readonly item?: number
}

export interface JobRetried {
  readonly type: "job_retried"
  readonly expires_at: number | null
  /** As in `JobCancelled`. */
  readonly operation?: string
}

export interface JobDeleted {
  readonly type: "job_deleted"
  /** As in `JobCancelled`. */
  readonly operation?: string
}

/** The job has ended and its relatives are notified: the parent has the result, children without a parent are cancelled. */
export interface JobSettled {
  readonly type: "job_settled"
  /** The usage of cancelled children that is not counted yet. Absent: nothing, or a release before 0.2 wrote the fact. */
  readonly used?: readonly ChildUsage[] | undefined
  /** Only counts `used`, which a child reported after its end: it does not change which relatives must be notified. */
  readonly late?: true
}

/** From here on no node of the job begins: ready ones are held. Those with a worker may end; the time to live keeps elapsing. */
export interface JobPaused {
  readonly type: "job_paused"
  /** The API token, or the subject of the JWT, that paused it. Absent: neither. */
  readonly by?: string | undefined
  readonly reason?: string | undefined
  /** Attempts that a worker had, or may have had. Absent: none. */
  readonly kept?: readonly { readonly node: number; readonly item?: number }[] | undefined
}

/** The job continues with what was held, and with the timers that have become due. */
export interface JobResumed {
  readonly type: "job_resumed"
  readonly by?: string | undefined
}

/** The start time of a delayed job has come. */
export interface JobStarted {
  readonly type: "job_started"
  /** The time to live counts from here. */
  readonly expires_at: number | null
  /** As in `JobSubmitted`. */
  readonly queued?: true | undefined
}

/** A delayed job that has not started gets another start time. One that is not in the future: it starts at once. */
export interface JobRescheduled {
  readonly type: "job_rescheduled"
  readonly by?: string | undefined
  readonly start_at: number
}

/** The labels or the note of the job were changed. It may follow the end of the job. */
export interface JobDescribed {
  readonly type: "job_described"
  readonly by?: string | undefined
  /** All labels from now on. Absent: unchanged. */
  readonly labels?: { readonly [key: string]: string } | undefined
  /** null: removed. Absent: unchanged. */
  readonly note?: string | null | undefined
}

/** The usage of a child job that ran for a node, or for an item of it. */
export interface ChildUsage {
  readonly node: number
  readonly item?: number | undefined
  readonly job_id: string
  readonly usage: JsonObject
}

/** `for_each` of the node was evaluated: its list never changes. An empty list completes the node. */
export interface NodeExpanded {
  readonly type: "node_expanded"
  readonly node: number
  readonly attempt: number
  /** Absent: `items_of` refers to the list. */
  readonly items?: readonly Json[]
  readonly items_of?: ListSource
  readonly job_output?: Json
  readonly job_fault?: Fault
}

/** A list that the job already has, and which is not stored a second time: the outputs of the items of a node, or a list at a path of the job's input. */
export type ListSource = { readonly count: number } & (
  | { readonly node: number }
  | { readonly input: readonly (string | number)[] }
)

/** Facts of items have the meaning of the corresponding facts of nodes; the last completion completes the node, too. */
export interface ItemStarted extends Omit<NodeStarted, "type"> {
  readonly type: "item_started"
  readonly item: number
}

export interface ItemCompleted extends Omit<NodeCompleted, "type"> {
  readonly type: "item_completed"
  readonly item: number
}

/** Without `retry_at`: the node has failed, and the job with it. */
export interface ItemFailed extends Omit<NodeFailed, "type"> {
  readonly type: "item_failed"
  readonly item: number
}

export interface ItemWaiting extends Omit<NodeWaiting, "type"> {
  readonly type: "item_waiting"
  readonly item: number
}

export interface ItemsLost extends Ends {
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
