/**
 * The files that this process appends to. One table for the process, since that is what a file is locked for: two
 * pipelines, or two engines in one process, may write to the same file.
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
  /** Without an append for so long, the file is left to other processes. */
  readonly releaseSeconds: number
}

/** Each holds a few file handles; templates may name a file for each message. */
const mostOpen = 64

const opened = new Map<string, OpenLog>()

/** false: the bytes were there already. Appends to one file come one after the other. */
export async function appendOnce(options: AppendOptions): Promise<boolean> {
  const { path } = options
  const log = opened.get(path) ?? new OpenLog(path)
  // The youngest stand last.
  opened.delete(path)
  opened.set(path, log)
  try {
    return await log.append(options)
  } catch (error) {
    throw error instanceof UmbraError && error.code === "E503" ? inUse(path, error) : writeFault(path, error)
  } finally {
    for (const [first, oldest] of opened) {
      if (opened.size <= mostOpen) break
      opened.delete(first)
      void oldest.release()
    }
  }
}

class OpenLog {
  readonly #path: string
  #log: AppendLog | null = null
  #isLost = false
  #timer: NodeJS.Timeout | undefined
  #last: Promise<unknown> = Promise.resolve()

  constructor(path: string) {
    this.#path = path
  }

  append(options: AppendOptions): Promise<boolean> {
    const appended = this.#last.then(() => this.#append(options))
    this.#last = appended.catch(() => {})
    return appended
  }

  /** Once what is under way has ended. What comes later opens it again. */
  release(): Promise<void> {
    const released = this.#last.then(() => this.#close())
    this.#last = released.catch(() => {})
    return released
  }

  async #append(options: AppendOptions): Promise<boolean> {
    options.signal.throwIfAborted()
    clearTimeout(this.#timer)
    if (this.#isLost) await this.#close()
    try {
      this.#log ??= await this.#open()
      return await this.#log.append(options)
    } catch (error) {
      // Handles may be what is wrong: the next one begins afresh, and settles what was left.
      await this.#close().catch(() => {})
      throw error
    } finally {
      this.#timer = setTimeout(() => void this.release(), options.releaseSeconds * 1000).unref()
    }
  }

  async #open(): Promise<AppendLog> {
    this.#isLost = false
    await mkdir(dirname(this.#path), { recursive: true })
    return AppendLog.open(this.#path, () => {
      this.#isLost = true
    })
  }

  async #close(): Promise<void> {
    const log = this.#log
    this.#log = null
    clearTimeout(this.#timer)
    if (opened.get(this.#path) === this) opened.delete(this.#path)
    await log?.close()
  }
}

function inUse(path: string, { details, cause }: UmbraError): HandlerError {
  const who = details.pid === undefined ? "another process" : `process ${details.pid} on ${details.host}`
  return new HandlerError(
    `${path} is being written by ${who}. Only one process at a time can append to a file; it is tried again.`,
    { code: "E723", retryable: true, cause },
  )
}
