import type { Artifacts } from "./artifacts/artifacts.ts"
import { shortStoreId } from "./broker/redis/worker/stores.ts"
import { localOwner } from "./core/facts.ts"
import type { Json } from "./core/json.ts"
import type { JobEvent } from "./core/view/events.ts"
import type { GraphView } from "./core/view/view.ts"
import type { AdapterCatalog } from "./definition/adapter.ts"
import { bulkHandler } from "./definition/built-in.ts"
import { routesHandler } from "./definition/pipeline/compile.ts"
import type { Workflow } from "./definition/typed/builder.ts"
import type { ConfigQuery, NodeConfig } from "./engine/dispatch/node-config.ts"
import type { EngineHealth } from "./engine/metrics.ts"
import { type JobSnapshot, liveSnapshot } from "./engine/owner/snapshot.ts"
import type { JobCommand } from "./engine/remote/commands.ts"
import type { EnginesView, WorkerCounts, WorkerView } from "./engine/workers.ts"
import type { Feed } from "./feed/feed.ts"
import { type JobActivity, jobActivity } from "./jobs/activity.ts"
import { checkFilter, type StartOptions, startFields } from "./jobs/arguments.ts"
import type { BulkOperations } from "./jobs/bulk/bulk.ts"
import type { Compared, CompareQuery } from "./jobs/compare/compare.ts"
import type { ForkOptions } from "./jobs/fork/forks.ts"
import type { ForkPreview } from "./jobs/fork/preview.ts"
import type { ForkRequest } from "./jobs/fork/request.ts"
import { type JobDescription, JobHandle, type PauseOptions, type SignalOptions } from "./jobs/handle.ts"
import type { JobSnapshotPage } from "./jobs/job-lists.ts"
import type { ItemPage, ItemPageQuery, NodeDetails, Queries } from "./jobs/queries.ts"
import { mustBeJobId } from "./jobs/reader.ts"
import type { Registered, Registrations, WorkflowSource, WorkflowText } from "./jobs/register.ts"
import type { ScheduleRequests } from "./jobs/schedules/schedules.ts"
import type {
  FailurePage,
  FailuresRequest,
  StatisticsRequest,
  WorkflowStatistics,
} from "./jobs/statistics.ts"
import type { AcceptOptions, Admit, SubmitOptions, Submitted } from "./jobs/submit.ts"
import {
  type Accepted,
  type BulkEntry,
  type BulkJob,
  type BulkResult,
  bulkEntries,
  newSubmissions,
  type SubmitManyOptions,
} from "./jobs/submit-many.ts"
import { type Waiting, waitForEnd } from "./jobs/watchers.ts"
import type { WaitPage, WaitsRequest, WhyQuery, WhyView } from "./jobs/why/why.ts"
import { pauseWorkflow, resumeWorkflow } from "./jobs/workflows.ts"
import type { DurationsQuery, JobDurations } from "./journal/job-durations.ts"
import type { JobFilter, Journal, WorkflowRow } from "./journal/port/journal.ts"
import type { Pipelines } from "./pipeline/pipelines.ts"
import type { ExternalServices, ProviderView } from "./provider/services.ts"
import type { Webhooks } from "./provider/webhooks.ts"
import type { Roles } from "./roles.ts"
import { inSubmitSpan } from "./trace.ts"
import type { UmbraOptions } from "./umbra-options.ts"
import { isRunning, openParts, type WiringParts, wire } from "./wiring.ts"
import type { Handler } from "./worker/handler.ts"
import type { FleetCatalog } from "./worker/registry.ts"

export type { UmbraOptions } from "./umbra-options.ts"

/**
 * Opens Umbra on `memory:`, a folder, or a `postgres://` URL. Unfinished jobs of an earlier process continue at once.
 *
 *     const umbra = await openUmbra("./data", { handlers: [greet] })
 *     const job = await umbra.submit(hello, { name: "Ada" })
 *     const { status, output } = await job.wait()
 *     await umbra.close()
 */
export async function openUmbra(location: string | Journal, options: UmbraOptions = {}): Promise<Umbra> {
  const parts = await openParts(location, options)
  try {
    const umbra = new Umbra(parts)
    await umbra.start()
    return umbra
  } catch (error) {
    await parts.journal.close()
    throw error
  }
}

/** While Redis, or the database, is unavailable the process starts without knowing the workers. */
const WORKERS_KNOWN_MS = 2000

export class Umbra {
  readonly handlers: FleetCatalog
  /** The adapters that pipelines may use. */
  readonly adapters: AdapterCatalog
  readonly roles: Roles
  readonly queries: Queries
  /** Stores workflows, also plans that were compiled with `handlers` and `adapters` of this process. */
  readonly registrations: Registrations
  /** Receives the requests of `POST /webhooks/{provider}`. */
  readonly webhooks: Webhooks
  /** Commands to all jobs that match a filter, as durable operations. */
  readonly bulk: BulkOperations
  readonly schedules: ScheduleRequests
  /** Files and other large content, which inputs and outputs of jobs refer to. */
  readonly artifacts: Artifacts
  /** P1 to P6: lineage, dead letters and replays of executions. */
  readonly pipelines: Pipelines
  readonly #services: ExternalServices
  readonly #journal: Journal
  readonly #maxOutputBytes: number
  readonly #wired: ReturnType<typeof wire>
  readonly #waiting: Waiting

  constructor(parts: WiringParts) {
    const wired = wire(parts)
    this.#wired = wired
    this.registrations = wired.submissions.registrations
    this.roles = parts.roles
    this.#services = parts.services
    this.#journal = parts.journal
    this.#maxOutputBytes = parts.settings.maxOutputBytes
    this.handlers = wired.handlers
    this.adapters = wired.adapters
    this.queries = wired.queries
    this.webhooks = wired.webhooks
    this.pipelines = wired.pipelines
    this.bulk = wired.bulk
    this.schedules = wired.schedules
    this.artifacts = wired.artifacts
    this.#waiting = {
      watchers: wired.watchers,
      isHere: jobId => wired.engine.live(mustBeJobId(jobId)) !== undefined,
      isOwned: jobId => wired.engine.owns(mustBeJobId(jobId)),
      isEnded: jobId => (wired.engine.live(jobId)?.state.finishedAt ?? null) !== null,
      mayHaveEnded: jobId => wired.engine.partitionOwner.queue.facts.get(jobId) === undefined,
      findEnd: jobId => wired.live.ends.find(jobId),
      read: jobId => this.summary(jobId),
      awaitRemoteEnd: jobId => wired.live.ends.await(jobId),
      withDetails: job => wired.queries.withDetails(job),
    }
  }

  async start(): Promise<void> {
    await this.#wired.live.start()
    await this.#wired.overlays.start()
    await this.#wired.engine.start()
    // Workflows may name the handlers of workers that are already connected.
    await this.#wired.engine.whenWorkersKnown(WORKERS_KNOWN_MS)
  }

  /**
   * Submits a workflow: one made with the builder, a definition, its text (YAML or JSON, with a line break or in braces), or
   * the name of a stored one (`name`, `name@3`, `name@stable`).
   */
  async submit<Input, Output>(
    workflow: Workflow<Input, Output>,
    input?: Input,
    options?: SubmitOptions,
  ): Promise<JobHandle<Output>>
  async submit(workflow: WorkflowSource, input?: Json, options?: SubmitOptions): Promise<JobHandle>
  async submit(workflow: WorkflowSource, input?: unknown, options: SubmitOptions = {}): Promise<JobHandle> {
    const { jobId } = await this.accept(this.registrations.source(workflow), input, options)
    return new JobHandle(this, jobId)
  }

  /** As `submit`, for callers that must know whether the job is new or its idempotency key was used before. A string is a name. */
  accept(
    workflow: WorkflowSource | WorkflowText,
    input?: unknown,
    options: AcceptOptions = {},
    admit?: Admit,
  ): Promise<Submitted> {
    const { owner = localOwner, traceparent: given } = options
    return inSubmitSpan(
      { traceparent: given, workflow },
      traceparent =>
        this.#wired.submissions.submit(workflow, input, { ...options, owner, traceparent }, admit),
      ({ jobId, isNew }) => ({ "umbra.job_id": jobId, "umbra.is_new": isNew }),
    )
  }

  /**
   * Submits many jobs in few commits: one workflow with many inputs, or a list of submissions. Each result is a job or the
   * error with which its submission was refused, in the order given. Resolves when every accepted job is durable.
   */
  async submitMany<Input, Output>(
    workflow: Workflow<Input, Output>,
    inputs: readonly Input[],
    options?: SubmitManyOptions,
  ): Promise<BulkResult<Output>[]>
  async submitMany(
    workflow: WorkflowSource,
    inputs: readonly Json[],
    options?: SubmitManyOptions,
  ): Promise<BulkResult[]>
  async submitMany(submissions: readonly BulkJob[]): Promise<BulkResult[]>
  async submitMany(
    given: WorkflowSource | readonly BulkJob[],
    inputs?: readonly unknown[],
    options: SubmitManyOptions = {},
  ): Promise<BulkResult[]> {
    const entries = bulkEntries(given, inputs, options, each => this.registrations.source(each))
    const accepted = await this.acceptMany(entries)
    return accepted.map(each =>
      "error" in each ? each : { job: new JobHandle(this, each.jobId), isNew: each.isNew },
    )
  }

  /** As `submitMany`, without handles. `traceparent`: of the caller, for all jobs without their own. */
  async acceptMany(
    entries: Iterable<BulkEntry>,
    { traceparent, admit }: { traceparent?: string | undefined; admit?: Admit | undefined } = {},
  ): Promise<Accepted[]> {
    return inSubmitSpan(
      { traceparent, workflow: undefined },
      active => this.#wired.submissions.submitMany(newSubmissions(entries, active), admit),
      accepted => ({ "umbra.jobs": accepted.length }),
    )
  }

  /** The load of this process, and whether it can take more. */
  health(): EngineHealth {
    const { liveJobs, ownedPartitions: partitions, isReady, hasTaker, hadTaker } = this.#wired.engine
    const { running, queued, refused } = this.#wired.broker
    return { liveJobs, partitions, isReady, hasTaker, hadTaker, running, queued, refused }
  }

  /** S4: changes of jobs, as they become durable, in any engine. */
  get feed(): Feed {
    return this.#wired.live.feed
  }

  /** Values for metrics: counters since the process started, and the states of jobs in memory. */
  metrics() {
    const { engine, broker, states } = this.#wired
    return { engine: engine.metrics, attempts: broker.metrics, pipelines: this.pipelines.metrics, states }
  }

  /** S5: the workers that share this store, including those that died recently. */
  workers(): WorkerView[] {
    return this.#wired.engine.workers.list()
  }

  engines(): EnginesView {
    return this.#wired.engine.workers.engines()
  }

  get workerCounts(): WorkerCounts {
    return this.#wired.engine.workers.counts
  }

  /** The id by which workers of a fleet know the store (`umbra worker --store`). */
  async storeId(): Promise<string> {
    return shortStoreId((await this.#journal.feed.position()).store)
  }

  /** Resolves when the store answers; rejects when it does not. */
  async ping(): Promise<void> {
    await this.#journal.readPartitions()
  }

  /** An owner's jobs that have not ended; see the port of the journal. */
  get unfinishedJobs(): Journal["unfinishedJobs"] {
    return query => this.#journal.unfinishedJobs(query)
  }

  /** Names, aliases and tokens. */
  get registry(): Journal["registry"] {
    return this.#journal.registry
  }

  /** Stores a workflow, also one given as text (YAML or JSON); unchanged content is not a new version. */
  register(workflow: WorkflowSource, owner: string = localOwner): Promise<Registered> {
    const source = typeof workflow === "string" ? this.registrations.text(workflow) : workflow
    return this.registrations.register(source, owner)
  }

  /** Adds handlers later: nodes that wait for one of them start at once. */
  addHandlers(handlers: readonly Handler[]): void {
    for (const name of this.handlers.add(handlers)) this.#wired.engine.partitionOwner.handlerAdded(name)
  }

  handle(jobId: string): JobHandle {
    return new JobHandle(this, mustBeJobId(jobId))
  }

  /** Resolves when the job has ended, or at the latest after `timeoutMs`, with its snapshot at that time. */
  wait(jobId: string, options: { readonly timeoutMs?: number } = {}): Promise<JobSnapshot> {
    return waitForEnd(jobId, options.timeoutMs ?? Number.POSITIVE_INFINITY, this.#waiting)
  }

  async job(jobId: string): Promise<JobSnapshot> {
    return this.queries.withDetails(await this.summary(jobId))
  }

  /** The job from memory, or as shown in lists: without data that only its journal has. */
  async summary(jobId: string): Promise<JobSnapshot> {
    const live = this.#wired.engine.live(mustBeJobId(jobId))
    const known = live !== undefined && live.pendingBatches === 0 ? liveSnapshot(live) : null
    return known ?? this.queries.summary(jobId)
  }

  /** J19: nodes, edges, ready nodes and waits. */
  graph(jobId: string): Promise<GraphView> {
    return this.queries.graph(mustBeJobId(jobId))
  }

  /** Why the job, or one of its nodes, makes no progress: now, or at a past moment. */
  why(jobId: string, query?: WhyQuery): Promise<WhyView> {
    return this.#wired.why.why(mustBeJobId(jobId), query)
  }

  /** Why unfinished jobs make no progress, grouped by cause. */
  waits(request: WaitsRequest = {}): Promise<WaitPage> {
    return this.#wired.why.waits({ owner: localOwner, ...request })
  }

  /** Compares two jobs, or two moments of one job: where they diverge first, and what differs in each node. */
  compare(a: string, b: string, options: Omit<CompareQuery, "a" | "b"> = {}): Promise<Compared> {
    return this.queries.comparisons.compare({ a: mustBeJobId(a), b: mustBeJobId(b), ...options })
  }

  /** One node, or one of its items, with its output and the history of its attempts. */
  node(jobId: string, node: string, of?: { readonly item?: number | undefined }): Promise<NodeDetails> {
    return this.queries.node(mustBeJobId(jobId), node, of)
  }

  /** J21: a page of the items of a node with `for_each`, after index `after`; `next`: `after` of the next page. */
  items(jobId: string, node: string, page?: ItemPageQuery): Promise<ItemPage> {
    return this.queries.items(mustBeJobId(jobId), node, page)
  }

  /** A version of a workflow as it was stored; null if there is none or it was deleted. Without a version: the latest. */
  async workflow(key: { owner: string; name: string; version?: number }): Promise<WorkflowRow | null> {
    const row = await this.#journal.readWorkflow(key)
    return row === null || row.deletedAt !== null ? null : row
  }

  /** J18: everything that has happened to the job so far, derived events included. */
  events(jobId: string): Promise<JobEvent[]> {
    return this.queries.events(mustBeJobId(jobId))
  }

  /** What workers of this process do for the job right now, and which of its nodes this process cannot run. */
  activity(jobId: string): JobActivity {
    return jobActivity(this.#wired.engine.live(jobId), {
      isRunning: (job, task) => isRunning(this.#wired.broker, job, task),
      hasHandler: name => this.serves(name),
      lacks: needs => this.#wired.broker.lacks(needs),
    })
  }

  /** Can this process run nodes with this handler? */
  serves(handler: string): boolean {
    return [routesHandler, bulkHandler].includes(handler) || this.handlers.served.get(handler) !== undefined
  }

  /** Does this process own the job's partition? */
  owns(jobId: string): boolean {
    return this.#wired.engine.owns(mustBeJobId(jobId))
  }

  /** The newest jobs that match, at most 50 unless `limit` is given. */
  async jobs(filter: Partial<JobFilter> = {}): Promise<JobSnapshot[]> {
    checkFilter(filter)
    return this.queries.jobs({ owner: localOwner, limit: 50, ...filter })
  }

  /** The same, a page at a time: a page of rare jobs may end early. */
  async jobPage(filter: Partial<JobFilter> = {}): Promise<JobSnapshotPage> {
    checkFilter(filter)
    return this.queries.jobPage({ owner: localOwner, limit: 50, ...filter })
  }

  /** What the jobs of a workflow took, used and failed with, by the hour in which they ended; at most a minute old. */
  statistics(workflow: string, options: Partial<StatisticsRequest> = {}): Promise<WorkflowStatistics> {
    return this.queries.statistics.workflow({ owner: localOwner, ...options, workflow })
  }

  /** Failed jobs, grouped by their errors. */
  failures(options: FailuresRequest = {}): Promise<FailurePage> {
    return this.queries.statistics.failures({ owner: localOwner, ...options })
  }

  /** Points of a chart: how long jobs took, over the time of their creation; by default of the last 24 hours. */
  async durations({ points, ...filter }: DurationsQuery = {}): Promise<JobDurations> {
    checkFilter(filter)
    return this.queries.durations({ owner: localOwner, ...filter, points })
  }

  /** The config of a node as it was rendered for an attempt (default: the last), with secrets masked. */
  nodeConfig(jobId: string, node: string, query: ConfigQuery = {}): Promise<NodeConfig> {
    return this.queries.facts.config(mustBeJobId(jobId), node, query)
  }

  /** Everything that happens to the job, from its beginning until it has ended, derived events included. */
  watch(jobId: string, options: { readonly signal?: AbortSignal } = {}): ReturnType<Queries["watch"]> {
    return this.queries.watch(mustBeJobId(jobId), this.#wired.watchers, options)
  }

  async cancel(jobId: string, reason?: string): Promise<void> {
    await this.command(jobId, { type: "cancel", reason })
  }

  /** Runs again exactly what is not COMPLETED or SKIPPED. */
  async retry(jobId: string): Promise<void> {
    await this.command(jobId, { type: "retry" })
  }

  /** A new job that takes over what need not run again. E314 if it repeats effects that `confirm` does not name. */
  async fork(jobId: string, request: ForkRequest = {}, options: ForkOptions = {}): Promise<JobHandle> {
    return new JobHandle(this, (await this.acceptFork(jobId, request, options)).jobId)
  }

  /** What a fork would do: which nodes it takes over, which run, and why. Nothing is stored. */
  previewFork(jobId: string, request: ForkRequest = {}, options: ForkOptions = {}): Promise<ForkPreview> {
    return this.#wired.forks.preview(mustBeJobId(jobId), request, options)
  }

  /** As `fork`, for callers that must know whether the job is new. */
  acceptFork(
    jobId: string,
    request: ForkRequest,
    options: ForkOptions = {},
    admit?: Admit,
  ): Promise<Submitted> {
    const { traceparent: given, ...rest } = options
    return inSubmitSpan(
      { traceparent: given, workflow: undefined },
      traceparent => this.#wired.forks.fork(mustBeJobId(jobId), request, { ...rest, traceparent }, admit),
      ({ jobId: id, isNew }) => ({ "umbra.job_id": id, "umbra.is_new": isNew }),
    )
  }

  async delete(jobId: string): Promise<void> {
    await this.command(jobId, { type: "delete" })
  }

  /** No further node of the job begins until `resume`; running ones end, and the time to live keeps elapsing. */
  async pause(jobId: string, { reason, by }: PauseOptions = {}): Promise<void> {
    await this.command(jobId, { type: "pause", reason, by })
  }

  async resume(jobId: string, { by }: Pick<PauseOptions, "by"> = {}): Promise<void> {
    await this.command(jobId, { type: "resume", by })
  }

  /** Moves the start of a job that has not started; a delay of 0: it starts now. */
  async reschedule(jobId: string, options: StartOptions & Pick<PauseOptions, "by">): Promise<void> {
    const { by, ...start } = options ?? {}
    await this.command(jobId, { type: "reschedule", by, ...startFields(start) })
  }

  /** Changes the labels or the note of a job, also of one that has ended. */
  async describe(jobId: string, { labels, note, by }: JobDescription): Promise<void> {
    await this.command(jobId, { type: "describe", labels, note, by })
  }

  /** New jobs of the workflow are stored and do not begin until `resumeWorkflow`. */
  pauseWorkflow(name: string, options: PauseOptions & { readonly owner?: string } = {}): Promise<void> {
    const key = { owner: options.owner ?? localOwner, name }
    return pauseWorkflow(this.registry, { ...key, ...options }, () => this.#wired.engine.pauses.changed())
  }

  /** New jobs begin again, and those that waited are resumed, a page at a time. */
  resumeWorkflow(name: string, { owner = localOwner }: { readonly owner?: string } = {}): Promise<void> {
    return resumeWorkflow(this.registry, { owner, name }, () => this.#wired.engine.pauses.changed())
  }

  /** With `resumeToken` (from the job's graph) the signal is refused if the job has been resumed since. */
  async signal(jobId: string, name: string, data: Json = null, options: SignalOptions = {}): Promise<void> {
    await this.command(jobId, { type: "signal", name, data, ...options })
  }

  /** The commands above, for code that passes commands on. Resolves when the command is durable. */
  async command(jobId: string, command: JobCommand): Promise<void> {
    const { engine } = this.#wired
    await this.queries.facts.send(mustBeJobId(jobId), command, {
      ...{ maxSignalBytes: this.#maxOutputBytes, live: () => engine.live(jobId)?.state },
      send: checked => engine.commands.command(jobId, checked),
    })
  }

  /** X5, X6: the providers that this process knows, the holders of their slots, their queues, and recent failures. */
  providers(): Promise<ProviderView[]> {
    return this.#services.views(this.#journal.providers)
  }

  /** The latest webhooks of a provider, rejected ones included; newest first. */
  webhookEvents(provider: string, limit = 100): ReturnType<Webhooks["list"]> {
    return this.webhooks.list(provider, limit)
  }

  /** Waits for running handlers (within the drain time), makes everything durable and releases the store. */
  async close(): Promise<void> {
    await this.#wired.engine.close()
    await this.#wired.broker.close()
    await this.#wired.logs.close()
    await this.artifacts.close()
    this.#wired.watchers.close()
    await this.#wired.live.close()
    await this.#wired.overlays.stop()
    await this.#journal.close()
  }
}
