/**
 * The messages of a route that are ready in memory. They are handed over as they become durable while the
 * route keeps up, and read from the store in pages when it does not. Includes messages whose retry is due.
 */
import type { RouteProgress } from "../../core/pipeline/progress.ts"
import { untilStoreAnswers } from "../../engine/clock.ts"
import type { MessageRow, ParkedState, PipelineStore } from "../../journal/port/pipelines.ts"
import type { Delivery } from "../commit/delivery.ts"

export interface RouteQueueParts {
  readonly store: PipelineStore
  readonly execution: number
  readonly route: number
  readonly prefetch: number
  readonly pageBytes: number
  readonly progress: RouteProgress
  readonly now: () => number
  readonly after: (ms: number, fire: () => void) => () => void
  readonly arrived: () => void
  /** The store returned an impossible result. */
  readonly broken: (error: unknown) => void
}

export class RouteQueue {
  readonly #parts: RouteQueueParts
  #ready: Delivery[] = []
  /** Index of the first message in `#ready`: taking from the front must not move the others. */
  #head = 0
  /** Messages of the queue up to this number are settled, in flight or in memory. */
  #readTo: number
  /** The number of the last message that is durable. */
  #tail: number
  #isReading = false
  #isStopped = false
  /** Seqs of messages whose retry is in memory, or whose end or failure is not known to be durable. */
  readonly #tried = new Set<number>()
  #cancelAlarm: (() => void) | null = null
  /** More messages may be due than there was room for. */
  #hasMoreDue = false
  #isPolling = false
  /** A query was requested while one was in flight, which may not have seen the change: run it again. */
  #mustPollAgain = false
  /**
   * Seqs whose end has become durable since the query in flight began: it may return them in their old state.
   */
  readonly #overtaken = new Set<number>()

  constructor(parts: RouteQueueParts) {
    this.#parts = parts
    this.#readTo = parts.progress.settled.upTo
    this.#tail = parts.progress.tail
  }

  get ready(): number {
    return this.#ready.length - this.#head
  }

  take(): Delivery | undefined {
    if (this.#head === this.#ready.length) return undefined
    const delivery = this.#ready[this.#head]!
    this.#head += 1
    if (this.#head === this.#ready.length || this.#head > 1000) {
      this.#ready = this.#ready.slice(this.#head)
      this.#head = 0
    }
    return delivery
  }

  putBack(deliveries: readonly Delivery[]): void {
    this.#ready = [...deliveries, ...this.#ready.slice(this.#head)]
    this.#head = 0
  }

  /** New messages of the queue, durable. If the route keeps up they need not be read again. */
  arrived(messages: readonly MessageRow[], tail: number): void {
    if (!this.#isReading && messages.length > 0 && this.#readTo === messages[0]!.seq - 1)
      for (const message of messages) {
        if (this.ready >= this.#parts.prefetch) break
        this.#push(message)
      }
    this.#tail = tail
  }

  #push(message: MessageRow): void {
    this.#readTo = message.seq
    if (this.#parts.progress.settled.has(message.seq)) return
    this.#ready.push({ ...message, attempts: 0, dueAt: null, isAlone: false })
  }

  /** Reads the next page of the queue if few messages are left. */
  fill(): void {
    if (this.#isStopped) return
    const { prefetch } = this.#parts
    if (this.ready > prefetch >> 1) return
    if (this.#hasMoreDue) this.pollRetries()
    if (this.#isReading || this.#readTo >= this.#tail) return
    this.#isReading = true
    this.#untilAnswered(() => this.#readPage(prefetch - this.ready))
      .catch(error => this.#parts.broken(error))
      .finally(() => {
        this.#isReading = false
        if (!this.#isStopped) this.#parts.arrived()
      })
  }

  async #readPage(limit: number): Promise<void> {
    const { store, execution, route, pageBytes, progress } = this.#parts
    // Settled messages need not be read, and may have been removed.
    const next = progress.settled.nextUnsettled(this.#readTo)
    if (next > this.#tail) {
      this.#readTo = this.#tail
      return
    }
    const page = await store.readMessages({ execution, route, after: next - 1, limit, maxBytes: pageBytes })
    if (page[0]?.seq !== next) throw new Error(`message ${next} of route ${route} is not in the store`)
    for (const message of page) this.#push(message)
  }

  /** Messages that wait for a retry are queried when the first of them is due. */
  wakeAt(dueAt: number): void {
    if (this.#isStopped) return
    this.#cancelAlarm?.()
    this.#cancelAlarm = this.#parts.after(Math.max(0, dueAt - this.#parts.now()), () => this.pollRetries())
  }

  /** Takes the messages that are due, and sets the timer for the next. */
  pollRetries(): void {
    this.#mustPollAgain = this.#isPolling
    if (this.#isPolling || this.#isStopped || this.#parts.progress.waiting === 0) return
    this.#isPolling = true
    this.#untilAnswered(() => this.#readRetries())
      .catch(error => this.#parts.broken(error))
      .finally(() => {
        this.#isPolling = false
        if (this.#isStopped) return
        this.#parts.arrived()
        if (this.#mustPollAgain) this.pollRetries()
      })
  }

  async #readRetries(): Promise<void> {
    const { store, execution, route, prefetch, pageBytes: maxBytes } = this.#parts
    this.#overtaken.clear()
    const now = this.#parts.now()
    const room = Math.max(0, prefetch - this.ready)
    const of = { execution, route, maxBytes }
    const due = await store.readRetries({ ...of, dueBy: now, limit: room + this.#tried.size + 1 })
    const fresh = due.filter(({ seq }) => !this.#tried.has(seq) && !this.#overtaken.has(seq))
    for (const each of fresh.slice(0, room)) this.#try(each)
    // Other due messages may have found no room, here or in the page: they are read when there is room.
    this.#hasMoreDue = fresh.length > 0
    const dueBy = Number.MAX_SAFE_INTEGER
    const [next] = await store.readRetries({ ...of, dueBy, after: { dueAt: now, seq: dueBy }, limit: 1 })
    if (next !== undefined) this.wakeAt(next.dueAt)
  }

  #try(message: MessageRow & ParkedState): void {
    this.#tried.add(message.seq)
    this.#ready.push({ ...message, isAlone: false })
  }

  /**
   * The message is to wait for a retry. The store may return it before this process knows that it is durable.
   */
  failing(seq: number): void {
    this.#tried.add(seq)
  }

  /** The message is settled, and that is durable. */
  settled(seq: number): void {
    this.#tried.delete(seq)
    if (this.#isPolling) this.#overtaken.add(seq)
  }

  stop(): void {
    this.#isStopped = true
    this.#cancelAlarm?.()
  }

  /** While the store is unavailable the route waits. */
  #untilAnswered(ask: () => Promise<void>): Promise<void> {
    const pause = (ms: number) => new Promise<void>(resolve => this.#parts.after(ms, resolve))
    return untilStoreAnswers(async () => (this.#isStopped ? undefined : ask()), { pause })
  }
}
