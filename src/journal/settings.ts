import {
  amount,
  type Environment,
  readSettings,
  type Setting,
  type SettingTable,
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
}

/** How a journal is opened; each kind of store uses the options that concern it. */
export type JournalOptions = PostgresOptions & FolderOptions

type Synchronous = NonNullable<FolderOptions["synchronous"]>

/** The settings of a journal that an operator may set (S10, X7). */
interface JournalSettings {
  readonly poolSize: number
  readonly appendLanes: number
  readonly recycleSeconds: number
  readonly checkIdleMs: number
  readonly queryTimeoutMs: number
  readonly connectTimeoutMs: number
  readonly retryTries: number
  readonly retryInitialMs: number
  readonly retryMaxMs: number
  readonly synchronous: Synchronous
}

const synchronous: Setting<Synchronous> = {
  variable: "UMBRA_DATABASE_SYNCHRONOUS",
  default: "full",
  read: text => text.toLowerCase() as Synchronous,
  wrong: value => (value === "full" || value === "normal" ? undefined : '"full" or "normal"'),
}

export const journalTable: SettingTable<JournalSettings> = {
  poolSize: wholeNumber("UMBRA_DATABASE_POOL_SIZE", postgresDefaults.poolSize),
  appendLanes: wholeNumber("UMBRA_DATABASE_APPEND_LANES", postgresDefaults.appendLanes),
  recycleSeconds: amount("UMBRA_DATABASE_RECYCLE_SECONDS", postgresDefaults.recycleSeconds),
  checkIdleMs: amount("UMBRA_DATABASE_CHECK_IDLE_MS", postgresDefaults.checkIdleMs),
  queryTimeoutMs: wholeNumber("UMBRA_DATABASE_QUERY_TIMEOUT_MS", postgresDefaults.queryTimeoutMs),
  connectTimeoutMs: wholeNumber("UMBRA_DATABASE_CONNECT_TIMEOUT_MS", postgresDefaults.connectTimeoutMs),
  retryTries: wholeNumber("UMBRA_DATABASE_RETRY_TRIES", retryDefaults.tries),
  retryInitialMs: amount("UMBRA_DATABASE_RETRY_INITIAL_MS", retryDefaults.initialMs),
  retryMaxMs: amount("UMBRA_DATABASE_RETRY_MAX_MS", retryDefaults.maxMs),
  synchronous,
}

/** The environment, then the defaults, in the shape that opens a journal. */
export function journalSettings(environment?: Environment): JournalOptions {
  const { retryTries, retryInitialMs, retryMaxMs, ...rest } = readSettings(journalTable, {}, environment)
  return { ...rest, retry: { tries: retryTries, initialMs: retryInitialMs, maxMs: retryMaxMs } }
}
