import type { ArtifactAnswer, ArtifactQuestion } from "../../../core/artifacts.ts"
import type { Json, JsonObject } from "../../../core/json.ts"
import type { Progress } from "../../../core/view/view.ts"
import type { Log, LoggedLines } from "../../../log.ts"
import { ownIdentity } from "../../../process-identity.ts"
import { LocalBroker, workerStops } from "../../local.ts"
import {
  type AttemptTimes,
  attemptName,
  type KnownRun,
  type Outcome,
  parseAttemptName,
  type StartReport,
  type Task,
  type TaskEvents,
  type TaskName,
} from "../../port.ts"
import type { Runner } from "../../runner.ts"
import { ArtifactRequests } from "../artifact-requests.ts"
import { Link, removeEntries } from "../client/link.ts"
import { Deliveries } from "../deliveries.ts"
import { type Keys, WORKERS } from "../keys.ts"
import { sendLogs } from "../log-streams.ts"
import { Outbox, Remembered } from "../outbox.ts"
import { Presence } from "../presence.ts"
import type { WorkerBeat } from "../roster.ts"
import type { RedisSettings } from "../settings.ts"
import {
  type BegunTask,
  type Control,
  decodeLabel,
  decodeTask,
  encodeReport,
  type Fields,
  type Report,
  replacedTopic,
  startReport,
  type TaskLabel,
  type WorkerNotice,
} from "../wire.ts"
import { OwnerEpochs, WorkerStore } from "./stores.ts"

export interface RedisWorkerParts {
  readonly url: string
  readonly settings: RedisSettings
  readonly runner: Runner
  /** The handlers whose tasks the worker takes. */
  readonly handlers: readonly string[]
  readonly concurrency: number
  readonly jobPartition: (jobId: string) => number
  readonly version: string
  /** Resolves when the log lines of ended attempts were sent. */
  readonly sendRemainingLogs: () => Promise<void>
  readonly log: Log
}

/** A task that the worker holds, from its delivery until its last report has reached Redis. */
interface Held {
  readonly task: Task
  entry: string
  readonly epoch: number
  /** Set while the handler may not run, or send its next request, yet: the engine gives permission. */
  begin: (() => void) | null
  /** Does `begin` also wait for a place in the rate of the task's provider? */
  needsPlace: boolean
  /** Set while another isolated task may not run at the same time yet. */
  join: (() => void) | null
  /** Do the engines know that its handler has begun? */
  isBegunReported: boolean
  /** As JSON: the usage that the engines know of. */
  reportedUsage?: string
}

/**
 * A worker that needs only Redis.
 *
 * 1. A task that arrives twice runs once: the worker knows it while holding it, and for some time after it is done.
 * 2. Engines consider a worker dead that sent no heartbeat for too long (`presence.ts`), and give its tasks to others.
 *    So the worker drops them.
 * 3. A task sent by an engine that was replaced without noticing is not run: its successor may have done it.
 * 4. The worker takes and begins nothing while the engines may consider it dead: a process that was suspended and
 *    resumes must not begin tasks that others have done meanwhile.
 */
export class RedisWorker implements TaskEvents {
  /** Resolves when the worker can receive tasks for the first time. */
  readonly ready: Promise<void>
  #becomeReady = () => {}
  readonly #parts: RedisWorkerParts
  readonly #link: Link
  readonly #presence: Presence
  readonly #pool: LocalBroker
  readonly #outbox: Outbox
  readonly #deliveries: Deliveries
  readonly #owners = new OwnerEpochs()
  readonly #held = new Map<string, Held>()
  readonly #done = new Remembered()
  /** Sent in the next turn of the event loop; only the latest value is kept. */
  readonly #progress = new Map<string, Progress>()
  readonly #timers: NodeJS.Timeout[] = []
  readonly #artifactRequests = new ArtifactRequests((name, report) => void this.#report(name, report))
  readonly #store: WorkerStore
  #refused = 0
  #refusalLoggedAt = Number.NEGATIVE_INFINITY

  constructor(parts: RedisWorkerParts) {
    const { url, settings, runner, handlers, concurrency, log } = parts
    this.#parts = parts
    this.ready = new Promise(resolve => {
      this.#becomeReady = resolve
    })
    this.#store = new WorkerStore({
      given: settings.store,
      prefix: settings.prefix,
      isWanted: () => !this.#link.isClosed,
      log,
    })
    this.#pool = new LocalBroker({
      runner,
      events: this,
      concurrency,
      mayBegin: () => this.#presence.isAlive,
    })
    this.#link = new Link({
      url,
      log,
      prefix: settings.prefix,
      store: send => this.#store.bind(send),
      answerMs: settings.answerSeconds * 1000,
      channel: keys => keys.control,
      onMessage: message => this.#receive(message),
      up: () => void this.#presence.beat(),
      down: () => this.#presence.disconnected(),
    })
    this.#presence = new Presence({
      ...{ link: this.#link, log, deadMs: settings.workerDeadSeconds * 1000 },
      shownDeadMs: settings.shownDeadSeconds * 1000,
      createBeat: id => this.#createBeat(id),
      recover: (keys, id) => this.#recover(keys, id),
      wasSilent: () => this.#returnTasks(),
      replaced: () => {
        for (const name of [...this.#held.keys()]) this.#drop(name)
      },
      beatStored: () => {
        if (this.notReady === null) this.#becomeReady()
        this.#pool.wake()
        this.#outbox.sendAgain()
        this.#deliveries.wake()
      },
    })
    this.#outbox = new Outbox(this.#link, log)
    this.#deliveries = new Deliveries({
      link: this.#link,
      handlers,
      consumer: () => (this.#presence.isPresent ? this.#presence.id : null),
      aliveMs: () => this.#presence.aliveMs,
      lapses: () => this.#presence.lapses,
      tookLate: () => this.#returnTasks(),
      // Isolated tasks wait for each other: that is no reason to take fewer of the others.
      room: () => concurrency + settings.prefetch + this.#pool.suspects - this.#held.size,
      isExact: settings.prefetch < handlers.length,
      take: (entry, fields) => this.#take(entry, fields),
      groupsLost: () => this.#presence.beat(),
      log,
    })
    this.#every(settings.workerBeatSeconds * 1000, () => void this.#presence.beat())
    this.#every(PROGRESS_MS, () => this.#reportProgress())
    this.#every(ANNOUNCE_MS, () => this.#announceAgain())
    this.#every(BEGUN_MS, () => this.#reportBegun())
    this.#every(settings.workerBeatSeconds * 1000, () => void this.#followStore().catch(() => {}))
  }

  get id(): string {
    return this.#presence.id
  }

  get running(): number {
    return this.#pool.running
  }

  /** The number of tasks that this worker has refused since it started. */
  get refused(): number {
    return this.#refused
  }

  /**
   * Resolves with the id of the store that the worker works for; rejects with E620 if none was configured and several
   * are live.
   */
  get bound(): Promise<string> {
    return this.#store.bound
  }

  /** Why the worker cannot receive tasks; null: it can. */
  get notReady(): string | null {
    if (this.#store.problem !== null) return this.#store.problem
    if (this.#link.keys === null) return "Redis cannot be reached"
    return this.#presence.isKnown ? null : "this worker is not registered with the engines yet"
  }

  /** Rejects if they did not reach Redis. */
  sendLogs(rows: readonly LoggedLines[]): Promise<void> {
    const { jobPartition, settings } = this.#parts
    return sendLogs({ link: this.#link, jobPartition, length: settings.logStreamLength }, rows)
  }

  /** Returns the tasks that have not begun, lets the others end, and unregisters. */
  async stop(graceMs: number): Promise<void> {
    // A Redis that does not answer must not keep handlers from ending in time: tasks that it still delivers
    // are returned later.
    const stopped = this.#deliveries.stop().then(() => this.#returnTasks())
    this.#returnTasks()
    await this.#pool.drain(graceMs)
    await stopped
    for (const name of [...this.#held.keys()]) this.#end(name, { kind: "returned" })
    await this.#parts.sendRemainingLogs()
    await this.#outbox.whenEmpty(this.#parts.settings.answerSeconds * 1000)
    await this.#presence.leave()
    for (const timer of this.#timers) clearInterval(timer)
    await this.#link.close()
  }

  /** Returns the tasks that have not begun. */
  #returnTasks(): void {
    for (const [name, { task }] of [...this.#held]) {
      if (this.#pool.isRunningHere(task)) continue
      this.#pool.cancel(task, workerStops)
      this.#end(name, { kind: "returned" })
    }
  }

  /** Switches to another store only while holding no tasks. */
  async #followStore(): Promise<void> {
    const { keys } = this.#link
    if (keys === null || this.#held.size > 0) return
    if (!(await this.#store.hasMoved(args => this.#link.send(args)))) return
    await this.#presence.leave()
    this.#owners.clear()
    this.#link.renew()
  }

  #every(ms: number, act: () => void): void {
    const timer = setInterval(act, ms)
    timer.unref()
    this.#timers.push(timer)
  }

  /** Tasks that were delivered to this worker and that it never received are held by no other worker. */
  async #recover(keys: Keys, id: string): Promise<void> {
    await this.#owners.read(this.#link, keys)
    for (const held of this.#held.values()) held.isBegunReported = false
    await this.#deliveries.recover(keys, id)
  }

  /** Any process that reaches Redis can publish anything, and a later release more than this one understands. */
  #receive(message: string): void {
    try {
      this.#apply(JSON.parse(message) as Control)
    } catch (error) {
      this.#parts.log.warn({ error: String(error) }, "could not read a message to workers")
    }
  }

  #apply(control: Control): void {
    if (control.type === "begin") this.#begin(control.name, control.joined === true ? "join" : "begin")
    else if (control.type === "epochs") this.#ownersChanged(control.epochs)
    else if (control.type === "answer") this.#artifactRequests.answered(control, this.#presence.id)
    else if (control.type === "cancel")
      for (const name of control.names)
        if (control.submissions === true || !this.#isSubmitting(name))
          this.#drop(name, control.reason, control.known)
  }

  /** The new owners do not know yet which handlers run, so the worker reports it at once. */
  #ownersChanged(epochs: Parameters<OwnerEpochs["changed"]>[0]): void {
    this.#owners.changed(epochs)
    for (const held of this.#held.values()) held.isBegunReported = false
    this.#reportBegun()
  }

  /** Has the task begun to submit to a provider? */
  #isSubmitting(name: string): boolean {
    const task = this.#held.get(name)?.task
    return task?.provider !== undefined && this.#pool.isRunningHere(task)
  }

  /**
   * While the worker is not alive, tasks that wait until the next heartbeat are announced again, or belong to other
   * workers.
   */
  #begin(name: string, what: Asked): void {
    if (this.#presence.isAlive) this.#held.get(name)?.[what]?.()
  }

  /** The task is no longer needed. */
  #drop(name: string, reason?: string, known?: KnownRun): void {
    const held = this.#held.get(name)
    if (held === undefined) return
    this.#pool.cancel(held.task, reason, known)
    held.begin?.()
    held.join?.()
    this.#release(name)
  }

  #release(name: string): void {
    this.#held.delete(name)
    this.#progress.delete(name)
    this.#artifactRequests.drop(name)
    this.#deliveries.wake()
  }

  #createBeat(id: string): WorkerBeat {
    const { handlers, concurrency, settings, version } = this.#parts
    const { host, pid } = ownIdentity()
    const { running, queued } = this.#pool
    const who = { id, host, pid, version, handlers, concurrency, prefetch: settings.prefetch }
    return {
      ...who,
      running,
      queued,
      at: Date.now(),
      held: [...this.#held].map(([name, { epoch }]) => [name, epoch]),
    }
  }

  /** Invariant 1. */
  #take(entry: string, fields: Fields): void {
    const label = decodeLabel(fields)
    if (label === null) throw new TypeError("The task has no name or no epoch.")
    const { name, epoch } = label
    const known = this.#held.get(name)
    if (known !== undefined) {
      // The engine knows the entry that it sent last.
      known.entry = entry
      return
    }
    const task = this.#decode(fields, label, entry)
    const partition = this.#parts.jobPartition(task.jobId)
    const current = this.#owners.current(partition)
    if (epoch < current) {
      const cause = `epoch ${epoch} of partition ${partition} has ended: its owner has epoch ${current}`
      this.#refuse(label, { handler: task.handler, entry }, cause)
      return
    }
    const held: Held = {
      task,
      entry,
      epoch,
      begin: null,
      join: null,
      needsPlace: false,
      isBegunReported: false,
    }
    this.#held.set(name, held)
    const done = this.#done.get(name)
    if (done === undefined) this.#pool.dispatch(task)
    else this.#end(name, done)
  }

  /** Throws if the task cannot be read; the reader of the stream then removes the entry. */
  #decode(fields: Fields, label: TaskLabel, entry: string): Task {
    try {
      return decodeTask(fields)
    } catch (error) {
      this.#refuse(label, { handler: null, entry }, `the task cannot be read: ${error}`)
      throw error
    }
  }

  /**
   * Invariant 3. Most of these tasks were sent before the owner changed, and the next owner waits for them: the worker
   * reports them once their entries are removed. `handler` null: the caller removes the entry.
   */
  #refuse(
    { name }: TaskLabel,
    { handler, entry }: { readonly handler: string | null; readonly entry: string },
    cause: string,
  ): void {
    const { jobId } = parseAttemptName(name)
    this.#refused += 1
    // At a take-over there may be hundreds at once: one line per second reports their number.
    if (performance.now() - this.#refusalLoggedAt >= REFUSAL_LOG_MS) {
      this.#refusalLoggedAt = performance.now()
      this.#parts.log.warn({ job_id: jobId, cause, refused: this.#refused }, "this worker refused a task")
    }
    const { keys } = this.#link
    if (keys === null) return
    if (handler !== null) removeEntries(this.#link, keys.tasks(handler), WORKERS, [entry]).catch(() => {})
    const from = { worker: this.#presence.id, name, handler: handler ?? "", entry }
    void this.#outbox.send(this.#parts.jobPartition(jobId), encodeReport({ kind: "refused", cause }, from))
  }

  // The events that the pool reports for its attempts.

  /** With `announce`: resolves when the engine has made the start durable. */
  started(task: StartReport): Promise<void> {
    const { announce, alone, place = false } = task
    const name = attemptName(task)
    void this.#report(name, startReport(announce, alone, place))
    const held = this.#held.get(name)
    if (!announce || held === undefined) return Promise.resolve()
    const asked: Asked = alone === false ? "join" : "begin"
    if (asked === "begin") held.needsPlace = place
    const before = held[asked]
    return new Promise(resolve => {
      held[asked] = () => {
        held[asked] = null
        before?.()
        resolve()
      }
    })
  }

  progress(task: TaskName, progress: Progress): void {
    this.#progress.set(attemptName(task), progress)
  }

  preview(task: TaskName, data: Json): void {
    void this.#report(attemptName(task), { kind: "preview", data })
  }

  asked(task: TaskName, question: ArtifactQuestion): Promise<ArtifactAnswer> {
    return this.#artifactRequests.ask(attemptName(task), question)
  }

  finished(task: TaskName, outcome: Outcome, { heldMs, ranMs, logLines, logRun }: AttemptTimes): void {
    const name = attemptName(task)
    const report = { kind: "finished", outcome, times: { heldMs, ranMs, logLines, logRun } } as const
    this.#done.add(name, report)
    this.#end(name, report)
  }

  /** Does not end the task: the engine has ended it, or `returned` follows. */
  aborted(task: TaskName, { worker: _, ...times }: AttemptTimes, usage: JsonObject | undefined): void {
    const report = { kind: "aborted", times, usage } as const
    const from = { worker: this.#presence.id, name: attemptName(task), handler: "", entry: "" }
    void this.#outbox.send(this.#parts.jobPartition(task.jobId), encodeReport(report, from))
  }

  #end(name: string, report: Report): void {
    void this.#report(name, report).then(() => this.#release(name))
  }

  /** Resolves when the report has reached Redis. */
  #report(name: string, report: Report): Promise<void> {
    const held = this.#held.get(name)
    if (held === undefined) return Promise.resolve()
    const { jobId, handler } = held.task
    const fields = encodeReport(report, { worker: this.#presence.id, name, handler, entry: held.entry })
    const topic = replacedTopic(report)
    return this.#outbox.send(this.#parts.jobPartition(jobId), fields, topic && `${topic} ${name}`)
  }

  #reportProgress(): void {
    if (this.#link.keys === null) return
    for (const [name, progress] of this.#progress) void this.#report(name, { kind: "progress", progress })
    this.#progress.clear()
  }

  /** Sends one message for all handlers that began, or reported usage, since the last one; none if there are none. */
  #reportBegun(): void {
    const { keys } = this.#link
    if (keys === null) return
    const tasks: BegunTask[] = []
    for (const [name, held] of this.#held) {
      const running = this.#pool.runningTask(held.task)
      if (running === null) continue
      const { usage } = running
      const used = usage && JSON.stringify(usage)
      if (held.isBegunReported && used === held.reportedUsage) continue
      held.isBegunReported = true
      if (used !== undefined) held.reportedUsage = used
      const ranMs = Math.round(running.ranMs)
      tasks.push(usage === undefined ? [name, ranMs] : [name, ranMs, usage])
    }
    if (tasks.length === 0) return
    const news: WorkerNotice = { type: "begun", worker: this.#presence.id, tasks }
    this.#link.send(["PUBLISH", keys.news, JSON.stringify(news)]).catch(() => {})
  }

  /** The engine's reply may have been lost. */
  #announceAgain(): void {
    if (this.#link.keys === null) return
    this.#artifactRequests.sendAgain()
    for (const [name, { task, begin, join, needsPlace }] of this.#held) {
      const alone = task.isolation === undefined ? undefined : true
      if (begin !== null) void this.#report(name, startReport(true, alone, needsPlace))
      if (join !== null) void this.#report(name, startReport(true, false))
    }
  }
}

/** The permission that a worker requests from the engine: to begin a task, or to run another isolated task beside it. */
type Asked = "begin" | "join"

const PROGRESS_MS = 200
const REFUSAL_LOG_MS = 1000
const BEGUN_MS = 250
const ANNOUNCE_MS = 1000
