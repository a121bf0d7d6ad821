/**
 * Shares queries among concurrent callers. An answer is never older than the request: a caller that arrives while a
 * query for the same key is in flight waits for the next one, together with all later callers. So no caller gets a stale
 * answer, in any process, and a thousand callers at a time cost two queries. Callers of one turn of the event loop
 * cost one: a query begins when the turn has ended.
 */
interface Flight<T> {
  readonly running: Promise<T>
  isRunning: boolean
  next: Promise<T> | null
}

export class SingleFlight<T> {
  readonly #flights = new Map<string, Flight<T>>()

  run(key: string, query: () => Promise<T>): Promise<T> {
    const flight = this.#flights.get(key)
    if (flight === undefined) return this.#start(key, query)
    if (!flight.isRunning) return flight.running
    const start = () => this.#start(key, query)
    flight.next ??= flight.running.then(start, start)
    return flight.next
  }

  #start(key: string, lookUp: () => Promise<T>): Promise<T> {
    const running = new Promise<void>(resolve => setImmediate(resolve)).then(() => {
      line.isRunning = true
      return lookUp()
    })
    const line: Flight<T> = { running, isRunning: false, next: null }
    this.#flights.set(key, line)
    const remove = () => {
      if (line.next === null) this.#flights.delete(key)
    }
    running.then(remove, remove)
    return running
  }
}
