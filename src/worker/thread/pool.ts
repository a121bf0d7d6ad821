/**
 * Threads for CPU-bound handlers. One attempt per thread; a thread that has finished an attempt waits for the
 * next, one that was killed or has died is replaced when needed. The broker limits how many run at once (the
 * limit "threads").
 */

import type { Worker } from "node:worker_threads"
import type { Outcome, Task } from "../../broker/port.ts"
import type { ArtifactAnswer, ArtifactQuestion } from "../../core/artifacts.ts"
import { cut } from "../../core/faults.ts"
import type { Json, JsonObject } from "../../core/json.ts"
import type { Progress } from "../../core/view/view.ts"
import type { LogLevel } from "../../log.ts"
import { startThread } from "../../thread.ts"
import { activeTraceparent } from "../../trace.ts"
import type { SharedArtifacts } from "../artifacts.ts"
import type { Work } from "../attempt.ts"
import type { Call, Reports } from "../context.ts"
import type { AttemptNames, LogEntry } from "../logs/handler-log.ts"
import { asLoggedError, safeFields } from "../logs/safe-fields.ts"
import type { Redactor, Secret } from "../redact.ts"

interface ThreadRun {
  readonly task: Task
  readonly module: string
  readonly config: Json
  readonly redactor: Redactor | null
  readonly reports: Reports
  readonly maxOutputBytes: number
  readonly maxPreviewBytes: number
  readonly capturesConsole: boolean
  readonly artifacts: SharedArtifacts
}

interface ThreadPoolOptions {
  readonly memoryMb: number
  /** A handler has logged after the end of its attempt: for the process log. */
  readonly loggedLate: (level: LogLevel, attempt: AttemptNames, entry: LogEntry) => void
}

interface ThreadOptions extends ThreadPoolOptions {
  readonly onExit: () => void
}

export class ThreadPool {
  readonly #options: ThreadPoolOptions
  readonly #idle: Thread[] = []
  readonly #all = new Set<Thread>()

  constructor(options: ThreadPoolOptions) {
    this.#options = options
  }

  run({ task, redactor, reports, ...run }: ThreadRun): Work {
    const { owner, jobId, nodeId, item, attempt, shownAttempt, handler, input, provider, operation } = task
    // A thread cannot request them while its handler runs, so they are sent with the task.
    const parents = task.parents()
    const secrets = redactor?.secrets ?? []
    const traceparent = activeTraceparent()
    const which = { jobId, owner, nodeId, item, attempt, shownAttempt, handler, provider, operation }
    const call = { ...which, input, parents, secrets, traceparent }
    const thread = this.#idle.pop() ?? this.#create()
    const begun = () => work.onBegun?.()
    const outcome = thread.run(
      { type: "run", ...run, ...call },
      {
        ...{ owner, reports, begun },
        clean: redactor?.clean,
      },
    )
    outcome.then(() => {
      if (thread.isAlive) this.#idle.push(thread)
    })
    const work: Work = {
      outcome,
      abort: reason => thread.abort(reason),
      used: () => thread.used,
      kill: () => thread.kill(),
      isLoading: true,
    }
    return work
  }

  async close(): Promise<void> {
    await Promise.all([...this.#all].map(thread => thread.kill()))
  }

  #create(): Thread {
    const thread = new Thread({ ...this.#options, onExit: () => this.#remove(thread) })
    this.#all.add(thread)
    return thread
  }

  #remove(thread: Thread): void {
    this.#all.delete(thread)
    const at = this.#idle.indexOf(thread)
    if (at >= 0) this.#idle.splice(at, 1)
  }
}

/** The messages between the worker and one of its threads. */
export interface RunMessage extends Omit<Call, "parents"> {
  readonly type: "run"
  /** URL of the module that exports the handler. */
  readonly module: string
  readonly parents: JsonObject
  readonly config: Json
  readonly secrets: readonly Secret[]
  /** Of the span in which the attempt runs. */
  readonly traceparent: string | undefined
  readonly maxOutputBytes: number
  readonly maxPreviewBytes: number
  readonly capturesConsole: boolean
  readonly artifacts: SharedArtifacts
}

/** `answer` null: there is none, the attempt is over. */
interface AnswerMessage {
  readonly type: "answer"
  readonly id: number
  readonly answer: ArtifactAnswer | null
}

interface AbortMessage {
  readonly type: "abort"
  readonly name: string
  readonly message: string
}

export type ToThread = RunMessage | AbortMessage | AnswerMessage

/** An output is sent as its text: it is serialized once, and parsed once where it is used. */
export type ThreadOutcome =
  | Exclude<Outcome, { readonly type: "completed" }>
  | { readonly type: "completed"; readonly text: string; readonly usage?: JsonObject | undefined }

export type FromThread =
  /** The module is loaded: the handler begins. */
  | { readonly type: "begun" }
  | { readonly type: "heartbeat" }
  | { readonly type: "progress"; readonly progress: Progress }
  | { readonly type: "preview"; readonly data: Json }
  | { readonly type: "usage"; readonly usage: JsonObject }
  | { readonly type: "ask"; readonly id: number; readonly question: ArtifactQuestion }
  | {
      readonly type: "log"
      readonly level: LogLevel
      readonly entry: LogEntry
    }
  /** Logged after the end of an attempt. */
  | {
      readonly type: "late"
      readonly level: LogLevel
      readonly entry: LogEntry
      readonly names: AttemptNames
    }
  | { readonly type: "printed"; readonly level: LogLevel; readonly text: string }
  | { readonly type: "ended"; readonly outcome: ThreadOutcome }

/**
 * One worker thread. Its end, for any reason (process.exit in the handler, out of memory, an error outside
 * the handler's promise, `kill`), ends the attempt that it ran, with a retryable fault.
 */
function startWorker(memoryMb: number): Worker {
  return startThread("worker/thread/entry", {
    resourceLimits: { maxOldGenerationSizeMb: memoryMb },
  })
}

interface Current {
  readonly owner: string
  readonly reports: Reports
  /** Removes the task's secrets from a text. */
  readonly clean: ((text: string) => string) | undefined
  /** The handler begins. */
  readonly begun: () => void
  readonly end: (outcome: Outcome) => void
  usage: JsonObject | undefined
}

class Thread {
  isAlive = true
  readonly #options: ThreadOptions
  readonly #worker: Worker
  /** Of the attempts that it has run: what an earlier one left behind may fail in a later one. */
  readonly #owners = new Set<string>()
  #current: Current | undefined
  #error: Error | undefined

  constructor(options: ThreadOptions) {
    this.#options = options
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

  run(message: RunMessage, call: Pick<Current, "owner" | "reports" | "clean" | "begun">): Promise<Outcome> {
    this.#owners.add(call.owner)
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
    else if (message.type === "ended") this.#end(parseOutcome(message.outcome))
    else if (message.type === "heartbeat") reports?.heartbeat()
    else if (message.type === "progress") reports?.progress(message.progress)
    else if (message.type === "preview") reports?.preview(message.data)
    else if (message.type === "ask") void this.#ask(message)
    else if (message.type === "usage" && this.#current !== undefined) this.#current.usage = message.usage
    else if (message.type === "printed") reports?.printed(message.level, message.text)
    else if (message.type === "log") reports?.log(message.level, received(message.entry))
    else if (message.type === "late")
      this.#options.loggedLate(message.level, message.names, received(message.entry))
  }

  async #ask({ id, question }: Extract<FromThread, { type: "ask" }>): Promise<void> {
    const asked = this.#current?.reports.ask(question).catch(() => null)
    this.#send({ type: "answer", id, answer: (await asked) ?? null })
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
    const isOwn = this.#owners.size <= 1
    if (error !== undefined) {
      const entry = safeFields(isOwn ? { err: error } : {}, { clean, isBrief: true })
      reports?.log("error", { ...entry, message: "a worker thread died" })
    }
    const why =
      error === undefined
        ? `it exited with code ${code}`
        : isOutOfMemory(error)
          ? "it needed more memory than UMBRA_THREAD_MEMORY_MB allows"
          : `of an error outside the handler's own promise${isOwn ? `: ${cut(clean(error.message), messageLength)}` : ", perhaps that of another owner's job, so it is not shown"}`
    const message = `The worker thread ended while the handler ran: ${why}.`
    const fault = { code: "E415", message, retryable: true, details: { exit_code: code } }
    this.#end({ type: "failed", fault, usage: this.used })
  }
}

const messageLength = 1_000

function isOutOfMemory(error: Error): boolean {
  return (error as { code?: unknown }).code === "ERR_WORKER_OUT_OF_MEMORY"
}

/** A message has the identity of the errors, but not that they have no prototype. */
function received(entry: LogEntry): LogEntry {
  for (const error of entry.errors) asLoggedError(error)
  return entry
}

function parseOutcome(outcome: ThreadOutcome): Outcome {
  return outcome.type === "completed" ? { ...outcome, output: JSON.parse(outcome.text) as Json } : outcome
}
