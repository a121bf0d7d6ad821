/**
 * The journal in a folder, without a server. Durable against the death of the process, not against a power cut: the
 * embedded database never calls fsync.
 */
import { constants } from "node:fs"
import { access, mkdir } from "node:fs/promises"
import { join, resolve } from "node:path"
import { UmbraError } from "../errors.ts"
import { lockFolder } from "./folder-lock.ts"
import { makePglite } from "./make-pglite.ts"
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
  const database = new PgliteDatabase({ folder: join(folder, "database"), label, retry })
  const lock = await lockFolder(folder, {
    onLost: () => database.abandon("was taken over by another process; this one must stop"),
  })
  try {
    await makePglite(folder)
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
