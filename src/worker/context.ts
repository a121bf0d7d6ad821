/**
 * What a handler sees of its attempt, the same in the worker's process and in a thread.
 *
 * 1. Nothing is made before it is used: an attempt that asks for no signal and no log costs this one object.
 * 2. Members are getters that give bound functions, so a handler may take the context apart.
 * 3. After the attempt has ended nothing is reported any more.
 */
import { cut } from "../core/faults.ts"
import type { Json, JsonObject } from "../core/json.ts"
import type { Progress } from "../core/view/view.ts"
import { type Log, type LogLevel, logTo } from "../log.ts"
import { HandlerError } from "./fail.ts"
import type { HandlerContext } from "./handler.ts"
import { checkOutput } from "./output.ts"
import { ownCopy } from "./own-copy.ts"
import type { Redactor } from "./redact.ts"

/** What a handler may know of the task it works on. */
export interface Call {
  readonly jobId: string
  /** Of the job; a thread does not know it. */
  readonly owner?: string
  readonly nodeId: string
  readonly item?: number
  /** The fence. */
  readonly attempt: number
  readonly shownAttempt: number
  readonly handler: string
  readonly input: Json
  readonly parents: () => JsonObject
  readonly provider?: string
  readonly operation?: number
}

/** Where reports go. None of these throws. */
export interface Reports {
  /** Progress and previews count as heartbeats too. */
  heartbeat(): void
  /** Resolves when there is another place in the rate of the node's provider; absent: nobody here can ask. */
  place?(): Promise<void>
  progress(progress: Progress): void
  preview(data: Json): void
  log(level: LogLevel, fields: Record<string, unknown>, message: string | undefined): void
  /** Of a handler that may be killed: what it has used so far, all in all. */
  usage?(used: JsonObject): void
}

export interface ContextOptions {
  readonly call: Call
  readonly reports: Reports
  readonly redactor: Redactor | null
  readonly maxPreviewBytes: number
  readonly now: () => number
}

const messageLength = 500

/** An operation that failed at its provider is asked for anew: with the same key it would be answered with the old one. */
function operationKey(task: string, operation: number): string {
  return operation === 0 ? task : `${task}/${operation}`
}

export class Context implements HandlerContext {
  readonly #options: ContextOptions
  #controller: AbortController | undefined
  #abortReason: unknown
  #input: Json | undefined
  #parents: JsonObject | undefined
  #log: Log | undefined
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

  /** For built-in handlers alone. */
  get owner(): string | undefined {
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
          throw new HandlerError(`usage: "${key}" must be a finite number.`, {
            code: "E404",
            retryable: false,
          })
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
        throw new Error("A handler in a thread has the place of its first request alone.")
      await reports.place()
    }
  }

  get log(): Log {
    this.#log ??= this.#makeLog()
    return this.#log
  }

  /** What `usage` summed up, undefined if it was not called. */
  get used(): JsonObject | undefined {
    const amounts = this.#amounts
    return amounts && ((this.#options.redactor?.value(amounts) as JsonObject | undefined) ?? amounts)
  }

  abort(reason: unknown): void {
    this.#abortReason ??= reason
    this.#controller?.abort(reason)
  }

  /** Before a handler begins: one that only listens for the signal would never hear one that was given before. */
  throwIfAborted(): void {
    if (this.#abortReason !== undefined) throw this.#abortReason
  }

  end(): void {
    this.#ended = true
  }

  #clean(text: string): string {
    return this.#options.redactor?.clean(text) ?? text
  }

  #makeLog(): Log {
    const { call, reports, redactor } = this.#options
    const item = call.item === undefined ? {} : { item: call.item }
    const own = {
      job_id: call.jobId,
      node_id: call.nodeId,
      ...item,
      attempt: call.shownAttempt,
      handler: call.handler,
    }
    if (redactor === null) return logTo((level, fields, message) => reports.log(level, fields, message), own)
    return logTo(
      (level, fields, message) =>
        reports.log(level, redactor.fields(fields), message && redactor.clean(message)),
      own,
    )
  }
}
