/**
 * An attempt that did not end at once: its deadlines, its abort, its one end.
 *
 *   running ──timeout──► timed out ──grace──► given up: fails with E402
 *      │                     └── ends within the grace: an output counts, an error is the timeout
 *      └──abort──► aborted ──ends, or grace──► ended(null)
 *
 * 1. `ended` is called exactly once, at the latest a grace after the abort signal; a late return is dropped.
 * 2. Work that cannot be killed (a function of this process) goes on without a slot; a thread is terminated.
 */
import type { AttemptEvents, RunningAttempt } from "../broker/local.ts"
import type { Outcome } from "../broker/port.ts"
import type { Fault } from "../core/faults.ts"
import type { JsonObject } from "../core/json.ts"
import type { Deadline, Deadlines } from "./deadlines.ts"

/** Work under way, wherever it runs. */
export interface Work {
  /** Never rejects. */
  readonly outcome: Promise<Outcome>
  abort(reason: Error): void
  /** What it has reported to have used so far; undefined: nothing. */
  used(): JsonObject | undefined
  /** Ends it for good if that is possible. */
  kill(): void
}

export interface AttemptOptions {
  readonly work: Work
  readonly events: AttemptEvents
  readonly deadlines: Deadlines
  readonly startedAfterMs: number
  readonly timeoutMs: number
  readonly graceMs: number
  /** The timeout as the handler's rule wants it. */
  readonly timeoutFault: (fault: Fault) => Fault
}

export class Attempt implements RunningAttempt, Deadline {
  tick = 0
  readonly #options: AttemptOptions
  readonly #begun: number
  #stage: "running" | "timed out" | "aborted" | "ended" = "running"
  #reported = false
  #giveUpAt = Number.POSITIVE_INFINITY

  constructor(options: AttemptOptions) {
    this.#options = options
    this.#begun = options.deadlines.now()
    options.work.outcome.then(outcome => this.#end(outcome))
    this.#setDeadline()
  }

  abort(reason: string): void {
    if (this.#stage === "ended" || this.#stage === "aborted") return
    this.#stage = "aborted"
    this.#signal(new DOMException(reason, "AbortError"))
  }

  due(): void {
    const { deadlines, startedAfterMs, timeoutMs, events } = this.#options
    const now = deadlines.now()
    if (now >= this.#giveUpAt) {
      this.#options.work.kill()
      this.#end(null)
      return
    }
    if (!this.#reported && now >= this.#begun + startedAfterMs) {
      this.#reported = true
      if (this.#stage === "running") events.started()
    }
    if (this.#stage === "running" && now >= this.#begun + timeoutMs) this.#timeOut()
    else this.#setDeadline()
  }

  #timeOut(): void {
    this.#stage = "timed out"
    this.#signal(
      new DOMException(`The attempt took longer than ${this.#options.timeoutMs / 1000} s.`, "TimeoutError"),
    )
  }

  #signal(reason: Error): void {
    const { deadlines, graceMs, work } = this.#options
    this.#giveUpAt = Math.min(this.#giveUpAt, deadlines.now() + graceMs)
    this.#setDeadline()
    work.abort(reason)
  }

  #setDeadline(): void {
    const { startedAfterMs, timeoutMs, deadlines } = this.#options
    const started = this.#reported ? Number.POSITIVE_INFINITY : this.#begun + startedAfterMs
    const timeout = this.#stage === "running" ? this.#begun + timeoutMs : Number.POSITIVE_INFINITY
    const next = Math.min(started, timeout, this.#giveUpAt)
    if (next < Number.POSITIVE_INFINITY) deadlines.set(this, next)
  }

  /** `null`: it was given up. */
  #end(outcome: Outcome | null): void {
    const { stage, options } = { stage: this.#stage, options: this.#options }
    if (stage === "ended") return
    this.#stage = "ended"
    options.deadlines.clear(this)
    if (stage === "aborted") options.events.ended(null)
    else if (outcome === null || (stage === "timed out" && outcome.type === "failed")) {
      const fault = options.timeoutFault(timeoutFault(options.timeoutMs))
      const usage = outcome?.usage ?? options.work.used()
      options.events.ended({ type: "failed", fault, ...(usage === undefined ? {} : { usage }) })
    } else options.events.ended(outcome)
  }
}

function timeoutFault(timeoutMs: number): Fault {
  const message =
    `The attempt took longer than ${timeoutMs / 1000} s and was aborted. ` +
    "Raise timeout_seconds of the node, or make its work smaller."
  return { code: "E402", message, retryable: true, details: { timeout_seconds: timeoutMs / 1000 } }
}
