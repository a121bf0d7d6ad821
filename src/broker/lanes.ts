/** Queued tasks by what bounds them: a handler at its limit does not stand before one that has room. */
import { FairQueue, OwnerTurns, type Queued } from "./fair-queue.ts"

/** A bound on attempts at once; limits with one name are one bound. */
export interface Limit {
  readonly name: string
  readonly max: number
}

interface Bound {
  readonly max: number
  running: number
}

/** Handlers with the same bounds, those without any together. */
export class Lane<T extends Queued> {
  readonly queue: FairQueue<T>
  /** When it was last served, in takes. */
  turn = 0
  readonly #bounds: readonly Bound[]

  constructor(bounds: readonly Bound[], turns: OwnerTurns) {
    this.#bounds = bounds
    this.queue = new FairQueue<T>(turns)
  }

  get isReady(): boolean {
    return !this.queue.isEmpty && this.hasRoom
  }

  get hasRoom(): boolean {
    return this.#bounds.every(bound => bound.running < bound.max)
  }

  take(): void {
    for (const bound of this.#bounds) bound.running += 1
  }

  free(): void {
    for (const bound of this.#bounds) bound.running -= 1
  }
}

export class Lanes<T extends Queued> {
  readonly #byHandler = new Map<string, Lane<T>>()
  readonly #byBounds = new Map<string, Lane<T>>()
  readonly #bounds = new Map<string, Bound>()
  #lanes: Lane<T>[] = []
  /** One for all lanes: an owner with tasks in several of them has no more turns than another. */
  readonly #turns = new OwnerTurns()
  readonly #limits: (handler: string) => readonly Limit[]

  constructor(limits: (handler: string) => readonly Limit[]) {
    this.#limits = limits
  }

  of(handler: string): Lane<T> {
    const known = this.#byHandler.get(handler)
    if (known !== undefined) return known
    const limits = this.#limits(handler)
    const name = limits.map(limit => limit.name).join("\n")
    const lane =
      this.#byBounds.get(name) ??
      new Lane<T>(
        limits.map(limit => this.#bound(limit)),
        this.#turns,
      )
    this.#byHandler.set(handler, lane)
    this.#byBounds.set(name, lane)
    this.#lanes = [...this.#byBounds.values()]
    return lane
  }

  /**
   * The next that may run. Of the lanes with room: the owner that has waited longest for its turn; of that owner the highest
   * priority, then the lane that has waited longest.
   */
  take(): T | undefined {
    const [first] = this.#lanes
    if (first !== undefined && this.#lanes.length === 1)
      return first.isReady ? this.#takeFrom(first) : undefined
    const owner = this.#nextOwner()
    if (owner === undefined) return undefined
    let best: Lane<T> | undefined
    let highest = Number.NEGATIVE_INFINITY
    for (const lane of this.#lanes) {
      const priority = lane.hasRoom ? lane.queue.priorityOf(owner) : undefined
      if (priority === undefined || priority < highest) continue
      if (best !== undefined && priority === highest && lane.turn > best.turn) continue
      best = lane
      highest = priority
    }
    return this.#takeFrom(best!, owner)
  }

  #takeFrom(lane: Lane<T>, owner?: string): T | undefined {
    const item = lane.queue.take(owner)
    lane.turn = this.#turns.now
    return item
  }

  #nextOwner(): string | undefined {
    let owner: string | undefined
    let since = Number.POSITIVE_INFINITY
    for (const lane of this.#lanes) {
      const next = lane.isReady ? lane.queue.next : undefined
      if (next === undefined || next.since >= since) continue
      owner = next.owner
      since = next.since
    }
    return owner
  }

  #bound(limit: Limit): Bound {
    const known = this.#bounds.get(limit.name)
    if (known !== undefined) return known
    const bound = { max: limit.max, running: 0 }
    this.#bounds.set(limit.name, bound)
    return bound
  }
}
