/** A circuit breaker: calls that keep failing are not made for a while. Pure: the time is an argument. */
export interface BreakerPolicy {
  readonly failureRate: number
  readonly minCalls: number
  readonly windowSeconds: number
  readonly openSeconds: number
  readonly trialCalls: number
}

export type BreakerState = "closed" | "open" | "half_open"

/** The window is divided into parts: results leave it a tenth at a time. */
const PARTS = 10

export class Breaker {
  readonly #policy: BreakerPolicy
  #state: BreakerState = "closed"
  #openUntil = 0
  /** Trial calls: begun, and succeeded; and when the last was begun. */
  #trials = 0
  #successes = 0
  #trialAt = 0
  /** Rises with every change of state: calls that were begun before a change do not count. */
  #life = 1
  readonly #calls = new Float64Array(PARTS)
  readonly #failures = new Float64Array(PARTS)
  /** Number of the part that is being filled. */
  #part = 0

  constructor(policy: BreakerPolicy) {
    this.#policy = policy
  }

  /** An open breaker becomes half open by time alone. */
  state(now: number): BreakerState {
    return this.#state === "open" && now >= this.#openUntil ? "half_open" : this.#state
  }

  /** When a call may be made; a time in the past: now. */
  mayCallAt(now: number): number {
    if (this.#state === "closed") return 0
    if (this.#state === "open") return now < this.#openUntil ? this.#openUntil : 0
    // A trial call without a result is waited for no longer than the breaker was open.
    return this.#trials < this.#policy.trialCalls ? 0 : this.#trialAt + this.#policy.openSeconds * 1000
  }

  /** Only when a call may be made. Returns the id of the call for `ended`. */
  begin(now: number): number {
    if (this.state(now) !== "half_open") return this.#life
    if (this.#state === "open") this.#become("half_open")
    else if (this.#trials >= this.#policy.trialCalls) this.#trials = this.#successes
    this.#trials += 1
    this.#trialAt = now
    return this.#life
  }

  /** The call was not made after all, or its result is unknown. */
  forget(call: number): void {
    if (call === this.#life && this.#state === "half_open" && this.#trials > this.#successes)
      this.#trials -= 1
  }

  /** Returns the new state, if this changed it. */
  ended(call: number, isFailure: boolean, now: number): BreakerState | null {
    if (call !== this.#life || this.#state === "open") return null
    if (this.#state === "half_open") return this.#trialEnded(isFailure, now)
    this.#count(isFailure, now)
    const { calls, failures } = this.#inWindow()
    const { minCalls, failureRate } = this.#policy
    return isFailure && calls >= minCalls && failures >= failureRate * calls ? this.#open(now) : null
  }

  #trialEnded(isFailure: boolean, now: number): BreakerState | null {
    if (isFailure) return this.#open(now)
    this.#successes += 1
    return this.#successes >= this.#policy.trialCalls ? this.#become("closed") : null
  }

  #open(now: number): BreakerState {
    this.#openUntil = now + this.#policy.openSeconds * 1000
    return this.#become("open")
  }

  #become(state: BreakerState): BreakerState {
    this.#state = state
    this.#life += 1
    this.#trials = 0
    this.#successes = 0
    this.#calls.fill(0)
    this.#failures.fill(0)
    return state
  }

  #count(isFailure: boolean, now: number): void {
    const part = Math.floor((now * PARTS) / (this.#policy.windowSeconds * 1000))
    const passed = Math.min(part - this.#part, PARTS)
    for (let i = 1; i <= passed; i++) {
      this.#calls[(this.#part + i) % PARTS] = 0
      this.#failures[(this.#part + i) % PARTS] = 0
    }
    if (passed > 0) this.#part = part
    this.#calls[this.#part % PARTS]! += 1
    if (isFailure) this.#failures[this.#part % PARTS]! += 1
  }

  #inWindow(): { readonly calls: number; readonly failures: number } {
    let calls = 0
    let failures = 0
    for (let i = 0; i < PARTS; i++) {
      calls += this.#calls[i]!
      failures += this.#failures[i]!
    }
    return { calls, failures }
  }
}
