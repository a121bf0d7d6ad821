/**
 * The files that this process appends to. There is one table per process, because files are locked per
 * process: two pipelines, or two engines in one process, may write to the same file.
 */
import { mkdir } from "node:fs/promises"
import { dirname } from "node:path"
import { UmbraError } from "../../../errors.ts"
import { HandlerError } from "../../../worker/fail.ts"
import { type Append, AppendLog } from "./append-log.ts"
import { writeFault } from "./faults.ts"

export interface AppendOptions extends Append {
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
