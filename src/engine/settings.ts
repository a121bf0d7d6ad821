/** Every figure the engine works with, and its default (S10). */
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
  /** How long running handlers may take to end when the engine closes. */
  readonly drainSeconds: number
}

export const engineDefaults: EngineSettings = {
  ttlSeconds: 24 * 3600,
  retentionSeconds: 7 * 24 * 3600,
  leaseSeconds: 10,
  beatSeconds: 3,
  lossLimit: 3,
  largeOutputBytes: 256 * 1024,
  parkAfterMs: 2000,
  maxLiveJobs: 100_000,
  drainSeconds: 10,
}
