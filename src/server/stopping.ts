/** Tells those who wait that the process is about to end. A set: ten thousand may wait, and come and go each moment. */
export class Stopping {
  #isStopping = false
  readonly #waiting = new Set<() => void>()

  get isStopping(): boolean {
    return this.#isStopping
  }

  /** Calls `tell` when it stops, at once if it has. Answers how to take that back. */
  tell(tell: () => void): () => void {
    if (this.#isStopping) tell()
    else this.#waiting.add(tell)
    return () => void this.#waiting.delete(tell)
  }

  stop(): void {
    this.#isStopping = true
    for (const tell of this.#waiting) tell()
    this.#waiting.clear()
  }
}
