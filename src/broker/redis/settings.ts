/** The figures of a fleet over Redis, their defaults and the variables that set them. */
import {
  amount,
  type Environment,
  readSettings,
  type SettingTable,
  text,
  wholeNumber,
} from "../../settings.ts"

export interface RedisSettings {
  /** Before every key: fleets that share a Redis have different ones. */
  readonly prefix: string
  /** Of a worker: the id of the store that it works for; empty: the only one that is live. */
  readonly store: string
  /** Tasks that a worker takes beyond those it can run at once. */
  readonly prefetch: number
  /** How often a worker says that it lives. */
  readonly workerBeatSeconds: number
  /** A worker that has been silent for this long is dead, and its tasks go to others. */
  readonly workerDeadSeconds: number
  /** How often an engine looks who lives, and whether Redis has lost its memory. */
  readonly rosterSeconds: number
  /** Results that were read and not acknowledged for this long are read again. */
  readonly claimAfterSeconds: number
  readonly claimEverySeconds: number
  /** A command without an answer for this long: the connection is given up. */
  readonly answerSeconds: number
  /** At most this much work of a handler lies in its stream; more waits in the engine, where turns are fair. */
  readonly windowSeconds: number
  /** Entries of reports that an engine has read and the journal does not have yet; no more are read then. */
  readonly maxUnsettledReports: number
  /** For so long a worker that died is shown. */
  readonly shownDeadSeconds: number
}

export const redisTable: SettingTable<RedisSettings> = {
  prefix: text("UMBRA_REDIS_PREFIX", "umbra"),
  store: {
    ...text("UMBRA_STORE", ""),
    wrong: value =>
      /^$|^[0-9a-f]{12}$|^[0-9a-f-]{36}$/.test(value) ? undefined : "the id of a store, as 3f9a0c12de45",
  },
  prefetch: {
    ...wholeNumber("UMBRA_PREFETCH", 100),
    wrong: value => (Number.isInteger(value) && value >= 0 ? undefined : "a whole number of at least 0"),
  },
  workerBeatSeconds: amount("worker_beat_seconds", 5),
  workerDeadSeconds: amount("worker_dead_seconds", 15),
  rosterSeconds: amount("roster_seconds", 1),
  claimAfterSeconds: amount("claim_after_seconds", 30),
  claimEverySeconds: amount("claim_every_seconds", 15),
  answerSeconds: amount("redis_answer_seconds", 5),
  windowSeconds: amount("window_seconds", 0.2),
  maxUnsettledReports: wholeNumber("max_unsettled_reports", 20_000),
  shownDeadSeconds: amount("shown_dead_seconds", 600),
}

/** What is given, else what the environment says, else the default. */
export function redisSettings(given?: Partial<RedisSettings>, environment?: Environment): RedisSettings {
  return readSettings(redisTable, given, environment)
}
