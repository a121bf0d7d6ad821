import type { Clock } from "../engine/clock.ts"

export interface VirtualClockOptions {
  /** Milliseconds since 1970. */
  readonly start?: number
  /** The same seed gives the same random numbers. */
  readonly seed?: number
}

interface Timer {
  readonly at: number
  readonly order: number
  readonly fire: () => void
}

/**
 * A clock that only the test moves: retries, sleeps and expiry of days take no time.
 *
 * 1. Timers fire in the order of their times; timers of the same time in the order in which they were set.
 * 2. While a timer fires, `now` is its time, even if one call advances past many.
 */
export class VirtualClock implements Clock {
  #now: number
  #state: number
  #order = 0
  readonly #timers = new Set<Timer>()

  constructor(options: VirtualClockOptions = {}) {
    this.#now = options.start ?? Date.UTC(2030, 0, 1)
    this.#state = (options.seed ?? 1) >>> 0
  }

  now(): number {
    return this.#now
  }

  /** mulberry32: small, and good enough for jitter. */
  random(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  after(ms: number, fire: () => void): () => void {
    const timer = { at: this.#now + Math.max(ms, 0), order: this.#order++, fire }
    this.#timers.add(timer)
    return () => void this.#timers.delete(timer)
  }

  /** When the next timer fires; null: there is none. */
  get next(): number | null {
    return this.#earliest()?.at ?? null
  }

  /** Advances the time and fires due timers, including new ones. */
  advance(ms: number): void {
    const until = this.#now + ms
    for (let timer = this.#earliest(); timer !== null && timer.at <= until; timer = this.#earliest()) {
      this.#timers.delete(timer)
      this.#now = Math.max(this.#now, timer.at)
      timer.fire()
    }
    this.#now = until
  }

  #earliest(): Timer | null {
    let earliest: Timer | null = null
    for (const timer of this.#timers)
      if (
        earliest === null ||
        timer.at < earliest.at ||
        (timer.at === earliest.at && timer.order < earliest.order)
      )
        earliest = timer
    return earliest
  }
}
