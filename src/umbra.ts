import { LocalBroker } from "./broker/local.ts"
import type { JobEvent } from "./core/events.ts"
import { placeOf } from "./core/item-list.ts"
import type { ItemView } from "./core/item-view.ts"
import type { Json } from "./core/json.ts"
import { type JobStatus, jobHasEnded } from "./core/states.ts"
import type { GraphView, NodeView, Progress } from "./core/view.ts"
import type { Workflow } from "./definition/builder.ts"
import { checkFilter, checkReason, checkSignal } from "./engine/arguments.ts"
import { type Clock, systemClock } from "./engine/clock.ts"
import { Engine } from "./engine/engine.ts"
import { JobHandle } from "./engine/job-handle.ts"
import { type JobSnapshot, snapshotOfLive, snapshotOfRow } from "./engine/job-snapshot.ts"
import { type LiveJob, taskOfKey } from "./engine/live-job.ts"
import { Queries } from "./engine/queries.ts"
import { mustBeJobId } from "./engine/reader.ts"
import { type EngineSettings, engineSettings } from "./engine/settings.ts"
import { Submissions, type SubmitOptions, type Submitted, type WorkflowSource } from "./engine/submissions.ts"
import { Watchers } from "./engine/watchers.ts"
import { openJournal } from "./journal/open.ts"
import type { JobFilter, Journal, WorkflowRow } from "./journal/port.ts"
import type { Registry } from "./journal/registry.ts"
import { type Log, silentLog } from "./log.ts"
import type { Handler } from "./worker/handler.ts"
import { builtinHandlers } from "./worker/handlers/index.ts"
import { HandlerRegistry } from "./worker/registry.ts"
import { TaskRunner } from "./worker/runner.ts"
import type { SecretSource } from "./worker/secrets.ts"
import { type WorkerSettings, workerSettings } from "./worker/settings.ts"

export interface UmbraOptions {
  /** Handlers of your own, beside the built-in ones. */
  readonly handlers?: readonly Handler[]
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
  const handlers = new HandlerRegistry(
    options.runNodes === false ? [] : [...builtinHandlers(settings), ...(options.handlers ?? [])],
  )
  const journal = typeof location === "string" ? await openJournal(location) : location
  const umbra = new Umbra({ journal, location, handlers, settings, options })
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
    settings: WorkerSettings
    options: UmbraOptions
  }) {
    const { journal, location, handlers, settings, options } = parts
    const log = options.log ?? silentLog
    const clock = options.clock ?? systemClock
    const figures = engineSettings(options.engine)
    const runner = new TaskRunner({
      handlers,
      settings,
      log,
      now: () => clock.now(),
      ...(options.secrets === undefined ? {} : { secrets: options.secrets }),
    })
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
      isRunning: (job, task) => this.#isRunning(job, task),
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

  /** J21: a page of the items of a node with `for_each`, from behind index `after`; `next`: that of the next page. */
  items(
    jobId: string,
    node: string,
    page: { readonly after?: number; readonly limit?: number } = {},
  ): Promise<{ readonly items: readonly ItemView[]; readonly next: number | null }> {
    const { after = -1, limit = 100 } = page
    return this.queries.items(mustBeJobId(jobId), node, { after, limit })
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
        .map(key => ({ key, ...taskOfKey(key) }))
        .filter(task => this.#isRunning(live, task))
        .map(({ key, node, item }) => ({
          node: nodes[node]!.id,
          ...(item === undefined ? {} : { item }),
          progress: live.progress?.get(key) ?? null,
        })),
      unserved: [...(live.unserved ?? [])].map(key => {
        const { id, handler } = nodes[taskOfKey(key).node]!
        return { node: id, handler }
      }),
    }
  }

  #isRunning(job: LiveJob, { node, item }: { readonly node: number; readonly item?: number }): boolean {
    const which = item === undefined ? { node } : { node, item }
    const place = placeOf(job.state, which)
    if (place === null) return false
    const attempt = place.state.attempt[place.position]!
    return this.#broker?.isRunning({ jobId: job.id, ...which, attempt }) ?? false
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

  async signal(jobId: string, name: string, data: Json = null): Promise<void> {
    const checked = checkSignal(name, data, this.#maxOutputBytes)
    await this.#engine.command(mustBeJobId(jobId), { type: "signal", name, data: checked })
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
  readonly running: readonly {
    readonly node: string
    readonly item?: number
    readonly progress: Progress | null
  }[]
  /** Ready nodes with a handler that is not registered here. */
  readonly unserved: readonly { readonly node: string; readonly handler: string }[]
}
