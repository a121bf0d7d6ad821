import type { RedisBrokerParts } from "./broker/redis/broker.ts"
import { checkRedisUrl } from "./broker/redis/client/connection.ts"
import { type RedisSettings, redisSettings } from "./broker/redis/settings.ts"
import type { Clock } from "./engine/clock.ts"
import { partitionOf } from "./engine/ids.ts"
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

/** What a process may say when it opens Umbra; everything has a default. */
export interface UmbraOptions extends ExternalServicesOptions {
  /** Handlers of your own, beside the built-in ones. */
  readonly handlers?: readonly Handler[]
  /** Adapters of your own for pipelines, beside the built-in ones. */
  readonly adapters?: readonly Adapter[]
  readonly engine?: Partial<EngineSettings>
  readonly pipeline?: Partial<PipelineSettings>
  /** false: executions of pipelines whose jobs this engine owns wait for another that runs them. */
  readonly runsPipelines?: boolean
  /** What of this machine pipelines may use. */
  readonly files?: Partial<AdapterSettings>
  readonly worker?: Partial<WorkerSettings>
  readonly feed?: Partial<FeedSettings>
  /** `redis://…`: nodes whose handlers this process does not have run in workers elsewhere (docs/fleet.md). */
  readonly redisUrl?: string
  readonly redis?: Partial<RedisSettings>
  /** A pino logger, or anything with its methods. */
  readonly log?: Log
  /**
   * What this process does; everything unless told. Without `engine` it owns no job and hands submissions and commands
   * to the engines on its PostgreSQL; without `worker` it runs no node, not even with a built-in handler.
   */
  readonly roles?: readonly Role[]
  /** The system's unless told; `umbra/testing` has one that a test moves. */
  readonly clock?: Clock
}

/** null: this process has no fleet. */
export function redisOf({ redisUrl, redis }: UmbraOptions, log: Log, store: RedisBrokerParts["store"]) {
  if (redisUrl === undefined) return null
  return { url: checkRedisUrl(redisUrl), settings: redisSettings(redis), store, partitionOf, log }
}
