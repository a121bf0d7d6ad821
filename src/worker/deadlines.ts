/**
 * One timer for the deadlines of all running attempts. A `setTimeout` per attempt costs more than an empty
 * attempt, and nearly every one would be cleared unused. Deadlines are precise to `tickMs`; the timer runs
 * only while there are any.
 */
export interface Deadline {
  /** Maintained by `Deadlines`: the tick it waits for. */
  tick: number
  due(): void
}

const tickMs = 20

export class Deadlines {
  readonly #ticks = new Map<number, Set<Deadline>>()
  #timer: NodeJS.Timeout | undefined
  #last = 0

  /** Milliseconds of a monotonic clock. */
  now(): number {
    return performance.now()
  }

  /** Replaces an earlier deadline. */
  set(deadline: Deadline, at: number): void {
    this.clear(deadline)
    if (this.#timer === undefined) this.#begin()
    const tick = Math.max(this.#last + 1, Math.ceil(at / tickMs))
    const set = this.#ticks.get(tick)
    if (set === undefined) this.#ticks.set(tick, new Set([deadline]))
    else set.add(deadline)
    deadline.tick = tick
  }

  clear(deadline: Deadline): void {
    if (deadline.tick === 0) return
    const set = this.#ticks.get(deadline.tick)
    deadline.tick = 0
    set?.delete(deadline)
  }

  #begin(): void {
    this.#last = Math.floor(this.now() / tickMs)
    this.#timer = setInterval(() => this.#pass(), tickMs)
  }

  #pass(): void {
    const current = Math.floor(this.now() / tickMs)
    while (this.#last < current) {
      this.#last += 1
      const set = this.#ticks.get(this.#last)
      if (set === undefined) continue
      this.#ticks.delete(this.#last)
      for (const deadline of set) {
        deadline.tick = 0
        deadline.due()
      }
    }
    for (const [tick, set] of this.#ticks) if (set.size === 0) this.#ticks.delete(tick)
    if (this.#ticks.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
