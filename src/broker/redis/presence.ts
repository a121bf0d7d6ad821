import { randomUUID } from "node:crypto"
import type { Log } from "../../log.ts"
import { RedisAwayError } from "./client/connection.ts"
import type { Link } from "./client/link.ts"
import type { Keys } from "./keys.ts"
import type { LastSeen, WorkerBeat } from "./roster.ts"
import type { WorkerNotice } from "./wire.ts"

export interface PresenceParts {
  readonly link: Link
  /** After this time without a heartbeat the engines consider the worker dead. */
  readonly deadMs: number
  /** How long a dead worker is shown. */
  readonly shownDeadMs: number
  /** Creates the content of the heartbeat. */
  readonly createBeat: (id: string) => WorkerBeat
  /** With the first heartbeat on a connection: recovers what happened while there was none. */
  readonly recover: (keys: Keys, id: string) => Promise<void>
  /** The engines may have considered this worker dead for some time, and no longer do. */
  readonly wasSilent: () => void
  /** The engines considered this worker dead: its tasks belong to other workers. */
  readonly replaced: () => void
  /** A heartbeat was stored. */
  readonly beatStored: () => void
  readonly log: Log
}

/**
 * The registration of a worker with the engines.
 *
 * 1. A worker that sent no heartbeat for too long is dead to the engines, and registers again under a new id.
 * 2. Its time runs from the sending of the last heartbeat that was answered, by its own clock, so it expires
 *    before the engines' timeout.
 */
export class Presence {
  readonly #parts: PresenceParts
  #id = newId()
  #marker: string | null = null
  #isKnown = false
  /** Has it recovered, on this connection, what happened while there was none? */
  #isRecovered = false
  #aliveUntil = 0
  #lapses = 0

  constructor(parts: PresenceParts) {
    this.#parts = parts
  }

  get id(): string {
    return this.#id
  }

  get isKnown(): boolean {
    return this.#isKnown
  }

  /** True if no engine can consider it dead. */
  get isAlive(): boolean {
    return this.aliveMs > 0
  }

  /** How often the engines may have considered it dead. What was delivered to it before may belong to others. */
  get lapses(): number {
    return this.#lapses
  }

  get aliveMs(): number {
    return this.#aliveUntil - performance.now()
  }

  /** May tasks be delivered to it? */
  get isPresent(): boolean {
    return this.#isRecovered && this.#isKnown && this.isAlive
  }

  /** The connection was lost. */
  disconnected(): void {
    this.#isRecovered = false
  }

  async beat(): Promise<void> {
    const { link, deadMs, log, wasSilent, beatStored } = this.#parts
    const { keys } = link
    if (keys === null) return
    const sentAt = performance.now()
    try {
      if (!this.#isRecovered) await this.#recover(keys)
      if (!(await this.#storeBeat(keys))) return await this.#registerAsNew()
      await this.#storeTraces(keys)
      if (this.#isKnown && !this.isAlive) {
        this.#lapses += 1
        wasSilent()
      }
      this.#isKnown = true
      this.#aliveUntil = sentAt + deadMs
      beatStored()
    } catch (error) {
      // Unavailable: the link has logged it. Refused (out of memory, no disk space, read-only): nothing else
      // logs it.
      const level = error instanceof RedisAwayError ? "debug" : "warn"
      log[level]({ error: String(error) }, "Redis did not accept this worker's heartbeat; retrying")
    }
  }

  async #recover(keys: Keys): Promise<void> {
    await this.#parts.recover(keys, this.#id)
    this.#isRecovered = true
  }

  /** Stores what all processes can still read of this worker once it is dead. */
  async #storeTraces(keys: Keys): Promise<void> {
    const { link, deadMs, shownDeadMs, createBeat } = this.#parts
    const beat: WorkerBeat = { ...createBeat(this.#id), held: [] }
    const seen: LastSeen = { worker: beat.id, at: beat.at }
    const handlers = beat.handlers.flatMap(handler => [handler, JSON.stringify(seen)])
    const commands = [
      ["SADD", keys.workers, this.#id],
      ["SET", keys.lastBeat(this.#id), JSON.stringify(beat), "PX", String(Math.ceil(deadMs + shownDeadMs))],
      ...(handlers.length === 0 ? [] : [["HSET", keys.seen, ...handlers]]),
      ["PEXPIRE", keys.seen, String(SEEN_MS)],
    ]
    await Promise.all(commands.map(command => link.send(command)))
  }

  /** Returns false if the worker was registered and no longer is. */
  async #storeBeat(keys: Keys): Promise<boolean> {
    const { link, deadMs, createBeat } = this.#parts
    const marker = (await link.send(["GET", keys.marker])) as string | null
    const isRemembered = this.#isKnown && marker !== null && marker === this.#marker
    this.#marker = marker
    const beat = ["SET", keys.worker(this.#id), JSON.stringify(createBeat(this.#id)), "PX", String(deadMs)]
    if ((await link.send(isRemembered ? [...beat, "XX"] : beat)) !== null) return true
    // The last heartbeat is missing: it expired, or Redis lost all data since the marker was read.
    const isForgotten = (await link.send(["GET", keys.marker])) !== marker
    return isForgotten && this.#storeBeat(keys)
  }

  /** Invariant 1. */
  #registerAsNew(): Promise<void> {
    this.#parts.log.warn(
      { worker: this.#id },
      "this worker sent no heartbeat for too long; its tasks now belong to other workers",
    )
    this.#lapses += 1
    this.#parts.replaced()
    this.#id = newId()
    this.#isKnown = false
    return this.beat()
  }

  /** A graceful stop, as opposed to dying: without its last heartbeat the worker is not shown as dead. */
  async leave(): Promise<void> {
    const { link } = this.#parts
    const { keys } = link
    if (keys === null) return
    const news: WorkerNotice = { type: "left", worker: this.#id }
    const commands = [
      ["DEL", keys.worker(this.#id), keys.lastBeat(this.#id)],
      ["SREM", keys.workers, this.#id],
      ["PUBLISH", keys.news, JSON.stringify(news)],
    ]
    await Promise.all(commands.map(command => link.send(command))).catch(() => {})
  }
}

/** After this time without any worker, the record of which worker had a handler last is removed. */
const SEEN_MS = 7 * 86_400_000

function newId(): string {
  return `worker-${randomUUID().slice(0, 13)}`
}
