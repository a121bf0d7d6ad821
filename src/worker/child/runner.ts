/**
 * Runs the attempts of a user's handlers in a child process that can be replaced while the engine continues.
 *
 * 1. After a replacement new attempts run in the new process. Those in flight get a moment to end; then their handlers are
 *    aborted, and the engine dispatches them again: nothing is lost, and no try is spent (`returned`).
 * 2. An attempt is returned only when its run in the old process is over: its end was reported, or the process has ended. So
 *    two runs of one attempt never overlap.
 * 3. A process that ends by itself ends its attempts with a retryable fault, as a thread does.
 */

import type { Task } from "../../broker/port.ts"
import type { AttemptEvents, Runner, RunningAttempt } from "../../broker/runner.ts"
import type { JsonObject } from "../../core/json.ts"
import type { AttemptMessage, HandlerProcess } from "./process.ts"

/** Time for attempts in flight to end by themselves, and then for aborted handlers to clean up. */
const DRAIN_MS = 500
const CLEAN_UP_MS = 1000
/** A handler that blocks its event loop does not see the abort signal: its process is ended. */
const ABORT_MS = 10_000

interface Attempt {
  readonly id: number
  readonly task: Task
  readonly events: AttemptEvents
  /** null: no process has the handler yet. */
  process: HandlerProcess | null
  isAborted: boolean
  /** It is to be dispatched again when its run is over. */
  isMoving: boolean
  usage: JsonObject | undefined
}

export class ChildRunner implements Runner {
  readonly #own: Runner
  readonly #attempts = new Map<number, Attempt>()
  /** All names that a process has had: nodes of a handler that is gone wait until it is back. */
  readonly #names = new Set<string>()
  readonly #processes = new Set<HandlerProcess>()
  /** Called when an attempt or a process has ended. */
  readonly #endListeners = new Set<() => void>()
  #current: HandlerProcess | null = null
  #nextId = 0
  #isClosed = false

  /** `own`: runs built-in handlers. */
  constructor(own: Runner) {
    this.#own = own
  }

  /** Resolves when the process before it has ended, with the number of attempts that were handed over to this one. */
  async use(next: HandlerProcess): Promise<number> {
    const old = this.#current
    this.#current = next
    this.#processes.add(next)
    next.onLines = rows => this.#own.logged?.(rows)
    next.onAttempt = message => this.#receive(message)
    next.ended.then(how => this.#lost(next, how))
    for (const name of next.handlers.keys()) this.#names.add(name)
    for (const attempt of this.#attempts.values()) if (attempt.process === null) this.#send(attempt)
    return old === null ? 0 : this.#retire(old)
  }

  runs(handler: string): boolean {
    return this.#names.has(handler) || this.#own.runs(handler)
  }

  isPure(handler: string): boolean {
    return !this.#names.has(handler) && this.#own.isPure(handler)
  }

  limits(handler: string): ReturnType<Runner["limits"]> {
    return this.#current?.handlers.get(handler)?.limits ?? this.#own.limits(handler)
  }

  now(): number {
    return this.#own.now?.() ?? 0
  }

  start(task: Task, events: AttemptEvents): RunningAttempt {
    if (!this.#names.has(task.handler)) return this.#own.start(task, events)
    const attempt: Attempt = {
      ...{ id: this.#nextId++, task, events, process: null, usage: undefined },
      ...{ isAborted: false, isMoving: false },
    }
    this.#attempts.set(attempt.id, attempt)
    this.#send(attempt)
    return { isLoading: true, abort: reason => this.#abort(attempt, reason), used: () => attempt.usage }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#processes].map(process => process.kill()))
    await this.#own.close()
  }

  #send(attempt: Attempt): void {
    const process = this.#current
    if (process === null || !process.handlers.has(attempt.task.handler)) return
    attempt.process = process
    const { parents, ...task } = attempt.task
    process.send({ type: "run", id: attempt.id, task, parents: parents() })
  }

  #abort(attempt: Attempt, reason: string): void {
    attempt.isAborted = true
    const { id, process } = attempt
    if (process === null) {
      this.#end(attempt, () => attempt.events.ended(null))
      return
    }
    process.send({ type: "abort", id, reason })
    setTimeout(() => {
      if (this.#attempts.has(id)) void process.kill()
    }, ABORT_MS).unref()
  }

  #receive(message: AttemptMessage): void {
    const attempt = this.#attempts.get(message.id)
    if (attempt === undefined) return
    const { events } = attempt
    if ("usage" in message) attempt.usage = message.usage ?? attempt.usage
    if (message.type === "begun") events.begun()
    else if (message.type === "started") events.started()
    else if (message.type === "progress") events.progress(message.progress)
    else if (message.type === "preview") events.preview(message.data)
    else if (message.type === "ask") void this.#ask(attempt, message)
    else if (message.type === "place") {
      const placed = () => attempt.process?.send({ type: "placed", id: attempt.id })
      events.place().then(placed, () => {})
    } else if (message.type === "ended") {
      const { outcome, logged } = message
      const isReturned = outcome === null && attempt.isMoving && !attempt.isAborted
      this.#end(attempt, () => (isReturned ? events.returned?.() : events.ended(outcome, undefined, logged)))
    }
  }

  async #ask(
    { id, events, process }: Attempt,
    { number, question }: Extract<AttemptMessage, { type: "ask" }>,
  ): Promise<void> {
    const answer = (await events.ask?.(question).catch(() => null)) ?? null
    process?.send({ type: "answer", id, number, answer })
  }

  #end(attempt: Attempt, report: () => void): void {
    this.#attempts.delete(attempt.id)
    for (const listener of this.#endListeners) listener()
    report()
  }

  #of(process: HandlerProcess): Attempt[] {
    return [...this.#attempts.values()].filter(attempt => attempt.process === process)
  }

  /** Attempts whose handler the new process does not have end in the old one. */
  async #retire(old: HandlerProcess): Promise<number> {
    await this.#untilEnd(() => this.#of(old).length === 0, DRAIN_MS)
    const moving = this.#of(old).filter(({ task }) => this.#current?.handlers.has(task.handler))
    for (const attempt of moving) {
      attempt.isMoving = true
      old.send({ type: "abort", id: attempt.id, reason: "The code of the handler has changed." })
    }
    await this.#untilEnd(() => this.#of(old).every(({ isMoving }) => !isMoving), CLEAN_UP_MS)
    // Without a bound: attempts that do not move have no other process.
    if (!this.#of(old).every(({ isMoving }) => isMoving))
      await this.#untilEnd(() => this.#of(old).length === 0 || !old.isAlive)
    await old.kill()
    return moving.length
  }

  /** Resolves when the condition holds, at the latest after `ms`. Only the end of an attempt or of a process can change it. */
  async #untilEnd(condition: () => boolean, ms?: number): Promise<void> {
    if (condition()) return
    await new Promise<void>(resolve => {
      const end = () => {
        clearTimeout(timer)
        this.#endListeners.delete(check)
        resolve()
      }
      const check = () => {
        if (condition()) end()
      }
      const timer = ms === undefined ? undefined : setTimeout(end, ms)
      this.#endListeners.add(check)
    })
  }

  #lost(process: HandlerProcess, how: string): void {
    this.#processes.delete(process)
    const wasCurrent = this.#current === process
    if (wasCurrent) this.#current = null
    for (const listener of this.#endListeners) listener()
    const message = `The process that ran the handler ended: ${how}.`
    const fault = { code: "E415", message, retryable: true }
    for (const attempt of this.#of(process)) {
      const { events, isMoving, isAborted, usage } = attempt
      this.#end(attempt, () => {
        if (isAborted || this.#isClosed) events.ended(null)
        else if (isMoving) events.returned?.()
        else events.ended({ type: "failed", fault, usage })
      })
    }
  }
}
