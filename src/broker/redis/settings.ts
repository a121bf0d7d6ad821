/** The settings of a fleet over Redis, their defaults and their environment variables. */
import { amount, type SettingsOf, settingsReader, text, wholeNumber } from "../../settings.ts"

export const redisTable = {
  /** The prefix of every key: fleets that share a Redis use different ones. */
  prefix: text("UMBRA_REDIS_PREFIX", "umbra"),
  /** For a worker: the id of the store that it works for; empty: the only live store. */
  store: {
    ...text("UMBRA_STORE", ""),
    wrong: (value: string) =>
      /^$|^[0-9a-f]{12}$|^[0-9a-f-]{36}$/.test(value) ? undefined : "the id of a store, as 3f9a0c12de45",
  },
  /** The number of tasks that a worker takes beyond those it can run at once. */
  prefetch: {
    ...wholeNumber("UMBRA_PREFETCH", 100),
    wrong: (value: number) =>
      Number.isInteger(value) && value >= 0 ? undefined : "a whole number of at least 0",
  },
  /** The interval of a worker's heartbeats. */
  workerBeatSeconds: amount("worker_beat_seconds", 5),
  /** A worker without a heartbeat for this long is dead, and its tasks go to other workers. */
  workerDeadSeconds: amount("worker_dead_seconds", 15),
  /** How often an engine checks which workers are alive, and whether Redis has lost its data. */
  rosterSeconds: amount("roster_seconds", 1),
  /** Results that were read and not acknowledged for this long are read again. */
  claimAfterSeconds: amount("claim_after_seconds", 30),
  claimEverySeconds: amount("claim_every_seconds", 15),
  /** If a command is not answered for this long, the connection is closed. */
  answerSeconds: amount("redis_answer_seconds", 5),
  /**
   * At most this much work of a handler lies in its stream; the rest waits in the engine, where the queue is
   * fair.
   */
  windowSeconds: amount("window_seconds", 0.2),
  /**
   * The maximum number of entries of reports that an engine has read and that are not in the journal yet; no
   * more are read beyond it.
   */
  maxUnsettledReports: wholeNumber("max_unsettled_reports", 20_000),
  /** The length of a partition's stream of log lines: a worker adds an entry every 50 ms while its handlers log. */
  logStreamLength: wholeNumber("log_stream_length", 500),
  /** How long a worker that died is shown. */
  shownDeadSeconds: amount("shown_dead_seconds", 600),
}

export type RedisSettings = SettingsOf<typeof redisTable>

export const redisSettings = settingsReader<RedisSettings>(redisTable)
