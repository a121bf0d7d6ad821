import type { JsonObject } from "../../core/json.ts"
import type { TaskWait } from "../../core/view/view.ts"
import { FairQueue, type Queued } from "../fair-queue.ts"
import { LATE_MS } from "../local.ts"
import { attemptName, type KnownRun, type Task, type TaskName, type TaskWaits } from "../port.ts"
import type { Roster } from "./roster.ts"

/** A task between its dispatch, or its adoption, and its end. */
export class OutstandingTask implements Queued {
  readonly name: string
  readonly task: TaskName
  readonly handler: string
  /** The content for resending; null: an earlier owner of the job had sent the task. */
  readonly content: Task | null
  readonly owner: string
  readonly workflow: string
  readonly priority: number
  removed = false
  /** `queued`: not in Redis yet. `unsure`: it is unknown whether the task is in Redis. */
  state: "queued" | "sent" | "unsure" = "queued"
  /** The id of the entry in the stream of its handler; null: not known. */
  entry: string | null = null
  /**
   * The worker whose handler has begun the task, and when by this process's monotonic clock; null: none has,
   * as far as is known.
   */
  begun: { readonly worker: string; readonly at: number; readonly usage?: JsonObject } | null = null
  /**
   * Until then, by `performance.now()`, a worker may run an adopted task without having reported that to the
   * new owner.
   */
  unknownUntil = 0
  /** The cause given by the worker that refused the task since it was last sent; null: none did. */
  refused: string | null = null
  refusals = 0
  isCancelled = false
  abortReason: string | undefined
  /** For a cancelled task. */
  known: KnownRun | undefined
  /** When this process queued it for sending, by `performance.now()`. */
  readonly queuedAt: number

  constructor(name: string, task: TaskName, handler: string, content: Task | null, queuedAt: number) {
    this.name = name
    this.task = task
    this.handler = handler
    this.content = content
    this.owner = content?.owner ?? ""
    this.workflow = content?.workflow ?? ""
    this.priority = content?.priority ?? 0
    this.queuedAt = queuedAt
  }
}

/**
 * The tasks that an engine has sent to workers of other processes, or is about to send. A task is tracked
 * here from its dispatch or its adoption until its end is reported to the engine exactly once: the code that
 * ends a task removes it first.
 */
export class OutstandingTasks {
  readonly #byName = new Map<string, OutstandingTask>()
  readonly #windows = new Map<string, Window<OutstandingTask>>()
  /**
   * Isolated tasks that are not in Redis yet. They wait for each other in their worker, and use no capacity
   * of other tasks.
   */
  readonly #isolated = new Set<OutstandingTask>()
  #isolatedSent = 0
  readonly #slotMs: number
  readonly #capacity: (handler: string) => number

  constructor(parts: { readonly slotMs: number; readonly capacity: (handler: string) => number }) {
    this.#slotMs = parts.slotMs
    this.#capacity = parts.capacity
  }

  get(name: string): OutstandingTask | undefined {
    return this.#byName.get(name)
  }

  has(name: string): boolean {
    return this.#byName.has(name)
  }

  values(): OutstandingTask[] {
    return [...this.#byName.values()]
  }

  /** The number of tasks that wait here for capacity in Redis. */
  get queued(): number {
    let sent = this.#isolatedSent
    for (const window of this.#windows.values()) sent += window.sent
    return this.#byName.size - sent
  }

  /** Returns false if the task is already tracked. */
  add(task: Task): boolean {
    const name = attemptName(task)
    if (this.#byName.has(name)) return false
    this.#queue(new OutstandingTask(name, task, task.handler, task, performance.now()))
    return true
  }

  /**
   * A task that an earlier owner had sent: its content is unknown here, and until a given time also whether
   * it runs.
   */
  adopt(task: TaskName, handler: string, unknownUntil: number): void {
    const name = attemptName(task)
    if (this.#byName.has(name)) return
    const adopted = new OutstandingTask(name, task, handler, null, 0)
    adopted.state = "unsure"
    adopted.unknownUntil = unknownUntil
    this.#byName.set(name, adopted)
    this.#window(handler).sent += 1
  }

  /** Passes the tasks that are to be sent to `send`, as far as there is capacity. */
  takeReady(send: (task: OutstandingTask) => void): void {
    for (const task of this.#isolated) {
      if (this.#capacity(task.handler) === 0) continue
      this.#isolated.delete(task)
      this.#isolatedSent += 1
      task.state = "sent"
      send(task)
    }
    for (const window of this.#windows.values()) {
      while (window.hasRoom) {
        const task = window.queue.take()
        if (task === undefined) break
        window.sent += 1
        task.state = "sent"
        send(task)
      }
    }
  }

  /** No worker holds the task: it is queued again. */
  putBack(task: OutstandingTask): void {
    if (isIsolated(task)) this.#isolatedSent -= 1
    else this.#window(task.handler).sent -= 1
    task.state = "queued"
    task.entry = null
    task.begun = null
    task.unknownUntil = 0
    this.#queue(task)
  }

  /** Returns false if the task was removed before. */
  remove(task: OutstandingTask): boolean {
    if (this.#byName.get(task.name) !== task) return false
    this.#byName.delete(task.name)
    if (isIsolated(task)) {
      if (!this.#isolated.delete(task)) this.#isolatedSent -= 1
      return true
    }
    const window = this.#window(task.handler)
    if (task.state === "queued") window.queue.remove(task)
    else window.finished()
    return true
  }

  /** The tasks of a handler that no worker has begun, in the order in which they are expected to begin. */
  notBegun(handler: string): OutstandingTask[] {
    const sent = this.values().filter(
      task => task.handler === handler && task.state !== "queued" && task.begun === null,
    )
    return [...sent, ...this.#window(handler).queue.order()]
  }

  #queue(task: OutstandingTask): void {
    this.#byName.set(task.name, task)
    if (isIsolated(task)) this.#isolated.add(task)
    else this.#window(task.handler).queue.push(task)
  }

  #window(handler: string): Window<OutstandingTask> {
    let window = this.#windows.get(handler)
    if (window === undefined) {
      window = new Window(this.#slotMs, () => this.#capacity(handler))
      this.#windows.set(handler, window)
    }
    return window
  }
}

function isIsolated({ content }: OutstandingTask): boolean {
  return content?.isolation !== undefined
}

/**
 * Limits the number of tasks of one handler in Redis. Workers take tasks from Redis in the order in which
 * they were added, so only as many as keep the workers busy are added. The rest waits here, where owners take
 * turns and priorities count.
 */
class Window<T extends Queued> {
  readonly queue = new FairQueue<T>()
  /** The number of tasks that are in Redis or with a worker. */
  sent = 0
  readonly #slotMs: number
  readonly #capacity: () => number
  #slot = 0
  #count = 0
  /** The number of tasks that were finished in a recent time slot. */
  #recent = 0

  constructor(slotMs: number, capacity: () => number) {
    this.#slotMs = slotMs
    this.#capacity = capacity
  }

  get hasRoom(): boolean {
    const capacity = this.#capacity()
    return capacity > 0 && this.sent < Math.max(capacity, this.#recent)
  }

  finished(): void {
    this.sent -= 1
    const slot = Math.floor(performance.now() / this.#slotMs)
    if (slot !== this.#slot) {
      this.#recent = Math.max(this.#count, Math.floor(this.#recent / 2))
      this.#count = 0
      this.#slot = slot
    }
    this.#count += 1
  }
}

interface Fleet {
  /** Does Redis answer? */
  readonly isUp: boolean
  readonly roster: Pick<Roster, "serves" | "lastSeen" | "outdated">
}

/** Why tasks that were sent to remote workers have not begun. */
export function remoteWaits(tasks: Pick<OutstandingTasks, "get" | "notBegun">, fleet: Fleet): TaskWaits {
  /** By handler: the position of each task that has not begun. */
  const places = new Map<string, Map<string, number>>()
  return {
    of: (task, handler) => {
      if (!fleet.isUp || !fleet.roster.serves(handler)) return noWorker(handler, fleet)
      const name = attemptName(task)
      const cause = tasks.get(name)?.refused ?? null
      if (cause !== null) return { reason: "refused", cause }
      const ofHandler =
        places.get(handler) ?? new Map(tasks.notBegun(handler).map((waiting, at) => [waiting.name, at + 1]))
      places.set(handler, ofHandler)
      const position = ofHandler.get(name)
      return { reason: "busy", queued: ofHandler.size, ...(position === undefined ? {} : { position }) }
    },
  }
}

/** No live worker has the handler. */
export function noWorker(handler: string, { isUp, roster }: Fleet): TaskWait {
  const last = roster.lastSeen(handler)
  const cause = isUp ? outdatedCause(handler, roster) : { cause: "Redis cannot be reached" }
  return { reason: "none", last_worker: last?.worker ?? null, last_seen_at: last?.at ?? null, ...cause }
}

/** A worker of release 0.1 has the handler. */
function outdatedCause(handler: string, { outdated }: Pick<Roster, "outdated">): { readonly cause?: string } {
  const worker = outdated.find(({ handlers }) => handlers.includes(handler))
  if (worker === undefined) return {}
  const { id, version } = worker
  return {
    cause: `worker ${id} has handler ${handler}, but it is of an earlier release (${version}) and gets no tasks`,
  }
}

/**
 * A task whose place in the rate of its provider passed while it waited here asks for another place before it
 * begins.
 */
export function timely(task: Task, queuedAt: number): Task {
  const isLate = task.provider !== undefined && performance.now() - queuedAt > LATE_MS
  return isLate ? { ...task, isLate } : task
}
