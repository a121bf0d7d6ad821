/**
 * Queued tasks grouped by the limits that apply to them: a handler at its limit does not block a handler with
 * free capacity.
 */
import { FairQueue, OwnerTurns, type Queued } from "./fair-queue.ts"

/** A limit on concurrent attempts. Limits with the same name are one limit. */
export interface Limit {
  readonly name: string
  readonly max: number
}

interface Bound {
  readonly max: number
  running: number
}

/** The queue of all handlers with the same limits; all handlers without limits share one lane. */
export class Lane<T extends Queued> {
  readonly queue: FairQueue<T>
  /** When the lane was last served, counted in takes. */
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
  /** Shared by all lanes: an owner with tasks in several lanes gets no more turns than another owner. */
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
   * Takes the next task that may run. Among the lanes with free capacity: the owner that has waited longest
   * for its turn; for that owner, the highest priority, then the lane that has waited longest.
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
