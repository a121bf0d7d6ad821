import type { Log } from "../../log.ts"
import { InterruptibleWait } from "../interruptible-wait.ts"
import { RedisAwayError, type Reply } from "./client/connection.ts"
import { isNoGroup, type Link, makeGroups, removeEntries } from "./client/link.ts"
import { type Keys, WORKERS } from "./keys.ts"
import type { Fields } from "./wire.ts"

export interface DeliveriesParts {
  readonly link: Link
  readonly handlers: readonly string[]
  /** The consumer name under which tasks are delivered; null: not now. */
  readonly consumer: () => string | null
  /** How long that name remains valid: a task delivered to it later would be lost to this worker. */
  readonly aliveMs: () => number
  /** How often the engines may have considered this worker dead. */
  readonly lapses: () => number
  /** Tasks were taken that were delivered before such a lapse: other workers may have done them. */
  readonly tookLate: () => void
  /** How many more tasks may be taken. */
  readonly room: () => number
  /** Never take more than `room`, even if that costs one command for each stream. */
  readonly isExact: boolean
  readonly take: (entry: string, fields: Fields) => void
  /** Redis had lost the consumer groups. */
  readonly groupsLost: () => Promise<void>
  readonly log: Log
}

/** Reads the task streams of a worker's handlers, as far as the worker has free capacity. */
export class Deliveries {
  readonly #parts: DeliveriesParts
  /** The number of streams that had entries at the last read. */
  #busy = 1
  #turn = 0
  #isStopped = false
  readonly #pause = new InterruptibleWait()
  readonly #reading: Promise<void>

  constructor(parts: DeliveriesParts) {
    this.#parts = parts
    this.#reading = this.#read()
  }

  /** Capacity or a connection may be available now. */
  wake(): void {
    this.#pause.end()
  }

  /**
   * Entries that were delivered while a connection broke are pending for this consumer, although it never
   * received them.
   */
  async recover(keys: Keys, consumer: string): Promise<void> {
    const { link, handlers } = this.#parts
    await makeGroups(link, this.#streams(keys), WORKERS)
    const read = ["XREADGROUP", "GROUP", WORKERS, consumer, "STREAMS", ...this.#streams(keys)]
    this.#take(await link.send([...read, ...handlers.map(() => "0")]))
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.wake()
    this.#parts.link.unblock()
    await this.#reading
  }

  async #read(): Promise<void> {
    const { link, consumer, room } = this.#parts
    while (!this.#isStopped) {
      const { keys } = link
      const name = consumer()
      if (keys === null || name === null || room() <= 0) {
        await this.#pause.wait(PAUSE_MS)
        continue
      }
      try {
        if (this.#parts.isExact) await this.#readInTurn(keys, name)
        else await this.#receive(link.wait(this.#readCommand(keys, name)))
      } catch (error) {
        await this.#mend(keys, error)
      }
    }
  }

  /**
   * COUNT applies per stream, so the streams are read one after the other; all of them at once only if all
   * are empty.
   */
  async #readInTurn(keys: Keys, consumer: string): Promise<void> {
    const { link, room } = this.#parts
    const streams = this.#streams(keys)
    const before = room()
    this.#turn += 1
    for (let n = 0; n < streams.length && room() > 0; n++) {
      const stream = streams[(this.#turn + n) % streams.length]!
      const read = ["XREADGROUP", "GROUP", WORKERS, consumer, "COUNT", String(room()), "STREAMS", stream, ">"]
      await this.#receive(link.send(read))
    }
    if (room() === before) await this.#receive(link.wait(this.#readCommand(keys, consumer, 1)))
  }

  /** COUNT applies per stream: the streams that were busy recently share the capacity. */
  #readCommand(keys: Keys, consumer: string, count = Math.ceil(this.#parts.room() / this.#busy)): string[] {
    const streams = this.#streams(keys)
    const block = Math.max(1, Math.min(BLOCK_MS, Math.floor(this.#parts.aliveMs())))
    const read = ["XREADGROUP", "GROUP", WORKERS, consumer, "COUNT", String(count), "BLOCK", String(block)]
    return [...read, "STREAMS", ...streams, ...streams.map(() => ">")]
  }

  #streams(keys: Keys): string[] {
    return this.#parts.handlers.map(handler => keys.tasks(handler))
  }

  async #receive(read: Promise<Reply>): Promise<void> {
    const { lapses, tookLate } = this.#parts
    const before = lapses()
    this.#take(await read)
    if (lapses() !== before) tookLate()
  }

  #take(read: Reply): void {
    const streams = ((read ?? []) as [string, [string, Fields | null][]][]).filter(
      ([, found]) => found.length > 0,
    )
    this.#busy = Math.max(1, streams.length)
    // null: the entry was deleted while it was pending for this consumer.
    for (const [stream, entries] of streams)
      for (const [entry, fields] of entries) if (fields !== null) this.#takeOne(stream, entry, fields)
  }

  /**
   * An entry that cannot be read must not affect the others of the same reply: no other consumer would ever
   * receive them.
   */
  #takeOne(stream: string, entry: string, fields: Fields): void {
    const { link, take, log } = this.#parts
    try {
      take(entry, fields)
    } catch (error) {
      log.error({ stream, entry, error: String(error) }, "a task cannot be read and is dropped")
      removeEntries(link, stream, WORKERS, [entry]).catch(() => {})
    }
  }

  async #mend(keys: Keys, error: unknown): Promise<void> {
    const { link, groupsLost, log } = this.#parts
    try {
      if (isNoGroup(error)) {
        await makeGroups(link, this.#streams(keys), WORKERS)
        return await groupsLost()
      }
    } catch {
      // As below: the loop waits for the connection.
    }
    const isAway = error instanceof RedisAwayError
    if (!isAway) log.warn({ error: String(error) }, "could not read tasks from Redis")
    await this.#pause.wait(isAway ? MEND_MS : PAUSE_MS)
  }
}

/**
 * The block time at the server. A worker that is suspended for longer than this receives no more tasks. Any
 * new entry ends the wait, so another value would gain nothing. It never exceeds the time for which the
 * worker is certainly alive.
 */
const BLOCK_MS = 1000
const PAUSE_MS = 1000
const MEND_MS = 50
