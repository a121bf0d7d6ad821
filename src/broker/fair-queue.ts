/**
 * A queue by priority and, within a priority, in turn between owners, and of one owner between workflows: a backlog does
 * not stand before another's single task. Every operation takes constant time for a given number of distinct priorities.
 */
export interface Queued {
  readonly owner: string
  readonly workflow: string
  readonly priority: number
  /** Set by `remove`; the queue forgets the item when it comes to it. */
  removed: boolean
}

export class FairQueue<T extends Queued> {
  /** Highest priority first. A level that holds nothing but removed items is not here. */
  readonly #levels: Level<T>[] = []

  get isEmpty(): boolean {
    return this.#levels.length === 0
  }

  /** The highest priority there is; call only if the queue is not empty. */
  get priority(): number {
    return this.#levels[0]!.priority
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

  remove(item: T): void {
    item.removed = true
    const at = this.#levels.findIndex(level => level.priority === item.priority)
    const level = this.#levels[at]
    if (level === undefined) return
    level.size -= 1
    if (level.size === 0) this.#levels.splice(at, 1)
  }

  /** The items in the order in which they would be taken. */
  order(): T[] {
    return this.#levels.flatMap(level => level.order())
  }

  #level(priority: number): Level<T> {
    let at = 0
    while (at < this.#levels.length && this.#levels[at]!.priority > priority) at += 1
    const found = this.#levels[at]
    if (found?.priority === priority) return found
    const level = new Level<T>(priority)
    this.#levels.splice(at, 0, level)
    return level
  }
}

class Level<T extends Queued> {
  readonly priority: number
  /** Items not removed. */
  size = 0
  readonly #owners = new Turns<Turns<Line<T>>>()

  constructor(priority: number) {
    this.priority = priority
  }

  push(item: T): void {
    const workflows = this.#owners.of(item.owner, newTurns<T>)
    workflows.of(item.workflow, newLine<T>).push(item)
    this.size += 1
  }

  take(): T | undefined {
    for (let workflows = this.#owners.next(); workflows !== undefined; workflows = this.#owners.next()) {
      const line = workflows.next()!
      let item = line.shift()
      while (item?.removed) item = line.shift()
      workflows.hadTurn(line.isEmpty)
      this.#owners.hadTurn(workflows.isEmpty)
      if (item === undefined) continue
      this.size -= 1
      return item
    }
    return undefined
  }

  order(): T[] {
    const copy = new Level<T>(this.priority)
    for (const workflows of this.#owners.inTurn())
      for (const line of workflows.inTurn())
        for (const item of line.items()) if (!item.removed) copy.push(item)
    return Array.from({ length: copy.size }, () => copy.take()!)
  }
}

const newLine = <T>() => new Line<T>()
const newTurns = <T>() => new Turns<Line<T>>()

/** Those that have something, one after the other. Who is at the front stays there until it has had its turn. */
class Turns<L> {
  readonly #byName = new Map<string, L>()
  readonly #names = new Line<string>()

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

  /** Of the one at the front. */
  hadTurn(hasNothingLeft: boolean): void {
    const name = this.#names.shift()!
    if (hasNothingLeft) this.#byName.delete(name)
    else this.#names.push(name)
  }
}

/** First in, first out. `Array.shift` alone moves every item of a long array. */
class Line<T> {
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

  #clear(): void {
    this.#items.length = 0
    this.#head = 0
  }

  #compact(): void {
    this.#items = this.#items.slice(this.#head)
    this.#head = 0
  }
}
