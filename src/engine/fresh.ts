/**
 * Look-ups that many ask for at once. An answer is never older than the question: whoever asks while a look-up of the
 * same key is under way waits for the next one, together with everybody else who does. So nothing stale is ever told,
 * in any process, and a thousand askers at a time cost two queries.
 */
export class FreshAnswers<T> {
  readonly #lines = new Map<string, { readonly running: Promise<T>; next: Promise<T> | null }>()

  ask(key: string, lookUp: () => Promise<T>): Promise<T> {
    const line = this.#lines.get(key)
    if (line === undefined) return this.#start(key, lookUp)
    const start = () => this.#start(key, lookUp)
    line.next ??= line.running.then(start, start)
    return line.next
  }

  #start(key: string, lookUp: () => Promise<T>): Promise<T> {
    const line: { running: Promise<T>; next: Promise<T> | null } = { running: lookUp(), next: null }
    this.#lines.set(key, line)
    const leave = () => {
      if (line.next === null) this.#lines.delete(key)
    }
    line.running.then(leave, leave)
    return line.running
  }
}
