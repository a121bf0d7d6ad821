import { JournalDataError } from "../../journal/errors.ts"
import type { AppendResult, Journal } from "../../journal/port/journal.ts"
import { retryDelayMs } from "../../journal/retry.ts"
import type { Log } from "../../log.ts"
import type { Clock } from "../clock.ts"
import type { EngineMetrics } from "../metrics.ts"
import { type ClosedBatch, filtered } from "./batch.ts"

/**
 * Appends one batch to the store.
 *
 * 1. An append whose outcome is unknown is sent again, unchanged, until the outcome is known.
 * 2. The facts that the database rejects are found by trial; the rest is appended whole: seq order stays commit order.
 */
export interface AppendSenderParts {
  readonly journal: Journal
  readonly clock: Clock
  readonly store: Availability
  readonly metrics: EngineMetrics
}

/** Receives reports on whether the store can be reached. */
export interface Availability {
  unavailable(error: unknown, tries: number): void
  available(): void
}

export class AppendSender {
  readonly #parts: AppendSenderParts
  #stopped = false
  #endPause = () => {}

  constructor(parts: AppendSenderParts) {
    this.#parts = parts
  }

  async send(stored: ClosedBatch): Promise<AppendOutcome> {
    const { facts, changedJobs, answers, messages, schedules = [] } = stored
    if ([facts, changedJobs, answers, messages, schedules].every(({ length }) => length === 0))
      return { held: new Set(stored.fences.map(fence => fence.partition)), refused: [] }
    try {
      const { held } = await this.#untilOutcomeKnown(() => this.#append(stored))
      return { held, refused: [] }
    } catch (error) {
      if (isDataError(error)) return this.#sendWithoutRefused(stored, error)
      throw error
    }
  }

  async #append(stored: ClosedBatch): Promise<AppendResult> {
    const { journal, metrics } = this.#parts
    const begun = performance.now()
    const result = await journal.append(stored)
    metrics.appendSeconds.add((performance.now() - begun) / 1000)
    metrics.appendFacts.add(stored.facts.length)
    return result
  }

  /** Retries until the store answers. A data error is an answer. */
  async #untilOutcomeKnown<T>(ask: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        const answer = await ask()
        if (tries > 1) this.#parts.store.available()
        return answer
      } catch (error) {
        if (isDataError(error) || this.#stopped) throw error
        this.#parts.store.unavailable(error, tries)
        await this.#pause(retryDelayMs(this.#parts.journal.capabilities.retry, tries))
        if (this.#stopped) throw error
      }
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise(resolve => {
      const cancel = this.#parts.clock.after(ms, resolve)
      this.#endPause = () => {
        cancel()
        resolve()
      }
    })
  }

  /** A data error fails only the jobs and the schedules it belongs to. */
  async #sendWithoutRefused(stored: ClosedBatch, error: unknown): Promise<AppendOutcome> {
    const found = await this.#findRefused(stored, error)
    const refused = [...found, ...found.flatMap(one => startedBy(stored, one))]
    const ids = new Set(refused.map(({ jobId }) => jobId))
    const { held, refused: more } = await this.send(filtered(stored, jobId => !ids.has(jobId)))
    return { held, refused: [...refused, ...more] }
  }

  /** Bisects, trying each half without storing it. Jobs that are rejected only in combination are all given up. */
  async #findRefused(stored: ClosedBatch, error: unknown): Promise<Refused[]> {
    const ids = collectIds(stored)
    if (ids.length <= 1) return ids.map(jobId => ({ jobId, error }))
    const half = new Set(ids.slice(0, ids.length >> 1))
    const halves = [filtered(stored, id => half.has(id)), filtered(stored, id => !half.has(id))]
    const refused: Refused[] = []
    for (const part of halves) {
      const reason = await this.#untilOutcomeKnown(() => this.#tryAppend(part))
      if (reason !== null) refused.push(...(await this.#findRefused(part, reason)))
    }
    return refused.length > 0 ? refused : ids.map(jobId => ({ jobId, error }))
  }

  /** null: the database would accept it. */
  async #tryAppend(stored: ClosedBatch): Promise<unknown> {
    try {
      await this.#parts.journal.tryAppend(stored)
      return null
    } catch (error) {
      if (isDataError(error)) return error
      throw error
    }
  }

  /** Stops retrying appends that fail. */
  stop(): void {
    this.#stopped = true
    this.#endPause()
  }

  /** Another lane reached the store: retry now. */
  retryNow(): void {
    this.#endPause()
  }
}

/** The jobs and schedules of the batch. Never empty for a batch with rows: `send` would repeat it for ever. */
function collectIds({ facts, answers, schedules = [], changedJobs, messages }: ClosedBatch): string[] {
  const ids = new Set([...facts, ...answers].map(row => row.jobId))
  for (const { id } of schedules) ids.add(id)
  if (ids.size > 0) return [...ids]
  return [...new Set([...changedJobs.map(({ id }) => id), ...messages.map(({ jobId }) => jobId)])]
}

/** A job does not exist without the tick that starts it. */
function startedBy({ fires = [] }: ClosedBatch, { jobId: scheduleId, error }: Refused): Refused[] {
  return fires.flatMap(fire =>
    fire.scheduleId === scheduleId && fire.jobId !== null ? [{ jobId: fire.jobId, error }] : [],
  )
}

/** A statement that cannot be built fails the same way every time: the database is not unavailable. */
export function isDataError(error: unknown): error is Error {
  return error instanceof JournalDataError || error instanceof TypeError || error instanceof RangeError
}

interface Refused {
  /** Or the id of a schedule, whose ticks are refused. */
  readonly jobId: string
  readonly error: unknown
}

export interface AppendOutcome {
  readonly held: ReadonlySet<number>
  readonly refused: readonly Refused[]
}

/** Logs and reports when appends fail because the store is unavailable, and when they succeed again. */
export class StoreHealth implements Availability {
  readonly #log: Log
  readonly #triesBeforePause: number
  /** False: the engine has paused. */
  isAvailable = true
  #waiters: (() => void)[] = []

  constructor(log: Log, triesBeforePause: number) {
    this.#log = log
    this.#triesBeforePause = triesBeforePause
  }

  unavailable(error: unknown, tries: number): void {
    if (tries === this.#triesBeforePause) {
      this.isAvailable = false
      for (const wake of this.#waiters.splice(0)) wake()
    }
    const { message, cause } = error instanceof Error ? error : new Error(String(error))
    // A driver may reject with a plain object, whose message the wrapping error does not repeat.
    const { message: reason } = (cause ?? {}) as { readonly message?: unknown }
    this.#log.warn(
      { tries, error: message, ...(typeof reason === "string" ? { cause: reason } : {}) },
      tries >= this.#triesBeforePause
        ? "database unavailable: engine paused, results are kept"
        : "append failed; retrying",
    )
  }

  async whenUnavailable(): Promise<void> {
    if (this.isAvailable) await new Promise<void>(resolve => this.#waiters.push(resolve))
  }

  available(): void {
    this.#log.info({}, "database available again: engine resumes")
    this.isAvailable = true
  }
}
