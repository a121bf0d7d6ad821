/**
 * Runs bulk operations: tasks of the built-in handler, in the process that owns the operation's job, for as long as they
 * take. A process that takes the job over resumes at the recorded page (operation.ts).
 *
 * 1. At most `IN_FLIGHT` commands for each owner are in flight, and at most `rate` per second for each operation.
 * 2. Targets get their commands in the order of the page, so those that got one are its beginning.
 */
import {
  attemptName,
  type BrokerHost,
  type Outcome,
  type RunningTask,
  type Task,
  type TaskName,
} from "../../broker/port.ts"
import type { TaskLane } from "../../broker/routed.ts"
import { executionsFull, toFault } from "../../core/faults.ts"
import { valueIn } from "../../core/maps.ts"
import { bulkHandler, isBulkOperation } from "../../definition/built-in.ts"
import { type Clock, isoTime, sleep, untilStoreAnswers, within } from "../../engine/clock.ts"
import { jobPartition } from "../../engine/ids.ts"
import type { LiveJob } from "../../engine/owner/live-job.ts"
import type { JobCommand } from "../../engine/remote/commands.ts"
import { UmbraError } from "../../errors.ts"
import { JournalUnavailableError } from "../../journal/errors.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { Log } from "../../log.ts"
import type { ForkTarget } from "../fork/forks.ts"
import type { Backfills } from "../schedules/backfill.ts"
import type { BulkQueriesParts } from "./bulk.ts"
import { type BulkForks, toRefusal } from "./forks.ts"
import {
  abortSignal,
  asJson,
  type BulkProgress,
  type BulkRefusal,
  readCounts,
  readFilter,
  type StoredOperation,
} from "./operation.ts"
import { lastProgress, type Touched, touchedBy } from "./records.ts"

export interface BulkLaneParts {
  readonly host: BrokerHost
  readonly journal: Journal
  readonly clock: Clock
  readonly log: Log
  readonly live: (jobId: string) => LiveJob | undefined
  readonly command: (jobId: string, command: JobCommand) => Promise<void>
  readonly list: BulkQueriesParts["list"]
  readonly fork: BulkForks["fork"]
  readonly backfills: () => Pick<Backfills, "page" | "start">
}

/** Targets of a page: as many commands are repeated, and refused, after a crash. The first pages are short: progress shows soon. */
const LARGEST_PAGE = 200
const FIRST_PAGE = 8
const IN_FLIGHT = 16
const AWAY_MS = 500

export class BulkLane implements TaskLane {
  readonly #parts: BulkLaneParts
  readonly #runs = new Map<string, BulkRun>()
  readonly #places = new Map<string, Places>()
  #isDraining = false

  constructor(parts: BulkLaneParts) {
    this.#parts = parts
  }

  runs(handler: string): boolean {
    return handler === bulkHandler
  }

  runningTask(task: TaskName): RunningTask | null {
    const run = this.#runs.get(attemptName(task))
    return run === undefined ? null : { worker: this.#parts.host.id, ranMs: performance.now() - run.begunAt }
  }

  dispatch(task: Task): void {
    const key = attemptName(task)
    if (this.#isDraining || this.#runs.has(key)) return
    const places = valueIn(this.#places, task.owner, () => new Places(IN_FLIGHT))
    const run = new BulkRun(task, places, this.#parts)
    this.#runs.set(key, run)
    void run.run().finally(() => {
      if (this.#runs.get(key) === run) this.#runs.delete(key)
    })
  }

  /**
   * Commands in flight end, and nothing more is recorded: the next run may begin before that. It repeats the commands of
   * the page whose outcome is not recorded, which changes nothing.
   */
  suspend(task: TaskName): void {
    const key = attemptName(task)
    this.#runs.get(key)?.stop()
    this.#runs.delete(key)
  }

  cancel(task: TaskName): void {
    this.#runs.get(attemptName(task))?.stop()
  }

  /** Commands in flight may end; the rest is left to the next owner of the operation. */
  async drain(graceMs: number): Promise<void> {
    this.#isDraining = true
    const ends = [...this.#runs.values()].map(run => {
      run.drain()
      return run.ended
    })
    await within(this.#parts.clock, graceMs, Promise.all(ends))
  }
}

class BulkRun {
  readonly begunAt = performance.now()
  readonly ended: Promise<void>
  readonly #task: Task
  readonly #operation: StoredOperation
  readonly #places: Places
  readonly #parts: BulkLaneParts
  readonly #pace: Pace
  readonly #plans: ForkTarget["plans"] = new Map()
  #end!: () => void
  /** The engine does not wait for it any more. */
  #isStopped = false
  #isDraining = false
  /** Signals of earlier runs: the operation was aborted, and retried. */
  #earlierAborts = 0
  /** Targets that wait until a limit of unfinished jobs, or of executions, allows them. */
  #waitingForRoom = 0

  constructor(task: Task, places: Places, parts: BulkLaneParts) {
    this.#task = task
    this.#operation = task.input as unknown as StoredOperation
    this.#places = places
    this.#parts = parts
    this.#pace = new Pace(parts.clock, this.#operation.rate)
    this.ended = new Promise(resolve => {
      this.#end = resolve
    })
  }

  stop(): void {
    this.#isStopped = true
  }

  drain(): void {
    this.#isDraining = true
  }

  async run(): Promise<void> {
    const { host, log } = this.#parts
    const { jobId } = this.#task
    try {
      // The start is recorded for people; the next owner begins the operation in any case.
      host.events.started({ ...this.#task, announce: false }, host.id).catch(() => {})
      await this.#walk()
    } catch (error) {
      // With E610 the operation itself has another owner now, which resumes it.
      if (this.#isStopped || this.#isDraining || (error as UmbraError).code === "E610") return
      log.error({ job_id: jobId, error }, "a bulk operation cannot continue")
      this.#finish({ type: "failed", fault: toFault(error, { now: this.#parts.clock.now() }) })
    } finally {
      this.#end()
    }
  }

  async #walk(): Promise<void> {
    const { jobId } = this.#task
    const found = await this.#answer(() => lastProgress(this.#parts.journal, jobId))
    this.#earlierAborts = found.earlierAborts
    let progress = found.progress ?? this.#begin()
    do {
      const processed = await this.#process(progress)
      const next = processed.page.length === 0 ? await this.#nextPage(processed) : processed
      if (!(await this.#record(next))) return
      progress = next
    } while (!this.#mustStop && (progress.page.length > 0 || progress.after !== null))
    if (this.#isAborted && !this.#isStopped)
      await this.#parts.command(jobId, { type: "cancel", reason: "The operation was aborted." })
    else if (progress.page.length === 0 && progress.after === null) {
      const output = { verb: this.#operation.verb, ...readCounts(asJson(progress)) }
      this.#finish({ type: "completed", output, text: JSON.stringify(output) })
    }
  }

  #begin(): BulkProgress {
    const { below, backfill } = this.#operation
    const after = backfill === undefined ? below : isoTime(Date.parse(backfill.from) - 1)
    return { processed: 0, done: 0, refused: 0, page: [], after, refusals: [] }
  }

  get #kind(): "job" | "tick" {
    return this.#operation.backfill === undefined ? "job" : "tick"
  }

  get #mustStop(): boolean {
    return this.#isStopped || this.#isDraining || this.#isAborted
  }

  get #isAborted(): boolean {
    const { state } = this.#parts.live(this.#task.jobId) ?? {}
    return (state?.signals.get(abortSignal)?.length ?? 0) > this.#earlierAborts
  }

  /** Adds the next page of targets. A page of a list may be empty although more follow. */
  async #nextPage(progress: BulkProgress): Promise<BulkProgress> {
    const { list, backfills } = this.#parts
    const { backfill } = this.#operation
    // A page takes about a second at most, however low the rate: progress is recorded with each.
    const { rate } = this.#operation
    const limit = Math.min(LARGEST_PAGE, Math.max(FIRST_PAGE, progress.processed), Math.ceil(rate))
    if (backfill !== undefined) {
      if (progress.after === null) return progress
      const query = { after: progress.after, limit }
      const page = await this.#answer(() => backfills().page(this.#task.owner, backfill, query))
      return { ...progress, page, after: page.length < limit ? null : page.at(-1)! }
    }
    const filter = { ...readFilter(this.#operation.filter), owner: this.#task.owner, limit }
    let { after } = progress
    let page: string[] = []
    while (after !== null && page.length === 0 && !this.#mustStop) {
      const from: string = after
      const found = await this.#answer(() => list({ ...filter, after: from }))
      page = found.jobs.filter(job => !isBulkOperation(job)).map(({ id }) => id)
      after = found.next
    }
    return { ...progress, page, after }
  }

  /** Resolves when it is durable; false: the job has ended, or is not owned here any more. */
  async #record(progress: BulkProgress): Promise<boolean> {
    const { host, live } = this.#parts
    const { jobId, node } = this.#task
    if (this.#isStopped) return false
    const data = asJson(progress)
    host.events.preview(this.#task, data)
    if (live(jobId)?.state.previews.get(node) !== data) return false
    await host.durable(jobPartition(jobId))
    const { matched } = this.#operation
    const of = matched.complete ? `of ${matched.count}` : `of at least ${matched.count}`
    const percent = matched.complete && matched.count > 0 ? share(progress.processed, matched.count) : null
    host.events.progress(this.#task, { percent, message: `${progress.processed} ${of} ${this.#kind}s` })
    return true
  }

  /** Sends the commands of the page, until it must stop. The targets that are left remain in the page. */
  async #process(progress: BulkProgress): Promise<BulkProgress> {
    const outcomes: Promise<Touched | BulkRefusal>[] = []
    for (const jobId of progress.page) {
      if (!(await this.#mayBegin())) break
      const leave = await this.#places.enter()
      outcomes.push(this.#command(jobId, leave))
      // An error ends the run below, and must not be unhandled until then.
      outcomes.at(-1)!.catch(() => {})
    }
    const settled = await Promise.all(outcomes)
    const targets = settled.filter(outcome => outcome !== "later")
    const refusals = targets.filter(outcome => typeof outcome === "object")
    return {
      ...progress,
      processed: progress.processed + targets.length,
      done: progress.done + targets.length - refusals.length,
      refused: progress.refused + refusals.length,
      page: progress.page.slice(settled.length),
      refusals,
    }
  }

  /** Waits for the rate, for targets that wait for capacity, and until no other process can have taken over. */
  async #mayBegin(): Promise<boolean> {
    const { host, clock } = this.#parts
    await this.#pace.next(() => this.#mustStop)
    while ((!host.isSure() || this.#waitingForRoom > 0) && !this.#mustStop) await sleep(clock, AWAY_MS)
    return !this.#mustStop
  }

  /** Sends the command until it is done or refused. `leave`: leaves the place in which it is sent. */
  async #command(jobId: string, leave: () => void): Promise<Touched | BulkRefusal> {
    let leavePlace = leave
    try {
      for (;;) {
        try {
          return await this.#send(jobId)
        } catch (error) {
          const needsRoom = isFull(error)
          const mayWait = !this.#isStopped && !this.#isDraining && !(needsRoom && this.#isAborted)
          if (isAway(error) && mayWait) await sleep(this.#parts.clock, AWAY_MS)
          else if (needsRoom && mayWait) {
            // Other operations of the owner may free capacity: they get the place meanwhile.
            leavePlace()
            leavePlace = await this.#afterWaiting()
          } else return await this.#refused(jobId, error)
        }
      }
    } finally {
      leavePlace()
    }
  }

  async #afterWaiting(): Promise<() => void> {
    this.#waitingForRoom++
    try {
      await sleep(this.#parts.clock, AWAY_MS)
    } finally {
      this.#waitingForRoom--
    }
    return this.#places.enter()
  }

  async #send(jobId: string): Promise<Touched> {
    const { command, fork, backfills } = this.#parts
    const { verb, reason, seqs, submitted_by: submittedBy, max_unfinished, backfill } = this.#operation
    const { jobId: operation, owner } = this.#task
    const maxUnfinished = max_unfinished ?? null
    if (verb === "backfill") {
      const target = { backfill: backfill!, tick: jobId, operation, owner, submittedBy, maxUnfinished }
      await backfills().start(target)
      return "done"
    }
    const seq = seqs[jobPartition(jobId)]!
    if (verb === "fork") {
      const target = { jobId, owner, submittedBy, operation, seq, plans: this.#plans }
      return fork(target, this.#operation.fork ?? {}, maxUnfinished)
    }
    const onlyIf = { seq }
    await command(jobId, { type: verb, operation, onlyIf, reason: reason ?? undefined })
    return "done"
  }

  /** Throws if the error is not about the target, or the run must end. */
  async #refused(jobId: string, error: unknown): Promise<Touched | BulkRefusal> {
    const isLeft = this.#isStopped || this.#isDraining
    if (!(error instanceof UmbraError) || error.code === "E612" || isAway(error)) throw error
    if (isFull(error) && isLeft) throw error
    if (this.#kind === "tick") return toRefusal(jobId, error, "tick")
    const { journal } = this.#parts
    const { verb, seqs } = this.#operation
    const target = { jobId, seq: seqs[jobPartition(jobId)]!, operation: this.#task.jobId }
    const isChanged = error.code === "E316" && verb !== "fork"
    const touched = isChanged ? await this.#answer(() => touchedBy(journal, target)) : null
    return touched ?? toRefusal(jobId, error)
  }

  #finish(outcome: Outcome): void {
    if (this.#isStopped) return
    this.#isStopped = true
    const { host } = this.#parts
    const times = { worker: host.id, heldMs: 0, ranMs: performance.now() - this.begunAt }
    host.events.finished(this.#task, outcome, times)
  }

  #answer<T>(ask: () => Promise<T>): Promise<T> {
    const { clock } = this.#parts
    return untilStoreAnswers(ask, { pause: ms => sleep(clock, ms), isOver: () => this.#isStopped })
  }
}

/** The command changed nothing, and can be sent again. */
function isAway(error: unknown): boolean {
  if (error instanceof JournalUnavailableError) return !error.final
  return error instanceof UmbraError && ["E501", "E610", "E611", "E613", "E614"].includes(error.code)
}

/** A limit of unfinished jobs, or of executions, does not allow the target now. */
function isFull(error: unknown): boolean {
  return error instanceof UmbraError && (error.code === "E646" || error.code === executionsFull)
}

function share(part: number, whole: number): number {
  return Math.min(100, Math.floor((100 * part) / whole))
}

/** Commands of one owner in flight; those that wait get a place in their order. */
class Places {
  readonly #waiting: (() => void)[] = []
  #free: number

  constructor(count: number) {
    this.#free = count
  }

  /** Returns the function that leaves the place. */
  async enter(): Promise<() => void> {
    if (this.#free > 0) this.#free--
    else await new Promise<void>(resolve => this.#waiting.push(resolve))
    return () => {
      const next = this.#waiting.shift()
      if (next === undefined) this.#free++
      else next()
    }
  }
}

/** Spaces commands evenly. After a pause it does not catch up. */
class Pace {
  readonly #clock: Clock
  readonly #everyMs: number
  #next = 0

  constructor(clock: Clock, rate: number) {
    this.#clock = clock
    this.#everyMs = 1000 / rate
  }

  async next(isOver: () => boolean): Promise<void> {
    const now = this.#clock.now()
    this.#next = Math.max(this.#next, now - LATE_MS)
    // A slow rate must not delay an abort.
    for (let left = this.#next - now; left >= 1 && !isOver(); left = this.#next - this.#clock.now())
      await sleep(this.#clock, Math.min(left, SLEEP_MS))
    this.#next += this.#everyMs
  }
}

/** Timers are late: commands may follow each other faster, until the rate is reached again. */
const LATE_MS = 50
const SLEEP_MS = 250
