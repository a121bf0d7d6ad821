/**
 * Shares queries among concurrent callers. An answer is never older than the request: a caller that arrives while a
 * query for the same key is in flight waits for the next one, together with all later callers. So no caller gets a stale
 * answer, in any process, and a thousand callers at a time cost two queries. Callers of one turn of the event loop
 * cost one: a query begins when the turn has ended.
 */
interface Line<T> {
  readonly running: Promise<T>
  isUnderWay: boolean
  next: Promise<T> | null
}

export class SingleFlight<T> {
  readonly #lines = new Map<string, Line<T>>()

  ask(key: string, lookUp: () => Promise<T>): Promise<T> {
    const line = this.#lines.get(key)
    if (line === undefined) return this.#start(key, lookUp)
    if (!line.isUnderWay) return line.running
    const start = () => this.#start(key, lookUp)
    line.next ??= line.running.then(start, start)
    return line.next
  }

  #start(key: string, lookUp: () => Promise<T>): Promise<T> {
    const running = new Promise<void>(resolve => setImmediate(resolve)).then(() => {
      line.isUnderWay = true
      return lookUp()
    })
    const line: Line<T> = { running, isUnderWay: false, next: null }
    this.#lines.set(key, line)
    const leave = () => {
      if (line.next === null) this.#lines.delete(key)
    }
    running.then(leave, leave)
    return running
  }
}
