/**
 * An attempt that did not end at once: its deadlines, its abort, its one end.
 *
 *   running ──timeout───────────► timed out ──grace──► given up: fails with E402
 *      ├─────no heartbeat───────► silent ─────grace──► given up: fails with E418
 *      │                            └── ends within the grace period: an output counts, an error becomes the
 *      │                                timeout (or the missed heartbeat)
 *      └─────abort──────────────► aborted ──ends, or grace──► ended(null)
 *
 * 1. `ended` is called exactly once, at the latest one grace period after the abort signal; a late return is
 *    dropped.
 * 2. A result that arrives later than timeout + grace after the beginning does not count. The clock decides,
 *    not the timer: a handler that blocks the event loop delays the timer as well.
 * 3. Work that cannot be killed (a function of this process) continues without a slot; a thread is terminated.
 */

import type { Outcome } from "../broker/port.ts"
import type { AttemptEvents, RunningAttempt } from "../broker/runner.ts"
import type { Fault } from "../core/faults.ts"
import type { JsonObject } from "../core/json.ts"

/** Work in progress, in this process or in a thread. */
export interface Work {
  /** Never rejects. */
  readonly outcome: Promise<Outcome>
  abort(reason: Error): void
  /** The usage that it has reported so far; undefined: none. */
  used(): JsonObject | undefined
  /** Terminates it if that is possible. */
  kill(): void
  /**
   * The handler has not begun: its module, or its secrets, are being loaded. `onBegun` is called when it
   * begins.
   */
  readonly isLoading?: boolean
  onBegun?: () => void
}

interface AttemptOptions {
  readonly work: Work
  readonly events: AttemptEvents
  /** Reports the end to `events`, and ends the span of the attempt. */
  readonly ended: AttemptEvents["ended"]
  readonly deadlines: Deadlines
  readonly startedAfterMs: number
  readonly limits: TimeLimits
  /** When the attempt began: before the synchronous part of the handler. */
  readonly begunAt: number
  /** When the handler last reported something; undefined: it has not. */
  readonly lastHeartbeat: () => number | undefined
  /** The longest time without a report for which the handler itself is known to be the cause. */
  readonly silentMs: (now: number, begun: number) => number
}

/** The time limits of an attempt. */
export interface TimeLimits {
  readonly timeoutMs: number
  readonly graceMs: number
  /** The longest time without a heartbeat; Infinity: none is expected. */
  readonly heartbeatMs: number
  /** Applies the handler's retry rule to the fault. */
  readonly fault: (fault: Fault) => Fault
}

/**
 * The outcome of an attempt that took this long: after the timeout an error becomes the timeout, after the
 * grace period everything does.
 */
export function outcomeInTime(
  outcome: Outcome | null,
  { ranMs, silentMs }: { readonly ranMs: number; readonly silentMs: number },
  limits: TimeLimits,
  usage = outcome?.usage,
): Outcome {
  const { timeoutMs, graceMs, heartbeatMs } = limits
  // A handler that blocked the event loop was not stopped in time; its result is still late.
  if (silentMs >= heartbeatMs + graceMs)
    return { type: "failed", fault: limits.fault(heartbeatFault(heartbeatMs)), usage }
  const limitMs = outcome?.type === "failed" ? timeoutMs : timeoutMs + graceMs
  if (outcome !== null && ranMs < limitMs) return outcome
  return { type: "failed", fault: limits.fault(timeoutFault(timeoutMs)), usage }
}

/** Callbacks that are due in the event loop run within this time. */
const lateHeartbeatMs = 20

export class Attempt implements RunningAttempt, Deadline {
  tick = 0
  readonly isLoading: boolean
  readonly #options: AttemptOptions
  /** When the handler began; Infinity: it has not. */
  #begun: number
  /** The start of the timeout. Loading has as much time as the handler has afterwards. */
  #timedFrom: number
  #stage: "running" | "timed out" | "silent" | "aborted" | "ended" = "running"
  /** The heartbeat is overdue: the attempt waits a moment longer. */
  #isOverdue = false
  #reported = false
  #giveUpAt = Number.POSITIVE_INFINITY

  constructor(options: AttemptOptions) {
    this.#options = options
    const { work, begunAt } = options
    this.isLoading = work.isLoading === true
    this.#begun = this.isLoading ? Number.POSITIVE_INFINITY : begunAt
    this.#timedFrom = begunAt
    if (this.isLoading) work.onBegun = () => this.#handlerBegins()
    options.work.outcome.then(outcome => this.#end(outcome))
    this.#setDeadline()
  }

  abort(reason: string): void {
    if (this.#stage === "ended" || this.#stage === "aborted") return
    this.#stage = "aborted"
    this.#signal(new DOMException(reason, "AbortError"))
  }

  #handlerBegins(): void {
    if (this.#stage === "ended") return
    this.#begun = this.#options.deadlines.now()
    this.#timedFrom = this.#begun
    this.#options.events.begun()
    if (this.#stage === "running") this.#setDeadline()
  }

  used(): JsonObject | undefined {
    return this.#options.work.used()
  }

  due(): void {
    const { deadlines, startedAfterMs, limits, events } = this.#options
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
    if (this.#stage === "running" && now >= this.#timedFrom + limits.timeoutMs) {
      this.#stop("timed out", `The attempt took longer than ${limits.timeoutMs / 1000} s.`)
    } else if (this.#stage === "running" && this.#isSilent(now)) {
      this.#stop("silent", `The handler sent no heartbeat for ${limits.heartbeatMs / 1000} s.`)
    } else this.#setDeadline()
  }

  /**
   * A heartbeat may be late because something else blocked the event loop: it is missed only if the loop has
   * continued since without one.
   */
  #isSilent(now: number): boolean {
    const wasOverdue = this.#isOverdue
    this.#isOverdue = now >= this.#heartbeatDue
    return this.#isOverdue && wasOverdue
  }

  get #heartbeatDue(): number {
    const { limits, lastHeartbeat } = this.#options
    return (lastHeartbeat() ?? this.#begun) + limits.heartbeatMs
  }

  #stop(stage: "timed out" | "silent", why: string): void {
    this.#stage = stage
    this.#signal(new DOMException(why, "TimeoutError"))
  }

  #signal(reason: Error): void {
    const { deadlines, limits, work } = this.#options
    this.#giveUpAt = Math.min(this.#giveUpAt, deadlines.now() + limits.graceMs)
    this.#setDeadline()
    work.abort(reason)
  }

  #setDeadline(): void {
    const { startedAfterMs, limits, deadlines } = this.#options
    const started = this.#reported ? Number.POSITIVE_INFINITY : this.#begun + startedAfterMs
    const isRunning = this.#stage === "running"
    const heartbeat = this.#isOverdue ? deadlines.now() + lateHeartbeatMs : this.#heartbeatDue
    const limit = isRunning ? Math.min(this.#timedFrom + limits.timeoutMs, heartbeat) : this.#giveUpAt
    const next = Math.min(started, limit, this.#giveUpAt)
    if (next < Number.POSITIVE_INFINITY) deadlines.set(this, next)
  }

  /** `null`: it was given up. */
  #end(outcome: Outcome | null): void {
    const { stage, options } = { stage: this.#stage, options: this.#options }
    if (stage === "ended") return
    this.#stage = "ended"
    options.deadlines.clear(this)
    if (stage === "aborted") {
      options.ended(null)
      return
    }
    const now = options.deadlines.now()
    const inGrace = now < this.#giveUpAt ? outcome : null
    const usage = outcome?.usage ?? options.work.used()
    if (stage === "silent" && (inGrace === null || inGrace.type === "failed")) {
      const fault = options.limits.fault(heartbeatFault(options.limits.heartbeatMs))
      options.ended({ type: "failed", fault, usage })
    } else {
      const times = { ranMs: now - this.#timedFrom, silentMs: options.silentMs(now, this.#begun) }
      options.ended(outcomeInTime(inGrace, times, options.limits, usage))
    }
  }
}

function heartbeatFault(heartbeatMs: number): Fault {
  const seconds = heartbeatMs / 1000
  const message =
    `The handler sent no heartbeat for ${seconds} s and was aborted. ` +
    "Call ctx.heartbeat() more often, or raise heartbeat_seconds of the node."
  return { code: "E418", message, retryable: true, details: { heartbeat_seconds: seconds } }
}

function timeoutFault(timeoutMs: number): Fault {
  const message =
    `The attempt took longer than ${timeoutMs / 1000} s and was aborted. ` +
    "Raise timeout_seconds of the node, or make its work smaller."
  return { code: "E402", message, retryable: true, details: { timeout_seconds: timeoutMs / 1000 } }
}

/**
 * One timer for the deadlines of all running attempts. A `setTimeout` per attempt costs more than an empty
 * attempt, and nearly every one would be cleared unused. Deadlines are precise to `tickMs`; the timer runs
 * only while there are any.
 */
interface Deadline {
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
