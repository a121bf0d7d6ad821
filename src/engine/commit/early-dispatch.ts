/**
 * A node that only computes does not wait until the fact that made it ready is durable: if the process dies in between,
 * the node has had no visible effect. Its output joins the same commit, so glue between nodes costs no commit of its own.
 *
 * Early nodes must not outrun the store: at most this many begin early in a turn of the event loop, the others wait for
 * their commit like every other node. Their share of the turn is bounded as for all nodes (`time-slices.ts`).
 */
const MAX_PER_TURN = 500

export class EarlyDispatch {
  #taken = 0

  /** Takes one of the early dispatches of this turn of the event loop; false: none is left. */
  take(): boolean {
    if (this.#taken >= MAX_PER_TURN) return false
    if (this.#taken++ === 0)
      setImmediate(() => {
        this.#taken = 0
      })
    return true
  }
}
