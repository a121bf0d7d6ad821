/**
 * The journal in a folder, without a server. Durable against the death of the process, not against a power cut: the
 * embedded database never calls fsync.
 */
import { constants } from "node:fs"
import { access, mkdir, stat } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
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
  const onLost = () => database.abandon("was taken over by another process; this one must stop")
  // Who may do everything may still find a file system that takes nothing.
  const lock = await lockFolder(folder, { onLost }).catch((error: unknown) => {
    throw error instanceof UmbraError ? error : unusable(folder, error)
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
    await makeWithParents(folder)
    await access(folder, constants.R_OK | constants.W_OK)
  } catch (error) {
    throw unusable(folder, error)
  }
  if (!(await stat(folder)).isDirectory()) throw unusable(folder, new Error("it is a file"))
}

/** Not with `recursive`: where a folder cannot be made although its parent is there (/proc), Node 20 tries for ever. */
async function makeWithParents(folder: string): Promise<void> {
  const parent = dirname(folder)
  if ((await make(folder)) === "made" || parent === folder) return
  await makeWithParents(parent)
  if ((await make(folder)) === "no parent") throw new Error("no folder can be made there")
}

async function make(folder: string): Promise<"made" | "no parent"> {
  try {
    await mkdir(folder, { mode: 0o700 })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === "ENOENT") return "no parent"
    if (code !== "EEXIST") throw error
  }
  return "made"
}

function unusable(folder: string, error: unknown): UmbraError {
  const reason = (error as Error).message
  return new UmbraError(
    "E504",
    `the folder ${folder} cannot be used: ${reason}. Choose one that can be written to.`,
    { cause: error },
  )
}
