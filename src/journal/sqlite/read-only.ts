/**
 * An embedded database, opened for reading beside the process that holds its folder: for commands that check
 * or copy it. In WAL mode readers and the writer do not wait for each other. While a statement reads, the WAL
 * grows with every write.
 */
import { existsSync } from "node:fs"
import { link, rename, rm, stat } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import { UmbraError } from "../../errors.ts"
import { syncFile, syncFolders } from "../../sync-folders.ts"
import { refuseOtherMachine } from "../folder-lock.ts"
import { DATABASE_FILE } from "../location.ts"
import type { Journal } from "../port/journal.ts"
import { SqliteConnection } from "./database.ts"
import { openDatabase } from "./driver.ts"
import { classify, isDamage } from "./errors.ts"
import { checkFile, createEmpty } from "./file.ts"
import { refuseOldFolder } from "./folder.ts"
import { createJournal, createStores, execute } from "./ports.ts"
import { mustBeCurrent } from "./schema/schema.ts"

/** The maximum number of problems that one check reports; SQLite's own default. */
const MAX_PROBLEMS = 100

export interface ReadOnlyFolder {
  /** For reading; writes are rejected. */
  readonly journal: Journal
  readonly bytes: number
  /** The problems in the structure of the file; empty: none. */
  checkIntegrity(): string[]
  /** Writes the current state of the database to a new file; returns its size. */
  backUp(target: string): Promise<number>
  close(): Promise<void>
}

export async function openReadOnly(path: string): Promise<ReadOnlyFolder> {
  const folder = resolve(path)
  const file = join(folder, DATABASE_FILE)
  const label = `the embedded database in ${folder}`
  const classified = (error: unknown): never => {
    throw classify(error, label)
  }
  refuseOldFolder(folder)
  await refuseOtherMachine(folder)
  const { size: bytes } = await stat(file).catch(classified)
  await checkFile(file).catch(classified)
  const connection = attempt(() => openConnection(file), label)
  const stores = createStores(connection)
  const journal = createJournal({
    call: async (store, verb, args) => attempt(() => execute(stores, store, verb, args), label),
    capabilities: { label, partitions: 64 },
    close: async () => connection.close(),
  })
  return {
    journal,
    bytes,
    checkIntegrity: () => attempt(() => integrityProblems(connection), label),
    backUp: target => backUp(connection, resolve(target), label),
    close: () => journal.close(),
  }
}

function openConnection(file: string): SqliteConnection {
  const connection = new SqliteConnection(openDatabase(file, { readOnly: true }))
  try {
    connection.database.exec("pragma busy_timeout = 5000; pragma mmap_size = 0")
    mustBeCurrent(connection, file)
    return connection
  } catch (error) {
    connection.close()
    throw error
  }
}

function integrityProblems(connection: SqliteConnection): string[] {
  const lines: string[] = []
  try {
    const rows = connection.prepare(`pragma integrity_check(${MAX_PROBLEMS})`).statement.iterate()
    for (const row of rows) lines.push((row as { integrity_check: string }).integrity_check)
  } catch (error) {
    // Damage that ends the check itself.
    if (!isDamage(error)) throw error
    lines.push((error as Error).message)
  }
  return lines.length === 1 && lines[0] === "ok" ? [] : lines
}

/** Under its name the copy is complete and on the disk; an existing file is never replaced. */
async function backUp(connection: SqliteConnection, target: string, label: string): Promise<number> {
  if (existsSync(target)) throw isThere(target)
  const draft = `${target}.${process.pid}.partial`
  try {
    await createEmpty(draft)
    // One snapshot, however long it takes and whatever is written meanwhile. The backup API would restart
    // after each commit of another process.
    connection.prepare("vacuum into ?").statement.run(draft)
    await syncFile(draft)
    await giveName(draft, target)
    await syncFolders(dirname(target))
    return (await stat(target)).size
  } catch (error) {
    await rm(draft, { force: true })
    throw classify(error, `the backup of ${label}`)
  }
}

async function giveName(draft: string, target: string): Promise<void> {
  try {
    await link(draft, target)
    await rm(draft)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === "EEXIST" || existsSync(target)) throw isThere(target)
    // A file system without hard links (a USB stick).
    await rename(draft, target)
  }
}

function isThere(target: string): UmbraError {
  return new UmbraError("E604", `${target} already exists, and is not replaced. Name a new file.`)
}

function attempt<T>(work: () => T, label: string): T {
  try {
    return work()
  } catch (error) {
    throw classify(error, label)
  }
}
