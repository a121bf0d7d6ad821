/**
 * The journal in a folder, without a server. Durable against the death of the process, not against a power cut: the
 * embedded database never calls fsync.
 */
import { constants, existsSync } from "node:fs"
import { access, mkdir, rm, writeFile } from "node:fs/promises"
import { join, resolve } from "node:path"
import { UmbraError } from "../errors.ts"
import { lockFolder } from "./folder-lock.ts"
import { migrate } from "./migrate.ts"
import { PgliteDatabase } from "./pglite-database.ts"
import type { Journal } from "./port.ts"
import { type RetryOptions, retryDefaults } from "./retry.ts"
import { SqlJournal } from "./sql-journal.ts"

export interface PgliteOptions {
  readonly retry?: RetryOptions
}

export async function openPglite(path: string, options: PgliteOptions = {}): Promise<Journal> {
  const folder = resolve(path)
  await makeFolder(folder)
  const label = `the embedded database in ${folder}`
  const retry = { ...retryDefaults, ...options.retry }
  const newDatabase = () => new PgliteDatabase({ folder: join(folder, "database"), label, retry })
  const database = newDatabase()
  const lock = await lockFolder(folder, {
    onLost: () => database.abandon("was taken over by another process; this one must stop"),
  })
  try {
    await prepare(folder, newDatabase)
    await migrate(database)
    const partitions = (await database.query("readPartitions", [])).length
    const capabilities = { exclusive: true, durable: true, label, partitions, appendLanes: 1, retry }
    return new SqlJournal(database, { capabilities, afterClose: lock.release })
  } catch (error) {
    await database.close()
    await lock.release()
    throw error
  }
}

async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    await access(folder, constants.R_OK | constants.W_OK)
  } catch (error) {
    const reason = (error as Error).message
    throw new UmbraError(
      "E504",
      `the folder ${folder} cannot be used: ${reason}. Choose one that can be written to.`,
      {
        cause: error,
      },
    )
  }
}

/**
 * A process killed while it made the database leaves half of one. The mark is there from before the first file until
 * after the last, so half a database is recognised and made anew; nothing in it has been acknowledged to anybody.
 * It is made by a thread of its own: making one takes 500 MB that the thread gives back only when it ends.
 */
async function prepare(folder: string, newDatabase: () => PgliteDatabase): Promise<void> {
  const mark = join(folder, "initialising")
  const files = join(folder, "database")
  if (existsSync(files) && !existsSync(mark)) return
  await writeFile(mark, "")
  await rm(files, { recursive: true, force: true })
  // The embedded database makes files that everybody may write to: nobody else shall reach them.
  await mkdir(files, { mode: 0o700 })
  const maker = newDatabase()
  try {
    await migrate(maker)
  } finally {
    await maker.close()
  }
  await rm(mark, { force: true })
}
