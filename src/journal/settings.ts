import type { Log } from "../log.ts"
import {
  amount,
  type Environment,
  readSettings,
  type Setting,
  type SettingTable,
  settingNames,
  wholeNumber,
} from "../settings.ts"
import { type RetryOptions, retryDefaults } from "./retry.ts"
import type { FolderOptions } from "./sqlite/folder.ts"

export const postgresDefaults = {
  /** Connections for everything but appends. */
  poolSize: 4,
  /** Concurrent appends, each on a separate connection (docs/decisions/0014-two-append-lanes.md). */
  appendLanes: 2,
  /** X7: the lifetime of a connection. */
  recycleSeconds: 300,
  /** X7: a connection that was idle for longer is checked before it is used. */
  checkIdleMs: 30_000,
  checkTimeoutMs: 5_000,
  /** A statement without an answer after this time has lost its connection. */
  queryTimeoutMs: 30_000,
  connectTimeoutMs: 10_000,
} as const

export type PostgresOptions = { readonly [K in keyof typeof postgresDefaults]?: number } & {
  readonly retry?: RetryOptions
  readonly log?: Log
}

/** How a journal is opened; each kind of store uses the options that concern it. */
export type JournalOptions = PostgresOptions & FolderOptions

type Synchronous = NonNullable<FolderOptions["synchronous"]>

/** The settings of a journal that an operator may set (S10, X7). */
type JournalSettings = Readonly<
  Record<Exclude<keyof typeof postgresDefaults, "checkTimeoutMs">, number> &
    Record<"retryTries" | "retryInitialMs" | "retryMaxMs", number> & { synchronous: Synchronous }
>

const synchronous: Setting<Synchronous> = {
  ...settingNames("UMBRA_DATABASE_SYNCHRONOUS"),
  default: "full",
  read: text => text.toLowerCase() as Synchronous,
  wrong: value => (value === "full" || value === "normal" ? undefined : '"full" or "normal"'),
}

export const journalTable: SettingTable<JournalSettings> = {
  poolSize: wholeNumber("UMBRA_DATABASE_POOL_SIZE", postgresDefaults.poolSize),
  appendLanes: wholeNumber("database_append_lanes", postgresDefaults.appendLanes),
  recycleSeconds: amount("database_recycle_seconds", postgresDefaults.recycleSeconds),
  checkIdleMs: amount("database_check_idle_ms", postgresDefaults.checkIdleMs),
  queryTimeoutMs: wholeNumber("database_query_timeout_ms", postgresDefaults.queryTimeoutMs),
  connectTimeoutMs: wholeNumber("database_connect_timeout_ms", postgresDefaults.connectTimeoutMs),
  retryTries: wholeNumber("UMBRA_DATABASE_RETRY_TRIES", retryDefaults.tries),
  retryInitialMs: amount("database_retry_initial_ms", retryDefaults.initialMs),
  retryMaxMs: amount("database_retry_max_ms", retryDefaults.maxMs),
  synchronous,
}

/** The environment, then the defaults, in the shape that opens a journal. */
export function journalSettings(environment?: Environment): JournalOptions {
  const { retryTries, retryInitialMs, retryMaxMs, ...rest } = readSettings(journalTable, {}, environment)
  return { ...rest, retry: { tries: retryTries, initialMs: retryInitialMs, maxMs: retryMaxMs } }
}
