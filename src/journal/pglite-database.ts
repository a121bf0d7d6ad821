/**
 * The embedded database as a Database: requests travel to its thread and back. A thread that dies takes its pending
 * requests with it (their outcome is unknown); the next request starts a new one on the same folder.
 */
import type { Worker } from "node:worker_threads"
import { startThread } from "../thread.ts"
import type { Database, Parameters, Row, Session, Statement } from "./database.ts"
import { classify, JournalUnavailableError } from "./errors.ts"
import type { ThreadData, ThreadReply, ThreadRequest } from "./pglite-messages.ts"
import { type RetryOptions, retry } from "./retry.ts"

export interface PgliteDatabaseOptions {
  readonly folder: string
  readonly label: string
  readonly retry: RetryOptions
}

interface Pending {
  resolve(rows: Row[]): void
  reject(error: unknown): void
}

/**
 * Room for young objects of its thread, three halves of which are in use: by itself V8 takes 48 MB, and gives nothing
 * back. Texts that come and go are all there is.
 */
const YOUNG_MB = 6

type Request = ThreadRequest extends infer R ? (R extends unknown ? Omit<R, "id"> : never) : never

interface Thread {
  readonly worker: Worker
  readonly pending: Map<number, Pending>
}

export class PgliteDatabase implements Database {
  readonly label: string
  readonly #options: PgliteDatabaseOptions
  #thread: Promise<Thread> | null = null
  #transaction: Promise<unknown> | null = null
  #requests = 0
  #closed: string | null = null

  constructor(options: PgliteDatabaseOptions) {
    this.label = options.label
    this.#options = options
  }

  async query(statement: Statement, parameters: Parameters): Promise<Row[]> {
    return retry(this.#options.retry, () => this.append(statement, parameters))
  }

  async append(statement: Statement, parameters: Parameters): Promise<Row[]> {
    while (this.#transaction) await this.#transaction.catch(() => {})
    return this.#ask({ kind: "query", statement, parameters })
  }

  async trial(statement: Statement, parameters: Parameters): Promise<void> {
    const undone = new Error("rolled back")
    const session = async ({ query }: Session) => {
      await query(statement, parameters)
      throw undone
    }
    await this.transaction(session).catch(error => {
      if (error !== undone) throw error
    })
  }

  /** There is one session: while a transaction is open, everybody else waits. */
  async transaction<T>(work: (session: Session) => Promise<T>): Promise<T> {
    while (this.#transaction) await this.#transaction.catch(() => {})
    const transaction = this.#runTransaction(work)
    this.#transaction = transaction
    try {
      return await transaction
    } finally {
      this.#transaction = null
    }
  }

  /** Nothing vacuums an embedded database unless asked: without it pages fill up and transaction ids run out. */
  async maintain(): Promise<void> {
    await this.append("vacuum", [])
  }

  async close(): Promise<void> {
    const thread = this.#thread
    if (thread && this.#closed === null) await this.#ask({ kind: "close" }).catch(() => {})
    this.#closed ??= "has been closed by this process"
    await (await thread?.catch(() => null))?.worker.terminate()
  }

  /** At once and for good: the folder is no longer ours to write to. */
  abandon(reason: string): void {
    this.#closed = reason
    void this.#thread?.then(thread => thread.worker.terminate()).catch(() => {})
  }

  async #runTransaction<T>(work: (session: Session) => Promise<T>): Promise<T> {
    const script = async (text: string) => void (await this.#ask({ kind: "script", text }))
    await script("begin")
    try {
      const result = await work({
        query: (statement, parameters) => this.#ask({ kind: "query", statement, parameters }),
        script,
      })
      await script("commit")
      return result
    } catch (error) {
      await script("rollback").catch(() => {})
      throw error
    }
  }

  async #ask(request: Request): Promise<Row[]> {
    if (this.#closed !== null)
      throw new JournalUnavailableError(`${this.label} ${this.#closed}`, { final: true })
    try {
      this.#thread ??= this.#start()
      return await this.#post(await this.#thread, request)
    } catch (error) {
      throw classify(error, this.label)
    }
  }

  #post(thread: Thread, request: Request): Promise<Row[]> {
    return new Promise((resolve, reject) => {
      const id = ++this.#requests
      // First sent, then remembered: what cannot be sent throws here and leaves nothing behind.
      thread.worker.postMessage({ ...request, id } satisfies ThreadRequest)
      thread.pending.set(id, { resolve, reject })
    })
  }

  #start(): Promise<Thread> {
    const started = openThread(this.#options.folder)
    const forget = () => {
      if (this.#thread === started) this.#thread = null
    }
    started.then(({ worker }) => worker.once("exit", forget), forget)
    return started
  }
}

/** Resolves when the database has recovered and answers. */
function openThread(folder: string): Promise<Thread> {
  const worker = newWorker(folder)
  const pending = new Map<number, Pending>()
  return new Promise((resolve, reject) => {
    let isOpen = false
    let reason = "its thread ended"
    worker.on("error", error => {
      reason = isOpen ? `its thread failed: ${error.message}` : error.message
    })
    worker.on("exit", () => {
      const error = new JournalUnavailableError(
        isOpen
          ? `the embedded database in ${folder} did not answer: ${reason}`
          : `the embedded database in ${folder} cannot be opened: ${reason}. Check the free space of the disk and the rights on the files; if they are damaged, put the whole folder back from a backup.`,
      )
      reject(error)
      for (const request of pending.values()) request.reject(error)
      pending.clear()
    })
    worker.on("message", (reply: ThreadReply) => {
      if (reply.kind === "ready") {
        isOpen = true
        return resolve({ worker, pending })
      }
      const request = pending.get(reply.id)
      pending.delete(reply.id)
      if (reply.kind === "done") request?.resolve(reply.rows)
      else request?.reject(reply.error)
    })
  })
}

function newWorker(folder: string): Worker {
  return startThread(new URL("./pglite-thread", import.meta.url), {
    workerData: { folder } satisfies ThreadData,
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
  })
}
