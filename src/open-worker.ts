import { contentPlace } from "./artifacts/open.ts"
import { type ArtifactSettings, artifactSettings as readArtifactSettings } from "./artifacts/settings.ts"
import { checkRedisUrl } from "./broker/redis/client/connection.ts"
import { type RedisSettings, redisSettings } from "./broker/redis/settings.ts"
import { RedisWorker } from "./broker/redis/worker/worker.ts"
import { jobPartition } from "./engine/ids.ts"
import { engineSettings } from "./engine/settings.ts"
import { UmbraError } from "./errors.ts"
import { type Log, silentLog } from "./log.ts"
import type { Adapter } from "./pipeline/adapter.ts"
import { adapterRegistry } from "./pipeline/adapters/index.ts"
import type { AdapterSettings } from "./pipeline/adapters/settings.ts"
import { routeHandlers } from "./pipeline/execution/route-worker.ts"
import { type PipelineSettings, pipelineSettings } from "./pipeline/settings.ts"
import { ExternalServices, type ExternalServicesOptions } from "./provider/services.ts"
import { version } from "./version.ts"
import { workerArtifacts } from "./worker/artifacts.ts"
import type { Handler } from "./worker/handler.ts"
import { LogBuffer } from "./worker/logs/buffer.ts"
import { HandlerRegistry } from "./worker/registry.ts"
import { TaskRunner } from "./worker/runner.ts"
import { type WorkerSettings, workerSettings } from "./worker/settings.ts"

/** Lines wait again in Redis until their engine stores them. */
const LOG_DELAY_MS = 50

export interface WorkerOptions extends ExternalServicesOptions {
  /** Your own handlers, in addition to the built-in ones. */
  readonly handlers?: readonly Handler[]
  /** Your own adapters for routes with `run_on: workers`, in addition to the built-in ones. */
  readonly adapters?: readonly Adapter[]
  /** The parts of this machine that pipelines may use. */
  readonly files?: Partial<AdapterSettings>
  readonly pipeline?: Partial<PipelineSettings>
  /** The id of the store that it works for (`UMBRA_STORE`); default: the only live store on that Redis. */
  readonly store?: string | undefined
  /** Only tasks of these handlers; default: all that it has. */
  readonly queues?: readonly string[] | undefined
  readonly worker?: Partial<WorkerSettings>
  readonly redis?: Partial<RedisSettings>
  /** The same place for content as in the engines. */
  readonly artifacts?: Partial<ArtifactSettings>
  /** As in `UmbraOptions`. */
  readonly capturesConsole?: boolean
  readonly log?: Log
}

/**
 * Opens a worker of a fleet (docs/operations/fleet.md): it runs nodes for the engines on the same Redis, and needs no database.
 *
 *     const worker = await openWorker("redis://127.0.0.1", { handlers: [render] })
 *     process.once("SIGTERM", () => worker.close())
 */
export function openWorker(redisUrl: string, options: WorkerOptions = {}): FleetWorker {
  const settings = workerSettings(options.worker)
  const log = options.log ?? silentLog
  const services = new ExternalServices(options, settings, Date.now)
  const registry = new HandlerRegistry([
    ...services.handlers(),
    ...services.pollHandlers(log),
    ...routeHandlers({
      adapters: adapterRegistry(options, settings),
      secrets: services.secrets,
      settings: pipelineSettings(options.pipeline),
    }),
    ...(options.handlers ?? []),
  ])
  const handlers = chooseQueues(registry, options.queues)
  const logs = new LogBuffer({
    ...{ sink: rows => worker.sendLogs(rows), maxBytes: settings.logBufferBytes, log, delayMs: LOG_DELAY_MS },
  })
  const artifactSettings = readArtifactSettings(options.artifacts)
  const artifacts = workerArtifacts(
    contentPlace(artifactSettings.location, undefined),
    artifactSettings,
    settings,
  )
  const runner = new TaskRunner({
    ...{ handlers: registry, settings, log, logs, secrets: services.secrets, artifacts },
    ...(options.capturesConsole !== undefined && { capturesConsole: options.capturesConsole }),
  })
  const worker = new RedisWorker({
    url: checkRedisUrl(redisUrl),
    settings: redisSettings({
      ...options.redis,
      ...(options.store === undefined ? {} : { store: options.store }),
    }),
    runner,
    sendRemainingLogs: () => logs.close(),
    handlers,
    concurrency: settings.concurrency,
    jobPartition,
    version,
    log,
  })
  return new FleetWorker(worker, handlers)
}

export class FleetWorker {
  /** The queues that it takes tasks from. */
  readonly queues: readonly string[]
  readonly #worker: RedisWorker

  constructor(worker: RedisWorker, queues: readonly string[]) {
    this.#worker = worker
    this.queues = queues
  }

  get id(): string {
    return this.#worker.id
  }

  /** Resolves with the id of the store that it works for; rejects with E620 if several are live and none was given. */
  get bound(): Promise<string> {
    return this.#worker.bound
  }

  /** Resolves when it is ready for the first time. */
  get ready(): Promise<void> {
    return this.#worker.ready
  }

  /** Tasks that it has rejected since it started. */
  get refused(): number {
    return this.#worker.refused
  }

  /** Is it connected and registered, and has an engine announced its store? */
  get isReady(): boolean {
    return this.notReady === null
  }

  /** Why it is not ready; null: it is. */
  get notReady(): string | null {
    return this.#worker.notReady
  }

  get running(): number {
    return this.#worker.running
  }

  /** Returns tasks that it has not begun, waits for running handlers within the time, and disconnects. */
  close({
    drainSeconds = engineSettings().drainSeconds,
  }: {
    readonly drainSeconds?: number
  } = {}): Promise<void> {
    return this.#worker.stop(drainSeconds * 1000)
  }
}

function chooseQueues(registry: HandlerRegistry, queues: readonly string[] | undefined): readonly string[] {
  const known = registry.names()
  if (queues?.length === 0)
    throw new UmbraError(
      "E620",
      `This worker was given an empty list of queues and would never get a task. Name some of ${known.join(", ")}, or omit the list to take all of them.`,
    )
  const unknown = queues?.filter(queue => !known.includes(queue)) ?? []
  if (unknown.length > 0)
    throw new UmbraError(
      "E620",
      `This worker has no handler ${unknown.map(name => `"${name}"`).join(", ")} for the queues it was given; it has ${known.join(", ")}.`,
    )
  return queues === undefined ? known : [...new Set(queues)]
}
