import type { ArtifactSettings } from "./artifacts/settings.ts"
import type { RedisBrokerParts } from "./broker/redis/broker.ts"
import { checkRedisUrl } from "./broker/redis/client/connection.ts"
import { type RedisSettings, redisSettings } from "./broker/redis/settings.ts"
import type { Runner } from "./broker/runner.ts"
import type { Clock } from "./engine/clock.ts"
import { jobPartition } from "./engine/ids.ts"
import type { EngineSettings } from "./engine/settings.ts"
import type { FeedSettings } from "./feed/settings.ts"
import type { Log } from "./log.ts"
import type { Adapter } from "./pipeline/adapter.ts"
import type { AdapterSettings } from "./pipeline/adapters/settings.ts"
import type { PipelineSettings } from "./pipeline/settings.ts"
import type { ExternalServicesOptions } from "./provider/services.ts"
import type { Role } from "./roles.ts"
import type { Handler } from "./worker/handler.ts"
import type { WorkerSettings } from "./worker/settings.ts"

/** The options of a process that opens Umbra; each has a default. */
export interface UmbraOptions extends ExternalServicesOptions {
  /** Your own handlers, in addition to the built-in ones. */
  readonly handlers?: readonly Handler[]
  /** Your own adapters for pipelines, in addition to the built-in ones. */
  readonly adapters?: readonly Adapter[]
  readonly engine?: Partial<EngineSettings>
  readonly pipeline?: Partial<PipelineSettings>
  /** false: pipeline executions whose jobs this engine owns wait for another engine that runs them. */
  readonly runsPipelines?: boolean
  /** false: delayed jobs that are due and ticks of schedules wait for another engine. For processes that end soon. */
  readonly startsJobs?: boolean
  /** The parts of this machine that pipelines may use. */
  readonly files?: Partial<AdapterSettings>
  readonly worker?: Partial<WorkerSettings>
  readonly feed?: Partial<FeedSettings>
  /** Where the content of artifacts is (`location`), and their limits. Default: in the data folder; on PostgreSQL there is none. */
  readonly artifacts?: Partial<ArtifactSettings>
  /** `redis://…`: nodes whose handlers this process does not have run on remote workers (docs/operations/fleet.md). */
  readonly redisUrl?: string
  readonly redis?: Partial<RedisSettings>
  /** What handlers print with `console` is stored with their attempts, as what they log with `ctx.log`. Default: false. */
  readonly capturesConsole?: boolean
  /** A pino logger, or anything with its methods. */
  readonly log?: Log
  /**
   * The roles of this process; default: all. Without `engine` it owns no job and sends submissions and commands to the
   * engines on its PostgreSQL; without `worker` it runs no node, not even with a built-in handler.
   */
  readonly roles?: readonly Role[]
  /** Replaces the runner of attempts; gets the default one. For `umbra dev`, whose handlers have a process of their own. */
  readonly runner?: (own: Runner) => Runner
  /** Default: the system clock; `umbra/testing` has one that a test moves. */
  readonly clock?: Clock
}

/** null: this process uses no Redis. */
export function redisParts(
  { redisUrl, redis }: UmbraOptions,
  parts: Pick<RedisBrokerParts, "log" | "store" | "storeLogs">,
) {
  if (redisUrl === undefined) return null
  return { url: checkRedisUrl(redisUrl), settings: redisSettings(redis), jobPartition, ...parts }
}
