/**
 * Group commit of one execution: while one commit is on its way the next collects.
 *
 * 1. One at a time, in order. A commit whose outcome is unknown is sent again, unchanged, until it is known.
 * 2. Nobody acts on what is not durable.
 */
import { JournalUnavailableError } from "../../journal/errors.ts"
import type { PipelineCommit, PipelineStore } from "../../journal/port/pipelines.ts"
import { type RetryFigures, retryDelayMs } from "../../journal/retry.ts"

export interface CommitEvents {
  /** Takes what has collected; null: there is nothing. */
  collect(): PipelineCommit | null
  durable(commit: PipelineCommit): void
  /** Somebody else has the partition. */
  fenced(): void
  /** The store will never take it. */
  refused(error: unknown): void
}

export interface CommitsParts {
  readonly store: PipelineStore
  readonly retry: RetryFigures
  readonly after: (ms: number, fire: () => void) => () => void
  readonly events: CommitEvents
}

export class CommitLoop {
  readonly #parts: CommitsParts
  #isScheduled = false
  #flight: Promise<void> | null = null
  #isStopped = false

  constructor(parts: CommitsParts) {
    this.#parts = parts
  }

  /** There is something to collect. */
  schedule(): void {
    if (this.#isScheduled || this.#flight !== null || this.#isStopped) return
    this.#isScheduled = true
    // Not now: whatever else this turn of the loop brings joins the same commit.
    setImmediate(() => {
      this.#isScheduled = false
      this.#fly()
    })
  }

  /** Resolves when all that could be collected is durable, or cannot be. */
  async idle(): Promise<void> {
    while (this.#isScheduled || this.#flight !== null) {
      if (this.#flight !== null) await this.#flight
      else await new Promise<void>(resolve => setImmediate(resolve))
    }
  }

  /** Begins no further commit. Resolves when the outcome of the one on its way is known. */
  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#flight
  }

  #fly(): void {
    if (this.#flight !== null || this.#isStopped) return
    const commit = this.#parts.events.collect()
    if (commit === null) return
    this.#flight = this.#bring(commit).finally(() => {
      this.#flight = null
      this.schedule()
    })
  }

  async #bring(commit: PipelineCommit): Promise<void> {
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
