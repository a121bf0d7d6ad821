/**
 * A node that only computes need not wait until the fact that made it ready is durable: whoever dies in between has
 * done nothing that anybody saw. What it gives joins the same commit, so glue between nodes costs no commit of its own.
 *
 * It must not run away from the store: so many begin early in a turn of the event loop, the others wait for their commit
 * like every other node. How much of the turn they take is bounded as for all nodes (`time-slices.ts`).
 */
const MOST_PER_TURN = 500

export class EarlyDispatch {
  #taken = 0

  /** May one more begin in this turn of the event loop? */
  take(): boolean {
    if (this.#taken >= MOST_PER_TURN) return false
    if (this.#taken++ === 0)
      setImmediate(() => {
        this.#taken = 0
      })
    return true
  }
}
