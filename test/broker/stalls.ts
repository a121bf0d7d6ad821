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

const TICK_MS = 20
