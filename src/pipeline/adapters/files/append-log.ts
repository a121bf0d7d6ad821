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
import { UmbraError } from "../../../errors.ts"
import { type FolderLock, lockFolder } from "../../../journal/folder-lock.ts"
import { syncFolders } from "../../../sync-folders.ts"
import { HandlerError } from "../../../worker/fail.ts"
import { writeFault } from "./allowed.ts"

interface Append {
  readonly mark: Mark
  readonly bytes: Buffer
  readonly sync: boolean
}

interface Intent {
  readonly length: number
  /** By the name of the marks file. */
  readonly marks: Readonly<Record<string, readonly number[]>>
}

class AppendLog {
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
    for (const [name, seqs] of Object.entries(marks)) await (await this.#openMarks(name)).put(seqs, 1, sync)
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
        await (await this.#openMarks(name)).put(seqs, 0, true)
      const { size } = await this.#file.stat()
      if (size > intent.length) await this.#file.truncate(intent.length)
      await this.#file.datasync()
    }
    this.#isDoubtful = false
  }

  async #isDone({ marks }: Intent): Promise<boolean> {
    for (const [name, seqs] of Object.entries(marks)) {
      const set = await (await this.#openMarks(name)).readMarked(seqs)
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
      known.set(name, await (await this.#openMarks(name)).readMarked(seqs))
    return appends.filter(({ mark: { name, seq } }) => {
      const set = known.get(name)!
      return !set.has(seq) && set.add(seq)
    })
  }

  async #openMarks(name: string): Promise<MarkFile> {
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

/**
 * Records which messages of one job and sink are in the file: one byte for each, at the position of its
 * number.
 */
interface Mark {
  /** Identifies the job and the sink. */
  readonly name: string
  /** The number of the message. */
  readonly seq: number
}

/** Numbers closer together than this are read in one go: neighbours usually arrive together. */
const spanBytes = 64 * 1024

class MarkFile {
  readonly #handle: FileHandle

  constructor(handle: FileHandle) {
    this.#handle = handle
  }

  /** Those of `seqs`, which are sorted, that are set. */
  async readMarked(seqs: readonly number[]): Promise<Set<number>> {
    const set = new Set<number>()
    for (const group of grouped(seqs, (first, seq) => seq - first < spanBytes)) {
      const first = group[0]!
      const length = group.at(-1)! - first + 1
      const { buffer, bytesRead } = await this.#handle.read(Buffer.alloc(length), 0, length, first)
      for (const seq of group) if (seq - first < bytesRead && buffer[seq - first] === 1) set.add(seq)
    }
    return set
  }

  async put(seqs: readonly number[], value: 0 | 1, sync: boolean): Promise<void> {
    for (const run of grouped(seqs, (first, seq, position) => seq - first === position)) {
      const bytes = Buffer.alloc(run.length, value)
      for (let done = 0; done < run.length; )
        done += (await this.#handle.write(bytes, done, run.length - done, run[0]! + done)).bytesWritten
    }
    if (sync) await this.#handle.datasync()
  }

  close(): Promise<void> {
    return this.#handle.close()
  }
}

/** By name, sorted, without duplicates. */
function seqsByName(appends: readonly { readonly mark: Mark }[]): Record<string, number[]> {
  const found: Record<string, Set<number>> = {}
  for (const { mark } of appends) {
    found[mark.name] ??= new Set()
    found[mark.name]!.add(mark.seq)
  }
  return Object.fromEntries(
    Object.entries(found).map(([name, seqs]) => [name, [...seqs].sort((a, b) => a - b)]),
  )
}

function grouped(
  seqs: readonly number[],
  belongs: (first: number, seq: number, position: number) => boolean,
): number[][] {
  const groups: number[][] = []
  for (const seq of seqs) {
    const group = groups.at(-1)
    if (group !== undefined && belongs(group[0]!, seq, group.length)) group.push(seq)
    else groups.push([seq])
  }
  return groups
}

/**
 * The files that this process appends to. There is one table per process, because files are locked per
 * process: two pipelines, or two engines in one process, may write to the same file.
 */
interface AppendOptions extends Append {
  readonly path: string
  readonly signal: AbortSignal
  /** After this time without an append, the file is released to other processes. */
  readonly releaseSeconds: number
}

/** Each holds a few file handles; templates may name a file for each message. */
const mostOpen = 64

const opened = new Map<string, OpenLog>()

/**
 * Messages that arrive while others are being written are written together, up to this number and this many
 * bytes.
 */
const mostTogether = 1_000
const mostBytesTogether = 8 * 1024 * 1024

export async function appendOnce(options: AppendOptions): Promise<void> {
  const { path } = options
  const log = opened.get(path) ?? new OpenLog(path)
  // The most recently used are last.
  opened.delete(path)
  opened.set(path, log)
  try {
    await log.append(options)
  } catch (error) {
    throw error instanceof UmbraError && error.code === "E503"
      ? inUse(options, error)
      : writeFault(path, error)
  } finally {
    const tooMany = Math.max(0, opened.size - mostOpen)
    for (const oldest of [...opened.values()].slice(0, tooMany)) void oldest.release()
  }
}

interface Waiting extends AppendOptions {
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

class OpenLog {
  readonly #path: string
  #log: AppendLog | null = null
  #isLost = false
  #releaseSeconds = 0
  #timer: NodeJS.Timeout | undefined
  #waiting: Waiting[] = []
  /** Serializes the operations on the file. Never rejects. */
  #turn: Promise<void> = Promise.resolve()

  constructor(path: string) {
    this.#path = path
  }

  append(options: AppendOptions): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ...options, resolve, reject })
      if (this.#waiting.length === 1) this.#turn = this.#turn.then(() => this.#appendAll())
    })
  }

  /** Closes the file when the current operations have ended. A later append opens it again. */
  release(): Promise<void> {
    this.#turn = this.#turn.then(() => this.#close().catch(() => {}))
    return this.#turn
  }

  async #appendAll(): Promise<void> {
    clearTimeout(this.#timer)
    while (this.#waiting.length > 0) {
      const group = this.#take()
      if (group.length === 0) continue
      this.#releaseSeconds = Math.max(...group.map(each => each.releaseSeconds))
      try {
        if (this.#isLost) await this.#close()
        this.#log ??= await this.#open()
        await this.#log.append(group)
        for (const { resolve } of group) resolve()
      } catch (error) {
        // The handles may be the cause: the next append opens the file again and reverts what is unfinished.
        await this.#close().catch(() => {})
        for (const { reject } of group) reject(error)
      }
    }
    this.#timer = setTimeout(() => void this.release(), this.#releaseSeconds * 1000).unref()
  }

  #take(): Waiting[] {
    let bytes = 0
    let count = 0
    for (const each of this.#waiting.slice(0, mostTogether)) {
      if (count > 0 && bytes + each.bytes.length > mostBytesTogether) break
      bytes += each.bytes.length
      count++
    }
    const taken = this.#waiting.slice(0, count)
    this.#waiting = this.#waiting.slice(count)
    return taken.filter(({ signal, reject }) => {
      if (signal.aborted) reject(signal.reason)
      return !signal.aborted
    })
  }

  async #open(): Promise<AppendLog> {
    this.#isLost = false
    await mkdir(dirname(this.#path), { recursive: true })
    return AppendLog.open(this.#path, () => {
      this.#isLost = true
    })
  }

  /**
   * The entry stays in the table until the lock is released and no work is left: a second one for the file
   * would find it locked.
   */
  async #close(): Promise<void> {
    const log = this.#log
    this.#log = null
    await log?.close()
    if (this.#waiting.length === 0 && opened.get(this.#path) === this) opened.delete(this.#path)
  }
}

/** The other process will have released the file by then, if it has stopped writing. */
function inUse({ path, releaseSeconds }: AppendOptions, { details, cause }: UmbraError): HandlerError {
  const who = details.pid === undefined ? "another process" : `process ${details.pid} on ${details.host}`
  return new HandlerError(
    `${path} is being written by ${who}. Only one process at a time can append to a file; the message is retried.`,
    { code: "E723", retryable: true, retryAfterSeconds: releaseSeconds, cause },
  )
}
