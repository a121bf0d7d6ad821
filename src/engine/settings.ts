import { amount, amountOrNever, readSettings, type SettingTable, wholeNumber } from "../settings.ts"

/** Every figure the engine works with (S10). Defaults and variables are in the table below. */
export interface EngineSettings {
  /** A job past this is EXPIRED; null: never. */
  readonly ttlSeconds: number | null
  /** Finished jobs are removed after this; null: never. */
  readonly retentionSeconds: number | null
  /** A peer whose beat has not changed for this long is dead. */
  readonly leaseSeconds: number
  readonly beatSeconds: number
  /** Known deaths of the process running a node after which the node is failed. */
  readonly lossLimit: number
  /** Outputs above this do not stay in memory. */
  readonly largeOutputBytes: number
  /** A job that only waits, and longer than this, leaves memory. */
  readonly parkAfterMs: number
  /** Jobs in memory beyond which new ones are refused. */
  readonly maxLiveJobs: number
  /** How deep workflows may run inside workflows. */
  readonly maxDepth: number
  /** How long a list of `for_each` may be. */
  readonly maxItems: number
  /** How long running handlers may take to end when the engine closes. */
  readonly drainSeconds: number
}

export const engineTable: SettingTable<EngineSettings> = {
  ttlSeconds: amountOrNever("UMBRA_TTL_SECONDS", 24 * 3600),
  retentionSeconds: amountOrNever("UMBRA_RETENTION_SECONDS", 7 * 24 * 3600),
  leaseSeconds: amount("UMBRA_LEASE_SECONDS", 10),
  beatSeconds: amount("UMBRA_BEAT_SECONDS", 3),
  lossLimit: wholeNumber("UMBRA_LOSS_LIMIT", 3),
  largeOutputBytes: wholeNumber("UMBRA_LARGE_OUTPUT_BYTES", 256 * 1024),
  parkAfterMs: amount("UMBRA_PARK_AFTER_MS", 2000),
  maxLiveJobs: wholeNumber("UMBRA_MAX_LIVE_JOBS", 100_000),
  maxDepth: wholeNumber("UMBRA_MAX_DEPTH", 16),
  maxItems: wholeNumber("UMBRA_MAX_ITEMS", 100_000),
  drainSeconds: amount("UMBRA_DRAIN_SECONDS", 10),
}

/** What is given, else what the environment says, else the default. */
export function engineSettings(given?: Partial<EngineSettings>): EngineSettings {
  return readSettings(engineTable, given)
}
