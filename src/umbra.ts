import { LocalBroker } from "./broker/local.ts"
import type { Json, JsonObject } from "./core/json.ts"
import { type JobStatus, jobHasEnded } from "./core/states.ts"
import type { Workflow } from "./definition/builder.ts"
import { systemClock } from "./engine/clock.ts"
import { Engine } from "./engine/engine.ts"
import { isJobId } from "./engine/ids.ts"
import { JobHandle } from "./engine/job-handle.ts"
import { type JobSnapshot, snapshotOfLive, snapshotOfRow } from "./engine/job-snapshot.ts"
import { Queries } from "./engine/queries.ts"
import { type EngineSettings, engineDefaults } from "./engine/settings.ts"
import { Submissions, type SubmitOptions, type WorkflowSource } from "./engine/submissions.ts"
import { Watchers } from "./engine/watchers.ts"
import { UmbraError } from "./errors.ts"
import { openJournal } from "./journal/open.ts"
import type { JobFilter, Journal } from "./journal/port.ts"
import type { Handler } from "./worker/handler.ts"
import { builtinHandlers } from "./worker/handlers/index.ts"
import { type Log, silentLog } from "./worker/log.ts"
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
}

/** How long to believe that nothing has happened to a job that another process runs. */
const LOOK_AGAIN_MS = 250

/** The owner of jobs when nobody says otherwise. */
export const localOwner = "local"

/**
 * Opens Umbra on `memory:`, a folder, or a `postgres://` URL. What an earlier process left unfinished goes on at once.
 *
 *     const umbra = await openUmbra("./data", { handlers: [greet] })
 *     const job = await umbra.submit(hello, { name: "Ada" })
 *     const { status, output } = await job.wait()
 *     await umbra.close()
 */
export async function openUmbra(location: string, options: UmbraOptions = {}): Promise<Umbra> {
  const settings = workerSettings(options.worker)
  const handlers = new HandlerRegistry([...builtinHandlers(settings), ...(options.handlers ?? [])])
  const journal = await openJournal(location)
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

  constructor(parts: {
    journal: Journal
    location: string
    handlers: HandlerRegistry
    settings: WorkerSettings
    options: UmbraOptions
  }) {
    const { journal, location, handlers, settings, options } = parts
    const log = options.log ?? silentLog
    const engineSettings = { ...engineDefaults, ...options.engine }
    const runner = new TaskRunner({
      handlers,
      settings,
      log,
      ...(options.secrets === undefined ? {} : { secrets: options.secrets }),
    })
    this.handlers = handlers
    this.#journal = journal
    this.#engine = new Engine({
      journal,
      location: journal.capabilities.exclusive ? null : location,
      settings: engineSettings,
      clock: systemClock,
      log,
      broker: events => new LocalBroker({ runner, events, concurrency: settings.concurrency }),
      observer: this.#watchers,
    })
    this.#submissions = new Submissions({
      journal,
      engine: this.#engine,
      handlers,
      ttlSeconds: engineSettings.ttlSeconds,
    })
    this.queries = new Queries({
      journal,
      plans: this.#engine.plans,
      largeOutputBytes: engineSettings.largeOutputBytes,
      live: id => this.#engine.live(id),
    })
  }

  async start(): Promise<void> {
    await this.#engine.start()
  }

  /** Submits a workflow: one made with the builder, a definition, or the name of a stored one (`name`, `name@3`). */
  async submit<Input, Output>(
    workflow: Workflow<Input, Output>,
    input?: Input,
    options?: SubmitOptions,
  ): Promise<JobHandle<Output>>
  async submit(workflow: WorkflowSource, input?: Json, options?: SubmitOptions): Promise<JobHandle>
  async submit(workflow: WorkflowSource, input?: unknown, options: SubmitOptions = {}): Promise<JobHandle> {
    const id = await this.#submissions.submit(workflow, input, { owner: localOwner, ...options })
    return new JobHandle(this, id)
  }

  /** Stores a workflow; unchanged content is not a new version. */
  register(
    workflow: Exclude<WorkflowSource, string>,
    owner: string = localOwner,
  ): Promise<{ name: string; version: number; unchanged: boolean }> {
    return this.#submissions.register(workflow, owner)
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
      // News of a job that runs here is pushed; for others, look again after a moment.
      const news = this.#watchers.next(jobId, isHere ? left : Math.min(left, LOOK_AGAIN_MS))
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
    const row = await this.#journal.readJob(jobId)
    if (row === null) throw new UmbraError("E301", `Job ${jobId} does not exist.`)
    return row.status === "COMPLETED" && row.output === null ? this.queries.snapshot(row) : snapshotOfRow(row)
  }

  async jobs(filter: Partial<JobFilter> = {}): Promise<JobSnapshot[]> {
    const rows = await this.#journal.listJobs({ owner: localOwner, limit: 50, ...filter })
    return rows.map(snapshotOfRow)
  }

  /** Everything that happens to the job, from its beginning until it has ended, derived events included. */
  watch(jobId: string, options: { readonly signal?: AbortSignal } = {}): ReturnType<Queries["watch"]> {
    return this.queries.watch(mustBeJobId(jobId), this.#watchers, options)
  }

  async cancel(jobId: string, reason?: string): Promise<void> {
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
    await this.#engine.command(mustBeJobId(jobId), { type: "signal", name, data })
  }

  /** Lets running handlers end (within the drain time), makes everything durable and lets go of the store. */
  async close(): Promise<void> {
    await this.#engine.close()
    this.#watchers.close()
    await this.#journal.close()
  }
}

function mustBeJobId(text: string): string {
  if (!isJobId(text)) throw new UmbraError("E301", `"${text}" is not a job id.`)
  return text
}

export type { JobSnapshot, JobStatus, JsonObject, SubmitOptions, WorkflowSource }
