/** Notifies waiting requests that the process stops. A Set, since ten thousand may wait, and each comes and goes. */
export class Stopping {
  #isStopping = false
  readonly #waiting = new Set<() => void>()

  get isStopping(): boolean {
    return this.#isStopping
  }

  /** Calls `tell` when the process stops, or at once if it is stopping. Returns a function that unsubscribes. */
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
