import type { Log } from "../../log.ts"
import { RedisAwayError } from "./client/connection.ts"
import { isNoGroup, type Link, makeGroups, removeEntries } from "./client/link.ts"
import type { Reply } from "./client/resp.ts"
import { type Keys, WORKERS } from "./keys.ts"
import type { Fields } from "./wire.ts"

export interface DeliveriesParts {
  readonly link: Link
  readonly handlers: readonly string[]
  /** The name under which tasks are handed out; null: not now. */
  readonly consumer: () => string | null
  /** For how long that name stands: what is handed to it later would be handed to nobody. */
  readonly aliveMs: () => number
  /** How many more tasks may be taken. */
  readonly room: () => number
  /** Not one beyond that, if it costs a question for each stream. */
  readonly isExact: boolean
  readonly take: (entry: string, fields: Fields) => void
  /** Redis had forgotten the groups. */
  readonly forgotten: () => Promise<void>
  readonly log: Log
}

/** Reads the streams of a worker's handlers, as far as it has room. */
export class Deliveries {
  readonly #parts: DeliveriesParts
  /** Streams that had something at the last look. */
  #busy = 1
  #turn = 0
  #isStopped = false
  #wake: (() => void) | null = null
  readonly #reading: Promise<void>

  constructor(parts: DeliveriesParts) {
    this.#parts = parts
    this.#reading = this.#read()
  }

  /** There may be room, or a link. */
  wake(): void {
    this.#wake?.()
  }

  /** What was handed over while a connection broke is ours, although we never saw it. */
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
        await this.#pause(PAUSE_MS)
        continue
      }
      try {
        if (this.#parts.isExact) await this.#readInTurn(keys, name)
        else this.#take(await link.wait(this.#question(keys, name)))
      } catch (error) {
        await this.#mend(keys, error)
      }
    }
  }

  /** The count is per stream, so one is asked after the other; all of them at once only when there is nothing in any. */
  async #readInTurn(keys: Keys, consumer: string): Promise<void> {
    const { link, room } = this.#parts
    const streams = this.#streams(keys)
    const before = room()
    this.#turn += 1
    for (let n = 0; n < streams.length && room() > 0; n++) {
      const stream = streams[(this.#turn + n) % streams.length]!
      const read = ["XREADGROUP", "GROUP", WORKERS, consumer, "COUNT", String(room()), "STREAMS", stream, ">"]
      this.#take(await link.send(read))
    }
    if (room() === before) this.#take(await link.wait(this.#question(keys, consumer, 1)))
  }

  /** The count is per stream: those that were busy of late share the room. */
  #question(keys: Keys, consumer: string, count = Math.ceil(this.#parts.room() / this.#busy)): string[] {
    const streams = this.#streams(keys)
    const block = Math.max(1, Math.min(BLOCK_MS, Math.floor(this.#parts.aliveMs())))
    const read = ["XREADGROUP", "GROUP", WORKERS, consumer, "COUNT", String(count), "BLOCK", String(block)]
    return [...read, "STREAMS", ...streams, ...streams.map(() => ">")]
  }

  #streams(keys: Keys): string[] {
    return this.#parts.handlers.map(handler => keys.tasks(handler))
  }

  #take(read: Reply): void {
    const streams = ((read ?? []) as [string, [string, Fields | null][]][]).filter(
      ([, found]) => found.length > 0,
    )
    this.#busy = Math.max(1, streams.length)
    // null: it was removed while it was in our hands.
    for (const [stream, entries] of streams)
      for (const [entry, fields] of entries) if (fields !== null) this.#takeOne(stream, entry, fields)
  }

  /** One that cannot be read must not take those that came with it along: nobody else would ever be handed them. */
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
    const { link, forgotten, log } = this.#parts
    try {
      if (isNoGroup(error)) {
        await makeGroups(link, this.#streams(keys), WORKERS)
        return await forgotten()
      }
    } catch {
      // As below: what follows waits for the link.
    }
    const isAway = error instanceof RedisAwayError
    if (!isAway) log.warn({ error: String(error) }, "could not read tasks from Redis")
    await this.#pause(isAway ? MEND_MS : PAUSE_MS)
  }

  #pause(ms: number): Promise<void> {
    return new Promise(resolve => {
      const timer = setTimeout(resolve, ms)
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }
}

/**
 * At the server. A worker that stands still longer than this is handed no more. Whatever comes ends the wait, so nobody
 * gains by another figure; and it is never longer than the worker is sure to live.
 */
const BLOCK_MS = 1000
const PAUSE_MS = 1000
const MEND_MS = 50
