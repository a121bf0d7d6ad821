/**
 * Content of artifacts in a folder: `<owner>/<2 hex>/<62 hex>-<random>`. Every write has a file of its own, so that the removal of one
 * never takes away the content of another.
 */
import { createHash, randomBytes } from "node:crypto"
import { createReadStream, type Dirent } from "node:fs"
import { type FileHandle, mkdir, open, readdir, rename, rm, stat, unlink } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import { syncFolders } from "../sync-folders.ts"
import {
  type ContentRange,
  type ContentStore,
  noContent,
  ownerPrefix,
  type StoredContent,
  storeFailed,
  tooLarge,
  type WriteOptions,
  type WrittenContent,
} from "./content-store.ts"
import { interruptible } from "./interruptible.ts"

/** Content that is being written. No owner has this prefix. */
const INCOMING = ".incoming"
/** A file that nothing was written to for this long was left behind by a process that died. */
const ABANDONED_MS = 24 * 3600_000
const READ_BYTES = 256 * 1024

export interface FolderOptions {
  /** The folder is removed when the store is closed. */
  readonly isTemporary?: boolean
}

export function openFolderStore(folder: string, options: FolderOptions = {}): ContentStore {
  return new FolderStore(resolve(folder), options)
}

class FolderStore implements ContentStore {
  readonly label: string
  readonly #root: string
  readonly #isTemporary: boolean
  /** Folders that exist and are synced. */
  readonly #known = new Set<string>()

  constructor(root: string, { isTemporary = false }: FolderOptions) {
    this.#root = root
    this.label = `in ${root}`
    this.#isTemporary = isTemporary
  }

  async write(
    owner: string,
    body: AsyncIterable<Uint8Array>,
    { maxBytes, signal }: WriteOptions,
  ): Promise<WrittenContent> {
    signal?.throwIfAborted()
    const root = this.#root
    const unique = randomBytes(6).toString("hex")
    const temporary = join(root, INCOMING, unique)
    const file = await this.#failing(async () => {
      await this.#makeFolder(INCOMING)
      return open(temporary, "wx")
    })
    try {
      const { digest, bytes } = await this.#receive(file, body, { maxBytes, signal })
      const key = `${ownerPrefix(owner)}/${digest.slice(0, 2)}/${digest.slice(2)}-${unique}`
      await this.#failing(async () => {
        await this.#makeFolder(dirname(key))
        await rename(temporary, join(root, key))
        await syncFolders(join(root, dirname(key)))
      })
      return { hash: `sha256:${digest}`, bytes, key }
    } catch (error) {
      await file.close().catch(() => {})
      await unlink(temporary).catch(() => {})
      throw error
    }
  }

  async #receive(
    file: FileHandle,
    body: AsyncIterable<Uint8Array>,
    { maxBytes, signal }: Pick<WriteOptions, "maxBytes" | "signal">,
  ): Promise<{ readonly digest: string; readonly bytes: number }> {
    const hash = createHash("sha256")
    let bytes = 0
    for await (const chunk of interruptible(body, signal)) {
      bytes += chunk.byteLength
      if (bytes > maxBytes) throw tooLarge(maxBytes)
      hash.update(chunk)
      await this.#failing(() => writeAll(file, chunk))
    }
    signal?.throwIfAborted()
    await this.#failing(async () => {
      await file.sync()
      await file.close()
    })
    return { digest: hash.digest("hex"), bytes }
  }

  /** Syncs folders that exist as well: another process may have just created them. */
  async #makeFolder(path: string): Promise<void> {
    const root = this.#root
    const folder = join(root, path)
    if (this.#known.has(folder)) return
    // Other users of the machine have access to its folder of temporary files.
    if (this.#isTemporary) await mkdir(root, { recursive: true, mode: 0o700 })
    const first = (await mkdir(folder, { recursive: true })) ?? folder
    const top = first.length < root.length ? dirname(first) : root
    for (let synced = dirname(folder); synced.length >= top.length; synced = dirname(synced))
      await syncFolders(synced)
    this.#known.add(folder)
  }

  async read(key: string, range?: ContentRange): Promise<AsyncIterable<Uint8Array>> {
    const path = this.#path(key)
    const file = await open(path, "r").catch(error => {
      throw isMissing(error) ? noContent(key) : storeFailed(this.label, error)
    })
    const { label } = this
    const part = range === undefined ? {} : { start: range.first, end: range.last }
    return (async function* () {
      try {
        yield* createReadStream("", { fd: file, highWaterMark: READ_BYTES, ...part })
      } catch (error) {
        throw storeFailed(label, error)
      }
    })()
  }

  async size(key: string): Promise<number | null> {
    const path = this.#path(key)
    return stat(path).then(
      ({ size }) => size,
      error => {
        if (isMissing(error)) return null
        throw storeFailed(this.label, error)
      },
    )
  }

  async remove(key: string): Promise<void> {
    const path = this.#path(key)
    await this.#failing(() => rm(path, { force: true }))
  }

  async list({ after = "", limit }: { readonly after?: string | undefined; readonly limit: number }) {
    return this.#failing(async () => {
      const root = this.#root
      if (after === "") await removeAbandoned(join(root, INCOMING))
      const found: StoredContent[] = []
      const owners = await names(root, entry => entry.isDirectory() && entry.name !== INCOMING)
      for (const owner of owners.filter(name => name >= (after.split("/")[0] ?? "")))
        for (const part of await names(join(root, owner), entry => entry.isDirectory())) {
          const folder = `${owner}/${part}`
          if (`${folder}/\uffff` < after) continue
          for (const name of await names(join(root, folder), entry => entry.isFile())) {
            const key = `${folder}/${name}`
            if (key <= after) continue
            const file = await stat(join(root, key)).catch(() => null)
            if (file !== null) found.push({ key, bytes: file.size, written: file.mtime })
            if (found.length === limit) return found
          }
        }
      return found
    })
  }

  async close(): Promise<void> {
    if (this.#isTemporary) await rm(this.#root, { recursive: true, force: true })
  }

  /** Keys come from the journal; one that leaves the folder is not from there. */
  #path(key: string): string {
    const path = resolve(this.#root, key)
    if (!path.startsWith(join(this.#root, "/"))) throw noContent(key)
    return path
  }

  async #failing<T>(act: () => Promise<T>): Promise<T> {
    try {
      return await act()
    } catch (error) {
      throw storeFailed(this.label, error)
    }
  }
}

/** A write to a disk that is nearly full may be shorter than asked. */
async function writeAll(file: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let at = 0; at < chunk.byteLength; ) at += (await file.write(chunk, at)).bytesWritten
}

async function names(folder: string, isWanted: (entry: Dirent) => boolean): Promise<string[]> {
  try {
    const entries = await readdir(folder, { withFileTypes: true })
    return entries.flatMap(entry => (isWanted(entry) ? entry.name : [])).sort()
  } catch (error) {
    if (isMissing(error)) return []
    throw error
  }
}

async function removeAbandoned(folder: string): Promise<void> {
  for (const name of await names(folder, entry => entry.isFile())) {
    const file = join(folder, name)
    const written = await stat(file).catch(() => null)
    if (written !== null && Date.now() - written.mtimeMs > ABANDONED_MS) await rm(file, { force: true })
  }
}

function isMissing(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  return code === "ENOENT" || code === "ENOTDIR"
}
