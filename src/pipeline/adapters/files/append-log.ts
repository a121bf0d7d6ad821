/**
 * A file to which the bytes of each message are appended exactly once, however often the message is delivered
 * and wherever the process dies. Beside the file `x` there is a folder `x.umbra`:
 *
 * - `lock.N`: one process at a time appends (journal/folder-lock.ts), so nothing is written after an
 *   unfinished append.
 * - `….marks`: one file for each job and sink, with one byte for each message; 1: its bytes are complete.
 * - `intent`: the current or the last append: which marks it will set, and the length of the file before it.
 *
 * An append, of one message or of several that arrived together, is: intent → bytes → marks. A process that
 * finds an intent whose marks are not all set clears them and truncates the file to the length in the intent:
 * the bytes may be there in part or completely, none of the messages has been acknowledged, and they will be
 * delivered again. With `sync` each of the three is on the disk before the next begins, so the same holds
 * when the machine dies and not only the process.
 */
import { createHash } from "node:crypto"
import { type FileHandle, mkdir, open } from "node:fs/promises"
import { dirname, join } from "node:path"
import { type FolderLock, lockFolder } from "../../../journal/folder-lock.ts"
import { syncFolders } from "../../../sync-folders.ts"
import { type Mark, MarkFile, seqsByName } from "./marks.ts"

export interface Append {
  readonly mark: Mark
  readonly bytes: Buffer
  readonly sync: boolean
}

interface Intent {
  readonly length: number
  /** By the name of the marks file. */
  readonly marks: Readonly<Record<string, readonly number[]>>
}

export class AppendLog {
  readonly #folder: string
  readonly #lock: FolderLock
  readonly #file: FileHandle
  readonly #intent: FileHandle
  readonly #marks = new Map<string, MarkFile>()
  /** An append may be unfinished. */
  #isDoubtful = true

  static async open(path: string, onLost: () => void): Promise<AppendLog> {
    const folder = `${path}.umbra`
    await mkdir(folder, { recursive: true })
    const lock = await lockFolder(folder, { onLost })
    const handles: FileHandle[] = []
    try {
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

  /** Ignores messages whose bytes are already in the file. The caller never makes two calls at once. */
  async append(appends: readonly Append[]): Promise<void> {
    if (this.#isDoubtful) await this.#settle()
    const fresh = await this.#notSet(appends)
    if (fresh.length === 0) return
    const marks = seqsByName(fresh)
    const sync = fresh.some(each => each.sync)
    const { size: length } = await this.#file.stat()
    this.#isDoubtful = true
    await write(this.#intent, record({ length, marks }), 0, sync)
    await write(this.#file, Buffer.concat(fresh.map(({ bytes }) => bytes)), length, sync)
    for (const [name, seqs] of Object.entries(marks)) await (await this.#marksOf(name)).put(seqs, 1, sync)
    this.#isDoubtful = false
  }

  async close(): Promise<void> {
    await Promise.all([this.#file, this.#intent, ...this.#marks.values()].map(handle => handle.close()))
    await this.#lock.release()
  }

  /** Reverts an unfinished append. */
  async #settle(): Promise<void> {
    const intent = await this.#readIntent()
    if (intent !== null && !(await this.#isDone(intent))) {
      // A mark that outlives its bytes would lose a message, so the cleared marks are on the disk before
      // anything else happens.
      for (const [name, seqs] of Object.entries(intent.marks))
        await (await this.#marksOf(name)).put(seqs, 0, true)
      const { size } = await this.#file.stat()
      if (size > intent.length) await this.#file.truncate(intent.length)
      await this.#file.datasync()
    }
    this.#isDoubtful = false
  }

  async #isDone({ marks }: Intent): Promise<boolean> {
    for (const [name, seqs] of Object.entries(marks)) {
      const set = await (await this.#marksOf(name)).setOf(seqs)
      if (set.size < seqs.length) return false
    }
    return true
  }

  /** null: there is no intent, or an incomplete one; then its bytes were not begun. */
  async #readIntent(): Promise<Intent | null> {
    const { size } = await this.#intent.stat()
    const { buffer } = await this.#intent.read(Buffer.alloc(size), 0, size, 0)
    const [line = ""] = buffer.toString().split("\n", 1)
    const text = line.slice(digestLength)
    return text !== "" && digest(text) === line.slice(0, digestLength) ? (JSON.parse(text) as Intent) : null
  }

  /** The messages that are not in the file, each once. */
  async #notSet(appends: readonly Append[]): Promise<Append[]> {
    const known = new Map<string, Set<number>>()
    for (const [name, seqs] of Object.entries(seqsByName(appends)))
      known.set(name, await (await this.#marksOf(name)).setOf(seqs))
    return appends.filter(({ mark: { name, seq } }) => {
      const set = known.get(name)!
      return !set.has(seq) && set.add(seq)
    })
  }

  async #marksOf(name: string): Promise<MarkFile> {
    const known = this.#marks.get(name)
    if (known !== undefined) return known
    const marks = new MarkFile(await openOrMake(join(this.#folder, `${name}.marks`)))
    this.#marks.set(name, marks)
    await syncFolders(this.#folder)
    return marks
  }
}

const digestLength = 64
const digest = (text: string) => createHash("sha256").update(text).digest("hex")

function record(intent: Intent): Buffer {
  const text = JSON.stringify(intent)
  return Buffer.from(`${digest(text)}${text}\n`)
}

async function write(handle: FileHandle, bytes: Buffer, position: number, sync: boolean): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    done += (await handle.write(bytes, done, bytes.length - done, position + done)).bytesWritten
  }
  if (sync) await handle.datasync()
}

/** A file opened for appending would write everything at its end, regardless of the position. */
async function openOrMake(path: string): Promise<FileHandle> {
  try {
    return await open(path, "r+")
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error
    return open(path, "wx+")
  }
}
