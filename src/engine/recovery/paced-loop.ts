import type { Log } from "../../log.ts"
import type { Clock } from "../clock.ts"

/** The interval after the first full page, in ms, and the factors by which it changes. */
const FIRST_MS = 100
const SHORTER = 0.9
const LONGER = 1.1
/** The share of the time that steps may take, and after how long of nothing but full pages they may take all of it. */
const SHARE = 0.25
const WHOLE_AFTER_MS = 5 * 60_000
/** How fast pages grow where pauses cannot become shorter, and shrink again. */
const LARGER = 1.05
const SMALLER = 0.95
const RETRY_MS = 60_000

export interface PacedLoopParts {
  readonly clock: Clock
  /** Removes one page, `scale` times as large as usual, and resolves with whether it was full: there may be more. */
  readonly step: (scale: number) => Promise<boolean>
  readonly maxScale: number
  /** The interval while there is nothing to do. */
  readonly idleMs: number
  /** The steps read all rows of a kind, also those that stay: a full page is no sign that there is more to remove. */
  readonly isWalk?: boolean
  readonly log: Log
}

/**
 * Repeats a step that removes one page of rows, so that rows are removed as evenly as they come, and never in bursts.
 *
 * 1. The interval follows the work: shorter after a full page, longer after one that was not. So pages are nearly full at
 *    any rate, and `idleMs` apart when there is nothing to do.
 * 2. A backlog does not displace other work: steps take at most a quarter of the time. If that is not enough to keep pace,
 *    pages grow, and the share rises, within five minutes to all of the time; both fall again in the same way.
 * 3. A walk over all rows takes a quarter of the time until it has read them, and begins again `idleMs` later.
 */
export class PacedLoop {
  readonly #parts: PacedLoopParts
  #cancel = () => {}
  #running: Promise<void> | null = null
  #isStopped = false
  #intervalMs: number
  /** How long pages have been full, less how long they have not. */
  #behindMs = 0
  #scale = 1
  #lastAt: number

  constructor(parts: PacedLoopParts) {
    this.#parts = parts
    this.#intervalMs = parts.idleMs
    this.#lastAt = parts.clock.now()
  }

  /** The next step runs now, or after the one that is running. */
  soon(): void {
    if (this.#running === null) this.#schedule(0)
    else void this.#running.then(() => this.#schedule(0))
  }

  stop(): void {
    this.#isStopped = true
    this.#cancel()
  }

  #schedule(ms: number): void {
    this.#cancel()
    if (this.#isStopped) return
    this.#cancel = this.#parts.clock.after(ms, () => {
      this.#running = Promise.resolve()
        .then(() => this.#run())
        .then(pauseMs => {
          this.#running = null
          this.#schedule(pauseMs)
        })
    })
  }

  /** Returns the pause before the next step. */
  async #run(): Promise<number> {
    const { clock, step, idleMs, log } = this.#parts
    const begun = clock.now()
    try {
      const isFull = await step(this.#scale)
      return this.#pause(isFull, begun)
    } catch (error) {
      log.warn({ error: String(error) }, "could not remove old rows; retrying later")
      return Math.min(idleMs, RETRY_MS)
    }
  }

  #pause(isFull: boolean, begun: number): number {
    const now = this.#parts.clock.now()
    const sinceLast = now - this.#lastAt
    this.#lastAt = now
    const behindMs = this.#behindMs + (isFull ? sinceLast : -sinceLast)
    const { idleMs, isWalk = false } = this.#parts
    this.#behindMs = isWalk ? 0 : Math.min(Math.max(behindMs, 0), WHOLE_AFTER_MS)
    if (!isFull) {
      this.#intervalMs = isWalk ? idleMs : Math.min(this.#intervalMs * LONGER, idleMs)
      this.#scale = Math.max(this.#scale * SMALLER, 1)
      return this.#intervalMs
    }
    const tookMs = Math.max(now - begun, 1)
    const share = SHARE + (1 - SHARE) * (this.#behindMs / WHOLE_AFTER_MS)
    this.#intervalMs = Math.max(Math.min(this.#intervalMs, FIRST_MS) * SHORTER, 1)
    const shortestMs = tookMs * (1 / share - 1)
    if (this.#intervalMs < shortestMs) this.#scale = Math.min(this.#scale * LARGER, this.#parts.maxScale)
    return Math.max(this.#intervalMs, shortestMs)
  }
}
