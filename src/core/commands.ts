import type {
  ChildUsage,
  ForkRecord,
  ListSource,
  ParentLink,
  RunningAttempt,
  ScheduleTick,
  Waiting,
} from "./facts.ts"
import type { Fault } from "./faults.ts"
import type { Json, JsonObject } from "./json.ts"
import type { PollPolicy, RetryPolicy } from "./plan.ts"
import type { TaskRef } from "./state.ts"
import type { Progress } from "./view/view.ts"

/** A request to change a job. `decide` answers with facts or a refusal. */
export type Command =
  | Submit
  | Started
  | Completed
  /** `hasNoPlace`: its pipeline is at the limit of executions, and the node waits until it is not. */
  | ({ readonly type: "failed"; readonly fault: Fault; readonly hasNoPlace?: true } & Reported)
  | ({ readonly type: "waiting"; readonly waiting: Waiting } & Reported)
  /** The list of a node with `for_each`. */
  | ({ readonly type: "expand"; readonly node: number; readonly attempt: number } & ExpandedTo)
  | { readonly type: "skip"; readonly node: number; readonly attempt: number }
  | ({ readonly type: "preview"; readonly data: Json } & AttemptRef)
  | {
      readonly type: "signal"
      readonly name: string
      readonly data: Json
      readonly resumeToken?: string
      readonly by?: string | null | undefined
      /** The schema of a handler's own wait that the data was checked with; null: none. Absent: any wait takes the data. */
      readonly checkedWith?: JsonObject | null
    }
  /** No slot of the node's provider is free. */
  | ({ readonly type: "await_slot"; readonly provider: string } & AttemptRef)
  /** The slot that the node, or the item, waits for is granted. */
  | ({ readonly type: "grant_slot" } & TaskRef)
  | Submitted
  | External
  /** Timers may be due. `queued`: of a delayed job: its engine has no place for it, so it waits in the store once it has started. */
  | { readonly type: "wake"; readonly queued?: boolean }
  /** The process that ran the job's nodes has died; or, with `only`, the processes that ran these. */
  | ({ readonly type: "recover" } & Some)
  /** The process that runs the job's nodes, or `only` these attempts, shuts down cleanly before they end. `ran`: those that had begun. */
  | ({ readonly type: "hand_over"; readonly ran?: readonly RunningAttempt[] } & Some)
  /** A worker has aborted an attempt that had begun. */
  | ({ readonly type: "aborted"; readonly times: AttemptTimes } & Reported)
  | { readonly type: "fail_job"; readonly fault: Fault }
  | ({ readonly type: "cancel"; readonly reason?: string | undefined } & OfOperation)
  /** `expiresBy`: a child job does not outlive its parent. */
  | ({ readonly type: "retry"; readonly expiresBy?: number | null } & OfOperation)
  /** The parent and the children of a job that has ended were notified. `used`: the total usage of each child that was cancelled. */
  | { readonly type: "settle"; readonly used?: readonly ChildUsage[] }
  /** The total usage of each child that the job does not wait for any more. */
  | { readonly type: "count_usage"; readonly used: readonly ChildUsage[] }
  | ({ readonly type: "delete" } & OfOperation)
  /** `kept`: the attempts that a worker has, or may have, and those whose outcome is being decided on. */
  | ({
      readonly type: "pause"
      readonly reason?: string | undefined
      readonly kept?: readonly TaskRef[]
    } & By)
  /** `ofWorkflow`: its workflow is resumed, which concerns only jobs that were paused with it. */
  | ({ readonly type: "resume"; readonly ofWorkflow?: true } & By)
  | Describe
  | Reschedule

/** The API token, or the subject of the JWT, that a command came from. Absent: neither. */
interface By {
  readonly by?: string | undefined
}

/** Changes what people have written on a job. Absent: unchanged. */
export interface Describe extends By {
  readonly type: "describe"
  /** All labels. */
  readonly labels?: { readonly [key: string]: string } | undefined
  /** null: removes the note. */
  readonly note?: string | null | undefined
}

/** When a job starts. At most one is set; neither, or a time that is not in the future: at once. */
export interface StartTime {
  /** Milliseconds since 1970. */
  readonly startAt?: number | undefined
  /** From the decision on, by the clock of the engine that decides. */
  readonly delayMs?: number | undefined
}

/** Moves the start of a delayed job. */
export interface Reschedule extends By, StartTime {
  readonly type: "reschedule"
}

/** A command that a bulk operation sends to one of its targets. Absent: a caller sends it for this job alone. */
interface OfOperation {
  /** The job of the operation. The facts of the command name it. */
  readonly operation?: string
  /** Refused if the job has begun, ended, been retried or deleted by a fact after `seq`: a repeated command changes nothing. */
  readonly onlyIf?: { readonly seq: number }
}

/** An attempt at a node, or at an item of it. */
export interface AttemptRef extends TaskRef {
  readonly attempt: number
}

/** How long an attempt took, by the monotonic clock of the worker's process. */
export interface AttemptTimes {
  readonly worker: string
  /** From the worker's receipt of the task until its handler began. */
  readonly heldMs: number
  readonly ranMs: number
  /** The number of its last log line. Absent: it has logged nothing. */
  readonly logLines?: number | undefined
  /** Identifies the run that has logged them. */
  readonly logRun?: number | undefined
  /** Of an aborted attempt: its handler has ended. Absent: it may still run. */
  readonly hasEnded?: boolean | undefined
}

/** A worker's report on the end of an attempt; `times` is absent where no handler ran. */
export interface Reported extends AttemptRef {
  readonly times?: AttemptTimes
  readonly usage?: JsonObject | undefined
}

interface Some {
  readonly only?: readonly AttemptRef[]
}

/** `source`: where else the job has the list. */
type ExpandedTo = { readonly items: readonly Json[]; readonly source?: ListSource }

export interface Started extends AttemptRef {
  readonly type: "started"
  readonly worker: string
  /** For an isolated node: true: it begins alone. false: it has run for long enough, others join it. */
  readonly alone?: boolean | undefined
  /** The handler begins only when this start is durable. */
  readonly announced?: true | undefined
  /** How long the handler has run so far, if that is known. */
  readonly ranMs?: number | undefined
}

export interface Submit extends StartTime {
  readonly type: "submit"
  readonly owner: string
  readonly workflow: string
  /** 0: the job has a definition of its own. */
  readonly workflowVersion: number
  readonly input: Json
  readonly ttlSeconds: number | null
  readonly priority: number
  readonly labels?: { readonly [key: string]: string } | undefined
  readonly traceparent?: string | undefined
  readonly submittedBy?: string | undefined
  /** For nodes that do not set `retry`. Absent: the constants. */
  readonly retryDefaults?: RetryPolicy | undefined
  readonly parent?: ParentLink
  /** For a child job: it does not outlive its parent. */
  readonly expiresBy?: number | null
  readonly fork?: ForkRecord
  readonly pinned?: readonly Json[] | undefined
  /** Of a fork by a bulk operation, and of a tick of a backfill: the job of the operation. */
  readonly operation?: string | undefined
  /** Of a fork with a changed definition: the definition is stored with the job. */
  readonly definition?: OwnDefinition
  /** Of a fork without a node to run. */
  readonly result?: JobResult
  /** Its workflow is paused: the job is stored, and does not begin. */
  readonly paused?: { readonly by?: string; readonly reason?: string }
  /** The tick of a schedule that starts it. */
  readonly schedule?: ScheduleTick | undefined
}

/** A definition that is no version of its workflow. */
export interface OwnDefinition {
  readonly hash: string
  /** As JSON. */
  readonly text: string
  readonly rules: number
}

/** The output of a job that has completed; or why it cannot be rendered: then the job has failed. */
export type JobResult = { readonly job_output: Json } | { readonly job_fault: Fault }

export interface Completed extends Reported {
  readonly type: "completed"
  readonly output: Json
}

/** A provider has accepted the work and returned an id. */
export interface Submitted extends Reported {
  readonly type: "submitted"
  readonly provider: string
  readonly externalId: string
  /** null: the provider cannot be polled; only a webhook ends the wait. */
  readonly poll: PollPolicy | null
  readonly ttlSeconds: number | null
}

/** A report on an operation, from a webhook or a poll, whichever arrives first (X4). */
export interface External extends TaskRef {
  readonly type: "external"
  readonly externalId: string
  readonly source: "webhook" | "poll"
  readonly poll: PollPolicy | null
  readonly resumeToken?: string
  readonly result: OperationResult
}

export type OperationResult =
  | { readonly type: "completed"; readonly output: Json; readonly usage?: JsonObject | undefined }
  | { readonly type: "failed"; readonly fault: Fault; readonly usage?: JsonObject | undefined }
  | { readonly type: "running"; readonly preview?: Json | undefined; readonly progress?: Progress }
  /** The provider could not be polled. `isFinal`: nor can it be later. */
  | { readonly type: "error"; readonly fault: Fault; readonly isFinal?: true }
  /** Something has happened: poll the operation. */
  | { readonly type: "hint" }
  /** The provider's rate has no place before then. */
  | { readonly type: "postponed"; readonly until: number }

/** The inputs of a decision besides the state. They are arguments: core reads no clock and no random source. */
export interface DecisionContext {
  readonly now: number
  /** In [0, 1). */
  readonly random: number
  /** The number of deaths of its process with the node alone after which the node fails. */
  readonly lossLimit: number
  /** The job's attempts whose handler runs now. Called only for commands that may end some of them. */
  readonly running?: () => readonly RunningAttempt[]
  /** With `started`: when another node last died alone, as far as the engine knows. Absent: none has. */
  readonly otherDiedAt?: number
  /** With `onlyIf`: the seq of the fact with which the job last began, ended, was retried or deleted. */
  readonly turnSeq?: number
}

/** Why nothing changed. */
export interface Refusal {
  readonly refused: RefusalReason
}

export type RefusalReason =
  /** The same result again. */
  | "duplicate"
  /** A result of an attempt that is not the current one. */
  | "stale_attempt"
  /** The job has ended: results and commands to a running job arrive too late. */
  | "job_ended"
  /** The job has started: its start time cannot be changed any more. */
  | "already_started"
  /** A retry needs a job that has ended, a delete one that has ended or has not started. */
  | "job_not_ended"
  /** A COMPLETED or DELETED job is not retried. */
  | "job_final"
  /** All nodes are done: the job's `output` template failed, and a retry would give the same result. */
  | "nothing_to_retry"
  | "job_exists"
  | "no_such_node"
  /** A running node can no longer be skipped. */
  | "node_running"
  | "nothing_due"
  /** The job is already in the requested state. */
  | "unchanged"
  /** A report on an operation that the node does not wait for. */
  | "stale_operation"
  /** The job has been resumed since the token was read. */
  | "stale_token"
  /** The wait that would take the signal has another schema than the one that the data was checked with. */
  | "other_schema"
  /** The job has begun, ended, been retried or deleted since the moment that `onlyIf` names. */
  | "job_changed"
  /** There is no parent and no child to notify. */
  | "settled"
