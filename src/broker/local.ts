/**
 * Runs tasks in the engine's own process, within limits, without a network hop or a copy.
 *
 * 1. At most `concurrency` attempts run at once, and per handler at most the number that it declared.
 * 2. `dispatch` never runs a handler. A microtask runs as many tasks as are ready, so the caller's loop is
 *    never re-entered and no task costs a turn of the event loop. After `sliceMs` the microtask yields to the
 *    event loop.
 * 3. An attempt holds its slot from `start` until `ended`, which the runner calls exactly once, whatever the
 *    handler does.
 * 4. At most one isolated task runs at a time (`suspect-line.ts`); isolated tasks take only that one slot
 *    from the others.
 */
import type { ArtifactAnswer, ArtifactQuestion } from "../core/artifacts.ts"
import type { Json, JsonObject } from "../core/json.ts"
import type { Isolation } from "../core/suspects.ts"
import type { Progress } from "../core/view/view.ts"
import { failpoint } from "../failpoints.ts"
import type { LoggedEnd } from "../log.ts"
import { AttemptMetrics } from "./attempt-metrics.ts"
import { type Lane, Lanes, type Queued } from "./fair-queue.ts"
import { InterruptibleWait } from "./interruptible-wait.ts"
import {
  attemptName,
  type Broker,
  type KnownRun,
  type Outcome,
  type RemoteTaskEvents,
  type RunningTask,
  type Task,
  type TaskEvents,
  type TaskName,
  type TaskWaits,
} from "./port.ts"
import type { AttemptEvents, Runner, RunningAttempt } from "./runner.ts"
import { type Suspect, SuspectLine } from "./suspect-line.ts"

type LocalEvents = TaskEvents & Partial<Pick<RemoteTaskEvents, "returned">>

export interface LocalBrokerOptions {
  readonly runner: Runner
  readonly events: LocalEvents
  /** The maximum number of concurrent attempts. */
  readonly concurrency: number
  /** Called before each attempt. False: no attempt begins until `wake`. */
  readonly mayBegin?: () => boolean
}

const always = () => true
/** The reason of the abort signal when the process stops. */
export const workerStops = "The worker is stopping."
/** How long `drain` waits for the attempts that it has aborted. A process ends within 3.5 s of its drain time. */
const ABORTED_MS = 1000
const sliceMs = 10
/**
 * A task that waited longer than this has missed its place in its provider's rate. This is half of the margin
 * that protects the rate against jitter.
 */
export const LATE_MS = 25

export class LocalBroker implements Broker {
  readonly metrics = new AttemptMetrics()
  readonly #runner: Runner
  readonly #pool: Pool
  readonly #lanes: Lanes<LocalAttempt>
  readonly #suspects = new SuspectLine<LocalAttempt>()
  #suspectTimer: NodeJS.Timeout | undefined
  readonly #attempts = new Map<string, LocalAttempt>()
  /**
   * Cancelled attempts that still hold a slot. They are not in `#attempts`, so that the same task can be
   * dispatched again.
   */
  readonly #cancelledRunning = new Set<LocalAttempt>()
  readonly #concurrency: number
  readonly #mayBegin: () => boolean
  #pumping = false
  #isTimeFresh = false
  #draining = false
  /** Ends when no attempt runs. */
  readonly #drained = new InterruptibleWait()

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
      begunAlone: () => this.#checkSuspects(),
    }
  }

  runs(handler: string): boolean {
    return this.#runner.runs(handler)
  }

  isPure(handler: string): boolean {
    return this.#runner.isPure(handler)
  }

  /** The number of attempts that hold a slot. */
  get running(): number {
    return this.#pool.running
  }

  /** The number of tasks that wait for a slot. */
  get queued(): number {
    return this.#attempts.size + this.#cancelledRunning.size - this.#pool.running
  }

  /** The number of isolated tasks that wait for their turn. */
  get suspects(): number {
    return this.#suspects.size
  }

  isRunningHere(task: TaskName): boolean {
    return this.#attempts.get(attemptName(task))?.isRunning ?? false
  }

  runningTask(task: TaskName): RunningTask | null {
    return this.#attempts.get(attemptName(task))?.running() ?? null
  }

  *aborted(): Iterable<string> {
    for (const { jobId } of this.#cancelledRunning) yield jobId
  }

  waits(): TaskWaits {
    const places = new Map<Lane<LocalAttempt>, Map<string, number>>()
    return {
      of: task => {
        const attempt = this.#attempts.get(attemptName(task))
        if (attempt === undefined) return { reason: "busy" }
        // Its start is being stored, or its handler is being loaded.
        if (attempt.isRunning) return { reason: "dispatching" }
        if (attempt.isolation !== undefined) return { reason: "isolated", queued: this.#suspects.size }
        const { lane } = attempt
        const inLane = places.get(lane) ?? new Map(lane.queue.order().map(({ key }, at) => [key, at + 1]))
        places.set(lane, inLane)
        const position = inLane.get(attemptName(task))
        return { reason: "busy", queued: inLane.size, ...(position === undefined ? {} : { position }) }
      },
    }
  }

  dispatch(task: Task): void {
    if (this.#draining) return
    const key = attemptName(task)
    if (this.#attempts.has(key)) return
    const lane = this.#lanes.of(task.handler)
    const attempt = new LocalAttempt(key, task, lane, this.#pool, this.#roughTime())
    this.#attempts.set(key, attempt)
    if (attempt.isolation === undefined) lane.queue.push(attempt)
    else this.#suspects.push(attempt)
    this.wake()
  }

  #unqueue(attempt: LocalAttempt): void {
    if (attempt.isolation === undefined) attempt.lane.queue.remove(attempt)
    else this.#suspects.remove(attempt)
  }

  /** Reads the clock once for all tasks that are dispatched in one go. */
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
    return this.#attempts.has(attemptName(task))
  }

  withdraw(task: TaskName): boolean {
    if (this.isRunningHere(task)) return false
    this.cancel(task)
    return true
  }

  cancel(task: TaskName, reason = "The attempt is no longer needed.", known?: KnownRun): void {
    const key = attemptName(task)
    const attempt = this.#attempts.get(key)
    if (attempt === undefined) return
    this.#attempts.delete(key)
    if (attempt.isRunning) this.#cancelledRunning.add(attempt)
    if (!attempt.cancel(reason, known)) this.#unqueue(attempt)
  }

  /** Queued tasks are left to the next owner of their job: they are in the journal. */
  async drain(graceMs: number): Promise<void> {
    this.#draining = true
    for (const [key, attempt] of this.#attempts) {
      if (attempt.isRunning) continue
      this.#unqueue(attempt)
      this.#attempts.delete(key)
    }
    if (this.#pool.running > 0) await this.#drained.wait(graceMs)
    for (const attempt of this.#attempts.values()) attempt.cancel(workerStops)
    // What they report after the signal still counts.
    if (this.#pool.running > 0) await this.#drained.wait(ABORTED_MS)
    await this.#runner.close()
  }

  /** Waiting tasks may begin now. */
  wake(): void {
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
      // An attempt that has ended has already read the clock.
      if (attempt.isRunning) this.#pool.time = performance.now()
    }
    this.#pumping = false
    if (this.#suspects.size > 0) this.#checkSuspects()
  }

  /** The task that runs alone may have exceeded its time, or the next one may begin later. */
  #checkSuspects(): void {
    clearTimeout(this.#suspectTimer)
    if (this.#suspects.size === 0) return
    const now = performance.now()
    const overdue = this.#suspects.overdue(now)
    if (overdue !== null) this.#join(overdue)
    const next = this.#suspects.nextCheckAt(now)
    if (next === Number.POSITIVE_INFINITY) return
    const look = () => {
      this.wake()
      this.#checkSuspects()
    }
    // setTimeout accepts no longer delay.
    this.#suspectTimer = setTimeout(look, Math.min(Math.ceil(next - now), 2 ** 31 - 1)).unref()
  }

  #join(attempt: LocalAttempt): void {
    attempt.join().then(
      () => {
        this.#suspects.release(attempt)
        this.wake()
      },
      // Not durable: the current owner of the job dispatches it again, and this attempt is cancelled.
      () => {},
    )
  }

  #ended(attempt: LocalAttempt): void {
    if (attempt.isolation !== undefined) this.#suspects.release(attempt)
    if (this.#attempts.get(attempt.key) === attempt) this.#attempts.delete(attempt.key)
    else this.#cancelledRunning.delete(attempt)
    if (this.queued > 0) this.wake()
    if (this.#pool.running === 0) this.#drained.end()
  }
}

interface Pool {
  readonly events: LocalEvents
  readonly worker: string
  now(): number
  running: number
  readonly metrics: AttemptMetrics
  /** The last clock reading: each attempt of a run starts when the one before it ended. */
  time: number
  ended(attempt: LocalAttempt): void
  /** The handler of an isolated task has begun. */
  begunAlone(): void
}

/** A task from its dispatch until its slot is released. */
class LocalAttempt implements Queued, Suspect, AttemptEvents {
  readonly key: string
  readonly lane: Lane<LocalAttempt>
  removed = false
  isRunning = false
  readonly #task: Task
  readonly #pool: Pool
  #announced = false
  /** The reason of the cancellation; null: not cancelled. */
  #cancelled: string | null = null
  /** For a cancelled attempt: what the engine knows of it. */
  #known: KnownRun | undefined
  #run: RunningAttempt | undefined
  /** When this process received the task. */
  readonly receivedAt: number
  /** When the task got its place in the rate of its provider. */
  readonly #placedAt: number
  readonly owner: string
  readonly workflow: string
  readonly priority: number
  readonly isolation: Isolation | undefined
  /** When the handler began; NaN: it has not begun. */
  begunAt = Number.NaN

  constructor(key: string, task: Task, lane: Lane<LocalAttempt>, pool: Pool, receivedAt: number) {
    this.receivedAt = receivedAt
    this.#placedAt = task.provider === undefined ? 0 : pool.now()
    this.key = key
    this.lane = lane
    this.owner = task.owner
    this.workflow = task.workflow
    this.priority = task.priority
    this.isolation = task.isolation
    this.#task = task
    this.#pool = pool
  }

  get jobId(): string {
    return this.#task.jobId
  }

  start(runner: Runner): void {
    this.isRunning = true
    const { time, metrics } = this.#pool
    metrics.waitSeconds.add((time - this.receivedAt) / 1000)
    this.#pool.running += 1
    this.lane.take()
    // The task's place in the rate of its provider passed while it waited. A burst of such tasks would exceed
    // the rate.
    const { provider, announce, isLate: wasLate = false } = this.#task
    const isLate = provider !== undefined && (wasLate || this.#pool.now() - this.#placedAt > LATE_MS)
    if (announce || isLate) this.#announce(runner, isLate)
    else this.#begin(runner, time)
  }

  running(): RunningTask | null {
    if (!this.isRunning || Number.isNaN(this.begunAt)) return null
    const usage = this.#run?.used?.()
    return {
      worker: this.#pool.worker,
      ranMs: performance.now() - this.begunAt,
      // A copy: the handler continues to add to the original.
      usage: usage && { ...usage },
    }
  }

  /** `isLate`: the task's place in the rate has passed. */
  #announce(runner: Runner, isLate: boolean): void {
    this.#announced = true
    this.#reportStart({ alone: true, place: isLate }).then(
      () => (this.#cancelled !== null ? this.ended(null) : this.#begin(runner, performance.now())),
      // Not durable, so the handler must not run: the current owner of the job dispatches it again.
      () => this.ended(null),
    )
  }

  /** Another isolated task is to run at the same time. Resolves when that is durable. */
  join(): Promise<void> {
    return this.#reportStart({ alone: false, place: false })
  }

  #reportStart({ alone, place }: { readonly alone: boolean; readonly place: boolean }): Promise<void> {
    const { events, worker } = this.#pool
    const isAlone = this.isolation === undefined ? undefined : alone
    return events.started(
      { ...this.#task, announce: true, alone: isAlone, place: place || undefined },
      worker,
    )
  }

  #begin(runner: Runner, now: number): void {
    this.begunAt = now
    if (this.isolation !== undefined) this.#pool.begunAlone()
    failpoint("handler.before")
    const run = runner.start(this.#task, this)
    this.#run = run
    if (run.isLoading === true) this.begunAt = Number.NaN
    // The handler itself may have cancelled the attempt before `start` returned.
    if (this.#cancelled !== null && this.isRunning) run.abort(this.#cancelled)
  }

  /** Returns false if the attempt was still queued. */
  cancel(reason: string, known?: KnownRun): boolean {
    if (!this.isRunning) return false
    if (this.#cancelled !== null) return true
    this.#cancelled = reason
    this.#known = known
    this.#reportAborted(performance.now(), this.#run?.used?.(), false)
    this.#run?.abort(reason)
    return true
  }

  #reportAborted(now: number, usage: JsonObject | undefined, hasEnded: boolean): void {
    if (Number.isNaN(this.begunAt)) return
    const { isBegun = false, usage: known = {} } = this.#known ?? {}
    if (isBegun && JSON.stringify(usage ?? {}) === JSON.stringify(known)) return
    this.#known = { isBegun: true, usage: usage && { ...usage } }
    const { worker, events } = this.#pool
    const times = { worker, heldMs: this.begunAt - this.receivedAt, ranMs: now - this.begunAt, hasEnded }
    events.aborted(this.#task, times, this.#known.usage)
  }

  get #isHeard(): boolean {
    return this.isRunning && this.#cancelled === null
  }

  /** Stores nothing if the start of the attempt is already recorded. */
  place(): Promise<void> {
    return this.#reportStart({ alone: true, place: true })
  }

  ask(question: ArtifactQuestion): Promise<ArtifactAnswer> {
    const answer = this.#isHeard ? this.#pool.events.asked?.(this.#task, question) : undefined
    return answer ?? Promise.reject(new Error("The attempt was cancelled and can no longer use artifacts."))
  }

  begun(): void {
    this.begunAt = performance.now()
    if (this.isolation !== undefined) this.#pool.begunAlone()
  }

  started(): void {
    if (!this.#isHeard || this.#announced) return
    // Nothing waits for this fact: if it cannot be stored, only the notification is lost.
    this.#pool.events.started(this.#task, this.#pool.worker).catch(() => {})
  }

  progress(progress: Progress): void {
    if (this.#isHeard) this.#pool.events.progress(this.#task, progress)
  }

  preview(data: Json): void {
    if (this.#isHeard) this.#pool.events.preview(this.#task, data)
  }

  returned(): void {
    const isWanted = this.#cancelled === null
    this.ended(null)
    if (isWanted) this.#pool.events.returned?.(this.#task)
  }

  /** It may have failed while its module, or its secrets, were loaded. */
  #withBegin(outcome: Outcome): Outcome {
    return outcome.type === "failed" && Number.isNaN(this.begunAt) ? { ...outcome, isUnbegun: true } : outcome
  }

  ended(outcome: Outcome | null, now = performance.now(), logged?: LoggedEnd): void {
    failpoint("handler.after")
    this.isRunning = false
    this.#pool.running -= 1
    this.#pool.time = now
    const { worker, metrics, events } = this.#pool
    // An announced attempt may end before its handler began.
    const begunAt = Number.isNaN(this.begunAt) ? now : this.begunAt
    metrics.ended(this.#task.handler, outcome, now - begunAt)
    this.lane.free()
    this.#pool.ended(this)
    if (this.#cancelled !== null) this.#reportAborted(now, outcome?.usage ?? this.#run?.used?.(), true)
    else if (outcome !== null)
      events.finished(this.#task, this.#withBegin(outcome), {
        worker,
        heldMs: begunAt - this.receivedAt,
        ranMs: now - begunAt,
        logLines: logged?.lines,
        logRun: logged?.runId,
      })
  }
}
