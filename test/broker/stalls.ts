/**
 * For how long this process or a service stood still, for tests that compare times: what a machine with much else to do
 * adds to a delay is measured and allowed for, so that the bound itself need not be loosened.
 */
export class Stalls {
  readonly #found: { readonly at: number; readonly ms: number }[] = []
  readonly #timer: NodeJS.Timeout
  #last = performance.now()
  #isAsking = false

  /** `ask`: of a service that is part of the delay. */
  constructor(ask: () => Promise<unknown>) {
    this.#timer = setInterval(() => {
      const now = performance.now()
      this.#note(now, now - this.#last - TICK_MS)
      this.#last = now
      if (this.#isAsking) return
      this.#isAsking = true
      const answered = () => {
        this.#isAsking = false
        this.#note(performance.now(), performance.now() - now)
      }
      // A test that fails closes the connection while a question is in flight.
      void ask().then(answered, answered)
    }, TICK_MS)
  }

  /** Their sum. */
  between(from: number, to: number): number {
    const found = this.#found.filter(({ at, ms }) => at >= from && at - ms <= to)
    return found.reduce((sum, { ms }) => sum + ms, 0)
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #note(at: number, ms: number): void {
    if (ms > TICK_MS) this.#found.push({ at, ms })
  }
}

/**
 * A clock for bounds of time, which a slow machine slows down too: each tick is a timer of this process, then an answer of a
 * service that is part of what is timed. On an idle machine it runs like any other clock, a little behind.
 */
export class TickClock {
  ms = 0
  #isStopped = false

  constructor(ask: () => Promise<unknown>) {
    void this.#run(ask)
  }

  stop(): void {
    this.#isStopped = true
  }

  async #run(ask: () => Promise<unknown>): Promise<void> {
    while (!this.#isStopped) {
      await new Promise(resolve => setTimeout(resolve, TICK_MS))
      await ask().catch(() => {})
      this.ms += TICK_MS
    }
  }
}

const TICK_MS = 20
