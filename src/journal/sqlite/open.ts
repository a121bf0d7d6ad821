/** Opens the file of an embedded database and keeps it in order. Runs in the thread of the database. */
import { Connection } from "./database.ts"
import { openDatabase } from "./driver.ts"
import { prepareSchema, schemaVersion } from "./schema.ts"
import type { Synchronous } from "./settings.ts"

/** Pages of 4 KB. SQLite itself moves the WAL into the file at the latest when it has grown to this, within a commit. */
const WAL_PAGES = 16_384

/** The page cache, in KB. The operating system caches the file anyway. */
const CACHE_KB = 8_192

export function openFile(file: string, synchronous: Synchronous): Connection {
  const connection = new Connection(openDatabase(file))
  try {
    const { database } = connection
    schemaVersion(connection, file)
    // On macOS fsync leaves data in the disk's own cache. Elsewhere these two do nothing.
    database.exec("pragma fullfsync = on; pragma checkpoint_fullfsync = on")
    database.exec(`pragma busy_timeout = 5000; pragma cache_size = -${CACHE_KB}; pragma mmap_size = 0`)
    // Only a file without tables takes it.
    database.exec("pragma auto_vacuum = incremental")
    database.exec(`pragma journal_mode = wal; pragma synchronous = ${synchronous}`)
    database.exec(`pragma wal_autocheckpoint = ${WAL_PAGES}; pragma temp_store = memory`)
    prepareSchema(connection, file)
    return connection
  } catch (error) {
    connection.close()
    throw error
  }
}
