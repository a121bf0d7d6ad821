import type { Broker, BrokerHost } from "../broker/port.ts"
import type { Journal } from "../journal/port/journal.ts"
import type { Log } from "../log.ts"
import type { Clock } from "./clock.ts"
import type { MustFit } from "./dispatch/pipeline-needs.ts"
import type { JobObserver } from "./owner/owner.ts"
import type { ClaimExecution } from "./pipeline-places.ts"
import type { Providers } from "./providers/providers.ts"
import type { EngineSettings } from "./settings.ts"
import type { WorkerFacts } from "./workers.ts"

/** The dependencies of an engine. */
export interface EngineParts {
  readonly journal: Journal
  /** Where the heartbeat thread can open the journal again; null: heartbeats are sent from this thread. */
  readonly location: string | null
  readonly settings: EngineSettings
  readonly clock: Clock
  readonly log: Log
  readonly broker: (host: BrokerHost) => Broker
  readonly observer: EngineObserver
  /** The description of this process's worker that other processes see. */
  readonly worker: () => WorkerFacts
  readonly providers?: Providers
  /** Limit of a child job's output, as of a handler's; absent: no limit. */
  readonly maxOutputBytes?: number
  readonly claimExecution?: ClaimExecution
  readonly mustFit?: MustFit
  /** false: it never owns a partition, and sends jobs and commands to the engines that do. */
  readonly takesPartitions: boolean
}

/** The events that concern jobs and their observers; all others are internal to the engine. */
export interface EngineObserver extends JobObserver {
  /** Reports whether another live engine follows the commits of this one. */
  followed(isFollowed: boolean): void
  /** Partitions were released: others need not wait for their next heartbeat to take them. */
  released(): void
}
