/** Events of streams: of one job, of all jobs, and of the facts of a job. */
import type { Json } from "../core/json.ts"
import type { FactRecord } from "../core/payloads.ts"
import type { JobStatus, NodeStatus } from "../core/states.ts"
import type { LiveGraph } from "../core/view/live-view.ts"
import type { JobSnapshot } from "../engine/owner/snapshot.ts"
import type { FireView } from "../jobs/schedules/schedules.ts"
import type { LogLine } from "./types.ts"

interface Told<Type extends string, Data> {
  readonly type: Type
  /** Where a later stream can resume; events without an id (progress) are repeated only if they change. */
  readonly id: string | null
  readonly data: Data
}

/** A job in a stream: without its output, which may be large. */
export interface StreamedJob {
  readonly job_id: string
  readonly workflow: string
  /** null: the job has a definition of its own. */
  readonly workflow_version: number | null
  readonly status: JobStatus
  /** 0 to 100; never decreases, and is 100 only when COMPLETED. */
  readonly progress_pct: number
  readonly progress_message: string | null
  readonly created_at: string
  readonly updated_at: string
  readonly finished_at: string | null
  readonly labels: { readonly [name: string]: string }
  /** Of a delayed job: when it starts, or was to start. */
  readonly start_at?: string
  /** Absent: no tick of a schedule has started it. */
  readonly schedule?: NonNullable<JobSnapshot["schedule"]>
  /** Absent: the job is not paused. */
  readonly paused?: NonNullable<JobSnapshot["paused"]>
  readonly error: {
    readonly code: string
    readonly message: string
    readonly node?: string
    readonly item?: number
  } | null
  /** For a cancelled or expired job: the reason. */
  readonly reason: string | null
  /** With status PREVIEW: the partial result and its node. */
  readonly preview?: StreamedPreview
  /** In the snapshot of a job's stream, with status PREVIEW: the last partial result of each running node. */
  readonly previews?: readonly StreamedPreview[]
}

export interface StreamedPreview {
  readonly node: string
  readonly item?: number
  readonly data?: Json
  /** The output is larger than 16 KiB: request the job to get it. */
  readonly data_left_out?: true
}

export interface StreamedNode {
  readonly job_id: string
  readonly node: string
  readonly status: NodeStatus
  readonly from: NodeStatus | null
  readonly attempt: number
  readonly at: string
  /** For a node with `for_each`: the number of its items. */
  readonly items?: number
  readonly error?: { readonly code: string; readonly message: string }
  readonly [more: string]: unknown
}

export interface StreamedProgress {
  readonly job_id: string
  readonly status: JobStatus
  readonly progress_pct: number
  readonly progress_message: string | null
  readonly node?: string
  readonly node_pct?: number | null
  readonly at: string
}

/** What a tick of a schedule did. May be omitted, as progress: the history of the schedule has it. */
export interface StreamedFire extends FireView {
  readonly schedule: string
}

/** The position is unknown or too far behind: a snapshot follows, and the client should discard its state. */
type Reset = Told<"reset", { readonly reason: "too_far_behind" | "unknown_position" }>
/** A job's state changed. */
type JobChanged = Told<"job", StreamedJob>
type Progressed = Told<"progress", StreamedProgress>

/** Events of `client.stream()`. */
export type JobsStreamEvent =
  | Told<"snapshot", { readonly jobs: readonly StreamedJob[]; readonly more?: boolean }>
  | JobChanged
  | Progressed
  | Told<"fire", StreamedFire>
  | Reset

/** Events of `job.stream()`; it ends when the job has ended. */
export type JobStreamEvent =
  | Told<
      "snapshot",
      {
        readonly job: StreamedJob
        /** Left out for very large graphs; then `more` is set. */
        readonly nodes?: readonly Pick<StreamedNode, "node" | "status" | "attempt">[]
        readonly more?: boolean
      }
    >
  | JobChanged
  | Told<"node", StreamedNode>
  | Progressed
  | Reset
  | Told<"end", { readonly reason: "job_ended" | "job_deleted" }>

/** Events of `job.followLogs()`; it ends when the job has ended. */
export type LogStreamEvent =
  | Told<"line", LogLine>
  | Told<"end", { readonly reason: "job_ended" | "job_deleted" }>

/** Events of `job.followFacts()`; it ends when the job has ended. */
export type FactStreamEvent =
  | Told<"fact", FactRecord>
  /** What is never stored; times are milliseconds since 1970, as in facts. */
  | Told<"live", LiveGraph>
  | Told<"end", { readonly reason: "job_ended" | "job_deleted" }>
