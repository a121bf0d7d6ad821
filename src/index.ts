/**
 * The public API of the package, explained name by name in docs/reference/api.md. What is not exported here may change
 * with any release. For tests there is `umbra/testing`.
 */

import { openUmbra as open, type Umbra as WholeUmbra } from "./umbra.ts"

/** What docs/reference/embedding.md explains. The class has more, for the server and the command line. */
export type Umbra = Pick<
  WholeUmbra,
  | ("submit" | "submitMany" | "register" | "addHandlers" | "handle" | "close")
  | ("job" | "jobs" | "jobPage" | "graph" | "node" | "items" | "events" | "wait" | "watch")
  | ("statistics" | "failures" | "waits" | "durations" | "nodeConfig" | "compare" | "why")
  | ("cancel" | "retry" | "fork" | "previewFork" | "delete" | "signal")
  | ("pause" | "resume" | "reschedule" | "describe" | "pauseWorkflow" | "resumeWorkflow")
  | ("health" | "workers" | "engines" | "providers" | "webhookEvents")
> & {
  /** Lineage, dead letters and replays of pipelines. */
  readonly pipelines: Pick<WholeUmbra["pipelines"], "lineage" | "deadLetters" | "replay">
  /** Commands to all jobs that match a filter. */
  readonly bulk: Pick<WholeUmbra["bulk"], "count" | "start" | "get" | "refusals" | "list" | "abort">
  /** Workflows that start at times. */
  readonly schedules: ScheduleRequests
  /** Files and other large content, which inputs and outputs of jobs refer to. */
  readonly artifacts: Pick<WholeUmbra["artifacts"], "put" | "get" | "describe" | "list" | "remove">
  /** Receives the requests of `POST /webhooks/{provider}`. */
  readonly webhooks: Pick<WholeUmbra["webhooks"], "receive">
}

/** Stores, shows and runs schedules. */
export type ScheduleRequests = Omit<WholeUmbra["schedules"], "limits">

/**
 * Opens Umbra on `memory:`, a folder, or a `postgres://` URL. Unfinished jobs of an earlier process continue at once.
 *
 *     const umbra = await openUmbra("./data", { handlers: [greet] })
 *     const job = await umbra.submit(hello, { name: "Ada" })
 *     const { status, output } = await job.wait()
 *     await umbra.close()
 */
export const openUmbra: (...given: Parameters<typeof open>) => Promise<Umbra> = open

export type { ArtifactBody } from "./artifacts/body.ts"
export type { ArtifactSettings } from "./artifacts/settings.ts"
export type { ArtifactContent } from "./artifacts/transfer.ts"
export type { RedisSettings } from "./broker/redis/settings.ts"
export type { ArtifactPage, ArtifactReference, ArtifactView } from "./core/artifacts.ts"
export type { Json, JsonObject } from "./core/json.ts"
export type { JobStatus, NodeStatus } from "./core/states.ts"
export type { AttemptView } from "./core/view/attempt-history.ts"
export type { EventSource, EventType, JobEvent } from "./core/view/events.ts"
export type { ItemView } from "./core/view/item-view.ts"
export {
  type LiveGraph,
  type LiveItem,
  type LiveItems,
  type LiveNode,
  withLive,
  withLiveItems,
} from "./core/view/live-view.ts"
export type { ErrorView, GraphView, NodeView, WaitingOn, WorkflowStatus } from "./core/view/view.ts"
export type { PipelineDefinition, RouteDefinition } from "./definition/pipeline/schema.ts"
export type { NodeDefinition, WorkflowDefinition } from "./definition/shape/schema.ts"
export * from "./definition/typed/builder.ts"
export type { ConfigQuery, NodeConfig } from "./engine/dispatch/node-config.ts"
export type { EngineHealth } from "./engine/metrics.ts"
export type { JobError } from "./engine/owner/job-result.ts"
export type { JobSnapshot } from "./engine/owner/snapshot.ts"
export type { EngineSettings } from "./engine/settings.ts"
export type { EnginesView, EngineView, WorkerView } from "./engine/workers.ts"
export { type ErrorCode, type ErrorKind, errorTable, UmbraError } from "./errors.ts"
export type { FeedSettings } from "./feed/settings.ts"
export type { StartOptions } from "./jobs/arguments.ts"
export type { BulkCount, BulkView } from "./jobs/bulk/bulk.ts"
export type { BulkForkPreview } from "./jobs/bulk/forks.ts"
export type { BulkFilter, BulkFork, BulkRefusal, BulkRequest, BulkVerb } from "./jobs/bulk/operation.ts"
export type { Compared, CompareQuery } from "./jobs/compare/compare.ts"
export type { ForkOptions } from "./jobs/fork/forks.ts"
export type { ForkExpectation, ForkedNode, ForkPreview } from "./jobs/fork/preview.ts"
export type { ForkConfirmation, ForkOverride, ForkRequest } from "./jobs/fork/request.ts"
export { type JobDescription, JobHandle, type PauseOptions, type SignalOptions } from "./jobs/handle.ts"
export type { JobSnapshotPage } from "./jobs/job-lists.ts"
export type { ItemPage, ItemPageQuery, NodeDetails } from "./jobs/queries.ts"
export { openReader, type Reader } from "./jobs/reader.ts"
export type { Registered, WorkflowSource } from "./jobs/register.ts"
export type { BackfillCount, BackfillRange, BackfillRequest } from "./jobs/schedules/backfill.ts"
export type {
  FireView,
  SchedulePreview,
  ScheduleSummary,
  ScheduleView,
  TickView,
} from "./jobs/schedules/schedules.ts"
export type {
  FailureGroup,
  FailurePage,
  FailuresRequest,
  StatisticsRequest,
  WorkflowStatistics,
} from "./jobs/statistics.ts"
export type { SubmitOptions } from "./jobs/submit.ts"
export type { BulkJob, BulkResult, SubmitManyOptions } from "./jobs/submit-many.ts"
export type {
  WaitGroup,
  WaitPage,
  WaitsRequest,
  WhyQuery,
  WhyReason,
  WhyView,
} from "./jobs/why/why.ts"
export type { DurationPoint, DurationsQuery, JobDurations } from "./journal/job-durations.ts"
export type { JobFilter } from "./journal/port/journal.ts"
export type { Log } from "./log.ts"
export { type FleetWorker, openWorker, type WorkerOptions } from "./open-worker.ts"
export {
  type Adapter,
  type AdapterContext,
  type AdapterDefinition,
  type AdapterStorage,
  type DefinedAdapter,
  defineAdapter,
  type Emission,
  type EmitOptions,
  emission,
  type Gathering,
  type Message,
} from "./pipeline/adapter.ts"
export { adapters } from "./pipeline/adapters/index.ts"
export type { AdapterSettings } from "./pipeline/adapters/settings.ts"
export type { LineageView } from "./pipeline/lineage.ts"
export type { DeadLetter, DeadLetterPage } from "./pipeline/queries.ts"
export { discoverAdapters } from "./pipeline/registry/discover.ts"
export type { PipelineSettings } from "./pipeline/settings.ts"
export { type HttpProviderOptions, httpProvider, loadProviders } from "./provider/http-provider.ts"
export type { HttpProviderDefinition } from "./provider/http-spec.ts"
export {
  defineProvider,
  type OperationNews,
  type Provider,
  type ProviderContext,
  type ProviderDefinition,
  type Submission,
  type SubmitContext,
  type WebhookNews,
  type WebhookRequest,
} from "./provider/provider.ts"
export type { ProviderView } from "./provider/services.ts"
export type { ProviderSettings } from "./provider/settings.ts"
export type { Signature, SignedRequest } from "./provider/signature.ts"
export type { Role } from "./roles.ts"
export type { UmbraOptions } from "./umbra.ts"
export type { HandlerArtifacts } from "./worker/artifacts.ts"
export { type FailureOptions, fail, HandlerError } from "./worker/fail.ts"
export { type DefinedHandler, defineHandler, type Handler, type HandlerContext } from "./worker/handler.ts"
export { loadHandlers } from "./worker/load.ts"
export type { ProviderSecretSource, SecretSource } from "./worker/secrets.ts"
export type { WorkerSettings } from "./worker/settings.ts"
export { submitted, type Wait, waitForSignal, waitUntil } from "./worker/waiting.ts"
