/**
 * The file of an embedded database, before SQLite opens it. A file gets its name when it is complete, so a
 * file under that name that does not begin like a database of Umbra is damaged or belongs to another program,
 * and is not changed.
 */
import { existsSync, type Stats } from "node:fs"
import { open, rename, rm, stat } from "node:fs/promises"
import { dirname } from "node:path"
import { UmbraError } from "../../errors.ts"
import { syncFile, syncFolders } from "../../sync-folders.ts"
import { SqliteConnection } from "./database.ts"
import { openDatabase } from "./driver.ts"
import { APPLICATION_ID, prepareSchema } from "./schema/schema.ts"

const MAGIC = "SQLite format 3\0"
/** The offset of the application id in the header of the file (https://www.sqlite.org/fileformat.html). */
const APPLICATION_ID_AT = 68
const HEADER_BYTES = 100

/** Throws unless the file is a database of Umbra. Reads its header and opens nothing. */
export async function checkFile(file: string): Promise<void> {
  const header = await readHeader(file)
  if (header.length === 0) throw unusable(`${file} is empty, which a database of Umbra never is`)
  if (header.toString("latin1", 0, MAGIC.length) !== MAGIC || header.length < HEADER_BYTES)
    throw unusable(`${file} is not an SQLite database, or its beginning is damaged`)
  if (header.readUInt32BE(APPLICATION_ID_AT) !== APPLICATION_ID)
    throw new UmbraError(
      "E508",
      `${file} is a database of another program. It was not changed. Choose another folder.`,
    )
}

/** Is anything in its write-ahead log? */
export async function hasWal(file: string): Promise<boolean> {
  const wal: Stats | null = await stat(`${file}-wal`).catch(() => null)
  return wal !== null && wal.size > 0
}

/** Creates the file if it does not exist. Under its name it is complete and on the disk. */
export async function createFile(file: string): Promise<void> {
  if (existsSync(file)) return
  if (await hasWal(file)) throw unusable(`${file} is missing, but its write-ahead log exists`)
  const draft = `${file}.new`
  await removeDraft(draft)
  try {
    await createEmpty(draft)
    fill(draft)
    await syncFile(draft)
    await rename(draft, file)
  } catch (error) {
    await removeDraft(draft)
    throw error
  }
  await syncFolders(dirname(file))
}

async function removeDraft(draft: string): Promise<void> {
  for (const end of ["", "-journal", "-wal", "-shm"]) await rm(`${draft}${end}`, { force: true })
}

/** Readable by its owner only; SQLite gives its other files the same permissions. The file must not exist. */
export async function createEmpty(file: string): Promise<void> {
  const created = await open(file, "wx", 0o600)
  await created.close()
}

/**
 * Written by way of memory, so that no connection to the draft outlives it: a driver closes one only when its
 * statements have been garbage-collected, and SQLite's in-memory state of a file would continue under its old
 * name.
 */
function fill(draft: string): void {
  const connection = new SqliteConnection(openDatabase(":memory:"))
  try {
    // Only a database without tables accepts it.
    connection.database.exec("pragma auto_vacuum = incremental; pragma synchronous = off")
    prepareSchema(connection, draft)
    connection.prepare("vacuum into ?").statement.run(draft)
  } finally {
    connection.close()
  }
}

async function readHeader(file: string): Promise<Buffer> {
  const handle = await open(file, "r")
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(HEADER_BYTES), 0, HEADER_BYTES, 0)
    return buffer.subarray(0, bytesRead)
  } finally {
    await handle.close()
  }
}

function unusable(reason: string): UmbraError {
  return new UmbraError(
    "E508",
    `${reason}. It was not changed. Restore a backup into an empty folder (docs/operations/backup.md), or choose another folder.`,
  )
}
