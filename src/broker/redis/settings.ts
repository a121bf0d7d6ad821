/** The settings of a fleet over Redis, their defaults and their environment variables. */
import {
  amount,
  type Environment,
  readSettings,
  type SettingTable,
  text,
  wholeNumber,
} from "../../settings.ts"

export interface RedisSettings {
  /** The prefix of every key: fleets that share a Redis use different ones. */
  readonly prefix: string
  /** For a worker: the id of the store that it works for; empty: the only live store. */
  readonly store: string
  /** The number of tasks that a worker takes beyond those it can run at once. */
  readonly prefetch: number
  /** The interval of a worker's heartbeats. */
  readonly workerBeatSeconds: number
  /** A worker without a heartbeat for this long is dead, and its tasks go to other workers. */
  readonly workerDeadSeconds: number
  /** How often an engine checks which workers are alive, and whether Redis has lost its data. */
  readonly rosterSeconds: number
  /** Results that were read and not acknowledged for this long are read again. */
  readonly claimAfterSeconds: number
  readonly claimEverySeconds: number
  /** If a command is not answered for this long, the connection is closed. */
  readonly answerSeconds: number
  /**
   * At most this much work of a handler lies in its stream; the rest waits in the engine, where the queue is
   * fair.
   */
  readonly windowSeconds: number
  /**
   * The maximum number of entries of reports that an engine has read and that are not in the journal yet; no
   * more are read beyond it.
   */
  readonly maxUnsettledReports: number
  /** How long a worker that died is shown. */
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

/** Precedence: the given value, then the environment, then the default. */
export function redisSettings(given?: Partial<RedisSettings>, environment?: Environment): RedisSettings {
  return readSettings(redisTable, given, environment)
}
