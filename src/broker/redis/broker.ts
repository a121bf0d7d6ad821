import type { Log } from "../../log.ts"
import type { Queued } from "../fair-queue.ts"
import type { Broker, BrokerHost, Call, Outcome, RemoteWorkers, Task, TaskName } from "../port.ts"
import { nameFrom, nameOf } from "../task-name.ts"
import { type Keys, WORKERS } from "./keys.ts"
import { Link, removeEntries } from "./link.ts"
import { Reconciliation } from "./reconciliation.ts"
import { Results } from "./results.ts"
import { Roster } from "./roster.ts"
import type { RedisSettings } from "./settings.ts"
import { Window } from "./window.ts"
import { type Control, encodeTask, type Report, type Sender } from "./wire.ts"

export interface RedisBrokerParts {
  readonly url: string
  readonly settings: RedisSettings
  readonly host: BrokerHost
  readonly partitionOf: (jobId: string) => number
  readonly log: Log
}

/** A task between its dispatch, or its adoption, and its end. */
export interface Outstanding extends Queued {
  readonly name: string
  readonly task: TaskName
  readonly handler: string
  /** What to send, should it have to be sent again; null: an earlier owner of the job had sent it. */
  readonly content: Task | null
  /** `queued`: not in Redis yet. `unsure`: whether it is there must be found out. */
  state: "queued" | "sent" | "unsure"
  /** In the stream of its handler; null: not known. */
  entry: string | null
  isCancelled: boolean
}

/**
 * Tasks go to workers in other processes, through Redis. Nothing there is needed again once it is lost: what was sent,
 * and is neither done nor in anybody's hand, is found out (`reconciliation.ts`) and sent again.
 *
 * 1. A task is in `#tasks` from dispatch or adoption until its end is told to the engine, exactly once.
 * 2. Who decides that a task is lost is its job's owner, this engine; workers never take tasks from each other.
 */
export class RedisBroker implements Broker, RemoteWorkers {
  readonly remote: RemoteWorkers = this
  readonly #roster: Roster
  readonly #parts: RedisBrokerParts
  readonly #link: Link
  readonly #results: Results
  readonly #reconciliation: Reconciliation
  readonly #tasks = new Map<string, Outstanding>()
  /** Who waits for what came of a call, by its name. */
  readonly #calls = new Map<string, Waiting>()
  /** Never the same twice, whichever engine calls. */
  #called = Date.now() * 1000
  readonly #windows = new Map<string, Window<Outstanding>>()
  #isPumping = false
  #isDraining = false

  constructor(parts: RedisBrokerParts) {
    const { url, settings, host, log, partitionOf } = parts
    this.#parts = parts
    this.#link = new Link({
      url,
      log,
      prefix: settings.prefix,
      answerMs: settings.answerSeconds * 1000,
      up: keys => this.#up(keys),
      down: () => this.#down(),
    })
    this.#roster = new Roster(this.#link, settings.workerDeadSeconds * 1000)
    this.#results = new Results({
      link: this.#link,
      engine: host.id,
      blockMs: BLOCK_MS,
      deliver: (report, from) => this.#deliver(report, from),
      durable: partition => host.durable(partition),
      log,
    })
    this.#reconciliation = new Reconciliation({
      link: this.#link,
      engine: host.id,
      settings,
      roster: this.#roster,
      results: this.#results,
      tasks: this.#tasks,
      epochOf: partition => (this.#results.has(partition) ? host.epoch(partition) : undefined),
      partitionOf,
      lost: tasks => this.#lost(tasks),
      again: task => this.#sendAgain(task),
      remove: (handler, entries) => this.#remove(handler, entries),
      say: control => this.#say(control),
      served: handler => this.#served(handler),
      looked: () => this.#looked(),
      log,
    })
  }

  runs(handler: string): boolean {
    return this.#roster.serves(handler)
  }

  get live() {
    return this.#roster.live
  }

  get dead() {
    return this.#roster.dead
  }

  get isUp(): boolean {
    return this.#link.keys !== null
  }

  /** Tasks that wait in this process for room in Redis. */
  get queued(): number {
    let sent = 0
    for (const window of this.#windows.values()) sent += window.sent
    return this.#tasks.size - sent
  }

  /** In Redis, or with a worker. */
  isSent(task: TaskName): boolean {
    const found = this.#tasks.get(nameOf(task))
    return found !== undefined && found.state !== "queued"
  }

  dispatch(task: Task): void {
    const name = nameOf(task)
    if (this.#isDraining || this.#tasks.has(name)) return
    const { handler, owner, workflow, priority } = task
    const waiting = { name, task, handler, content: task, owner, workflow, priority }
    this.#queue({ ...waiting, state: "queued", entry: null, isCancelled: false, removed: false })
  }

  cancel(task: TaskName): void {
    const found = this.#tasks.get(nameOf(task))
    if (found === undefined) return
    found.isCancelled = true
    this.#forget(found)
    if (found.state !== "queued") this.#stop(found)
  }

  release(task: TaskName): void {
    const found = this.#tasks.get(nameOf(task))
    if (found !== undefined) this.#forget(found)
  }

  adopt(task: TaskName, handler: string): boolean {
    const name = nameOf(task)
    if (this.#tasks.has(name)) return true
    const unknown = { owner: "", workflow: "", priority: 0, content: null, entry: null }
    this.#tasks.set(name, {
      name,
      task,
      handler,
      ...unknown,
      state: "unsure",
      isCancelled: false,
      removed: false,
    })
    this.#window(handler).sent += 1
    return true
  }

  answers(handler: string): boolean {
    return this.isUp && this.runs(handler)
  }

  /** A task of its own name, which is nobody's attempt: what a worker knows of earlier ones is not taken for its answer. */
  call(call: Call, signal: AbortSignal): Promise<Outcome | null> {
    const task = callTask(call, ++this.#called)
    const name = nameOf(task)
    return new Promise(resolve => {
      const giveUp = () => this.#giveUp(name)
      const answered = (outcome: Outcome | null) => {
        this.#calls.delete(name)
        // A signal may outlive a million calls.
        signal.removeEventListener("abort", giveUp)
        resolve(outcome)
      }
      this.#calls.set(name, { task, answered })
      signal.addEventListener("abort", giveUp)
      this.dispatch(task)
    })
  }

  #giveUp(name: string): void {
    const call = this.#calls.get(name)
    if (call === undefined) return
    this.cancel(call.task)
    call.answered(null)
  }

  /** A node waits for a worker as long as it takes. Who calls has another way. */
  #looked(): void {
    for (const [name, { task }] of [...this.#calls]) if (!this.runs(task.handler)) this.#giveUp(name)
  }

  has(task: TaskName): boolean {
    return this.#tasks.has(nameOf(task))
  }

  came(partitions: readonly number[]): void {
    this.#results.came(partitions)
    this.#reconciliation.claim(partitions)
  }

  left(partitions: readonly number[]): void {
    this.#results.left(partitions)
  }

  goOn(): void {
    this.#wake()
  }

  /** What workers have in hand goes on, for whoever owns its jobs next. */
  async drain(): Promise<void> {
    this.#isDraining = true
    this.#reconciliation.stop()
    await this.#results.stop()
    for (const task of [...this.#tasks.values()]) if (task.state === "queued") this.#forget(task)
  }

  async close(): Promise<void> {
    await this.drain()
    await this.#link.close()
  }

  #up(keys: Keys): void {
    this.#results.wake()
    this.#reconciliation.start(keys)
  }

  /** Of what was under way nobody knows whether it arrived. Who called can do without, and does not wait for Redis. */
  #down(): void {
    for (const name of [...this.#calls.keys()]) this.#giveUp(name)
    for (const task of this.#tasks.values()) if (task.state === "sent") task.state = "unsure"
  }

  #queue(task: Outstanding): void {
    this.#tasks.set(task.name, task)
    this.#window(task.handler).queue.push(task)
    this.#wake()
  }

  #window(handler: string): Window<Outstanding> {
    let window = this.#windows.get(handler)
    if (window === undefined) {
      const slotMs = this.#parts.settings.windowSeconds * 1000
      window = new Window({ slotMs, capacity: () => this.#roster.capacity(handler) })
      this.#windows.set(handler, window)
    }
    return window
  }

  #wake(): void {
    if (this.#isPumping) return
    this.#isPumping = true
    queueMicrotask(() => this.#pump())
  }

  #pump(): void {
    this.#isPumping = false
    const { keys } = this.#link
    // An engine that was suspended and goes on would send what others have taken over, and done, meanwhile.
    if (keys === null || !this.#parts.host.isSure()) return
    for (const window of this.#windows.values()) {
      while (window.hasRoom) {
        const task = window.queue.take()
        if (task === undefined) break
        window.sent += 1
        void this.#send(keys, task)
      }
    }
  }

  async #send(keys: Keys, task: Outstanding): Promise<void> {
    task.state = "sent"
    try {
      const epoch = this.#parts.host.epoch(this.#parts.partitionOf(task.task.jobId)) ?? 0
      const fields = encodeTask(task.content!, { name: task.name, epoch })
      const entry = await this.#link.send(["XADD", keys.tasks(task.handler), "*", ...fields])
      task.entry = entry as string
      if (task.isCancelled) this.#stop(task)
    } catch (error) {
      task.state = "unsure"
      this.#parts.log.warn(
        { error: String(error) },
        "a task may not have reached Redis; it will be looked for",
      )
      this.#reconciliation.ask()
    }
  }

  #sendAgain(task: Outstanding): void {
    if (task.content === null) return
    this.#window(task.handler).sent -= 1
    task.state = "queued"
    task.entry = null
    this.#queue(task)
  }

  /** Invariant 1: false if the task's end was told before, or it is not our business. */
  #forget(task: Outstanding): boolean {
    if (!this.#tasks.delete(task.name)) return false
    const window = this.#window(task.handler)
    if (task.state === "queued") window.queue.remove(task)
    else window.finished()
    this.#wake()
    return true
  }

  #deliver(report: Report, { name, worker }: Sender): void {
    const { events } = this.#parts.host
    const task = nameFrom(name)
    if (report.kind === "started") void this.#started(task, report.announce, worker)
    else if (report.kind === "progress") events.progress(task, report.progress)
    else if (report.kind === "preview") events.preview(task, report.data)
    else if (report.kind === "refused") this.#refused(name)
    else {
      this.#settle(name)
      const call = this.#calls.get(name)
      if (call !== undefined) call.answered(report.kind === "finished" ? report.outcome : null)
      else if (report.kind === "finished") events.finished(task, report.outcome)
      else events.returned(task)
    }
  }

  /** If it is still wanted, it has to be found out whether somebody else has it. */
  #refused(name: string): void {
    if (this.#tasks.has(name)) this.#reconciliation.ask()
  }

  #settle(name: string): void {
    const found = this.#tasks.get(name)
    if (found !== undefined) this.#forget(found)
  }

  async #started(task: TaskName, announce: boolean, worker: string): Promise<void> {
    try {
      await this.#parts.host.events.started({ ...task, announce }, worker)
      if (announce) this.#say({ type: "begin", name: nameOf(task) })
    } catch {
      // Not durable: the worker does not begin, and asks again as long as it waits.
    }
  }

  #lost(tasks: readonly Outstanding[]): void {
    const lost = tasks.filter(task => this.#forget(task))
    const attempts = lost.filter(({ name }) => !this.#calls.has(name))
    for (const { name } of lost) this.#calls.get(name)?.answered(null)
    if (attempts.length > 0) this.#parts.host.events.lost(attempts.map(({ task }) => task))
  }

  /** Out of the stream, and out of the hands of whoever works on it. */
  #stop({ handler, entry, name }: Outstanding): void {
    if (entry !== null) this.#remove(handler, [entry])
    this.#say({ type: "cancel", names: [name] })
  }

  /** An entry that stays behind is found by the next look. */
  #remove(handler: string, entries: readonly string[]): void {
    const { keys } = this.#link
    if (keys !== null) removeEntries(this.#link, keys.tasks(handler), WORKERS, entries).catch(() => {})
  }

  /** Who does not hear it is told again: see `stopStale` of the reconciliation, and `announce` of the worker. */
  #say(control: Control): void {
    const { keys } = this.#link
    if (keys !== null) this.#link.send(["PUBLISH", keys.control, JSON.stringify(control)]).catch(() => {})
  }

  #served(handler: string): void {
    this.#parts.host.served(handler)
    this.#wake()
  }
}

/** For what comes of a call. */
interface Waiting {
  readonly task: Task
  readonly answered: (outcome: Outcome | null) => void
}

function callTask(call: Call, number: number): Task {
  const none = { late: [], input: null, parents: () => ({}), traceparent: null, timeoutSeconds: null }
  const place = { node: 0, attempt: -number, workflowVersion: 0, priority: 0, announce: false }
  return { ...call, ...none, ...place }
}

/** At the server, for results. An engine that stands still longer than this is handed no more of them. */
const BLOCK_MS = 1000
