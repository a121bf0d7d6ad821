import type { Log } from "../../log.ts"
import { InterruptibleWait } from "../interruptible-wait.ts"
import type { RemoteWorker } from "../port.ts"
import type { Link } from "./client/link.ts"
import type { Keys } from "./keys.ts"

/** The content of a worker's heartbeat. */
export interface WorkerBeat extends RemoteWorker {
  readonly prefetch: number
  /** The tasks that the worker holds, each with the epoch of its sender. */
  readonly held: readonly (readonly [name: string, epoch: number])[]
}

export interface RosterChange {
  /** Handlers that no worker had before. */
  readonly served: readonly string[]
  /** Workers that were registered and no longer are. */
  readonly gone: readonly string[]
}

interface Awaited {
  readonly beat: WorkerBeat
  readonly until: number
}

/** The worker that reported a handler last, and when, by its own clock. */
export interface LastSeen {
  readonly worker: string
  readonly at: number
}

export interface RosterParts {
  readonly link: Link
  readonly deadMs: number
  /** How long a worker is shown as dead if only this process knows that it was alive. */
  readonly shownDeadMs: number
  readonly log: Log
}

/**
 * The workers of this fleet, as of the last poll. Only Redis decides whether a worker is alive: the worker's
 * key expires when it has sent no heartbeat for too long, so no two clocks are ever compared.
 */
export class Roster {
  readonly #parts: RosterParts
  #beats = new Map<string, WorkerBeat>()
  /**
   * Live workers whose heartbeat cannot be parsed here: they are of a later release, or not part of Umbra.
   */
  #unreadable = new Set<string>()
  /** By handler. */
  #capacities = new Map<string, number>()
  /** After a flush: workers that have not registered since. They may still hold tasks. */
  readonly #awaited = new Map<string, Awaited>()
  #unknownUntil = 0
  /** Until then a worker that this process never saw may hold tasks: it registered shortly before Redis lost its data. */
  #unseenUntil = 0
  /** By handler: the worker that was last known to have it. */
  #lastSeen = new Map<string, LastSeen>()
  /** Live workers of release 0.1, which use other key names and get no tasks. */
  #outdated = new Map<string, WorkerBeat>()
  /** Workers that died recently, for display. Redis keeps them, so that all processes show the same. */
  #dead = new Map<string, WorkerBeat>()
  /** Workers that reported their stop. A poll in flight may have read their heartbeats before. */
  readonly #left = new Set<string>()
  #isKnown = false
  readonly #whenKnown: InterruptibleWait[] = []

  constructor(parts: RosterParts) {
    this.#parts = parts
  }

  get live(): readonly WorkerBeat[] {
    return [...this.#beats.values()]
  }

  get dead(): readonly WorkerBeat[] {
    return [...this.#dead.values()]
  }

  /** Workers that have not registered since Redis lost its data, and may still be alive. */
  get awaited(): readonly WorkerBeat[] {
    return [...this.#awaited.values()].map(({ beat }) => beat).filter(({ id }) => !this.#isThere(id))
  }

  async whenKnown(patienceMs: number): Promise<void> {
    if (this.#isKnown) return
    const pause = new InterruptibleWait()
    this.#whenKnown.push(pause)
    await pause.wait(patienceMs)
  }

  get outdated(): readonly WorkerBeat[] {
    return [...this.#outdated.values()]
  }

  isLive(worker: string): boolean {
    return this.#isThere(worker) || this.#awaited.has(worker)
  }

  #isThere(worker: string): boolean {
    return this.#beats.has(worker) || this.#unreadable.has(worker)
  }

  /** Have all workers registered that may hold tasks? */
  get isComplete(): boolean {
    return this.#awaited.size === 0 && performance.now() >= this.#unknownUntil
  }

  /** For this long, workers may register that existed before. */
  expectUnknownWorkers(ms: number): void {
    this.#unknownUntil = performance.now() + ms
    this.#unseenUntil = Math.max(this.#unseenUntil, this.#unknownUntil)
  }

  /**
   * The dead among workers that hold tasks. A worker may have registered after the last poll, so those that
   * the poll did not find are looked up. Not `isSure`: Redis lost its data recently, and others may be dead.
   */
  async findDeadHolders(
    keys: Keys,
    holders: Iterable<string>,
  ): Promise<{ readonly dead: ReadonlySet<string>; readonly isSure: boolean }> {
    const missing = [...new Set(holders)].filter(id => !this.isLive(id))
    const texts = await this.#texts(missing.map(id => keys.worker(id)))
    const silent = missing.filter((id, at) => this.#left.has(id) || texts[at] === null)
    if (performance.now() >= this.#unseenUntil) return { dead: new Set(silent), isSure: true }
    const left = silent.filter(id => this.#left.has(id))
    return { dead: new Set(left), isSure: left.length === silent.length }
  }

  serves(handler: string): boolean {
    return this.#capacities.has(handler)
  }

  /** The total number of tasks of this handler that the workers take at once. */
  capacity(handler: string): number {
    return this.#capacities.get(handler) ?? 0
  }

  /** The worker that had the handler last, and when it last reported by its own clock. */
  lastSeen(handler: string): LastSeen | undefined {
    return this.#lastSeen.get(handler)
  }

  get handlers(): readonly string[] {
    return [...this.#capacities.keys()]
  }

  /** The tasks that workers hold. */
  held(): Map<string, number> {
    return new Map(this.live.flatMap(({ held }) => held))
  }

  /** The live worker that holds the task. */
  holder(name: string): string | null {
    return this.live.find(({ held }) => held.some(([task]) => task === name))?.id ?? null
  }

  /** The worker stopped gracefully: it is gone at once, before the next poll and during a poll in flight. */
  left(worker: string): void {
    this.#left.add(worker)
    this.#awaited.delete(worker)
    if (this.#beats.delete(worker)) this.#capacities = countCapacities(this.#beats.values())
  }

  /** Redis has lost its data: no worker is considered dead because of that. */
  dataLost(): void {
    const until = performance.now() + this.#parts.deadMs
    this.#unseenUntil = until
    // The awaited ones too: they may have registered since, and Redis has lost that as well.
    for (const [id, { beat }] of this.#awaited) this.#awaited.set(id, { beat, until })
    for (const [id, beat] of this.#beats) this.#awaited.set(id, { beat, until })
    this.#beats = new Map()
    this.#capacities = new Map()
  }

  /** Returns null if Redis has lost its data meanwhile: no worker is considered dead because of that. */
  async poll(keys: Keys, isForgotten: () => Promise<boolean>): Promise<RosterChange | null> {
    const { link } = this.#parts
    const ids = (await link.send(["SMEMBERS", keys.workers])) as string[]
    const texts = await this.#texts(ids.map(id => keys.worker(id)))
    const last = await this.#texts(ids.map(id => keys.lastBeat(id)))
    const seen = (await link.send(["HGETALL", keys.seen])) as string[]
    await this.#findOutdated(keys)
    if (await isForgotten()) return null
    const before = this.#beats
    const served = this.#capacities
    const wasDead = this.#dead
    const silent = this.#read(ids, texts)
    this.#dead = this.#findDead(ids, silent, last)
    for (const id of this.#left) if (!ids.includes(id)) this.#left.delete(id)
    const over = silent.filter(id => !this.#dead.has(id))
    if (over.length > 0) await link.send(["SREM", keys.workers, ...over])
    const overdue = this.#overdue()
    await this.#storeTraces(keys, overdue)
    const gone = [...before.values(), ...overdue].filter(({ id }) => !this.#isThere(id))
    this.#capacities = countCapacities(this.#beats.values())
    this.#lastSeen = parseLastSeen(seen)
    this.#isKnown = true
    for (const pause of this.#whenKnown.splice(0)) pause.end()
    return {
      served: this.handlers.filter(handler => !served.has(handler)),
      gone: [...gone.map(({ id }) => id), ...silent.filter(id => !before.has(id) && !wasDead.has(id))],
    }
  }

  async #texts(keys: readonly string[]): Promise<(string | null)[]> {
    return keys.length === 0 ? [] : ((await this.#parts.link.send(["MGET", ...keys])) as (string | null)[])
  }

  /**
   * The dead among the workers without a heartbeat. A worker that stopped gracefully has left no last
   * heartbeat.
   */
  #findDead(
    ids: readonly string[],
    silent: readonly string[],
    last: readonly (string | null)[],
  ): Map<string, WorkerBeat> {
    const isSilent = new Set(silent)
    return new Map(
      ids.flatMap((id, at) => {
        const isDead = isSilent.has(id) && !this.#left.has(id)
        const beat = isDead && last[at] ? parseBeat(last[at], id) : undefined
        return beat === undefined ? [] : [[id, beat] as const]
      }),
    )
  }

  /** Redis has lost the record of workers that died meanwhile: this process stores it for the others. */
  async #storeTraces(keys: Keys, dead: readonly WorkerBeat[]): Promise<void> {
    const { link, shownDeadMs } = this.#parts
    const commands = dead.flatMap(beat => [
      ["SADD", keys.workers, beat.id],
      [
        "SET",
        keys.lastBeat(beat.id),
        JSON.stringify({ ...beat, held: [] }),
        "PX",
        String(Math.ceil(shownDeadMs)),
        "NX",
      ],
    ])
    await Promise.all(commands.map(command => link.send(command)))
  }

  /**
   * Their tasks would lie in streams that this release never writes, so these workers are reported instead of
   * waited for.
   */
  async #findOutdated(keys: Keys): Promise<void> {
    const { link, log } = this.#parts
    const ids = (await link.send(["SMEMBERS", keys.oldWorkers])) as string[]
    const texts = await this.#texts(ids.map(id => keys.oldWorker(id)))
    const known = this.#outdated
    this.#outdated = new Map()
    ids.forEach((id, at) => {
      const beat = texts[at] ? parseBeat(texts[at], id) : undefined
      if (beat === undefined) return
      this.#outdated.set(id, beat)
      if (!known.has(id))
        log.warn(
          { worker: id, host: beat.host, version: beat.version },
          "a worker of an earlier release is connected and gets no tasks; replace it with one of this release",
        )
    })
  }

  /** Returns the workers without a heartbeat. A heartbeat that cannot be parsed does not hide the others. */
  #read(ids: readonly string[], texts: readonly (string | null)[]): string[] {
    const told = this.#unreadable
    this.#beats = new Map()
    this.#unreadable = new Set()
    const silent: string[] = []
    ids.forEach((id, at) => {
      const text = this.#left.has(id) ? null : texts[at]
      const beat = text ? parseBeat(text, id) : undefined
      if (!text) silent.push(id)
      else if (beat !== undefined) this.#beats.set(id, beat)
      else {
        this.#unreadable.add(id)
        if (!told.has(id))
          this.#parts.log.warn(
            { worker: id },
            "the heartbeat of a worker cannot be read; the worker gets no tasks",
          )
      }
    })
    return silent
  }

  #overdue(): WorkerBeat[] {
    const now = performance.now()
    const overdue: WorkerBeat[] = []
    for (const [id, { beat, until }] of this.#awaited) {
      if (!this.#isThere(id) && until > now) continue
      this.#awaited.delete(id)
      if (!this.#isThere(id)) overdue.push(beat)
    }
    return overdue
  }
}

function countCapacities(workers: Iterable<WorkerBeat>): Map<string, number> {
  const capacities = new Map<string, number>()
  for (const { handlers, concurrency, prefetch } of workers)
    for (const handler of handlers)
      capacities.set(handler, (capacities.get(handler) ?? 0) + concurrency + prefetch)
  return capacities
}

function parseBeat(text: string, id: string): WorkerBeat | undefined {
  try {
    const beat = JSON.parse(text) as WorkerBeat
    const { handlers, held, concurrency, prefetch, running, queued, at } = beat
    const numbers = [concurrency, prefetch, running, queued, at]
    const isWhole = numbers.every(Number.isFinite) && Array.isArray(handlers) && Array.isArray(held)
    return isWhole && beat.id === id ? beat : undefined
  } catch {
    return undefined
  }
}

/** Parses the fields and values of a hash. Entries in the format of another release are ignored. */
function parseLastSeen(hash: readonly string[]): Map<string, LastSeen> {
  const found = new Map<string, LastSeen>()
  for (let i = 0; i < hash.length; i += 2) {
    try {
      const { worker, at } = JSON.parse(hash[i + 1]!) as LastSeen
      if (typeof worker === "string" && Number.isFinite(at)) found.set(hash[i]!, { worker, at })
    } catch {
      // Not the format of this release.
    }
  }
  return found
}
