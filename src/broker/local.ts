/**
 * Tasks run in the engine's own process, within bounds: no hop, no copy.
 *
 * 1. At most `concurrency` attempts run at once, and per handler at most what it declared.
 * 2. `dispatch` never runs a handler: a microtask does, for as many tasks as there are, so the caller's loop is never
 *    re-entered and no task costs a turn of the event loop. After `sliceMs` of it the event loop gets its turn.
 * 3. A slot is taken from `start` until `ended`, which the runner calls exactly once, whatever the handler does.
 * 4. Of isolated tasks one runs at a time (`suspect-line.ts`); they take nothing from the others but that one's slot.
 */
import type { Json, JsonObject } from "../core/json.ts"
import type { Isolation } from "../core/suspects.ts"
import type { Progress } from "../core/view/view.ts"
import { failpoint } from "../failpoints.ts"
import type { Queued } from "./fair-queue.ts"
import { type Lane, Lanes, type Limit } from "./lanes.ts"
import { AttemptMetrics } from "./metrics.ts"
import type { Broker, Outcome, RunningTask, Task, TaskEvents, TaskName, TaskWaits } from "./port.ts"
import { type Lined, SuspectLine } from "./suspect-line.ts"
import { nameOf } from "./task-name.ts"

/** What a running attempt reports. None of these throws. */
export interface AttemptEvents {
  /** The handler begins only now: what it needs had to be loaded first. */
  begun(): void
  started(): void
  /** Resolves when the attempt has another place in the rate of its provider. */
  place(): Promise<void>
  progress(progress: Progress): void
  preview(data: Json): void
  /**
   * Once, and the last of all. `null`: it was aborted, and nobody asks for its outcome. `at`: when, by `performance.now`;
   * absent: now.
   */
  ended(outcome: Outcome | null, at?: number): void
}

export interface RunningAttempt {
  /** The handler has not begun: `begun` follows, unless the attempt ends before. */
  readonly isLoading?: boolean
  /** `ended(null)` follows, at the latest after the grace. */
  abort(reason: string): void
  /** What the handler has reported to have used so far; undefined: nothing. */
  used?(): JsonObject | undefined
}

/** Who runs attempts (src/worker/runner.ts). */
export interface Runner {
  runs(handler: string): boolean
  /** Does it only compute? */
  isPure(handler: string): boolean
  /** Bounds on attempts of this handler beside the pool's; those with one name are one bound. */
  limits(handler: string): readonly Limit[]
  start(task: Task, events: AttemptEvents): RunningAttempt
  /** By the clock that places in the rate of a provider go by. */
  now?(): number
  /** Ends what `abort` could not: nothing is reported any more. */
  close(): Promise<void>
}

export interface LocalBrokerOptions {
  readonly runner: Runner
  readonly events: TaskEvents
  /** Attempts at once. */
  readonly concurrency: number
  /** Asked before each: false: nothing begins until `wake`. */
  readonly mayBegin?: () => boolean
}

const always = () => true
/** The reason of the abort signal in a process that ends. */
export const workerStops = "The worker is stopping."
const sliceMs = 10
/** A task that waited longer has missed its place in its provider's rate: half of what guards the rate against jitter. */
export const LATE_MS = 25

export class LocalBroker implements Broker {
  readonly metrics = new AttemptMetrics()
  readonly #runner: Runner
  readonly #pool: Pool
  readonly #lanes: Lanes<Attempt>
  readonly #suspects = new SuspectLine<Attempt>()
  #suspectTimer: NodeJS.Timeout | undefined
  readonly #attempts = new Map<string, Attempt>()
  /** Cancelled, but with a slot still: they are not in `#attempts`, so that the same task can come again. */
  #leaving = 0
  readonly #concurrency: number
  readonly #mayBegin: () => boolean
  #pumping = false
  #isTimeFresh = false
  #draining = false
  #drained: (() => void) | undefined

  constructor(options: LocalBrokerOptions) {
    this.#runner = options.runner
    this.#lanes = new Lanes(handler => options.runner.limits(handler))
    this.#concurrency = options.concurrency
    this.#mayBegin = options.mayBegin ?? always
    this.#pool = {
      events: options.events,
      worker: `local-${process.pid}`,
      now: () => options.runner.now?.() ?? 0,
      running: 0,
      metrics: this.metrics,
      time: 0,
      ended: attempt => this.#ended(attempt),
      begunAlone: () => this.#lookAtSuspects(),
    }
  }

  runs(handler: string): boolean {
    return this.#runner.runs(handler)
  }

  isPure(handler: string): boolean {
    return this.#runner.isPure(handler)
  }

  /** Attempts that hold a slot. */
  get running(): number {
    return this.#pool.running
  }

  /** Tasks that wait for a slot. */
  get queued(): number {
    return this.#attempts.size + this.#leaving - this.#pool.running
  }

  /** Isolated tasks that wait for their turn. */
  get suspects(): number {
    return this.#suspects.size
  }

  isRunningHere(task: TaskName): boolean {
    return this.#attempts.get(nameOf(task))?.isRunning ?? false
  }

  runningTask(task: TaskName): RunningTask | null {
    return this.#attempts.get(nameOf(task))?.running() ?? null
  }

  waits(): TaskWaits {
    const places = new Map<Lane<Attempt>, Map<string, number>>()
    return {
      of: task => {
        const lane = this.#attempts.get(nameOf(task))?.lane
        if (lane === undefined) return { reason: "busy" }
        const inLane = places.get(lane) ?? new Map(lane.queue.order().map(({ key }, at) => [key, at + 1]))
        places.set(lane, inLane)
        const position = inLane.get(nameOf(task))
        return { reason: "busy", queued: inLane.size, ...(position === undefined ? {} : { position }) }
      },
    }
  }

  dispatch(task: Task): void {
    if (this.#draining) return
    const key = nameOf(task)
    if (this.#attempts.has(key)) return
    const lane = this.#lanes.of(task.handler)
    const attempt = new Attempt(key, task, lane, this.#pool, this.#roughTime())
    this.#attempts.set(key, attempt)
    if (attempt.isolation === undefined) lane.queue.push(attempt)
    else this.#suspects.push(attempt)
    this.#wake()
  }

  #unqueue(attempt: Attempt): void {
    if (attempt.isolation === undefined) attempt.lane.queue.remove(attempt)
    else this.#suspects.remove(attempt)
  }

  /** One look for all that are handed over in one go. */
  #roughTime(): number {
    if (!this.#isTimeFresh) {
      this.#isTimeFresh = true
      this.#pool.time = performance.now()
      queueMicrotask(() => {
        this.#isTimeFresh = false
      })
    }
    return this.#pool.time
  }

  has(task: TaskName): boolean {
    return this.#attempts.has(nameOf(task))
  }

  withdraw(task: TaskName): boolean {
    if (this.isRunningHere(task)) return false
    this.cancel(task)
    return true
  }

  cancel(task: TaskName, reason = "The attempt is not wanted any more."): void {
    const key = nameOf(task)
    const attempt = this.#attempts.get(key)
    if (attempt === undefined) return
    this.#attempts.delete(key)
    if (attempt.isRunning) this.#leaving += 1
    if (!attempt.cancel(reason)) this.#unqueue(attempt)
  }

  /** What is queued is left to whoever owns its job next: it is in the journal. */
  async drain(graceMs: number): Promise<void> {
    this.#draining = true
    for (const [key, attempt] of this.#attempts) {
      if (attempt.isRunning) continue
      this.#unqueue(attempt)
      this.#attempts.delete(key)
    }
    if (this.#pool.running > 0) await this.#allEnded(graceMs)
    for (const attempt of this.#attempts.values()) attempt.cancel(workerStops)
    await this.#runner.close()
  }

  #allEnded(graceMs: number): Promise<void> {
    return new Promise(resolve => {
      const timer = setTimeout(resolve, graceMs)
      this.#drained = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  /** What waits may begin now. */
  wake(): void {
    this.#wake()
  }

  #wake(): void {
    if (this.#pumping || this.#pool.running >= this.#concurrency) return
    this.#pumping = true
    queueMicrotask(() => this.#pump())
  }

  #pump(): void {
    this.#pool.time = performance.now()
    const end = this.#pool.time + sliceMs
    for (;;) {
      if (this.#pool.time >= end) {
        setImmediate(() => this.#pump())
        return
      }
      const mayBegin = this.#pool.running < this.#concurrency && this.#mayBegin()
      const attempt = mayBegin ? (this.#suspects.take(this.#pool.time) ?? this.#lanes.take()) : undefined
      if (attempt === undefined) break
      attempt.start(this.#runner)
      // An attempt that has ended has read the clock.
      if (attempt.isRunning) this.#pool.time = performance.now()
    }
    this.#pumping = false
    if (this.#suspects.size > 0) this.#lookAtSuspects()
  }

  /** The one that runs alone may have had its time, or the next one may begin later. */
  #lookAtSuspects(): void {
    clearTimeout(this.#suspectTimer)
    if (this.#suspects.size === 0) return
    const now = performance.now()
    const overdue = this.#suspects.overdue(now)
    if (overdue !== null) this.#join(overdue)
    const next = this.#suspects.nextLook(now)
    if (next === Number.POSITIVE_INFINITY) return
    const look = () => {
      this.#wake()
      this.#lookAtSuspects()
    }
    // Not later than a timer can be set for.
    this.#suspectTimer = setTimeout(look, Math.min(Math.ceil(next - now), 2 ** 31 - 1)).unref()
  }

  #join(attempt: Attempt): void {
    attempt.join().then(
      () => {
        this.#suspects.release(attempt)
        this.#wake()
      },
      // Not durable: whoever owns the job now begins it anew, and this attempt is cancelled.
      () => {},
    )
  }

  #ended(attempt: Attempt): void {
    if (attempt.isolation !== undefined) this.#suspects.release(attempt)
    if (this.#attempts.get(attempt.key) === attempt) this.#attempts.delete(attempt.key)
    else this.#leaving -= 1
    if (this.queued > 0) this.#wake()
    if (this.#pool.running === 0) this.#drained?.()
  }
}

interface Pool {
  readonly events: TaskEvents
  readonly worker: string
  now(): number
  running: number
  readonly metrics: AttemptMetrics
  /** When somebody last looked at the clock: each attempt of a run starts when the one before it ended. */
  time: number
  ended(attempt: Attempt): void
  /** The handler of an isolated task runs. */
  begunAlone(): void
}

/** A task from dispatch until its slot is free. */
class Attempt implements Queued, Lined, AttemptEvents {
  readonly key: string
  readonly lane: Lane<Attempt>
  removed = false
  isRunning = false
  readonly #task: Task
  readonly #pool: Pool
  #announced = false
  /** null: it is wanted. */
  #cancelled: string | null = null
  #run: RunningAttempt | undefined
  /** When this process received the task. */
  readonly receivedAt: number
  /** When it had its place in the rate of its provider. */
  readonly #placedAt: number
  /** When its handler began; NaN: it has not. */
  #begunAt = Number.NaN

  constructor(key: string, task: Task, lane: Lane<Attempt>, pool: Pool, receivedAt: number) {
    this.receivedAt = receivedAt
    this.#placedAt = task.provider === undefined ? 0 : pool.now()
    this.key = key
    this.lane = lane
    this.#task = task
    this.#pool = pool
  }

  get owner(): string {
    return this.#task.owner
  }

  get workflow(): string {
    return this.#task.workflow
  }

  get priority(): number {
    return this.#task.priority
  }

  get isolation(): Isolation | undefined {
    return this.#task.isolation
  }

  get begunAt(): number {
    return this.#begunAt
  }

  start(runner: Runner): void {
    this.isRunning = true
    const { time, metrics } = this.#pool
    metrics.waitSeconds.add((time - this.receivedAt) / 1000)
    this.#pool.running += 1
    this.lane.take()
    // Its place in the rate of its provider has passed while it waited: a burst of such tasks would exceed the rate.
    const { provider, announce, isLate: wasLate = false } = this.#task
    const isLate = provider !== undefined && (wasLate || this.#pool.now() - this.#placedAt > LATE_MS)
    if (announce || isLate) this.#announce(runner, isLate)
    else this.#begin(runner, time)
  }

  running(): RunningTask | null {
    if (!this.isRunning || Number.isNaN(this.#begunAt)) return null
    const usage = this.#run?.used?.()
    return {
      worker: this.#pool.worker,
      ranMs: performance.now() - this.#begunAt,
      // The handler goes on adding to it.
      ...(usage === undefined ? {} : { usage: { ...usage } }),
    }
  }

  /** `isLate`: the place that it had in the rate has passed. */
  #announce(runner: Runner, isLate: boolean): void {
    this.#announced = true
    this.#tellStart({ alone: true, place: isLate }).then(
      () => (this.#cancelled !== null ? this.ended(null) : this.#begin(runner, performance.now())),
      // Not durable, so it must not run: whoever owns the job now hands it out again.
      () => this.ended(null),
    )
  }

  /** Another isolated task is to run beside it. Resolves when that is durable. */
  join(): Promise<void> {
    return this.#tellStart({ alone: false, place: false })
  }

  #tellStart({ alone, place }: { readonly alone: boolean; readonly place: boolean }): Promise<void> {
    const { events, worker } = this.#pool
    const told = { ...this.#task, announce: true, ...(place && { place }) }
    return events.started(this.isolation === undefined ? told : { ...told, alone }, worker)
  }

  #begin(runner: Runner, now: number): void {
    this.#begunAt = now
    if (this.isolation !== undefined) this.#pool.begunAlone()
    failpoint("handler.before")
    const run = runner.start(this.#task, this)
    this.#run = run
    if (run.isLoading === true) this.#begunAt = Number.NaN
    // Its own handler may have cancelled it before `start` returned.
    if (this.#cancelled !== null && this.isRunning) run.abort(this.#cancelled)
  }

  /** False if it was still queued. */
  cancel(reason: string): boolean {
    if (!this.isRunning) return false
    if (this.#cancelled === null) this.#run?.abort(reason)
    this.#cancelled ??= reason
    return true
  }

  get #isHeard(): boolean {
    return this.isRunning && this.#cancelled === null
  }

  /** Of an attempt whose start is known this stores nothing. */
  place(): Promise<void> {
    return this.#tellStart({ alone: true, place: true })
  }

  begun(): void {
    this.#begunAt = performance.now()
    if (this.isolation !== undefined) this.#pool.begunAlone()
  }

  started(): void {
    if (!this.#isHeard || this.#announced) return
    // Nobody waits for it here: what could not be stored is only news that never was.
    this.#pool.events.started(this.#task, this.#pool.worker).catch(() => {})
  }

  progress(progress: Progress): void {
    if (this.#isHeard) this.#pool.events.progress(this.#task, progress)
  }

  preview(data: Json): void {
    if (this.#isHeard) this.#pool.events.preview(this.#task, data)
  }

  ended(outcome: Outcome | null, now = performance.now()): void {
    failpoint("handler.after")
    this.isRunning = false
    this.#pool.running -= 1
    this.#pool.time = now
    const { worker, metrics, events } = this.#pool
    // An announced attempt may end before its handler began.
    const begunAt = Number.isNaN(this.#begunAt) ? now : this.#begunAt
    metrics.ended(this.#task.handler, outcome, now - begunAt)
    this.lane.free()
    this.#pool.ended(this)
    if (outcome === null || this.#cancelled !== null) return
    events.finished(this.#task, outcome, { worker, heldMs: begunAt - this.receivedAt, ranMs: now - begunAt })
  }
}
