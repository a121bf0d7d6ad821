import type { JsonObject } from "../../core/json.ts"
import type { Queued } from "../fair-queue.ts"
import type { Task, TaskName } from "../port.ts"
import { nameOf } from "../task-name.ts"
import { Window } from "./window.ts"

/** A task between its dispatch, or its adoption, and its end. */
export interface Outstanding extends Queued {
  readonly name: string
  readonly task: TaskName
  readonly handler: string
  /** The content for resending; null: an earlier owner of the job had sent the task. */
  readonly content: Task | null
  /** `queued`: not in Redis yet. `unsure`: it is unknown whether the task is in Redis. */
  state: "queued" | "sent" | "unsure"
  /** The id of the entry in the stream of its handler; null: not known. */
  entry: string | null
  /**
   * The worker whose handler has begun the task, and when by this process's monotonic clock; null: none has,
   * as far as is known.
   */
  begun: { readonly worker: string; readonly at: number; readonly usage?: JsonObject } | null
  /**
   * Until then, by `performance.now()`, a worker may run an adopted task without having reported that to the
   * new owner.
   */
  unknownUntil: number
  /** The cause given by the worker that refused the task since it was last sent; null: none did. */
  refused: string | null
  refusals: number
  isCancelled: boolean
  abortReason?: string | undefined
  /** When this process queued it for sending, by `performance.now()`. */
  readonly queuedAt: number
}

/**
 * The tasks that an engine has sent to workers of other processes, or is about to send. A task is tracked
 * here from its dispatch or its adoption until its end is reported to the engine exactly once: the code that
 * ends a task removes it first.
 */
export class OutstandingTasks {
  readonly #byName = new Map<string, Outstanding>()
  readonly #windows = new Map<string, Window<Outstanding>>()
  /**
   * Isolated tasks that are not in Redis yet. They wait for each other in their worker, and use no capacity
   * of other tasks.
   */
  readonly #isolated = new Set<Outstanding>()
  #isolatedSent = 0
  readonly #slotMs: number
  readonly #capacity: (handler: string) => number

  constructor(parts: { readonly slotMs: number; readonly capacity: (handler: string) => number }) {
    this.#slotMs = parts.slotMs
    this.#capacity = parts.capacity
  }

  get(name: string): Outstanding | undefined {
    return this.#byName.get(name)
  }

  has(name: string): boolean {
    return this.#byName.has(name)
  }

  values(): Outstanding[] {
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
    const name = nameOf(task)
    if (this.#byName.has(name)) return false
    const { handler, owner, workflow, priority } = task
    const queuedAt = performance.now()
    const waiting = { name, task, handler, content: task, owner, workflow, priority, queuedAt }
    const fresh = {
      entry: null,
      begun: null,
      unknownUntil: 0,
      refused: null,
      refusals: 0,
      isCancelled: false,
      removed: false,
    }
    this.#queue({ ...waiting, state: "queued", ...fresh })
    return true
  }

  /**
   * A task that an earlier owner had sent: its content is unknown here, and until a given time also whether
   * it runs.
   */
  adopt(task: TaskName, handler: string, unknownUntil: number): void {
    const name = nameOf(task)
    if (this.#byName.has(name)) return
    const unknown = {
      owner: "",
      workflow: "",
      priority: 0,
      content: null,
      entry: null,
      begun: null,
      unknownUntil,
      queuedAt: 0,
    }
    const adopted = {
      name,
      task,
      handler,
      ...unknown,
      refused: null,
      refusals: 0,
      isCancelled: false,
      removed: false,
    }
    this.#byName.set(name, { ...adopted, state: "unsure" })
    this.#window(handler).sent += 1
  }

  /** Passes the tasks that are to be sent to `send`, as far as there is capacity. */
  takeReady(send: (task: Outstanding) => void): void {
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
  putBack(task: Outstanding): void {
    if (isIsolated(task)) this.#isolatedSent -= 1
    else this.#window(task.handler).sent -= 1
    task.state = "queued"
    task.entry = null
    task.begun = null
    task.unknownUntil = 0
    this.#queue(task)
  }

  /** Returns false if the task was removed before. */
  remove(task: Outstanding): boolean {
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
  notBegun(handler: string): Outstanding[] {
    const sent = this.values().filter(
      task => task.handler === handler && task.state !== "queued" && task.begun === null,
    )
    return [...sent, ...this.#window(handler).queue.order()]
  }

  #queue(task: Outstanding): void {
    this.#byName.set(task.name, task)
    if (isIsolated(task)) this.#isolated.add(task)
    else this.#window(task.handler).queue.push(task)
  }

  #window(handler: string): Window<Outstanding> {
    let window = this.#windows.get(handler)
    if (window === undefined) {
      window = new Window({ slotMs: this.#slotMs, capacity: () => this.#capacity(handler) })
      this.#windows.set(handler, window)
    }
    return window
  }
}

function isIsolated({ content }: Outstanding): boolean {
  return content?.isolation !== undefined
}
