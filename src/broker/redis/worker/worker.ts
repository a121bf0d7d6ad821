import type { Json } from "../../../core/json.ts"
import type { Progress } from "../../../core/view/view.ts"
import type { Log } from "../../../log.ts"
import { ownIdentity } from "../../../process-identity.ts"
import { LocalBroker, type Runner, workerStops } from "../../local.ts"
import type { AttemptTimes, Outcome, Task, TaskEvents, TaskName, TaskNews } from "../../port.ts"
import { nameFrom, nameOf } from "../../task-name.ts"
import { Link, removeEntries } from "../client/link.ts"
import { Deliveries } from "../deliveries.ts"
import { type Keys, WORKERS } from "../keys.ts"
import { Outbox } from "../outbox.ts"
import { Presence } from "../presence.ts"
import { Refusals } from "../refusals.ts"
import { Remembered } from "../remembered.ts"
import type { WorkerBeat } from "../roster.ts"
import type { RedisSettings } from "../settings.ts"
import {
  type BegunTask,
  type Control,
  decodeTask,
  encodeReport,
  type Fields,
  labelOf,
  type Report,
  type TaskLabel,
  type WorkerNews,
} from "../wire.ts"
import { OwnerEpochs } from "./owner-epochs.ts"
import { WorkerStore } from "./store.ts"

export interface RedisWorkerParts {
  readonly url: string
  readonly settings: RedisSettings
  readonly runner: Runner
  /** Handlers whose tasks it takes. */
  readonly handlers: readonly string[]
  readonly concurrency: number
  readonly partitionOf: (jobId: string) => number
  readonly version: string
  readonly log: Log
}

/** A task in hand, from its delivery until its last report has reached Redis. */
interface Held {
  readonly task: Task
  entry: string
  readonly epoch: number
  /** Set while the handler may not run, or send its next request, yet: the engine says when. */
  begin: (() => void) | null
  /** Does `begin` also wait for a place in the rate of the task's provider? */
  needsPlace: boolean
  /** Set while an isolated task beside it may not run yet. */
  join: (() => void) | null
  /** Do the engines know that its handler has begun? */
  isToldBegun: boolean
  /** As JSON: what they know that it has used. */
  toldUsage?: string
}

/**
 * A worker that needs nothing but Redis.
 *
 * 1. A task that comes twice runs once: while it is in hand, and for a while after it is done, it is known.
 * 2. Who was silent for too long is dead to the engines (`presence.ts`), and its tasks are others'. So it drops them.
 * 3. What an engine sends that has been replaced, and does not know, is not run: its successor may have done it.
 * 4. It takes and begins nothing while it may be dead to them: a process that was suspended and goes on must not begin what
 *    others have done meanwhile.
 */
export class RedisWorker implements TaskEvents {
  readonly #parts: RedisWorkerParts
  readonly #link: Link
  readonly #presence: Presence
  readonly #pool: LocalBroker
  readonly #outbox: Outbox
  readonly #deliveries: Deliveries
  readonly #owners = new OwnerEpochs()
  readonly #held = new Map<string, Held>()
  readonly #done = new Remembered()
  /** What is to be told with the next turn; the latest wins. */
  readonly #progress = new Map<string, Progress>()
  readonly #timers: NodeJS.Timeout[] = []
  readonly #store: WorkerStore
  readonly #refusals: Refusals

  constructor(parts: RedisWorkerParts) {
    const { url, settings, runner, handlers, concurrency, log } = parts
    this.#parts = parts
    this.#refusals = new Refusals(log)
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
      heard: message => this.#heard(message),
      up: () => void this.#presence.beat(),
      down: () => this.#presence.away(),
    })
    this.#presence = new Presence({
      ...{ link: this.#link, log, deadMs: settings.workerDeadSeconds * 1000 },
      shownDeadMs: settings.shownDeadSeconds * 1000,
      says: id => this.#says(id),
      comeBack: (keys, id) => this.#comeBack(keys, id),
      wasSilent: () => this.#giveBack(),
      replaced: () => {
        for (const name of [...this.#held.keys()]) this.#drop(name)
      },
      beaten: () => {
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
      // Isolated tasks wait for each other: that is no reason to take fewer of the others.
      room: () => concurrency + settings.prefetch + this.#pool.suspects - this.#held.size,
      isExact: settings.prefetch < handlers.length,
      take: (entry, fields) => this.#take(entry, fields),
      forgotten: () => this.#presence.beat(),
      log,
    })
    this.#every(settings.workerBeatSeconds * 1000, () => void this.#presence.beat())
    this.#every(PROGRESS_MS, () => this.#tellProgress())
    this.#every(ANNOUNCE_MS, () => this.#announceAgain())
    this.#every(BEGUN_MS, () => this.#tellBegun())
    this.#every(settings.workerBeatSeconds * 1000, () => void this.#followStore().catch(() => {}))
  }

  get id(): string {
    return this.#presence.id
  }

  get running(): number {
    return this.#pool.running
  }

  /** Tasks that it has refused since it started. */
  get refused(): number {
    return this.#refusals.count
  }

  /** Resolves with the id of the store that it works for; rejects with E620 if none was given and several are live. */
  get bound(): Promise<string> {
    return this.#store.bound
  }

  /** Why it cannot be given work; null: it can. */
  get notReady(): string | null {
    if (this.#store.problem !== null) return this.#store.problem
    if (this.#link.keys === null) return "Redis cannot be reached"
    return this.#presence.isKnown ? null : "this worker is not known to the engines yet"
  }

  /** Gives back what it has not begun, lets the rest end, and leaves. */
  async stop(graceMs: number): Promise<void> {
    // A Redis that does not answer must not keep handlers from ending in time: what it still hands over is given back later.
    const stopped = this.#deliveries.stop().then(() => this.#giveBack())
    this.#giveBack()
    await this.#pool.drain(graceMs)
    await stopped
    for (const name of [...this.#held.keys()]) this.#end(name, { kind: "returned" })
    await this.#leave()
    for (const timer of this.#timers) clearInterval(timer)
    await this.#link.close()
  }

  /** What has not begun. */
  #giveBack(): void {
    for (const [name, { task }] of [...this.#held]) {
      if (this.#pool.isRunningHere(task)) continue
      this.#pool.cancel(task, workerStops)
      this.#end(name, { kind: "returned" })
    }
  }

  async #leave(): Promise<void> {
    const until = performance.now() + this.#parts.settings.answerSeconds * 1000
    while (!this.#outbox.isEmpty && performance.now() < until)
      await new Promise(resolve => setTimeout(resolve, 10))
    await this.#presence.leave()
  }

  /** To another store only with nothing in hand. */
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

  /** What was handed to it and never seen is in nobody else's hand. */
  async #comeBack(keys: Keys, id: string): Promise<void> {
    await this.#owners.read(this.#link, keys)
    for (const held of this.#held.values()) held.isToldBegun = false
    await this.#deliveries.recover(keys, id)
  }

  /** Anybody who reaches Redis can say anything there, and a later release more than this one knows. */
  #heard(message: string): void {
    try {
      this.#obey(JSON.parse(message) as Control)
    } catch (error) {
      this.#parts.log.warn({ error: String(error) }, "what was said to workers cannot be understood")
    }
  }

  #obey(control: Control): void {
    if (control.type === "begin") this.#begin(control.name, control.joined === true ? "join" : "begin")
    else if (control.type === "epochs") this.#ownersChanged(control.epochs)
    else if (control.type === "cancel")
      for (const name of control.names)
        if (control.submissions === true || !this.#isSubmitting(name)) this.#drop(name, control.reason)
  }

  /** The new owners do not know yet which handlers run, and are told at once. */
  #ownersChanged(epochs: Parameters<OwnerEpochs["changed"]>[0]): void {
    this.#owners.changed(epochs)
    for (const held of this.#held.values()) held.isToldBegun = false
    this.#tellBegun()
  }

  /** Has it begun to submit to a provider? */
  #isSubmitting(name: string): boolean {
    const task = this.#held.get(name)?.task
    return task?.provider !== undefined && this.#pool.isRunningHere(task)
  }

  /** Not alive: what is held back until the next beat is announced again, or somebody else's. */
  #begin(name: string, what: Asked): void {
    if (this.#presence.isAlive) this.#held.get(name)?.[what]?.()
  }

  /** Nobody wants it any more. */
  #drop(name: string, reason?: string): void {
    const held = this.#held.get(name)
    if (held === undefined) return
    this.#pool.cancel(held.task, reason)
    held.begin?.()
    held.join?.()
    this.#letGo(name)
  }

  #letGo(name: string): void {
    this.#held.delete(name)
    this.#progress.delete(name)
    this.#deliveries.wake()
  }

  #says(id: string): WorkerBeat {
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
    const label = labelOf(fields)
    if (label === null) throw new TypeError("It has no name, or no epoch.")
    const { name, epoch } = label
    const held = this.#held.get(name)
    if (held !== undefined) {
      // What the engine knows of it is the entry that it sent last.
      held.entry = entry
      return
    }
    const task = this.#decode(fields, label, entry)
    const partition = this.#parts.partitionOf(task.jobId)
    const current = this.#owners.current(partition)
    if (epoch < current) {
      const cause = `epoch ${epoch} of partition ${partition} is over: its owner has epoch ${current}`
      this.#refuse(label, { handler: task.handler, entry }, cause)
      return
    }
    this.#held.set(name, {
      ...{ task, entry, epoch, begin: null, join: null },
      needsPlace: false,
      isToldBegun: false,
    })
    const done = this.#done.get(name)
    if (done === undefined) this.#pool.dispatch(task)
    else this.#end(name, done)
  }

  /** Throws if it cannot be read; whoever reads the stream removes the entry then. */
  #decode(fields: Fields, label: TaskLabel, entry: string): Task {
    try {
      return decodeTask(fields)
    } catch (error) {
      this.#refuse(label, { handler: null, entry }, `the task cannot be read: ${error}`)
      throw error
    }
  }

  /**
   * Invariant 3. Most were sent before the owner changed, and the next owner waits for them: it is told, once they are gone.
   * `handler` null: the caller removes the entry.
   */
  #refuse(
    { name }: TaskLabel,
    { handler, entry }: { readonly handler: string | null; readonly entry: string },
    cause: string,
  ): void {
    const { jobId } = nameFrom(name)
    this.#refusals.add(jobId, cause)
    const { keys } = this.#link
    if (keys === null) return
    if (handler !== null) removeEntries(this.#link, keys.tasks(handler), WORKERS, [entry]).catch(() => {})
    const from = { worker: this.#presence.id, name, handler: handler ?? "", entry }
    void this.#outbox.send(this.#parts.partitionOf(jobId), encodeReport({ kind: "refused", cause }, from))
  }

  // What the pool says of its attempts.

  /** With `announce`: resolves when the engine has made it durable. */
  started(task: TaskNews): Promise<void> {
    const { announce, alone, place = false } = task
    const name = nameOf(task)
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
    this.#progress.set(nameOf(task), progress)
  }

  preview(task: TaskName, data: Json): void {
    void this.#report(nameOf(task), { kind: "preview", data })
  }

  finished(task: TaskName, outcome: Outcome, { heldMs, ranMs }: AttemptTimes): void {
    const name = nameOf(task)
    const report = { kind: "finished", outcome, times: { heldMs, ranMs } } as const
    this.#done.add(name, report)
    this.#end(name, report)
  }

  #end(name: string, report: Report): void {
    void this.#report(name, report).then(() => this.#letGo(name))
  }

  /** Resolves when it has reached Redis. */
  #report(name: string, report: Report): Promise<void> {
    const held = this.#held.get(name)
    if (held === undefined) return Promise.resolve()
    const { jobId, handler } = held.task
    const fields = encodeReport(report, { worker: this.#presence.id, name, handler, entry: held.entry })
    const topic = NEWS.has(report.kind) ? `${topicOf(report)} ${name}` : undefined
    return this.#outbox.send(this.#parts.partitionOf(jobId), fields, topic)
  }

  #tellProgress(): void {
    if (this.#link.keys === null) return
    for (const [name, progress] of this.#progress) void this.#report(name, { kind: "progress", progress })
    this.#progress.clear()
  }

  /** One message for all handlers that began, or reported usage, since the last one; none if there are none. */
  #tellBegun(): void {
    const { keys } = this.#link
    if (keys === null) return
    const tasks: BegunTask[] = []
    for (const [name, held] of this.#held) {
      const running = this.#pool.runningTask(held.task)
      if (running === null) continue
      const { usage } = running
      const used = usage && JSON.stringify(usage)
      if (held.isToldBegun && used === held.toldUsage) continue
      held.isToldBegun = true
      if (used !== undefined) held.toldUsage = used
      const ranMs = Math.round(running.ranMs)
      tasks.push(usage === undefined ? [name, ranMs] : [name, ranMs, usage])
    }
    if (tasks.length === 0) return
    const news: WorkerNews = { type: "begun", worker: this.#presence.id, tasks }
    this.#link.send(["PUBLISH", keys.news, JSON.stringify(news)]).catch(() => {})
  }

  /** The answer may have been lost. */
  #announceAgain(): void {
    if (this.#link.keys === null) return
    for (const [name, { task, begin, join, needsPlace }] of this.#held) {
      const alone = task.isolation === undefined ? undefined : true
      if (begin !== null) void this.#report(name, startReport(true, alone, needsPlace))
      if (join !== null) void this.#report(name, startReport(true, false))
    }
  }
}

/** What is asked of the engine with an announced start. */
type Asked = "begin" | "join"

function topicOf(report: Report): string {
  return report.kind === "started" && report.alone === false ? "joined" : report.kind
}

function startReport(announce: boolean, alone: boolean | undefined, place = false): Report {
  return { kind: "started", announce, ...(alone !== undefined && { alone }), ...(place && { place }) }
}

const PROGRESS_MS = 200
const BEGUN_MS = 250
const ANNOUNCE_MS = 1000
/** Of reports of these kinds the next one says it all. */
const NEWS: ReadonlySet<Report["kind"]> = new Set(["started", "progress", "preview"])
