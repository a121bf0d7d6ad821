/** A PostgreSQL database for one test, and a bystander's connection that can hold locks and end sessions. */
import pg from "pg"
import { expect, onTestFinished } from "vitest"
import type { Journal } from "../../src/journal/port/journal.ts"
import { openPostgres } from "../../src/journal/postgres/open.ts"
import type { PostgresOptions } from "../../src/journal/settings.ts"
import { freshDatabase } from "../support/services.ts"

export interface PostgresStage {
  readonly url: string
  readonly bystander: pg.Client
  open(options?: PostgresOptions, url?: string): Promise<Journal>
  /** Resolves with the process ids of `count` sessions that wait for a lock. */
  waitingForLock(count?: number): Promise<number[]>
}

export async function postgresStage(): Promise<PostgresStage> {
  const database = await freshDatabase()
  const bystander = new pg.Client({ connectionString: database.url })
  await bystander.connect()
  // Apart from the bystander: inside a transaction pg_stat_activity shows the same picture for ever.
  const observer = new pg.Client({ connectionString: database.url })
  await observer.connect()
  for (const client of [bystander, observer]) client.on("error", () => {})
  const journals: Journal[] = []
  onTestFinished(async () => {
    await Promise.all(journals.map(journal => journal.close()))
    await Promise.all([bystander.end(), observer.end()])
    await database.drop()
  })
  return {
    url: database.url,
    bystander,
    async open(options, url = database.url) {
      const journal = await openPostgres(url, options)
      journals.push(journal)
      return journal
    },
    async waitingForLock(count = 1) {
      const waiting = async () => {
        const { rows } = await observer.query<{ pid: number }>(
          "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' order by query_start",
        )
        return rows.map(row => row.pid)
      }
      await expect.poll(waiting, { interval: 10 }).toHaveLength(count)
      return waiting()
    },
  }
}
