/** Types of requests and answers. They import only types of other modules, so nothing of those is loaded. */

import type { CompiledGraph } from "../core/compiled-graph.ts"
import type { Json, JsonObject } from "../core/json.ts"
import type { FactRecord } from "../core/payloads.ts"
import type { JobStatus } from "../core/states.ts"
import type { AttemptView, AttemptWait } from "../core/view/attempt-history.ts"
import type { AttemptFields, LastAttempt } from "../core/view/attempt-view.ts"
import type { JobEvent } from "../core/view/events.ts"
import type { ItemView } from "../core/view/item-view.ts"
import type { LiveGraph, LiveItem, LiveItems, LiveNode } from "../core/view/live-view.ts"
import type {
  GraphView,
  NodeView,
  PauseView,
  UnseenOperation,
  WaitingOn,
  WorkerWait,
} from "../core/view/view.ts"
import type { Definition, Workflow } from "../definition/typed/builder.ts"
import type { ConfigQuery, NodeConfig } from "../engine/dispatch/node-config.ts"
import type { JobSnapshot } from "../engine/owner/snapshot.ts"
import type { Compared } from "../jobs/compare/compare.ts"
import type { FactPage } from "../jobs/facts.ts"
import type { ForkExpectation, ForkedNode, ForkPreview } from "../jobs/fork/preview.ts"
import type { ForkConfirmation, ForkOverride, ForkRequest } from "../jobs/fork/request.ts"
import type { JobDescription as Description, SignalOptions } from "../jobs/handle.ts"
import type { Place } from "../jobs/history.ts"
import type { JobSnapshotPage } from "../jobs/job-lists.ts"
import type { LogLine as LoggedLine, LogPage as LoggedPage } from "../jobs/logs/logs.ts"
import type { PastRoute } from "../jobs/past-routes.ts"
import type { NodeDetails } from "../jobs/queries.ts"
import type {
  CriticalNode,
  FailureGroup,
  FailurePage,
  JobStatistics,
  NodeStatistics,
  Percentiles,
  UsageStatistics,
  WorkflowStatistics,
} from "../jobs/statistics.ts"
import type { SubmitOptions as EngineSubmitOptions } from "../jobs/submit.ts"
import type { WaitGroup, WaitPage, WhyView } from "../jobs/why/why.ts"
import type { WorkflowDiff } from "../jobs/workflows.ts"
import type { JobFilter } from "../journal/port/journal.ts"
import type { LineageQuery } from "../pipeline/lineage.ts"
import type {
  WrittenDeadLetter as DeadLetter,
  WrittenDeadLetterPage as DeadLetterPage,
  DeadLettersQuery,
  ExecutionView as Execution,
  ExecutionPage,
  ExecutionsQuery,
  WrittenLineage as Lineage,
  WrittenMessage as Message,
  ReplayWhich,
} from "../pipeline/queries.ts"
import type { UmbraClientError } from "./error.ts"
import type { RemoteJob } from "./job.ts"

export type {
  CompiledGraph,
  CriticalNode,
  DeadLetter,
  DeadLetterPage,
  Execution,
  ExecutionPage,
  FactPage,
  FactRecord,
  FailureGroup,
  FailurePage,
  ForkConfirmation,
  ForkExpectation,
  ForkedNode,
  ForkOverride,
  ForkPreview,
  ForkRequest,
  JobSnapshot,
  JobStatistics,
  Lineage,
  Message,
  NodeConfig,
  NodeStatistics,
  PastRoute,
  Percentiles,
  SignalOptions,
  UsageStatistics,
  WaitGroup,
  WaitPage,
  WhyView,
  WorkflowDiff,
  WorkflowStatistics,
}

/** `from` and `to` in milliseconds since 1970. */
export interface StatisticsOptions extends Signalled {
  readonly from?: number | undefined
  readonly to?: number | undefined
}

export interface FailuresOptions extends StatisticsOptions {
  readonly workflow?: string | undefined
  /** `next` of the previous answer. */
  readonly after?: string | undefined
}

export interface WaitsOptions extends Signalled {
  readonly workflow?: string | undefined
  /** `next` of the previous answer. */
  readonly after?: string | undefined
}

export interface WhyOptions extends Signalled {
  /** Only this node. */
  readonly node?: string | undefined
  /** A past moment: a seq, `#12` for the twelfth fact, or a time. */
  readonly at?: number | string | Date | undefined
}

/** What people write on a job; the token is recorded with it. Absent: unchanged. */
export type JobDescription = Omit<Description, "by">

export type { StartOptions } from "../jobs/arguments.ts"

/** The token determines the owner of the job. */
export interface SubmitOptions extends Omit<EngineSubmitOptions, "owner"> {
  readonly signal?: AbortSignal | undefined
}

export interface ForkOptions {
  /** The same key gives the same job; the same key with another request is refused. */
  readonly idempotencyKey?: string | undefined
  readonly signal?: AbortSignal | undefined
}

/** One submission of `submitMany`. */
export interface BulkJob {
  readonly workflow: Workflow | Definition | string
  readonly input?: unknown
  readonly options?: Omit<SubmitOptions, "signal">
}

/** Options of one workflow with many inputs. */
export type SubmitManyOptions = Omit<SubmitOptions, "idempotencyKey">

/** `isNew` is false if the idempotency key was used before; `error`: why the submission was refused. */
export type BulkResult<Output = Json> =
  | { readonly job: RemoteJob<Output>; readonly isNew: boolean; readonly error?: undefined }
  | { readonly error: UmbraClientError; readonly job?: undefined; readonly isNew?: undefined }

export type { BulkCount, BulkRefusals, BulkSummary, BulkView as BulkOperation } from "../jobs/bulk/bulk.ts"
export type { BulkForkPreview } from "../jobs/bulk/forks.ts"
export type { BulkFilter, BulkFork, BulkRefusal, BulkRequest, BulkVerb } from "../jobs/bulk/operation.ts"
export type { BackfillCount, BackfillRange, BackfillRequest } from "../jobs/schedules/backfill.ts"
export type {
  FireView as ScheduleFire,
  SchedulePreview,
  ScheduleSummary,
  ScheduleView as Schedule,
  TickView as ScheduleTick,
} from "../jobs/schedules/schedules.ts"
export type { PreviewRequest as SchedulePreviewRequest, ScheduleRequest } from "../schedule/document.ts"

export type * from "./stream-events.ts"

export interface PageOptions extends Signalled {
  /** The size of a page. */
  readonly limit?: number | undefined
}

export interface CompareOptions extends Signalled {
  /** A moment of the first job: a seq, `#12` for the twelfth fact, or a time. Absent: after its last fact. */
  readonly atA?: number | string | Date | undefined
  readonly atB?: number | string | Date | undefined
  /** Nodes whose outputs are compared value by value; `input`: the inputs of the jobs. */
  readonly diff?: readonly string[] | undefined
}

/** Two jobs, compared. */
export type RemoteComparison = Omit<Compared, "moments"> & {
  readonly moments: { readonly a: Written<Place, "at">; readonly b: Written<Place, "at"> }
}

/** As for `umbra.jobs`; `limit` is the size of a page. */
export type JobsFilter = Partial<Omit<JobFilter, "owner">> & Signalled

type Written<T, Times extends keyof T> = Omit<T, Times> & {
  readonly [K in Times]: string | Extract<T[K], null>
}

/** Why a node does not run right now. Times are ISO 8601 text, as everywhere over HTTP. */
export type RemoteWaitingOn = WaitingOn extends infer W
  ? W extends { readonly at: number }
    ? Written<W, "at">
    : W extends Extract<WaitingOn, { kind: "external" }>
      ? Written<W, "last_poll_at" | "next_poll_at" | "until">
      : W extends { readonly until: number | null }
        ? Written<W, "until">
        : W extends WorkerWait
          ? Omit<W, "last_seen_at"> & { readonly last_seen_at?: string | null }
          : W
  : never

type RemoteTask<T extends LiveNode | LiveItem> = Omit<Written<T, "started_at">, "waiting_on"> & {
  readonly waiting_on: RemoteWaitingOn | null
}

/** Live state that is never stored: which handlers run, and where tasks wait. `withLive` merges it into the graph. */
export type RemoteLiveGraph = Written<Omit<LiveGraph, "nodes">, "at"> & {
  readonly nodes: readonly RemoteTask<LiveNode>[]
}

export type RemoteLiveItems = Written<Omit<LiveItems, "items">, "at"> & {
  readonly items: readonly RemoteTask<LiveItem>[]
}

type WithTimes<T extends AttemptFields> = Omit<
  Written<T, "queued_at" | "started_at" | "finished_at">,
  "waiting_on" | "last_attempt"
> & {
  readonly waiting_on: RemoteWaitingOn | null
  readonly last_attempt?: Written<LastAttempt, "started_at" | "ended_at">
}

export type RemoteNode = WithTimes<NodeView>

/** One attempt of a node's history. */
export type RemoteAttempt = Omit<Written<AttemptView, "queued_at" | "started_at" | "ended_at">, "waits"> & {
  readonly waits: readonly Written<AttemptWait, "from" | "until">[]
}

/** A node, its output, and the history of its attempts or of those of one of its items. */
export type RemoteNodeDetails = RemoteNode &
  Pick<RemoteGraph, "live"> &
  Pick<NodeDetails, "output" | "attempts_total" | "item"> & { readonly attempts: readonly RemoteAttempt[] }

export interface NodeOptions extends Signalled {
  /** For a node with `for_each`: the item whose attempts are requested, from 0. */
  readonly item?: number | undefined
}

export type RemoteGraph = Omit<
  GraphView,
  "nodes" | "waiting_for" | "live" | "unseen_operations" | "paused"
> & {
  /** Absent: the job is not paused. */
  readonly paused?: Written<PauseView, "at">
  readonly unseen_operations?: readonly Written<UnseenOperation, "since" | "held_until">[]
  readonly nodes: readonly RemoteNode[]
  readonly waiting_for: readonly (RemoteWaitingOn & { readonly node: string })[]
  /** null: the process that runs the job did not answer in time; absent: the job has ended. */
  readonly live?: RemoteLiveGraph | null
}

/** The graph at a past moment: without live state. */
export type RemoteGraphAt = Omit<RemoteGraph, "routes" | "dead_letters" | "live" | "unseen_operations"> & {
  /** The last fact of the moment. */
  readonly moment: Written<Place, "at">
  /** For a pipeline; null: not recorded, or not kept any more. */
  readonly routes?: readonly PastRoute[] | null
}

/** As for a list of jobs; `createdFrom` and `createdBefore` are the range of the chart. */
export interface DurationsFilter extends Omit<JobsFilter, "after" | "limit"> {
  /** The largest number of points, 20 to 2,000; default 500. */
  readonly points?: number | undefined
}

export interface RemoteDurations {
  readonly from: string
  readonly before: string
  /** Each represents `count` jobs; the other fields are those of the slowest of them. */
  readonly points: readonly {
    readonly at: string
    readonly duration_ms: number
    readonly status: JobStatus
    readonly count: number
    readonly job_id: string
  }[]
  /** The number of jobs that were read. */
  readonly jobs: number
  /** false: the range has more jobs, and the points are a sample. */
  readonly complete: boolean
}

export interface ConfigOptions extends ConfigQuery, Signalled {}

export interface ReportOptions extends Signalled {
  readonly payloads?: "none" | "preview" | "full" | undefined
}

/** Who is logged in. */
export interface Session {
  /** `open`: a local server without tokens, which needs no login. */
  readonly login: "open" | "required" | "session" | "token"
  /** null: nobody. */
  readonly owner: string | null
  readonly scopes: readonly string[]
  readonly name: string | null
  readonly expires_at: string | null
  /** The header Umbra-Owner may name another owner, whose jobs can then be read. */
  readonly sees_other_owners: boolean
}

export type RemoteItem = WithTimes<ItemView>

export interface FactsOptions extends Signalled {
  /** `next` of the previous page, or the seq of a fact: only facts after it. */
  readonly after?: string | number | undefined
  /** Facts per page, at most 1,000. */
  readonly limit?: number | undefined
}

export interface LogFilter {
  readonly node?: string | undefined
  /** Of an item of the node. */
  readonly item?: number | undefined
  /** Of the node, by the number that is shown to users. */
  readonly attempt?: number | undefined
  /** The lowest level; default: debug. */
  readonly level?: LogLine["level"] | undefined
  /** Only what handlers logged, or only what the engine did; default: both. */
  readonly source?: LogLine["source"] | undefined
  /** Only lines up to this time, with its zone. */
  readonly until?: string | undefined
}

export interface LogsOptions extends LogFilter, Signalled {
  /** `next` of the previous page, or the id of a line. */
  readonly after?: string | undefined
  /** Of `page`, instead of `after`: the last lines of handlers before this id, or before the `"end"`. */
  readonly before?: string | undefined
  /** Lines per page, at most 1,000. */
  readonly limit?: number | undefined
}

export type LogLine = Omit<LoggedLine, "at"> & { readonly at: string }

export type LogPage = Omit<LoggedPage, "lines"> & { readonly lines: readonly LogLine[] }

export interface PayloadOptions extends Signalled {
  /** A JSON path that selects one value in the payload: `$.items[0].name`. */
  readonly path?: string | undefined
}

export interface ItemsOptions extends Signalled {
  /** Only items after this index: `next` of the previous page. */
  readonly after?: number | undefined
  readonly limit?: number
  /** A past moment, as for `graphAt`. */
  readonly at?: number | string | Date | undefined
}

export interface RemoteItemPage {
  readonly items: readonly RemoteItem[]
  /** null: this is the last page. */
  readonly next: number | null
  /** Absent at a past moment. */
  readonly live?: RemoteLiveItems | null
  /** The last fact of the past moment. */
  readonly moment?: Written<Place, "at">
}

export type RemoteEvent = Written<JobEvent, "at">

export interface EventPage {
  readonly events: readonly RemoteEvent[]
  /** The value of `after` for the next page. */
  readonly next: string | null
}

export interface LineageOptions extends LineageQuery, Signalled {}

/** `after`: `next` of the previous page; `limit` is the size of a page. */
export interface ExecutionsOptions extends ExecutionsQuery, Signalled {}

/** `after`: `next` of the previous page; `limit` is the size of a page. */
export interface DeadLettersOptions extends DeadLettersQuery, Signalled {}

export interface ReplayOptions extends ReplayWhich, Signalled {}

/** The new job, as submitted. */
export interface ReplayJob extends JobSnapshot {
  /** Number of dead letters with which it starts. */
  readonly replayed: number
}

export type JobPage = JobSnapshotPage

export interface Signalled {
  readonly signal?: AbortSignal | undefined
}

export interface PushedWorkflow {
  readonly name: string
  readonly version: number
  readonly hash: string
  /** The latest version already had this content. */
  readonly unchanged: boolean
}

export interface WorkflowVersion {
  readonly name: string
  readonly version: number
  readonly hash: string
  readonly created_at: string
  /** "token ID", "jwt SUBJECT" or "local"; null: not recorded, for versions pushed before 0.2. */
  readonly pushed_by: string | null
}

export interface StoredWorkflow extends WorkflowVersion {
  readonly definition: Definition
  readonly aliases?: readonly Alias[]
  /** Since when its new jobs do not begin; null: they do. Absent for one version. */
  readonly paused?: { readonly at: string; readonly by: string | null; readonly reason: string | null } | null
}

/** The compiled graph of a version: what `umbra/core` needs to fold the facts of its jobs. */
export interface VersionGraph extends CompiledGraph {
  readonly name: string
  readonly version: number
}

/** Weights by version. */
export type Weights = { readonly [version: string]: number }

export interface Alias {
  readonly alias: string
  readonly weights: Weights
  readonly moved_at: string
  readonly moved_by: string
}

export interface AliasMove {
  readonly at: string
  readonly by: string
  readonly from: Weights | null
  readonly to: Weights | null
}

export interface ValidWorkflow {
  readonly valid: true
  readonly name: string
  readonly hash: string
  readonly nodes: number
  /** Only for a pipeline. */
  readonly routes: number
  /** If it was asked for. */
  readonly graph?: CompiledGraph
  /** If it was asked for: as it would be stored. */
  readonly definition?: JsonObject
}

export interface Token {
  readonly id: string
  readonly owner: string
  readonly scopes: readonly string[]
  readonly last_four: string
  readonly created_at: string
  readonly revoked_at: string | null
  /** Requests per second; null: the server's default, as for the others. */
  readonly rate_limit: number | null
  /** Unfinished jobs submitted with the token. */
  readonly max_unfinished_jobs: number | null
  readonly max_body_bytes: number | null
}

export interface WantedToken {
  /** By default the caller's own; only the local token may name another. */
  readonly owner?: string
  readonly scopes: readonly string[]
  /** Absent: the server's default, as for the others; a token cannot create one with higher limits than its own. */
  readonly rate_limit?: number | undefined
  readonly max_unfinished_jobs?: number | undefined
  readonly max_body_bytes?: number | undefined
}

export interface NewToken extends Token {
  /** The token's text. It is shown only in this answer. */
  readonly token: string
  /** The server was started without tokens, and requires them only after a restart. */
  readonly server_is_open: boolean
}
