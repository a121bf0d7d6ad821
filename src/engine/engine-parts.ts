import type { Broker, BrokerHost } from "../broker/port.ts"
import type { Journal } from "../journal/port/journal.ts"
import type { Log } from "../log.ts"
import type { Clock } from "./clock.ts"
import type { MustFit } from "./dispatch/pipeline-needs.ts"
import type { OwnerObserver } from "./owner/owner-observer.ts"
import type { ClaimExecution } from "./pipeline-places.ts"
import type { Providers } from "./providers/providers.ts"
import type { EngineSettings } from "./settings.ts"
import type { WorkerFacts } from "./workers.ts"

/** What an engine is made of, and whom it tells. */
export interface EngineParts {
  readonly journal: Journal
  /** Where the pulse thread can open the journal again; null: it beats from this thread. */
  readonly location: string | null
  readonly settings: EngineSettings
  readonly clock: Clock
  readonly log: Log
  readonly broker: (host: BrokerHost) => Broker
  readonly observer: EngineObserver
  /** What this process's worker is and does, for the others to see. */
  readonly worker: () => WorkerFacts
  readonly providers?: Providers
  /** Of a child job's output, as of a handler's; left out: no limit. */
  readonly maxOutputBytes?: number
  readonly claimExecution?: ClaimExecution
  readonly mustFit?: MustFit
  /** false: it owns no partition ever, and hands jobs and commands to the engines that do. */
  readonly takesPartitions: boolean
}

/** What concerns jobs and those who look at them; the rest is the engine's own affair. */
export interface EngineObserver extends Pick<OwnerObserver, "changed" | "ended" | "progressed"> {
  /** Another engine that lives wants to know what is committed here, or none does. */
  followed(isFollowed: boolean): void
  /** Partitions were let go of: others need not wait for their next beat to take them. */
  released(): void
}
