import { labelOf } from "./location.ts"
import { migrate } from "./migrate.ts"
import type { Journal } from "./port.ts"
import { PostgresDatabase } from "./postgres-database.ts"
import { PostgresWakeUps } from "./postgres-wake-ups.ts"
import type { RetryOptions } from "./retry.ts"
import { SqlJournal } from "./sql-journal.ts"

/** settings.ts names the variables that change them. */
export const postgresDefaults = {
  /** Connections for everything but appends. */
  poolSize: 4,
  /** X7: a connection lives this long. */
  recycleSeconds: 300,
  /** X7: one idle for longer is checked before it is used. */
  checkIdleMs: 30_000,
  checkTimeoutMs: 5_000,
  /** A statement without an answer after this long has lost its connection. */
  queryTimeoutMs: 30_000,
  connectTimeoutMs: 10_000,
} as const

export type PostgresOptions = { readonly [K in keyof typeof postgresDefaults]?: number } & {
  readonly retry?: RetryOptions
}

/** Opens the journal in the schema `umbra` of this database, which is made or migrated as needed. */
export async function openPostgres(url: string, options: PostgresOptions = {}): Promise<Journal> {
  const label = labelOf(url)
  const settings = { ...postgresDefaults, ...options, url, label, retry: options.retry ?? {} }
  const database = new PostgresDatabase(settings)
  try {
    await migrate(database)
    const partitions = (await database.query("readPartitions", [])).length
    const wakeUps = new PostgresWakeUps({ ...settings, database, partitions })
    return new SqlJournal(database, {
      capabilities: { exclusive: false, durable: true, label, partitions },
      wakeUps,
      feedNews: wakeUps.feed,
    })
  } catch (error) {
    await database.close()
    throw error
  }
}
