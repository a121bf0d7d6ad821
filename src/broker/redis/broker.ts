import type { TaskWait } from "../../core/view/view.ts"
import type { Log, LogSink } from "../../log.ts"
import {
  attemptName,
  type BrokerHost,
  type Call,
  type CallAnswer,
  type CallOptions,
  type KnownRun,
  parseAttemptName,
  type RemoteWorkers,
  type RunningTask,
  type Task,
  type TaskName,
  type TaskWaits,
} from "../port.ts"
import { answerRequest } from "./artifact-requests.ts"
import { Calls } from "./calls.ts"
import { Link, removeEntries } from "./client/link.ts"
import { type Keys, storesKey, WORKERS } from "./keys.ts"
import { LogStreams } from "./log-streams.ts"
import { noWorker, type OutstandingTask, OutstandingTasks, remoteWaits, timely } from "./outstanding.ts"
import { Reconciliation } from "./reconciliation.ts"
import { Results } from "./results.ts"
import { Roster } from "./roster.ts"
import type { RedisSettings } from "./settings.ts"
import {
  type BegunTask,
  type Control,
  encodeTask,
  type Report,
  type Sender,
  type WorkerNotice,
} from "./wire.ts"
import { announcementField, announceStore, StoreAnnouncer, shortStoreId } from "./worker/stores.ts"

export interface RedisBrokerParts {
  readonly url: string
  readonly settings: RedisSettings
  /** The id of the store, and its display name. */
  readonly store: { readonly id: () => Promise<string>; readonly label: string }
  readonly host: BrokerHost
  readonly jobPartition: (jobId: string) => number
  readonly storeLogs: LogSink
  readonly log: Log
}

/**
 * Sends tasks to workers in other processes, through Redis. The data in Redis is expendable: reconciliation
 * (`reconciliation.ts`) finds the tasks that were sent and are neither done nor held by a worker, and they
 * are sent again.
 *
 * 1. A task is in `#tasks` from its dispatch or adoption until its end is reported to the engine, exactly
 *    once.
 * 2. Only the owner of a job, this engine, decides that a task is lost; workers never take tasks from each
 *    other.
 */
export class RedisBroker implements RemoteWorkers {
  readonly #roster: Roster
  readonly #parts: RedisBrokerParts
  readonly #link: Link
  readonly #results: Results
  readonly #logs: LogStreams
  readonly #reconciliation: Reconciliation
  readonly #tasks: OutstandingTasks
  readonly #calls: Calls
  #isPumping = false
  #isDraining = false
  #refusals = 0
  #store: string | null = null
  readonly #announcer = new StoreAnnouncer(() => this.#announce())

  constructor(parts: RedisBrokerParts) {
    const { url, settings, host, log, jobPartition } = parts
    this.#parts = parts
    this.#link = new Link({
      url,
      log,
      prefix: settings.prefix,
      store: () => this.#storeId(),
      answerMs: settings.answerSeconds * 1000,
      channel: keys => keys.news,
      onMessage: message => this.#receive(message),
      up: keys => this.#up(keys),
      down: () => this.#down(),
    })
    this.#roster = new Roster({
      link: this.#link,
      deadMs: settings.workerDeadSeconds * 1000,
      shownDeadMs: settings.shownDeadSeconds * 1000,
      log,
    })
    this.#tasks = new OutstandingTasks({
      slotMs: settings.windowSeconds * 1000,
      capacity: handler => this.#roster.capacity(handler),
    })
    this.#calls = new Calls(this)
    this.#results = new Results({
      link: this.#link,
      engine: host.id,
      blockMs: BLOCK_MS,
      maxUnsettled: settings.maxUnsettledReports,
      deliver: (report, from) => this.#deliver(report, from),
      durable: partition => host.durable(partition),
      log,
    })
    const isOwned = (partition: number) => this.#results.has(partition)
    this.#logs = new LogStreams({ link: this.#link, isOwned, store: parts.storeLogs, log })
    this.#reconciliation = new Reconciliation({
      link: this.#link,
      engine: host.id,
      settings,
      roster: this.#roster,
      results: this.#results,
      tasks: this.#tasks,
      ownedEpoch: partition => (this.#results.has(partition) ? host.epoch(partition) : undefined),
      jobPartition,
      lost: tasks => this.#lost(tasks),
      resend: task => {
        this.#tasks.putBack(task)
        this.#wake()
      },
      remove: (handler, entries) => this.#remove(handler, entries),
      publish: control => this.#publish(control),
      served: handler => this.#served(handler),
      rosterKnown: () => {
        this.#calls.giveUp(handler => !this.runs(handler))
        // A process that owns no partitions may outlive the last engine of its store.
        if (this.#results.partitions.length > 0) this.#announcer.repeat()
      },
      log,
    })
  }

  runs(handler: string): boolean {
    return this.#roster.serves(handler)
  }

  get live() {
    return [...this.#roster.live, ...this.#roster.awaited]
  }

  /** Resolves once it is known which workers are alive, or after `patienceMs`: Redis may be unavailable. */
  whenKnown(patienceMs: number): Promise<void> {
    return this.#roster.whenKnown(patienceMs)
  }

  refresh(): Promise<void> {
    return this.#reconciliation.refresh()
  }

  get dead() {
    return this.#roster.dead
  }

  get isUp(): boolean {
    return this.#link.keys !== null
  }

  get outdated() {
    return this.#roster.outdated
  }

  /** The number of tasks of this engine that workers have refused since the process started. */
  get refused(): number {
    return this.#refusals
  }

  /** The number of tasks that wait in this process for capacity in Redis. */
  get queued(): number {
    return this.#tasks.queued
  }

  runningTask(task: TaskName): RunningTask | null {
    const begun = this.#tasks.get(attemptName(task))?.begun ?? null
    if (begun === null) return null
    const { at, ...known } = begun
    return { ...known, ranMs: performance.now() - at }
  }

  isUncertain(task: TaskName): boolean {
    const found = this.#tasks.get(attemptName(task))
    return found !== undefined && found.begun === null && found.unknownUntil > performance.now()
  }

  waits(): TaskWaits {
    return remoteWaits(this.#tasks, { isUp: this.isUp, roster: this.#roster })
  }

  /** No live worker has the handler. */
  noWorkerWait(handler: string): TaskWait {
    return noWorker(handler, { isUp: this.isUp, roster: this.#roster })
  }

  dispatch(task: Task): void {
    if (!this.#isDraining && this.#tasks.add(task)) this.#wake()
  }

  cancel(task: TaskName, reason?: string, known?: KnownRun): void {
    const found = this.#tasks.get(attemptName(task))
    if (found === undefined) return
    found.isCancelled = true
    found.abortReason = reason
    found.known = known
    this.#forget(found)
    if (found.state !== "queued") this.#stop(found)
  }

  withdraw(task: TaskName): boolean {
    const found = this.#tasks.get(attemptName(task))
    if (found === undefined) return true
    if (found.state !== "queued") return false
    this.#forget(found)
    return true
  }

  release(task: TaskName): void {
    const found = this.#tasks.get(attemptName(task))
    if (found !== undefined) this.#forget(found)
  }

  adopt(task: TaskName, handler: string): boolean {
    // A worker that does not report within the death timeout is dead.
    const deadMs = this.#parts.settings.workerDeadSeconds * 1000
    this.#tasks.adopt(task, handler, performance.now() + deadMs)
    return true
  }

  answers(handler: string): boolean {
    return this.isUp && this.runs(handler)
  }

  call(call: Call, options: CallOptions): Promise<CallAnswer> {
    return this.#calls.make(call, options)
  }

  has(task: TaskName): boolean {
    return this.#tasks.has(attemptName(task))
  }

  holder(task: TaskName): string | null {
    return this.#roster.holder(attemptName(task))
  }

  partitionsTaken(partitions: readonly number[]): void {
    this.#results.partitionsTaken(partitions)
    this.#reconciliation.partitionsTaken(partitions)
    this.#logs.arrived(partitions)
  }

  left(partitions: readonly number[]): void {
    this.#results.partitionsReleased(partitions)
  }

  resume(): void {
    this.#wake()
  }

  /** Tasks that workers hold continue; the next owner of their jobs adopts them. */
  async drain(): Promise<void> {
    this.#isDraining = true
    this.#reconciliation.stop()
    await this.#results.stop()
    await this.#logs.stop()
    for (const task of this.#tasks.values()) if (task.state === "queued") this.#forget(task)
  }

  async close(): Promise<void> {
    await this.drain()
    await this.#withdrawStore()
    await this.#link.close()
  }

  async #storeId(): Promise<string> {
    this.#store ??= shortStoreId(await this.#parts.store.id())
    return this.#store
  }

  /** Announces the store, so that workers find the store that they work for. */
  async #announce(): Promise<void> {
    const { settings, store, host } = this.#parts
    const announced = { id: await this.#storeId(), label: store.label, engine: host.id }
    await announceStore(args => this.#link.send(args), storesKey(settings.prefix), announced)
  }

  /** Without an engine the store is not live: a worker that starts next must not find it. */
  async #withdrawStore(): Promise<void> {
    if (!(await this.#announcer.stop()) || !this.isUp) return
    const field = announcementField(await this.#storeId(), this.#parts.host.id)
    await this.#link.send(["HDEL", storesKey(this.#parts.settings.prefix), field]).catch(() => {})
  }

  #up(keys: Keys): void {
    this.#announcer.reset()
    this.#results.wake()
    this.#logs.arrived(this.#results.partitions)
    this.#reconciliation.start(keys)
  }

  /** It is unknown whether the commands in flight reached Redis. Callers have a fallback and do not wait for it. */
  #down(): void {
    this.#calls.giveUp(() => true)
    for (const task of this.#tasks.values()) if (task.state === "sent") task.state = "unsure"
  }

  #wake(): void {
    if (this.#isPumping) return
    this.#isPumping = true
    queueMicrotask(() => this.#pump())
  }

  #pump(): void {
    this.#isPumping = false
    const { keys } = this.#link
    // An engine that was suspended and resumes would send tasks that others have taken over, and finished,
    // meanwhile.
    if (keys === null || !this.#parts.host.isSure()) return
    this.#tasks.takeReady(task => void this.#send(keys, task))
  }

  async #send(keys: Keys, task: OutstandingTask): Promise<void> {
    try {
      const epoch = this.#parts.host.epoch(this.#parts.jobPartition(task.task.jobId)) ?? 0
      const fields = encodeTask(timely(task.content!, task.queuedAt), { name: task.name, epoch })
      task.refused = null
      const entry = await this.#link.send(["XADD", keys.tasks(task.handler), "*", ...fields])
      task.entry = entry as string
      if (task.isCancelled) this.#stop(task)
    } catch (error) {
      task.state = "unsure"
      this.#parts.log.warn(
        { error: String(error) },
        "a task may not have reached Redis; reconciliation will check this",
      )
      this.#reconciliation.request()
    }
  }

  /**
   * Invariant 1. Returns false if the end of the task was reported before, or the task is not tracked here.
   */
  #forget(task: OutstandingTask): boolean {
    const isRemoved = this.#tasks.remove(task)
    if (isRemoved) this.#wake()
    return isRemoved
  }

  /**
   * Any process that reaches Redis can publish anything, and a later release more than this one understands.
   */
  #receive(message: string): void {
    try {
      const news = JSON.parse(message) as WorkerNotice
      if (news.type === "begun") for (const task of news.tasks) this.#tasksBegun(news.worker, task)
      else if (news.type === "logs") this.#logs.arrived(news.partitions)
      else if (news.type === "left") {
        this.#roster.left(news.worker)
        this.#reconciliation.request()
      }
    } catch (error) {
      this.#parts.log.warn({ error: String(error) }, "could not read a message of a worker")
    }
  }

  #tasksBegun(worker: string, [name, ranMs, usage]: BegunTask): void {
    const task = this.#tasks.get(name)
    if (task === undefined || task.state === "queued" || !Number.isFinite(ranMs)) return
    const at = performance.now() - ranMs
    task.begun = typeof usage === "object" && usage !== null ? { worker, at, usage } : { worker, at }
  }

  #deliver(report: Report, from: Sender): void {
    const { events } = this.#parts.host
    const { name } = from
    const task = parseAttemptName(name)
    if (report.kind === "started") void this.#started(task, report, from.worker)
    else if (report.kind === "asked") void this.#answer(report, from)
    else if (report.kind === "progress") events.progress(task, report.progress)
    else if (report.kind === "preview") {
      if (!this.#calls.preview(name, report.data)) events.preview(task, report.data)
    } else if (report.kind === "aborted")
      events.aborted(task, { worker: from.worker, ...report.times }, report.usage)
    else if (report.kind === "refused") this.#refused(from, report.cause ?? "no reason given")
    else if (report.kind === "returned") this.#returned(from)
    else {
      this.#settle(name)
      if (!this.#calls.answer(name, report.outcome))
        events.finished(task, report.outcome, { worker: from.worker, ...report.times })
    }
  }

  async #answer(report: Extract<Report, { kind: "asked" }>, from: Sender): Promise<void> {
    const answered = await answerRequest(report, from, this.#parts.host.events)
    if (answered !== null) this.#publish({ type: "answer", ...answered })
  }

  /**
   * The report may arrive twice, when another worker holds the task already: then it says nothing about that
   * worker.
   */
  #returned({ name, entry }: Sender): void {
    const found = this.#tasks.get(name)
    if (found === undefined || found.state === "queued") return
    if (found.entry !== null && found.entry !== entry) return
    this.#forget(found)
    if (!this.#calls.answer(name, null)) this.#parts.host.events.returned(found.task)
  }

  /**
   * At a take-over, workers refuse a task that an earlier owner of the job had sent, and it is sent again at
   * once. A task that is refused repeatedly is sent at the next roster poll, so that engine and worker do not
   * keep each other busy.
   */
  #refused({ name, worker }: Sender, cause: string): void {
    const task = this.#tasks.get(name)
    if (task === undefined) return
    this.#refusals += 1
    task.refused = cause
    task.begun = null
    task.unknownUntil = 0
    task.refusals += 1
    if (task.refusals === 1) {
      this.#reconciliation.request()
      return
    }
    this.#parts.log.warn(
      { job_id: task.task.jobId, worker, handler: task.handler, cause, times: task.refusals },
      "a worker refused a task",
    )
    this.#reconciliation.requestLater()
  }

  #settle(name: string): void {
    const found = this.#tasks.get(name)
    if (found !== undefined) this.#forget(found)
  }

  async #started(
    task: TaskName,
    { announce, alone, place }: Extract<Report, { kind: "started" }>,
    worker: string,
  ): Promise<void> {
    try {
      await this.#parts.host.events.started({ ...task, announce, alone, place }, worker)
      const joined = alone === false || undefined
      if (announce) this.#publish({ type: "begin", name: attemptName(task), joined })
    } catch {
      // Not durable: the worker does not begin, and repeats its request while it waits.
    }
  }

  #lost(tasks: readonly OutstandingTask[]): void {
    const lost = tasks.filter(({ name }) => this.#tasks.has(name))
    const attempts = lost.filter(({ name }) => !this.#calls.answer(name, "lost"))
    const callsToo = attempts.length < lost.length
    if (lost.length > 0)
      this.#parts.host.events.lost(
        attempts.map(({ task }) => task),
        callsToo,
      )
    // After the report: the fact that records the loss states which of them were running.
    for (const task of lost) this.#forget(task)
  }

  /** Removes the task from its stream, and stops the worker that holds it. */
  #stop({ handler, entry, name, abortReason: reason, known }: OutstandingTask): void {
    if (entry !== null) this.#remove(handler, [entry])
    this.#publish({ type: "cancel", names: [name], reason, submissions: true, known })
  }

  /** The next reconciliation finds an entry that was not removed. */
  #remove(handler: string, entries: readonly string[]): void {
    const { keys } = this.#link
    if (keys !== null) removeEntries(this.#link, keys.tasks(handler), WORKERS, entries).catch(() => {})
  }

  /**
   * A worker that misses the message receives it again: see `stopStale` of the reconciliation, and `announce`
   * of the worker.
   */
  #publish(control: Control): void {
    const { keys } = this.#link
    if (keys !== null) this.#link.send(["PUBLISH", keys.control, JSON.stringify(control)]).catch(() => {})
  }

  #served(handler: string): void {
    this.#parts.host.served(handler)
    this.#wake()
  }
}

/**
 * The block time of reads of results at the server. A process that is suspended for longer than this receives
 * no more of them. Any new entry ends the wait, so another value would gain nothing.
 */
const BLOCK_MS = 1000
