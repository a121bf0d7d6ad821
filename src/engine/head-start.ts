import type { Clock } from "./clock.ts"

/**
 * A node that only computes need not wait until the fact that made it ready is durable: whoever dies in between has
 * done nothing that anybody saw. What it gives joins the same commit, so glue between nodes costs no commit of its own.
 *
 * It must not run away from the store, nor keep the event loop to itself: a long chain takes a head start of some
 * milliseconds per turn of the loop, and then waits for its commit like every other node.
 */
const MOST_PER_TURN = 500
const TURN_MS = 5

export class HeadStart {
  readonly #clock: Clock
  #taken = 0
  #since = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** May one more begin in this turn of the event loop? */
  take(): boolean {
    if (this.#taken === 0) {
      this.#since = this.#clock.now()
      setImmediate(() => {
        this.#taken = 0
      })
    }
    if (this.#taken >= MOST_PER_TURN || this.#clock.now() - this.#since > TURN_MS) return false
    this.#taken++
    return true
  }
}
