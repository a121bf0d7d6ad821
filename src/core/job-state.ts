import type { ExternalWaiting, ParentLink, ScheduleTick, Waiting } from "./facts.ts"
import type { Fault } from "./faults.ts"
import type { ItemList } from "./item-list.ts"
import type { Json } from "./json.ts"
import type { Graph, RetryPolicy } from "./plan.ts"
import type { Output } from "./state.ts"
import type { JobStatus } from "./states.ts"
import type { CountedBefore } from "./statistics/job-metrics.ts"

/** The state of a job, and what it keeps of the attempts of its nodes. */

/** An attempt that has ended, while the node is retried. */
export interface EndedAttempt {
  readonly outcome: "failed" | "postponed" | "lost" | "handed_over" | "cancelled"
  /** null: not known, or its handler never began. */
  readonly startedAt: number | null
  readonly endedAt: number
  readonly worker: string | null
  /** When the next attempt was due; null: at once. */
  readonly retryAt: number | null
}

/** `earlier`: in total; `lost`: those among them that were running when their process died. */
export interface SpentAttempts {
  readonly earlier: number
  readonly lost: number
}

export interface AbortedRun {
  readonly attempt: number
  /** The attempt's interval: its start is between them. */
  readonly earliest: number
  readonly endedAt: number
  /** Its start is recorded. */
  isBegun: boolean
  /** How long its handler ran until its abort, or in total; undefined: not reported. */
  ranMs?: number | undefined
  /** The part of its usage that is counted. */
  readonly usage: Usage
}

export interface Usage {
  [key: string]: number
}

export interface Start {
  readonly at: number
  readonly worker: string
  /** No other isolated node ran in its process. */
  readonly alone?: true
  /** Another node died alone since this one last began alone. */
  readonly contested?: true
  /** The start was stored before the handler began (suspects.ts). */
  readonly announced?: true
}

/** The suspicion against a node that lost an attempt (suspects.ts). */
export interface Suspect {
  /** It was known to run when its process died: from now on it runs alone. */
  readonly isolated: boolean
  /** Deaths alone, and how many of them since another node last died alone. */
  readonly deaths: number
  readonly streak: number
  /** When the attempt that last died alone began, and when its death was recorded; 0: none has. */
  readonly begunAt: number
  readonly diedAt: number
  /** How often it ran so long that another suspect joined it. */
  readonly joined: number
}

export interface Polls {
  readonly count: number
  /** When the last one ended. */
  readonly at: number
  /** Failed polls in a row. */
  readonly errors: number
  readonly fault: Fault | null
}

export interface NodeFault {
  readonly fault: Fault
  /** The node whose failure made this one fail. */
  readonly cause?: number
  /** For a node with `for_each`: the item that failed. */
  readonly item?: number
}

/** A node, or one of its items; without `item`: the node itself. */
export interface TaskRef {
  readonly node: number
  readonly item?: number | undefined
}

/** Why no node of a job begins. */
export interface Pause {
  readonly at: number
  /** The API token or JWT subject that paused it; null: neither. */
  readonly by: string | null
  readonly reason: string | null
  /** Its workflow was paused when the job was submitted: it is resumed with the workflow. */
  readonly ofWorkflow: boolean
}

/** What people have noted on a job. */
export interface Note {
  readonly text: string
  readonly at: number
  /** As for `Pause`. */
  readonly by: string | null
}

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
  /** The tick of a schedule that started it; null: none did. */
  schedule: ScheduleTick | null
  /** The `retry` policy of nodes that do not set it; null: as compiled. */
  retryDefaults: RetryPolicy | null
  ttlSeconds: number | null
  createdAt: number
  /** Of a delayed job: when it starts, or was to start. While it is PENDING nothing of it has begun. null: it started when it was submitted. */
  startAt: number | null
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
  polling: Set<number>
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
