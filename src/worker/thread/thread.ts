/**
 * One worker thread. Its end, for any reason (process.exit in the handler, out of memory, an error outside
 * the handler's promise, `kill`), ends the attempt that it ran, with a retryable fault.
 */
import type { Worker } from "node:worker_threads"
import type { Outcome } from "../../broker/port.ts"
import { cut } from "../../core/faults.ts"
import type { Json, JsonObject } from "../../core/json.ts"
import { startThread } from "../../thread.ts"
import type { Reports } from "../context.ts"
import type { FromThread, RunMessage, ThreadOutcome, ToThread } from "./messages.ts"

function startWorker(memoryMb: number): Worker {
  return startThread("worker/thread/entry", {
    resourceLimits: { maxOldGenerationSizeMb: memoryMb },
  })
}

interface Current {
  readonly reports: Reports
  /** Removes the task's secrets from a text. */
  readonly clean: ((text: string) => string) | undefined
  /** The handler begins. */
  readonly begun: () => void
  readonly end: (outcome: Outcome) => void
  usage: JsonObject | undefined
}

export class Thread {
  isAlive = true
  readonly #worker: Worker
  #current: Current | undefined
  #error: Error | undefined

  constructor(options: { readonly memoryMb: number; readonly onExit: () => void }) {
    this.#worker = startWorker(options.memoryMb)
    this.#worker.on("message", (message: FromThread) => this.#hear(message))
    this.#worker.on("error", error => {
      this.#error = error instanceof Error ? error : new Error(String(error))
    })
    this.#worker.on("exit", code => {
      this.isAlive = false
      options.onExit()
      this.#die(code)
    })
  }

  run(message: RunMessage, call: Pick<Current, "reports" | "clean" | "begun">): Promise<Outcome> {
    return new Promise(resolve => {
      this.#current = { ...call, end: resolve, usage: undefined }
      // An idle thread does not keep the process alive; a busy one does.
      this.#worker.ref()
      this.#send(message)
    })
  }

  /** The usage that the current attempt has reported so far. */
  get used(): JsonObject | undefined {
    return this.#current?.usage
  }

  abort(reason: Error): void {
    if (this.#current !== undefined) this.#send({ type: "abort", name: reason.name, message: reason.message })
  }

  async kill(): Promise<void> {
    this.isAlive = false
    this.#worker.ref()
    await this.#worker.terminate()
  }

  #send(message: ToThread): void {
    this.#worker.postMessage(message)
  }

  #hear(message: FromThread): void {
    const reports = this.#current?.reports
    if (message.type === "begun") this.#current?.begun()
    else if (message.type === "ended") this.#end(received(message.outcome))
    else if (message.type === "heartbeat") reports?.heartbeat()
    else if (message.type === "progress") reports?.progress(message.progress)
    else if (message.type === "preview") reports?.preview(message.data)
    else if (message.type === "usage" && this.#current !== undefined) this.#current.usage = message.usage
    else if (message.type === "log") reports?.log(message.level, message.fields, message.message)
  }

  #end(outcome: Outcome): void {
    const current = this.#current
    this.#current = undefined
    if (this.isAlive) this.#worker.unref()
    current?.end(outcome)
  }

  #die(code: number): void {
    const { reports, clean = (text: string) => text } = this.#current ?? {}
    const error = this.#error
    if (error !== undefined)
      reports?.log("error", { stack: clean(String(error.stack)) }, "a worker thread died")
    const why =
      error === undefined
        ? `it exited with code ${code}`
        : isOutOfMemory(error)
          ? "it needed more memory than UMBRA_THREAD_MEMORY_MB allows"
          : `of an error outside the handler's own promise: ${cut(clean(error.message), messageLength)}`
    const message = `The worker thread ended while the handler ran: ${why}.`
    const fault = { code: "E415", message, retryable: true, details: { exit_code: code } }
    this.#end({ type: "failed", fault, usage: this.used })
  }
}

const messageLength = 1_000

function isOutOfMemory(error: Error): boolean {
  return (error as { code?: unknown }).code === "ERR_WORKER_OUT_OF_MEMORY"
}

function received(outcome: ThreadOutcome): Outcome {
  return outcome.type === "completed" ? { ...outcome, output: JSON.parse(outcome.text) as Json } : outcome
}
