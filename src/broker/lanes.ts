/** Queued tasks by what bounds them: a handler at its limit does not stand before one that has room. */
import { FairQueue, type Queued } from "./fair-queue.ts"

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
  readonly queue = new FairQueue<T>()
  /** When it was last served, in takes. */
  turn = 0
  readonly #bounds: readonly Bound[]

  constructor(bounds: readonly Bound[]) {
    this.#bounds = bounds
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
  #turn = 0
  readonly #limits: (handler: string) => readonly Limit[]

  constructor(limits: (handler: string) => readonly Limit[]) {
    this.#limits = limits
  }

  of(handler: string): Lane<T> {
    const known = this.#byHandler.get(handler)
    if (known !== undefined) return known
    const limits = this.#limits(handler)
    const name = limits.map(limit => limit.name).join("\n")
    const lane = this.#byBounds.get(name) ?? new Lane<T>(limits.map(limit => this.#bound(limit)))
    this.#byHandler.set(handler, lane)
    this.#byBounds.set(name, lane)
    this.#lanes = [...this.#byBounds.values()]
    return lane
  }

  /** The next that may run: highest priority first, then the lane that has waited longest for its turn. */
  take(): T | undefined {
    let best: Lane<T> | undefined
    for (const lane of this.#lanes) {
      if (lane.isReady && (best === undefined || isBefore(lane, best))) best = lane
    }
    if (best === undefined) return undefined
    this.#turn += 1
    best.turn = this.#turn
    return best.queue.take()
  }

  #bound(limit: Limit): Bound {
    const known = this.#bounds.get(limit.name)
    if (known !== undefined) return known
    const bound = { max: limit.max, running: 0 }
    this.#bounds.set(limit.name, bound)
    return bound
  }
}

function isBefore(a: Lane<Queued>, b: Lane<Queued>): boolean {
  const difference = a.queue.priority - b.queue.priority
  return difference > 0 || (difference === 0 && a.turn < b.turn)
}
