import { storeLabel } from "../location.ts"
import type { Journal } from "../port/journal.ts"
import { retryDefaults } from "../retry.ts"
import { type PostgresOptions, postgresDefaults } from "../settings.ts"
import { SqlJournal } from "./journal.ts"
import { migrate } from "./migrate.ts"
import { PostgresWakeUps } from "./notify.ts"
import { PostgresDatabase } from "./postgres-database.ts"

/** Opens the journal in the schema `umbra` of this database, which is created or migrated as needed. */
export async function openPostgres(url: string, { log, ...options }: PostgresOptions = {}): Promise<Journal> {
  const label = storeLabel(url)
  const retry = { ...retryDefaults, ...options.retry }
  const settings = { ...postgresDefaults, ...options, url, label, retry }
  const database = new PostgresDatabase(settings)
  try {
    await migrate(database, undefined, log)
    const { appendLanes } = settings
    const partitions = (await database.query("readPartitions")).length
    const wakeUps = new PostgresWakeUps({ ...settings, database, partitions })
    const capabilities = {
      ...{ exclusive: false, durable: true, purgesHoldAppends: false },
      ...{ label, partitions, appendLanes, retry },
    }
    return new SqlJournal(database, capabilities, wakeUps)
  } catch (error) {
    await database.close()
    throw error
  }
}
