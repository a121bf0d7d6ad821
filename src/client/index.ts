/** `umbra/client`: a typed client for an Umbra server. Works in browsers: it needs `fetch` and no package. */

export type { Json, JsonObject } from "../core/json.ts"
export type { JobStatus, NodeStatus } from "../core/states.ts"
export type { EventSource, EventType } from "../core/view/events.ts"
export { withLive, withLiveItems } from "../core/view/live-view.ts"
export type { WorkflowStatus } from "../core/view/view.ts"
export type { PipelineDefinition } from "../definition/pipeline/schema.ts"
export type { WorkflowDefinition } from "../definition/shape/schema.ts"
export type { Workflow } from "../definition/typed/builder.ts"
export type {
  Artifact,
  ArtifactDownload,
  ArtifactPage,
  ArtifactReference,
  ArtifactSweep,
  ArtifactsOptions,
  ArtifactUpload,
} from "./artifacts.ts"
export type { Provider, Webhook } from "./capacity.ts"
export { connect, type UmbraClient } from "./client.ts"
export { UmbraClientError } from "./error.ts"
export type { ConnectOptions } from "./http.ts"
export type { RemoteJob, WaitOptions, WatchOptions } from "./job.ts"
export type { StreamOptions } from "./stream.ts"
export type * from "./types.ts"
export type { WorkflowDocument } from "./workflows.ts"
