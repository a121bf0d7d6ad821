/**
 * Look-ups that many ask for at once. An answer is never older than the question: whoever asks while a look-up of the
 * same key is under way waits for the next one, together with everybody else who does. So nothing stale is ever told,
 * in any process, and a thousand askers at a time cost two queries. Those that come in one turn of the event loop cost
 * one: a look-up begins when the turn has ended.
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
