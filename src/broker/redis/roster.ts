import type { Log } from "../../log.ts"
import type { RemoteWorker } from "../port.ts"
import type { Keys } from "./keys.ts"
import type { Link } from "./link.ts"
import type { Reply } from "./resp.ts"

/** What a worker says of itself with every beat. */
export interface WorkerBeat extends RemoteWorker {
  readonly prefetch: number
  /** The tasks it has in hand, each with the epoch of who sent it. */
  readonly held: readonly (readonly [name: string, epoch: number])[]
}

export interface RosterChange {
  /** Handlers that nobody served before. */
  readonly served: readonly string[]
  /** Who was there and is not any more. */
  readonly gone: readonly string[]
}

interface Awaited {
  readonly beat: WorkerBeat
  readonly until: number
}

export interface RosterParts {
  readonly link: Link
  readonly deadMs: number
  readonly shownDeadMs: number
  readonly log: Log
}

/**
 * Who works for this fleet, as the last look said. Whether somebody lives is Redis's word alone: a worker's key expires
 * when it has been silent for too long, so no two clocks are ever compared.
 */
export class Roster {
  readonly #parts: RosterParts
  #beats = new Map<string, WorkerBeat>()
  /** Who lives and says something that is not understood here: of a later release, or nobody of ours. */
  #unreadable = new Set<string>()
  /** By handler. */
  #capacities = new Map<string, number>()
  /** After a flush: who has not been heard of since. They may still have tasks in hand. */
  readonly #awaited = new Map<string, Awaited>()
  #strangersUntil = 0
  /** By handler: the worker that was last known to have it. */
  readonly #lastSeen = new Map<string, { readonly worker: string; readonly at: number }>()
  /** Live workers of release 0.1, which use other names and get no tasks. */
  #outdated = new Map<string, WorkerBeat>()
  /** Who died not long ago, for people to see. */
  readonly #dead = new Map<string, Awaited>()

  constructor(parts: RosterParts) {
    this.#parts = parts
  }

  get live(): readonly WorkerBeat[] {
    return [...this.#beats.values()]
  }

  get dead(): readonly WorkerBeat[] {
    return [...this.#dead.values()].map(({ beat }) => beat)
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

  /** Is everybody heard of who may have tasks in hand? */
  get isComplete(): boolean {
    return this.#awaited.size === 0 && performance.now() >= this.#strangersUntil
  }

  /** For so long somebody may turn up who was there before. */
  expectStrangers(ms: number): void {
    this.#strangersUntil = performance.now() + ms
  }

  serves(handler: string): boolean {
    return this.#capacities.has(handler)
  }

  /** Tasks of this handler that the workers take at once, all together. */
  capacity(handler: string): number {
    return this.#capacities.get(handler) ?? 0
  }

  /** The worker that had the handler last, and when it last reported by its own clock. */
  lastSeen(handler: string): { readonly worker: string; readonly at: number } | undefined {
    return this.#lastSeen.get(handler)
  }

  get handlers(): readonly string[] {
    return [...this.#capacities.keys()]
  }

  /** Tasks that somebody has in hand. */
  held(): Map<string, number> {
    return new Map(this.live.flatMap(({ held }) => held))
  }

  /** The live worker that has the task in hand. */
  holder(name: string): string | null {
    return this.live.find(({ held }) => held.some(([task]) => task === name))?.id ?? null
  }

  /** Redis has lost its memory: nobody is dead because of that. */
  forget(): void {
    const until = performance.now() + this.#parts.deadMs
    for (const [id, beat] of this.#beats) this.#awaited.set(id, { beat, until })
    this.#beats = new Map()
    this.#capacities = new Map()
  }

  /** null: what was read is of a Redis that has forgotten everything meanwhile. Nobody is dead because of that. */
  async look(keys: Keys, isForgotten: () => Promise<boolean>): Promise<RosterChange | null> {
    const { link } = this.#parts
    const ids = (await link.send(["SMEMBERS", keys.workers])) as string[]
    const said =
      ids.length === 0
        ? []
        : ((await link.send(["MGET", ...ids.map(id => keys.worker(id))])) as (string | null)[])
    const left = await this.#leftOf(keys, new Set(ids.filter((_, at) => said[at] && said[at] !== LEFT)))
    await this.#lookForOutdated(keys)
    if (await isForgotten()) return null
    const before = this.#beats
    const served = this.#capacities
    const silent = this.#read(ids, said)
    if (silent.length > 0) await link.send(["SREM", keys.workers, ...silent])
    const gone = [...before.values(), ...this.#overdue()].filter(({ id }) => !this.#isThere(id))
    this.#bury(gone.filter(({ id }) => !left.has(id)))
    this.#capacities = capacitiesOf(this.#beats.values())
    for (const { id, at, handlers } of this.#beats.values())
      for (const handler of handlers) this.#lastSeen.set(handler, { worker: id, at })
    return {
      served: this.handlers.filter(handler => !served.has(handler)),
      gone: [...gone.map(({ id }) => id), ...silent.filter(id => !before.has(id))],
    }
  }

  /** Their tasks would lie in streams that this release never writes: they are reported instead of waited for. */
  async #lookForOutdated(keys: Keys): Promise<void> {
    const { link, log } = this.#parts
    const ids = (await link.send(["SMEMBERS", keys.oldWorkers])) as string[]
    const said =
      ids.length === 0
        ? []
        : ((await link.send(["MGET", ...ids.map(id => keys.oldWorker(id))])) as (string | null)[])
    const known = this.#outdated
    this.#outdated = new Map()
    ids.forEach((id, at) => {
      const beat = said[at] ? beatIn(said[at], id) : undefined
      if (beat === undefined) return
      this.#outdated.set(id, beat)
      if (!known.has(id))
        log.warn(
          { worker: id, host: beat.host, version: beat.version },
          "a worker of an earlier release is connected and gets no tasks; replace it with one of this release",
        )
    })
  }

  /** Those that were there, are not any more, and stopped in order: nobody died. */
  async #leftOf(keys: Keys, there: ReadonlySet<string>): Promise<Set<string>> {
    const missing = [...this.#beats.keys(), ...this.#awaited.keys()].filter(id => !there.has(id))
    if (missing.length === 0) return new Set()
    const words = (await this.#parts.link.send(["MGET", ...missing.map(id => keys.worker(id))])) as Reply[]
    return new Set(missing.filter((_, at) => words[at] === LEFT))
  }

  /** Returns who says nothing. One that cannot be read does not keep the others from being seen. */
  #read(ids: readonly string[], said: readonly (string | null)[]): string[] {
    const told = this.#unreadable
    this.#beats = new Map()
    this.#unreadable = new Set()
    const silent: string[] = []
    ids.forEach((id, at) => {
      const text = said[at] === LEFT ? null : said[at]
      const beat = text ? beatIn(text, id) : undefined
      if (!text) silent.push(id)
      else if (beat !== undefined) this.#beats.set(id, beat)
      else {
        this.#unreadable.add(id)
        if (!told.has(id))
          this.#parts.log.warn(
            { worker: id },
            "what a worker says of itself cannot be read; it gets no tasks",
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

  #bury(gone: readonly WorkerBeat[]): void {
    const now = performance.now()
    for (const [id, { until }] of this.#dead) if (until < now || this.#isThere(id)) this.#dead.delete(id)
    for (const beat of gone) this.#dead.set(beat.id, { beat, until: now + this.#parts.shownDeadMs })
  }
}

/** In place of a beat: the worker stopped in order. */
export const LEFT = "left"

function capacitiesOf(workers: Iterable<WorkerBeat>): Map<string, number> {
  const capacities = new Map<string, number>()
  for (const { handlers, concurrency, prefetch } of workers)
    for (const handler of handlers)
      capacities.set(handler, (capacities.get(handler) ?? 0) + concurrency + prefetch)
  return capacities
}

function beatIn(text: string, id: string): WorkerBeat | undefined {
  try {
    const beat = JSON.parse(text) as WorkerBeat
    const { handlers, held, concurrency, prefetch, running, queued, at } = beat
    const figures = [concurrency, prefetch, running, queued, at]
    const isWhole = figures.every(Number.isFinite) && Array.isArray(handlers) && Array.isArray(held)
    return isWhole && beat.id === id ? beat : undefined
  } catch {
    return undefined
  }
}
