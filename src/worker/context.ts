/**
 * A handler's view of its attempt, the same in the worker's process and in a thread.
 *
 * 1. Parts are created on first use: an attempt that uses no signal and no log costs this one object.
 * 2. Members are getters that return bound functions, so a handler may destructure the context.
 * 3. After the attempt has ended nothing more is reported.
 */
import type { ArtifactAnswer, ArtifactQuestion } from "../core/artifacts.ts"
import { cut } from "../core/faults.ts"
import type { Json, JsonObject } from "../core/json.ts"
import type { Progress } from "../core/view/view.ts"
import type { HandlerLog, LogLevel } from "../log.ts"
import { attemptArtifacts, type HandlerArtifacts, type WorkerArtifacts } from "./artifacts.ts"
import { finalError } from "./fail.ts"
import type { HandlerContext } from "./handler.ts"
import { handlerLog, type LogEntry } from "./logs/handler-log.ts"
import { safeFields } from "./logs/safe-fields.ts"
import { checkOutput } from "./output.ts"
import type { Redactor } from "./redact.ts"

/** What a handler may know about the task it works on. */
export interface Call {
  readonly jobId: string
  readonly owner: string
  readonly nodeId: string
  readonly item?: number | undefined
  /** The fence. */
  readonly attempt: number
  readonly shownAttempt: number
  readonly handler: string
  readonly input: Json
  readonly parents: () => JsonObject
  readonly provider?: string | undefined
  readonly operation?: number | undefined
}

/** The receiver of reports. None of these methods throws. */
export interface Reports {
  /** Progress and previews also count as heartbeats. */
  heartbeat(): void
  /**
   * Resolves when another place in the rate of the node's provider is available; absent: this process cannot
   * request one.
   */
  place?(): Promise<void>
  /** Asks the engine for artifacts of the job's owner. Rejects if there is no answer. */
  ask(question: ArtifactQuestion): Promise<ArtifactAnswer>
  progress(progress: Progress): void
  preview(data: Json): void
  /** The fields of `entry` are those of the handler alone. */
  log(level: LogLevel, entry: LogEntry): void
  /** The handler has logged after the end of the attempt. */
  logLate(level: LogLevel, entry: LogEntry): void
  /** The handler has printed with `console`, which is captured. */
  printed(level: LogLevel, text: string): void
  /** For a handler that may be killed: its total usage so far. */
  usage?(used: JsonObject): void
}

interface ContextOptions {
  readonly call: Call
  readonly reports: Reports
  readonly redactor: Redactor | null
  readonly maxPreviewBytes: number
  readonly artifacts: WorkerArtifacts
  readonly now: () => number
}

const messageLength = 500

/**
 * An operation that failed at its provider is submitted under a new key: with the same key the provider would
 * answer with the old one.
 */
function operationKey(task: string, operation: number): string {
  return operation === 0 ? task : `${task}/${operation}`
}

export class Context implements HandlerContext {
  readonly #options: ContextOptions
  #controller: AbortController | undefined
  #abortReason: unknown
  #input: Json | undefined
  #parents: JsonObject | undefined
  #log: HandlerLog | undefined
  #artifacts: HandlerArtifacts | undefined
  #amounts: Record<string, number> | undefined
  #ended = false

  constructor(options: ContextOptions) {
    this.#options = options
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#abortReason !== undefined) this.#controller.abort(this.#abortReason)
    }
    return this.#controller.signal
  }

  get idempotencyKey(): string {
    const { operation = 0, item } = this.#options.call
    const node = `${this.jobId}/${this.nodeId}`
    return operationKey(item === undefined ? node : `${node}/${item}`, operation)
  }

  get provider(): string | null {
    return this.#options.call.provider ?? null
  }

  get attempt(): number {
    return this.#options.call.shownAttempt
  }

  get fence(): number {
    return this.#options.call.attempt
  }

  get jobId(): string {
    return this.#options.call.jobId
  }

  /** For built-in handlers only. */
  get owner(): string {
    return this.#options.call.owner
  }

  get nodeId(): string {
    return this.#options.call.nodeId
  }

  get input(): Json {
    this.#input ??= ownCopy(this.#options.call.input)
    return this.#input
  }

  get parents(): JsonObject {
    this.#parents ??= ownCopy(this.#options.call.parents())
    return this.#parents
  }

  get now(): () => number {
    return this.#options.now
  }

  get heartbeat(): HandlerContext["heartbeat"] {
    return () => {
      if (!this.#ended) this.#options.reports.heartbeat()
    }
  }

  get progress(): HandlerContext["progress"] {
    return (percent, message) => {
      if (this.#ended) return
      const known = typeof percent === "number" && !Number.isNaN(percent)
      const text = message === undefined || message === null ? null : this.#clean(String(message))
      this.#options.reports.progress({
        percent: known ? Math.min(100, Math.max(0, percent)) : null,
        message: text === null ? null : cut(text, messageLength),
      })
    }
  }

  get preview(): HandlerContext["preview"] {
    return data => {
      if (this.#ended) return
      const { value } = checkOutput(data, { maxBytes: this.#options.maxPreviewBytes, what: "preview" })
      this.#options.reports.preview(this.#options.redactor?.value(value) ?? value)
    }
  }

  get usage(): HandlerContext["usage"] {
    return amounts => {
      if (this.#ended) return
      this.#amounts ??= {}
      for (const [key, amount] of Object.entries(amounts)) {
        const sum = (Object.hasOwn(this.#amounts, key) ? this.#amounts[key]! : 0) + amount
        if (typeof amount !== "number" || !Number.isFinite(sum)) {
          throw finalError("E404", `usage: "${key}" must be a finite number.`)
        }
        this.#amounts[key] = sum
      }
      this.#options.reports.usage?.(this.used!)
    }
  }

  get place(): HandlerContext["place"] {
    return async () => {
      const { call, reports } = this.#options
      if (call.provider === undefined) return
      if (reports.place === undefined)
        throw new Error("A handler in a thread has only the place of its first request in the rate.")
      await reports.place()
    }
  }

  get artifacts(): HandlerArtifacts {
    const { artifacts, call, reports, now } = this.#options
    this.#artifacts ??= attemptArtifacts({
      ...{ now, artifacts, owner: call.owner, clean: text => this.#clean(text), signal: () => this.signal },
      ask: question => (this.#ended ? Promise.reject(attemptOver()) : reports.ask(question)),
    })
    return this.#artifacts
  }

  get log(): HandlerLog {
    this.#log ??= handlerLog({
      write: (level, entry) => this.#logged(level, entry),
      clean: this.#options.redactor?.clean,
    })
    return this.#log
  }

  /** `code`: of the fault. */
  logThrown(error: Error, code: string): void {
    const clean = this.#options.redactor?.cleanError
    const fields = safeFields({ code, err: error }, { clean, isBrief: true })
    this.#logged("debug", { ...fields, message: "the handler threw" })
  }

  /** What is printed after the end may be about anything: a timer of a module runs on in the context that has started it. */
  printed(level: LogLevel, text: string): void {
    if (this.#ended) return
    this.#options.reports.printed(level, this.#clean(text))
  }

  /** The sum of `usage` calls; undefined if there were none. */
  get used(): JsonObject | undefined {
    const amounts = this.#amounts
    return amounts && ((this.#options.redactor?.value(amounts) as JsonObject | undefined) ?? amounts)
  }

  abort(reason: unknown): void {
    this.#abortReason ??= reason
    this.#controller?.abort(reason)
  }

  /**
   * Called before a handler begins: a handler that only listens for the signal would never see one that fired
   * before.
   */
  throwIfAborted(): void {
    if (this.#abortReason !== undefined) throw this.#abortReason
  }

  end(): void {
    this.#ended = true
  }

  #clean(text: string): string {
    return this.#options.redactor?.clean(text) ?? text
  }

  /** A line of an attempt stands before its end. */
  #logged(level: LogLevel, entry: LogEntry): void {
    const { reports } = this.#options
    if (this.#ended) reports.logLate(level, { ...entry, fields: { ...entry.fields, after_end: true } })
    else reports.log(level, entry)
  }
}

const attemptOver = () => new Error("The attempt has ended: it cannot use artifacts.")

/**
 * A handler gets its own copy of its arguments and may change it. The lists and mappings of a config, an
 * input and of parents' outputs belong to the plan and to the job's state, which must stay as they are in the
 * journal. Texts are shared.
 */
export function ownCopy<T extends Json>(value: T): T
export function ownCopy(value: Json): Json {
  if (typeof value !== "object" || value === null) return value
  if (Array.isArray(value)) return (value as readonly Json[]).map(item => ownCopy(item))
  // `fromEntries` defines keys, whatever their name: "__proto__" stays data.
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, ownCopy(member)]))
}
