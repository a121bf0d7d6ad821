import { LocalBroker } from "./broker/local.ts"
import type { JobEvent } from "./core/events.ts"
import type { Json } from "./core/json.ts"
import { type JobStatus, jobHasEnded } from "./core/states.ts"
import type { GraphView, NodeView, Progress } from "./core/view.ts"
import type { Workflow } from "./definition/builder.ts"
import { checkFilter, checkReason, checkSignal } from "./engine/arguments.ts"
import { type Clock, systemClock } from "./engine/clock.ts"
import { Engine } from "./engine/engine.ts"
import { JobHandle } from "./engine/job-handle.ts"
import { type JobSnapshot, snapshotOfLive, snapshotOfRow } from "./engine/job-snapshot.ts"
import type { LiveJob } from "./engine/live-job.ts"
import { Queries } from "./engine/queries.ts"
import { mustBeJobId } from "./engine/reader.ts"
import { type EngineSettings, engineSettings } from "./engine/settings.ts"
import { Submissions, type SubmitOptions, type Submitted, type WorkflowSource } from "./engine/submissions.ts"
import { Watchers } from "./engine/watchers.ts"
import { UmbraError } from "./errors.ts"
import { openJournal } from "./journal/open.ts"
import type { JobFilter, Journal, WorkflowRow } from "./journal/port.ts"
import type { WebhookEventRow } from "./journal/provider-store.ts"
import type { Registry } from "./journal/registry.ts"
import { type Log, silentLog } from "./log.ts"
import { ProviderCalls } from "./provider/calls.ts"
import { externalHandler } from "./provider/external-handler.ts"
import type { Provider } from "./provider/provider.ts"
import { ProviderRegistry } from "./provider/registry.ts"
import { type ProviderSettings, providerSettings } from "./provider/settings.ts"
import { type ProviderView, providerView } from "./provider/view.ts"
import { Webhooks } from "./provider/webhooks.ts"
import type { Handler } from "./worker/handler.ts"
import { builtinHandlers } from "./worker/handlers/index.ts"
import { HandlerRegistry } from "./worker/registry.ts"
import { TaskRunner } from "./worker/runner.ts"
import { type SecretSource, secretsFromEnvironment } from "./worker/secrets.ts"
import { type WorkerSettings, workerSettings } from "./worker/settings.ts"

export interface UmbraOptions {
  /** Handlers of your own, beside the built-in ones. */
  readonly handlers?: readonly Handler[]
  /** External services that finish work out of band (docs/providers.md). */
  readonly providers?: readonly Provider[]
  readonly provider?: Partial<ProviderSettings>
  readonly engine?: Partial<EngineSettings>
  readonly worker?: Partial<WorkerSettings>
  /** Where `{{ secrets.NAME }}` comes from; the environment unless told. */
  readonly secrets?: SecretSource
  /** A pino logger, or anything with its methods. */
  readonly log?: Log
  /** false: takes commands but runs no node, not even with a built-in handler. */
  readonly runNodes?: boolean
  /** The system's unless told; `umbra/testing` has one that a test moves. */
  readonly clock?: Clock
}

/** How long to believe that nothing has happened to a job that another process runs. */
const LOOK_AGAIN_MS = 250
const TRUST_NEWS_MS = 5000

/** The owner of jobs when nobody says otherwise. */
const localOwner = "local"

/**
 * Opens Umbra on `memory:`, a folder, or a `postgres://` URL. What an earlier process left unfinished goes on at once.
 *
 *     const umbra = await openUmbra("./data", { handlers: [greet] })
 *     const job = await umbra.submit(hello, { name: "Ada" })
 *     const { status, output } = await job.wait()
 *     await umbra.close()
 */
export async function openUmbra(location: string | Journal, options: UmbraOptions = {}): Promise<Umbra> {
  const settings = workerSettings(options.worker)
  const providers = new ProviderRegistry(providerSettings(options.provider), options.providers)
  const secrets = options.secrets ?? secretsFromEnvironment()
  const builtin = [
    ...builtinHandlers(settings, (name, answer) => providers.get(name)?.externalIdOf?.(answer)),
    externalHandler(providers, secrets),
  ]
  const handlers = new HandlerRegistry(
    options.runNodes === false ? [] : [...builtin, ...(options.handlers ?? [])],
  )
  const journal = typeof location === "string" ? await openJournal(location) : location
  const umbra = new Umbra({ journal, location, handlers, providers, secrets, settings, options })
  try {
    await umbra.start()
    return umbra
  } catch (error) {
    await journal.close()
    throw error
  }
}

export class Umbra {
  readonly handlers: HandlerRegistry
  readonly queries: Queries
  /** What `POST /webhooks/{provider}` lets in. */
  readonly webhooks: Webhooks
  readonly #providers: ProviderRegistry
  readonly #now: () => number
  readonly #journal: Journal
  readonly #engine: Engine
  readonly #submissions: Submissions
  readonly #watchers = new Watchers()
  readonly #maxOutputBytes: number
  #broker: LocalBroker | null = null

  constructor(parts: {
    journal: Journal
    location: string | Journal
    handlers: HandlerRegistry
    providers: ProviderRegistry
    secrets: SecretSource
    settings: WorkerSettings
    options: UmbraOptions
  }) {
    const { journal, location, handlers, providers, secrets, settings, options } = parts
    const log = options.log ?? silentLog
    const clock = options.clock ?? systemClock
    const figures = engineSettings(options.engine)
    const runner = new TaskRunner({
      handlers,
      settings,
      log,
      now: () => clock.now(),
      secrets,
    })
    const { maxOutputBytes, maxPreviewBytes } = settings
    const external = { registry: providers, secrets, now: () => clock.now(), maxOutputBytes, maxPreviewBytes }
    this.handlers = handlers
    this.#maxOutputBytes = settings.maxOutputBytes
    this.#journal = journal
    this.#engine = new Engine({
      journal,
      location: journal.capabilities.exclusive || typeof location !== "string" ? null : location,
      settings: figures,
      clock,
      log,
      broker: events => {
        this.#broker = new LocalBroker({ runner, events, concurrency: settings.concurrency })
        return this.#broker
      },
      observer: this.#watchers,
      providers: new ProviderCalls({ ...external, log }),
    })
    this.#providers = providers
    this.#now = () => clock.now()
    this.webhooks = new Webhooks({
      ...external,
      store: journal.providers,
      told: partitions => this.#engine.tell(partitions),
    })
    this.#submissions = new Submissions({
      journal,
      engine: this.#engine,
      handlers,
      ttlSeconds: figures.ttlSeconds,
      now: () => clock.now(),
    })
    this.queries = new Queries({
      journal,
      plans: this.#engine.plans,
      largeOutputBytes: figures.largeOutputBytes,
      live: id => this.#engine.live(id),
      isRunning: (job, node) => this.#isRunning(job, node),
    })
  }

  async start(): Promise<void> {
    await this.#engine.start()
  }

  /** Submits a workflow: one made with the builder, a definition, or the name of a stored one (`name`, `name@3`, `name@stable`). */
  async submit<Input, Output>(
    workflow: Workflow<Input, Output>,
    input?: Input,
    options?: SubmitOptions,
  ): Promise<JobHandle<Output>>
  async submit(workflow: WorkflowSource, input?: Json, options?: SubmitOptions): Promise<JobHandle>
  async submit(workflow: WorkflowSource, input?: unknown, options: SubmitOptions = {}): Promise<JobHandle> {
    const { jobId } = await this.accept(workflow, input, options)
    return new JobHandle(this, jobId)
  }

  /** As `submit`, for whoever must know whether the job is new or its idempotency key was used before. */
  accept(workflow: WorkflowSource, input?: unknown, options: SubmitOptions = {}): Promise<Submitted> {
    return this.#submissions.submit(workflow, input, { owner: localOwner, ...options })
  }

  /** A job that was accepted a moment ago, as it began: no need to read it when it is here. */
  async accepted(jobId: string): Promise<JobSnapshot> {
    const live = this.#engine.live(mustBeJobId(jobId))
    if (live === undefined) return this.queries.job(jobId)
    const began = { status: "PENDING", output: null, error: null, finished_at: null } as const
    return { ...snapshotOfLive(live), ...began }
  }

  /** One listener, for metrics: called for every job that ends in this process. */
  onJobEnded(listener: (ended: { readonly status: JobStatus; readonly seconds: number }) => void): void {
    this.#watchers.onEnded = ({ state }) =>
      listener({
        status: state.status,
        seconds: ((state.finishedAt ?? state.createdAt) - state.createdAt) / 1000,
      })
  }

  /** What this process has in hand. */
  vitals(): { readonly liveJobs: number; readonly partitions: number } {
    return { liveJobs: this.#engine.owner.jobs.size, partitions: this.#engine.ownedPartitions }
  }

  /** Resolves when the store answers; rejects when it does not. */
  async ping(): Promise<void> {
    await this.#journal.readPartitions()
  }

  /** Names, aliases and tokens. */
  get registry(): Registry {
    return this.#journal.registry
  }

  /** Stores a workflow; unchanged content is not a new version. */
  register(
    workflow: Exclude<WorkflowSource, string>,
    owner: string = localOwner,
  ): Promise<{ name: string; version: number; hash: string; unchanged: boolean }> {
    return this.#submissions.register(workflow, owner)
  }

  /** Handlers that come later: nodes that wait for one of them start at once. */
  addHandlers(handlers: readonly Handler[]): void {
    this.handlers.addAll(handlers)
    for (const { name } of handlers) this.#engine.owner.serve(name)
  }

  handle(jobId: string): JobHandle {
    return new JobHandle(this, mustBeJobId(jobId))
  }

  /** Resolves when the job has ended, or at the latest after `timeoutMs`, with what it is then. */
  async wait(jobId: string, options: { readonly timeoutMs?: number } = {}): Promise<JobSnapshot> {
    const deadline = performance.now() + (options.timeoutMs ?? Number.POSITIVE_INFINITY)
    for (;;) {
      const left = deadline - performance.now()
      const isHere = this.#engine.live(mustBeJobId(jobId)) !== undefined
      // News of a job that runs here is pushed, unless it moves to another engine; for others, look again soon.
      const news = this.#watchers.next(jobId, Math.min(left, isHere ? TRUST_NEWS_MS : LOOK_AGAIN_MS))
      if (!isHere || left <= 0) {
        const job = await this.job(jobId)
        if (jobHasEnded(job.status) || left <= 0) {
          news.cancel()
          return job
        }
      }
      const ended = await news.settled
      if (ended !== null) return ended
    }
  }

  async job(jobId: string): Promise<JobSnapshot> {
    const live = this.#engine.live(mustBeJobId(jobId))
    if (live !== undefined && live.undurable === 0) return snapshotOfLive(live)
    return this.queries.job(jobId)
  }

  /** J19: nodes, edges, what is ready and what is waited for. */
  graph(jobId: string): Promise<GraphView> {
    return this.queries.graph(mustBeJobId(jobId))
  }

  /** One node, with its output. */
  node(jobId: string, node: string): Promise<NodeView & { readonly output: Json }> {
    return this.queries.node(mustBeJobId(jobId), node)
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

  /** What workers of this process do for the job right now, and what nobody here can do. */
  activity(jobId: string): JobActivity {
    const live = this.#engine.live(jobId)
    if (live === undefined) return { isHere: false, running: [], unserved: [] }
    const { nodes } = live.plan
    return {
      isHere: true,
      running: [...live.running]
        .filter(node => this.#isRunning(live, node))
        .map(node => ({
          node: nodes[node]!.id,
          progress: live.progress?.get(node) ?? null,
        })),
      unserved: [...(live.unserved ?? [])].map(node => ({
        node: nodes[node]!.id,
        handler: nodes[node]!.handler,
        provider: this.handlers.get(nodes[node]!.handler) === undefined ? null : nodes[node]!.provider,
      })),
    }
  }

  #isRunning(job: LiveJob, node: number): boolean {
    return this.#broker?.isRunning({ jobId: job.id, node, attempt: job.state.attempt[node]! }) ?? false
  }

  /** Does this process own the job's partition? */
  owns(jobId: string): boolean {
    return this.#engine.owns(mustBeJobId(jobId))
  }

  async jobs(filter: Partial<JobFilter> = {}): Promise<JobSnapshot[]> {
    checkFilter(filter)
    const rows = await this.#journal.listJobs({ owner: localOwner, limit: 50, ...filter })
    return rows.map(snapshotOfRow)
  }

  /** Everything that happens to the job, from its beginning until it has ended, derived events included. */
  watch(jobId: string, options: { readonly signal?: AbortSignal } = {}): ReturnType<Queries["watch"]> {
    return this.queries.watch(mustBeJobId(jobId), this.#watchers, options)
  }

  async cancel(jobId: string, reason?: string): Promise<void> {
    checkReason(reason)
    await this.#engine.command(mustBeJobId(jobId), {
      type: "cancel",
      ...(reason === undefined ? {} : { reason }),
    })
  }

  /** Runs again exactly what is not COMPLETED or SKIPPED. */
  async retry(jobId: string): Promise<void> {
    await this.#engine.command(mustBeJobId(jobId), { type: "retry" })
  }

  async delete(jobId: string): Promise<void> {
    await this.#engine.command(mustBeJobId(jobId), { type: "delete" })
  }

  /** With `resumeToken` (of the job's graph) it is refused if the job has been resumed since. */
  async signal(
    jobId: string,
    name: string,
    data: Json = null,
    { resumeToken }: { readonly resumeToken?: string } = {},
  ): Promise<void> {
    const checked = checkSignal(name, data, this.#maxOutputBytes)
    const token = resumeToken === undefined ? {} : { resumeToken }
    await this.#engine.command(mustBeJobId(jobId), { type: "signal", name, data: checked, ...token })
  }

  /** X5, X6: the providers that this process knows, who holds their slots, who waits, what went wrong lately. */
  async providers(): Promise<ProviderView[]> {
    const { providers } = this.#journal
    const views = this.#providers.names().map(async name => {
      const overview = await providers.overview({ provider: name, at: this.#now() })
      return providerView(name, this.#providers.terms(name)!, overview)
    })
    return Promise.all(views)
  }

  /** The last webhooks of a provider, refused ones too; newest first. */
  async webhookEvents(provider: string, limit = 100): Promise<WebhookEventRow[]> {
    if (this.#providers.get(provider) === undefined)
      throw new UmbraError("E650", `There is no provider "${provider}" here.`)
    return this.#journal.providers.listEvents({ provider, limit })
  }

  /** Lets running handlers end (within the drain time), makes everything durable and lets go of the store. */
  async close(): Promise<void> {
    await this.#engine.close()
    this.#watchers.close()
    await this.#journal.close()
  }
}

export interface JobActivity {
  /** Is the job in this process's memory? One that only waits, or is run elsewhere, is not. */
  readonly isHere: boolean
  readonly running: readonly { readonly node: string; readonly progress: Progress | null }[]
  /** Ready nodes with a handler that is not registered here; `provider`: it is, but their provider is not. */
  readonly unserved: readonly {
    readonly node: string
    readonly handler: string
    readonly provider: string | null
  }[]
}
