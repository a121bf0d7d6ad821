/**
 * A queue in which job owners take turns. Within one owner the highest priority comes first; within a
 * priority the owner's workflows take turns. So neither a backlog nor a priority delays the single task of
 * another owner. Every operation takes amortized constant time for a given number of distinct priorities of
 * an owner.
 *
 * Queues that share `OwnerTurns` share the turns: an owner that was served from one of them moves to the back
 * of all of them.
 */
export interface Queued {
  readonly owner: string
  readonly workflow: string
  readonly priority: number
  /** Set by `remove`; the queue drops the item when it reaches it. */
  removed: boolean
}

interface OwnerTurn {
  /** The number of the take that last served this owner; 0: never served. */
  served: number
  /** The number of queues that hold this owner. */
  queues: number
}

/** When each owner was last served, counted in takes. Holds only owners that are in a queue. */
class OwnerTurns {
  /** The number of takes so far. */
  now = 0
  readonly #owners = new Map<string, OwnerTurn>()

  enter(owner: string): OwnerTurn {
    const known = this.#owners.get(owner)
    const turn = known ?? { served: 0, queues: 0 }
    if (known === undefined) this.#owners.set(owner, turn)
    turn.queues += 1
    return turn
  }

  leave(owner: string, turn: OwnerTurn): void {
    turn.queues -= 1
    if (turn.queues === 0) this.#owners.delete(owner)
  }
}

interface Place<T extends Queued> {
  readonly owner: string
  readonly turn: OwnerTurn
  /**
   * The number of the take after which the owner took this place. An owner that was served later must move to
   * the back.
   */
  since: number
  readonly items: OwnerQueue<T>
}

export class FairQueue<T extends Queued> {
  readonly #turns: OwnerTurns
  readonly #owners = new Map<string, Place<T>>()
  /** The owner that was served longest ago comes first, after the owners that `#front` moves or drops. */
  readonly #places = new Fifo<Place<T>>()
  /** The number of items, without removed ones. */
  #size = 0

  constructor(turns: OwnerTurns = new OwnerTurns()) {
    this.#turns = turns
  }

  get isEmpty(): boolean {
    return this.#size === 0
  }

  /** The owner whose turn it is, and since when it has been waiting; undefined: the queue is empty. */
  get next(): { readonly owner: string; readonly since: number } | undefined {
    return this.#front()
  }

  /** The highest priority among this owner's items; undefined: the owner has no items in this queue. */
  highestPriority(owner: string): number | undefined {
    return this.#owners.get(owner)?.items.priority
  }

  push(item: T): void {
    this.#place(item.owner).items.push(item)
    this.#size += 1
  }

  /** Takes the next item of the given owner; without an argument, of the owner whose turn it is. */
  take(owner?: string): T | undefined {
    const place = owner === undefined ? this.#front() : this.#owners.get(owner)
    const item = place?.items.take()
    if (item === undefined) return undefined
    this.#size -= 1
    this.#turns.now += 1
    place!.turn.served = this.#turns.now
    return item
  }

  remove(item: T): void {
    item.removed = true
    if (this.#owners.get(item.owner)?.items.remove(item.priority)) this.#size -= 1
  }

  /** The items in the order in which they will be taken if no other queue serves their owners. */
  order(): T[] {
    const copy = new FairQueue<T>()
    const places = this.#places.items()
    const add = ({ items }: Place<T>) => {
      for (const item of items.all()) copy.push(item)
    }
    places.filter(place => !isServed(place)).forEach(add)
    places.filter(isServed).forEach(add)
    return Array.from({ length: copy.#size }, () => copy.take()!)
  }

  #place(owner: string): Place<T> {
    const known = this.#owners.get(owner)
    if (known !== undefined) return known
    const turn = this.#turns.enter(owner)
    const made = { owner, turn, since: this.#turns.now, items: new OwnerQueue<T>() }
    this.#owners.set(owner, made)
    this.#places.push(made)
    return made
  }

  /**
   * Moves owners that were served since they took their place to the back, and drops owners without items.
   */
  #front(): Place<T> | undefined {
    for (let place = this.#places.first; place !== undefined; place = this.#places.first) {
      const isEmpty = place.items.priority === undefined
      if (!isEmpty && !isServed(place)) return place
      if (isEmpty) {
        this.#places.shift()
        this.#owners.delete(place.owner)
        this.#turns.leave(place.owner, place.turn)
      } else {
        place.since = place.turn.served
        this.#places.rotate()
      }
    }
    return undefined
  }
}

/** Was the owner served, from this queue or another one, since it took its place? */
function isServed({ turn, since }: Pick<Place<Queued>, "turn" | "since">): boolean {
  return turn.served > since
}

/** The items of one owner. */
class OwnerQueue<T extends Queued> {
  /** Highest priority first. A level that holds only removed items is not in the list. */
  readonly #levels: PriorityLevel<T>[] = []

  /** The highest priority; undefined: this queue is empty. */
  get priority(): number | undefined {
    return this.#levels[0]?.priority
  }

  push(item: T): void {
    this.#level(item.priority).push(item)
  }

  take(): T | undefined {
    const level = this.#levels[0]
    if (level === undefined) return undefined
    const item = level.take()
    if (level.size === 0) this.#levels.shift()
    return item
  }

  /** Called after an item of this priority was marked as removed. Returns false if no item is left. */
  remove(priority: number): boolean {
    const at = this.#levels.findIndex(level => level.priority === priority)
    const level = this.#levels[at]
    if (level === undefined) return false
    level.size -= 1
    if (level.size === 0) this.#levels.splice(at, 1)
    return true
  }

  /** All items, in the order in which a queue would return them if they were pushed into it. */
  all(): T[] {
    return this.#levels.flatMap(level => level.all())
  }

  #level(priority: number): PriorityLevel<T> {
    let at = 0
    while (at < this.#levels.length && this.#levels[at]!.priority > priority) at += 1
    const found = this.#levels[at]
    if (found?.priority === priority) return found
    const level = new PriorityLevel<T>(priority)
    this.#levels.splice(at, 0, level)
    return level
  }
}

/** The items of one owner and priority. The owner's workflows take turns. */
class PriorityLevel<T extends Queued> {
  readonly priority: number
  /** The number of items, without removed ones. */
  size = 0
  readonly #workflows = new Rotation<Fifo<T>>()

  constructor(priority: number) {
    this.priority = priority
  }

  push(item: T): void {
    this.#workflows.of(item.workflow, newFifo<T>).push(item)
    this.size += 1
  }

  take(): T | undefined {
    for (let fifo = this.#workflows.next(); fifo !== undefined; fifo = this.#workflows.next()) {
      let item = fifo.shift()
      while (item?.removed) item = fifo.shift()
      this.#workflows.hadTurn(fifo.isEmpty)
      if (item === undefined) continue
      this.size -= 1
      return item
    }
    return undefined
  }

  all(): T[] {
    return this.#workflows.inTurn().flatMap(fifo => fifo.items().filter(item => !item.removed))
  }
}

const newFifo = <T>() => new Fifo<T>()

/** Rotates among non-empty queues. The one at the front stays there until it has had its turn. */
class Rotation<L> {
  readonly #byName = new Map<string, L>()
  readonly #names = new Fifo<string>()

  get isEmpty(): boolean {
    return this.#names.isEmpty
  }

  of(name: string, make: () => L): L {
    const known = this.#byName.get(name)
    if (known !== undefined) return known
    const made = make()
    this.#byName.set(name, made)
    this.#names.push(name)
    return made
  }

  inTurn(): L[] {
    return this.#names.items().map(name => this.#byName.get(name)!)
  }

  next(): L | undefined {
    const name = this.#names.first
    return name === undefined ? undefined : this.#byName.get(name)
  }

  /** The queue at the front had its turn. */
  hadTurn(hasNothingLeft: boolean): void {
    if (hasNothingLeft) this.#byName.delete(this.#names.shift()!)
    else this.#names.rotate()
  }
}

/** A first-in, first-out queue. `Array.shift` alone would move every item of a long array. */
class Fifo<T> {
  #items: (T | undefined)[] = []
  #head = 0

  get isEmpty(): boolean {
    return this.#head === this.#items.length
  }

  get first(): T | undefined {
    return this.#items[this.#head]
  }

  items(): T[] {
    return this.#items.slice(this.#head) as T[]
  }

  push(item: T): void {
    this.#items.push(item)
  }

  shift(): T | undefined {
    if (this.isEmpty) return undefined
    const item = this.#items[this.#head]
    this.#items[this.#head] = undefined
    this.#head += 1
    if (this.isEmpty) this.#clear()
    else if (this.#head >= 1024 && this.#head * 2 >= this.#items.length) this.#compact()
    return item
  }

  /** Moves the first item to the back. */
  rotate(): void {
    if (this.#items.length - this.#head > 1) this.push(this.shift()!)
  }

  #clear(): void {
    this.#items.length = 0
    this.#head = 0
  }

  #compact(): void {
    this.#items = this.#items.slice(this.#head)
    this.#head = 0
  }
}

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

/**
 * Queued tasks grouped by the limits that apply to them: a handler at its limit does not block a handler with
 * free capacity.
 */
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
      const priority = lane.hasRoom ? lane.queue.highestPriority(owner) : undefined
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
