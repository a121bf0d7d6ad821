import { randomUUID } from "node:crypto"
import type { Log } from "../../log.ts"
import { RedisAwayError } from "./client/connection.ts"
import type { Link } from "./client/link.ts"
import type { Keys } from "./keys.ts"
import type { LastSeen, WorkerBeat } from "./roster.ts"
import type { WorkerNews } from "./wire.ts"

export interface PresenceParts {
  readonly link: Link
  /** After so much silence the engines take it for dead. */
  readonly deadMs: number
  /** For so long after its death it is shown. */
  readonly shownDeadMs: number
  /** What it says of itself. */
  readonly says: (id: string) => WorkerBeat
  /** With the first beat on a connection: what happened while there was none? */
  readonly comeBack: (keys: Keys, id: string) => Promise<void>
  /** It may have been dead to them for a while, and is not any more. */
  readonly wasSilent: () => void
  /** It was dead to them: its tasks are others'. */
  readonly replaced: () => void
  /** A beat got through. */
  readonly beaten: () => void
  readonly log: Log
}

/**
 * A worker's being known to the engines.
 *
 * 1. Who was silent for too long is dead to them, and comes back as somebody new.
 * 2. Its time runs from the sending of the last beat that was answered, by its own clock, so it ends before theirs.
 */
export class Presence {
  readonly #parts: PresenceParts
  #id = newId()
  #marker: string | null = null
  #isKnown = false
  /** Does it know, on this connection, what happened while it had none? */
  #isBack = false
  #aliveUntil = 0

  constructor(parts: PresenceParts) {
    this.#parts = parts
  }

  get id(): string {
    return this.#id
  }

  get isKnown(): boolean {
    return this.#isKnown
  }

  /** Can nobody take it for dead? */
  get isAlive(): boolean {
    return this.aliveMs > 0
  }

  get aliveMs(): number {
    return this.#aliveUntil - performance.now()
  }

  /** May it be handed tasks? */
  get isPresent(): boolean {
    return this.#isBack && this.#isKnown && this.isAlive
  }

  /** The connection is gone. */
  away(): void {
    this.#isBack = false
  }

  async beat(): Promise<void> {
    const { link, deadMs, log, wasSilent, beaten } = this.#parts
    const { keys } = link
    if (keys === null) return
    const sentAt = performance.now()
    try {
      if (!this.#isBack) await this.#comeBack(keys)
      if (!(await this.#say(keys))) return await this.#comeAsSomebodyNew()
      await this.#leaveTraces(keys)
      if (this.#isKnown && !this.isAlive) wasSilent()
      this.#isKnown = true
      this.#aliveUntil = sentAt + deadMs
      beaten()
    } catch (error) {
      // Away: the link has said so. Refused (out of memory, no disk, read only): nobody else does.
      const level = error instanceof RedisAwayError ? "debug" : "warn"
      log[level]({ error: String(error) }, "Redis did not take this worker's beat; trying on")
    }
  }

  async #comeBack(keys: Keys): Promise<void> {
    await this.#parts.comeBack(keys, this.#id)
    this.#isBack = true
  }

  /** What all processes can still read of this worker once it is dead. */
  async #leaveTraces(keys: Keys): Promise<void> {
    const { link, deadMs, shownDeadMs, says } = this.#parts
    const beat: WorkerBeat = { ...says(this.#id), held: [] }
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

  /** False: it was known there, and is not any more. */
  async #say(keys: Keys): Promise<boolean> {
    const { link, deadMs, says } = this.#parts
    const marker = (await link.send(["GET", keys.marker])) as string | null
    const isRemembered = this.#isKnown && marker !== null && marker === this.#marker
    this.#marker = marker
    const beat = ["SET", keys.worker(this.#id), JSON.stringify(says(this.#id)), "PX", String(deadMs)]
    if ((await link.send(isRemembered ? [...beat, "XX"] : beat)) !== null) return true
    // Its last beat is gone: too old, or everything was forgotten since the marker was read.
    const isForgotten = (await link.send(["GET", keys.marker])) !== marker
    return isForgotten && this.#say(keys)
  }

  /** Invariant 1. */
  #comeAsSomebodyNew(): Promise<void> {
    this.#parts.log.warn(
      { worker: this.#id },
      "this worker was silent for too long; its tasks are others' now",
    )
    this.#parts.replaced()
    this.#id = newId()
    this.#isKnown = false
    return this.beat()
  }

  /** In order, as opposed to dying: without its last beat it is not shown as dead. */
  async leave(): Promise<void> {
    const { link } = this.#parts
    const { keys } = link
    if (keys === null) return
    const news: WorkerNews = { type: "left", worker: this.#id }
    const commands = [
      ["DEL", keys.worker(this.#id), keys.lastBeat(this.#id)],
      ["SREM", keys.workers, this.#id],
      ["PUBLISH", keys.news, JSON.stringify(news)],
    ]
    await Promise.all(commands.map(command => link.send(command))).catch(() => {})
  }
}

/** Which worker had a handler last is forgotten after so long without any worker. */
const SEEN_MS = 7 * 86_400_000

function newId(): string {
  return `worker-${randomUUID().slice(0, 13)}`
}
