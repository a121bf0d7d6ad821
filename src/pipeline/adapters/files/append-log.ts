/**
 * A file to which each message's bytes are appended once, however often the message is delivered and wherever the
 * process dies. Beside the file `x` stands a folder `x.umbra`:
 *
 * - `lock.N`: one process at a time appends (journal/folder-lock.ts), so nothing stands behind an unfinished append.
 * - `….marks`: one file for each job and sink, a byte for each message: 1, its bytes are all there.
 * - `intent`: the append under way, or the last one: which mark it will set, and how long the file was before.
 *
 * An append is: intent → bytes → mark. Whoever finds an intent whose mark is not set cuts the file back to the length it
 * names: the bytes may be there in part or whole, and their message will come again. With `sync` each of the three is on
 * the disk before the next begins, so the same holds when the machine dies and not just the process.
 */
import { type FileHandle, mkdir, open } from "node:fs/promises"
import { dirname, join } from "node:path"
import { type FolderLock, lockFolder } from "../../../journal/folder-lock.ts"

export interface Mark {
  /** Of the job and the sink. */
  readonly name: string
  /** Number of the message. */
  readonly seq: number
}

export interface Append {
  readonly mark: Mark
  readonly bytes: Buffer
  readonly sync: boolean
}

interface Intent extends Mark {
  readonly length: number
}

/** Written whole and in one go. */
const intentBytes = 256

export class AppendLog {
  readonly #folder: string
  readonly #lock: FolderLock
  readonly #file: FileHandle
  readonly #intent: FileHandle
  readonly #marks = new Map<string, FileHandle>()
  /** An append may not have been finished. */
  #isDoubtful = true

  static async open(path: string, onLost: () => void): Promise<AppendLog> {
    const folder = `${path}.umbra`
    await mkdir(folder, { recursive: true })
    const lock = await lockFolder(folder, { onLost })
    const handles: FileHandle[] = []
    try {
      // "a+" would send every write to the end, wherever it should go.
      for (const each of [path, join(folder, "intent")]) handles.push(await openOrMake(each))
      await syncFolders(dirname(path), folder)
      return new AppendLog(folder, lock, handles as [FileHandle, FileHandle])
    } catch (error) {
      await Promise.all(handles.map(handle => handle.close()))
      await lock.release()
      throw error
    }
  }

  constructor(folder: string, lock: FolderLock, [file, intent]: readonly [FileHandle, FileHandle]) {
    this.#folder = folder
    this.#lock = lock
    this.#file = file
    this.#intent = intent
  }

  /** false: the bytes were there already. Never two at once: the caller's part. */
  async append({ mark, bytes, sync }: Append): Promise<boolean> {
    if (this.#isDoubtful) await this.#settle()
    if (await this.#isSet(mark)) return false
    const { size: length } = await this.#file.stat()
    this.#isDoubtful = true
    await this.#write(this.#intent, record({ ...mark, length }), 0, sync)
    await this.#write(this.#file, bytes, length, sync)
    await this.#write(await this.#marksOf(mark.name), Buffer.from([1]), mark.seq, sync)
    this.#isDoubtful = false
    return true
  }

  async close(): Promise<void> {
    await Promise.all([this.#file, this.#intent, ...this.#marks.values()].map(handle => handle.close()))
    await this.#lock.release()
  }

  /** Takes an unfinished append back. */
  async #settle(): Promise<void> {
    const intent = await this.#readIntent()
    if (intent !== null && !(await this.#isSet(intent))) {
      const { size } = await this.#file.stat()
      if (size > intent.length) await this.#file.truncate(intent.length)
    }
    this.#isDoubtful = false
  }

  /** null: none, or one that was not written whole; then its bytes were not begun. */
  async #readIntent(): Promise<Intent | null> {
    const { buffer, bytesRead } = await this.#intent.read(Buffer.alloc(intentBytes), 0, intentBytes, 0)
    if (bytesRead < intentBytes) return null
    try {
      return JSON.parse(buffer.toString()) as Intent
    } catch {
      return null
    }
  }

  async #isSet({ name, seq }: Mark): Promise<boolean> {
    const { buffer, bytesRead } = await (await this.#marksOf(name)).read(Buffer.alloc(1), 0, 1, seq)
    return bytesRead === 1 && buffer[0] === 1
  }

  async #marksOf(name: string): Promise<FileHandle> {
    const known = this.#marks.get(name)
    if (known !== undefined) return known
    const handle = await openOrMake(join(this.#folder, `${name}.marks`))
    this.#marks.set(name, handle)
    await syncFolders(this.#folder)
    return handle
  }

  async #write(handle: FileHandle, bytes: Buffer, position: number, sync: boolean): Promise<void> {
    for (let done = 0; done < bytes.length; ) {
      done += (await handle.write(bytes, done, bytes.length - done, position + done)).bytesWritten
    }
    if (sync) await handle.datasync()
  }
}

const record = (intent: Intent) => Buffer.from(JSON.stringify(intent).padEnd(intentBytes))

async function openOrMake(path: string): Promise<FileHandle> {
  try {
    return await open(path, "r+")
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error
    return open(path, "wx+")
  }
}

/** A file that was just made is there after a power failure only if its folder says so. */
export async function syncFolders(...folders: readonly string[]): Promise<void> {
  for (const folder of folders) {
    const handle = await open(folder, "r")
    try {
      await handle.sync()
    } finally {
      await handle.close()
    }
  }
}
