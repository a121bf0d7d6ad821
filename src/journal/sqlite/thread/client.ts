/**
 * The thread of an embedded database, seen from the main thread: a call is a message to the thread and its
 * reply. If the thread dies, its pending calls fail (their outcome is unknown); the next call starts a new
 * thread on the same file.
 */
import type { Worker } from "node:worker_threads"
import { startThread } from "../../../thread.ts"
import { JournalUnavailableError } from "../../errors.ts"
import { type RetryOptions, retry } from "../../retry.ts"
import { receivedError } from "../errors.ts"
import type { StoreName } from "../ports.ts"
import { OPENED, sentArguments, type ThreadData, type ThreadReply, type ThreadRequest } from "./transfer.ts"

export interface ThreadClientOptions extends ThreadData {
  readonly retry: RetryOptions
}

interface Pending {
  resolve(result: unknown): void
  reject(error: unknown): void
}

interface Thread {
  readonly worker: Worker
  readonly pending: Map<number, Pending>
}

/** The size of the thread's young generation: by default V8 takes 48 MB and returns nothing. */
const YOUNG_MB = 6

/** Methods that the caller resends itself. */
const NOT_RETRIED = new Set(["journal.append", "journal.tryAppend", "pipelines.commit"])

export class ThreadClient {
  readonly #options: ThreadClientOptions
  #thread: Promise<Thread> | null = null
  #requests = OPENED
  #closed: string | null = null

  constructor(options: ThreadClientOptions) {
    this.#options = options
  }

  /** Starts the thread, which opens the file. */
  async open(): Promise<void> {
    await this.#started()
  }

  async call(store: StoreName, verb: string, args: readonly unknown[]): Promise<unknown> {
    const sent = sentArguments(verb, args)
    const send = () => this.#send(id => ({ id, store, verb, args: sent }))
    return NOT_RETRIED.has(`${store}.${verb}`) ? send() : retry(this.#options.retry, send)
  }

  async close(): Promise<void> {
    const thread = this.#thread
    if (thread && this.#closed === null) await this.#send(id => ({ id, store: "close" })).catch(() => {})
    this.#closed ??= "has been closed by this process"
    await (await thread?.catch(() => null))?.worker.terminate()
  }

  /** Ends the thread at once and permanently: this process may no longer write to the folder. */
  abandon(reason: string): void {
    this.#closed = reason
    void this.#thread?.then(thread => thread.worker.terminate()).catch(() => {})
  }

  async #send(request: (id: number) => ThreadRequest): Promise<unknown> {
    const { worker, pending } = await this.#started()
    return new Promise((resolve, reject) => {
      const id = ++this.#requests
      // Sent first, then recorded: a request that cannot be sent throws here and leaves nothing behind.
      worker.postMessage(request(id))
      pending.set(id, { resolve, reject })
    })
  }

  #started(): Promise<Thread> {
    if (this.#closed !== null)
      throw new JournalUnavailableError(`${this.#options.label} ${this.#closed}`, { final: true })
    if (this.#thread) return this.#thread
    const started = startDatabase(this.#options)
    const forget = () => {
      if (this.#thread === started) this.#thread = null
    }
    started.then(({ worker }) => worker.once("exit", forget), forget)
    this.#thread = started
    return started
  }
}

/** Resolves when the database is open. */
function startDatabase({ file, label, synchronous }: ThreadData): Promise<Thread> {
  const worker = startThread("journal/sqlite/thread/thread", {
    workerData: { file, label, synchronous } satisfies ThreadData,
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
  })
  const pending = new Map<number, Pending>()
  return new Promise((resolve, reject) => {
    pending.set(OPENED, { resolve: () => resolve({ worker, pending }), reject })
    let reason = "its thread ended"
    worker.on("error", error => {
      reason = `its thread failed: ${error.message}`
    })
    worker.on("exit", () => {
      const error = new JournalUnavailableError(`${label} did not answer: ${reason}`)
      for (const request of pending.values()) request.reject(error)
      pending.clear()
    })
    worker.on("message", (reply: ThreadReply) => {
      const request = pending.get(reply.id)
      pending.delete(reply.id)
      if ("error" in reply) request?.reject(receivedError(reply.error))
      else request?.resolve(reply.result)
    })
  })
}
