import { isDeepStrictEqual } from "node:util"
import { redisTable } from "../broker/redis/settings.ts"
import type { RetryPolicy } from "../core/plan.ts"
import { defaultRetryPolicy, retryDefaults } from "../definition/index.ts"
import { amount, amountOrNever, type SettingsOf, settingsReader, wholeNumber } from "../settings.ts"

export const engineTable = {
  /** A job older than this is EXPIRED; null: never. */
  ttlSeconds: amountOrNever("UMBRA_TTL_SECONDS", 24 * 3600),
  /** The defaults of `retry` for nodes that do not set it. Recorded with each job. */
  retryMaxAttempts: {
    ...wholeNumber("UMBRA_RETRY_MAX_ATTEMPTS", retryDefaults.max_attempts),
    wrong: (value: number) =>
      Number.isInteger(value) && value >= 1 && value <= 1000 ? undefined : "a whole number from 1 to 1000",
  },
  retryInitialSeconds: amount("retry_initial_seconds", retryDefaults.initial_seconds),
  retryMaxSeconds: amount("retry_max_seconds", retryDefaults.max_seconds),
  retryMultiplier: {
    ...amount("retry_multiplier", retryDefaults.multiplier),
    wrong: (value: number) => (value >= 1 && value <= 100 ? undefined : "a number from 1 to 100"),
  },
  retryJitter: {
    ...amount("retry_jitter", retryDefaults.jitter),
    wrong: (value: number) => (value >= 0 && value <= 1 ? undefined : "a number from 0 to 1"),
  },
  /** Finished jobs are removed after this; null: never. */
  retentionSeconds: amountOrNever("UMBRA_RETENTION_SECONDS", 7 * 24 * 3600),
  /** The lineage of a pipeline's messages is removed this long after its end; null: with the job. */
  lineageRetentionSeconds: amountOrNever("UMBRA_LINEAGE_RETENTION_SECONDS", 3 * 24 * 3600),
  /** Statistics are kept for this many days, longer than the jobs they were counted from; null: for ever. */
  statisticsRetentionDays: amountOrNever("statistics_retention_days", 90),
  /** The longest interval of the sweep over jobs and lineage that may be removed. */
  retentionSweepSeconds: amount("retention_sweep_seconds", 600),
  /** A peer whose heartbeat has not changed for this long is dead. */
  leaseSeconds: amount("UMBRA_LEASE_SECONDS", 10),
  beatSeconds: amount("UMBRA_BEAT_SECONDS", 3),
  /** A partition that another engine should own, and that does not become idle, is handed over after this; null: never. */
  rebalanceSeconds: amountOrNever("rebalance_seconds", 30),
  /** A worker whose process has been silent for this long is shown as dead. */
  workerDeadSeconds: redisTable.workerDeadSeconds,
  /** The number of recorded deaths of the process running a node after which the node fails. */
  lossLimit: wholeNumber("UMBRA_LOSS_LIMIT", 3),
  /** Outputs larger than this do not stay in memory. */
  largeOutputBytes: wholeNumber("large_output_bytes", 256 * 1024),
  /** A job that only waits, and longer than this, leaves memory. */
  parkAfterMs: amount("park_after_ms", 2000),
  /** The number of jobs in memory from which on new ones wait in the store. */
  maxLiveJobs: wholeNumber("UMBRA_MAX_LIVE_JOBS", 100_000),
  /** How deep workflows may be nested. */
  maxDepth: wholeNumber("max_depth", 16),
  /** The maximum length of a list of `for_each`. */
  maxItems: wholeNumber("max_items", 100_000),
  /** How long running handlers may take to end when the engine, or a worker of a fleet, closes. */
  drainSeconds: amount("UMBRA_DRAIN_SECONDS", 6),
  /** A slot of a provider that is not renewed becomes free after this. */
  slotLeaseSeconds: amount("slot_lease_seconds", 3600),
  /** Polls of provider operations that run at once. */
  pollConcurrency: wholeNumber("poll_concurrency", 50),
  /** A poll whose place in the provider's rate is further away than this is postponed. */
  pollMaxWaitSeconds: amount("poll_max_wait_seconds", 30),
  /** Margin that is added to the spacing of a provider's rate, per second of requests. */
  rateGuardMs: amount("rate_guard_ms", 50),
  /** The interval of the sweep over slots, parked webhooks and abandoned operations. */
  providerSweepSeconds: amount("provider_sweep_seconds", 10),
  /** How often a provider is asked to cancel an operation. */
  cancelTries: wholeNumber("cancel_tries", 10),
  /** The digit that distinguishes the job ids of this store from those of others (docs/operations/beyond-one-postgres.md). */
  cell: {
    ...amount("UMBRA_CELL", 0),
    wrong: (value: number) =>
      Number.isInteger(value) && value >= 0 && value <= 15 ? undefined : "a whole number from 0 to 15",
  },
}

/** All settings of the engine (S10). Defaults and environment variables are in the table below. */
export type EngineSettings = SettingsOf<typeof engineTable>

/** undefined: the built-in constants, which need not be recorded. */
export function recordedRetryPolicy(settings: EngineSettings): RetryPolicy | undefined {
  const policy = {
    maxAttempts: settings.retryMaxAttempts,
    initialSeconds: settings.retryInitialSeconds,
    maxSeconds: settings.retryMaxSeconds,
    multiplier: settings.retryMultiplier,
    jitter: settings.retryJitter,
  }
  return isDeepStrictEqual(policy, defaultRetryPolicy) ? undefined : policy
}

export const engineSettings = settingsReader<EngineSettings>(engineTable)
