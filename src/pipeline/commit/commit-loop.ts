/**
 * Group commit of one execution: while one commit is in flight the next one collects.
 *
 * 1. One commit at a time, in order. A commit whose outcome is unknown is resent, unchanged, until its
 *    outcome is known.
 * 2. Nothing acts on data that is not durable.
 */
import { JournalUnavailableError } from "../../journal/errors.ts"
import type { PipelineCommit, PipelineStore } from "../../journal/port/pipelines.ts"
import { type RetryPolicy, retryDelayMs } from "../../journal/retry.ts"

export interface CommitEvents {
  /** Takes the endings that have been collected; null: there are none. */
  collect(): PipelineCommit | null
  durable(commit: PipelineCommit): void
  /** Another process owns the partition. */
  fenced(): void
  /** The store rejects the commit permanently. */
  refused(error: unknown): void
}

export interface CommitLoopParts {
  readonly store: PipelineStore
  readonly retry: RetryPolicy
  readonly after: (ms: number, fire: () => void) => () => void
  readonly events: CommitEvents
}

export class CommitLoop {
  readonly #parts: CommitLoopParts
  #isScheduled = false
  #inFlight: Promise<void> | null = null
  #isStopped = false

  constructor(parts: CommitLoopParts) {
    this.#parts = parts
  }

  /** There is something to collect. */
  schedule(): void {
    if (this.#isScheduled || this.#inFlight !== null || this.#isStopped) return
    this.#isScheduled = true
    // Deferred: everything else that this turn of the event loop brings joins the same commit.
    setImmediate(() => {
      this.#isScheduled = false
      this.#runLoop()
    })
  }

  /** Resolves when everything that could be collected is durable, or cannot be. */
  async idle(): Promise<void> {
    while (this.#isScheduled || this.#inFlight !== null) {
      if (this.#inFlight !== null) await this.#inFlight
      else await new Promise<void>(resolve => setImmediate(resolve))
    }
  }

  /** Starts no further commit. Resolves when the outcome of the commit in flight is known. */
  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#inFlight
  }

  #runLoop(): void {
    if (this.#inFlight !== null || this.#isStopped) return
    const commit = this.#parts.events.collect()
    if (commit === null) return
    this.#inFlight = this.#store(commit).finally(() => {
      this.#inFlight = null
      this.schedule()
    })
  }

  async #store(commit: PipelineCommit): Promise<void> {
    const { events } = this.#parts
    let isHeld: boolean
    try {
      isHeld = await this.#untilKnown(commit)
    } catch (error) {
      this.#isStopped = true
      events.refused(error)
      return
    }
    if (isHeld) events.durable(commit)
    else {
      this.#isStopped = true
      events.fenced()
    }
  }

  async #untilKnown(commit: PipelineCommit): Promise<boolean> {
    const { store, retry, after } = this.#parts
    for (let tries = 1; ; tries++) {
      try {
        return (await store.commit(commit)).isHeld
      } catch (error) {
        if (!(error instanceof JournalUnavailableError) || error.final) throw error
        await new Promise<void>(resolve => after(retryDelayMs(retry, tries), resolve))
      }
    }
  }
}
