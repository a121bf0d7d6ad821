/** Opens the file of an embedded database and maintains it. Runs in the thread of the database. */
import { UmbraError } from "../../errors.ts"
import { SqliteConnection } from "./database.ts"
import { openDatabase } from "./driver.ts"
import { checkFile, createFile, hasWal } from "./file.ts"
import { checkBesideWal, prepareSchema, schemaVersion } from "./schema/schema.ts"

/**
 * full: every commit is synced to the disk before it is acknowledged, and survives a power cut. normal: a
 * power cut or a crash of the operating system may lose the last commits; the death of the process alone
 * loses nothing. Neither damages the database.
 */
export type Synchronous = "full" | "normal"

const PAGE_BYTES = 4_096

/** At this size SQLite itself moves the WAL into the file, within a commit. */
const WAL_PAGES = 16_384

/** The page cache, in KB. The operating system caches the file anyway. */
const CACHE_KB = 8_192

export async function openFile(file: string, synchronous: Synchronous): Promise<SqliteConnection> {
  await createFile(file)
  await checkFile(file)
  if (await hasWal(file)) checkBesideWal(file)
  const connection = new SqliteConnection(openDatabase(file))
  try {
    const { database } = connection
    database.exec("pragma busy_timeout = 5000")
    // Before anything that may write.
    schemaVersion(connection, file)
    // On macOS fsync leaves data in the disk's own cache. On other systems these two do nothing.
    database.exec("pragma fullfsync = on; pragma checkpoint_fullfsync = on")
    database.exec(`pragma cache_size = -${CACHE_KB}; pragma mmap_size = 0`)
    useWal(connection, file)
    database.exec(`pragma synchronous = ${synchronous}`)
    // A process that reads at the same time (read-only.ts) prevents the WAL from being reset; when it is
    // reset, it is truncated to the limit.
    database.exec(`pragma journal_size_limit = ${WAL_PAGES * PAGE_BYTES}`)
    database.exec(`pragma wal_autocheckpoint = ${WAL_PAGES}; pragma temp_store = memory`)
    prepareSchema(connection, file)
    return connection
  } catch (error) {
    connection.close()
    throw error
  }
}

/**
 * SQLite returns the mode in use: a file system without shared memory, such as a network file system, keeps
 * the old one.
 */
function useWal(connection: SqliteConnection, file: string): void {
  const mode = connection.database.prepare("pragma journal_mode = wal").get() as { journal_mode: string }
  if (mode.journal_mode === "wal") return
  throw new UmbraError(
    "E508",
    `${file} is on a file system that cannot hold a database (no write-ahead log). Choose a folder on a local disk.`,
  )
}
