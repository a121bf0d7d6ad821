/** Notifies waiting requests that the process stops. A Set, since ten thousand may wait, and each comes and goes. */
export class Stopping {
  #isStopping = false
  readonly #waiting = new Set<() => void>()

  get isStopping(): boolean {
    return this.#isStopping
  }

  /** Calls `listener` when the process stops, or at once if it is stopping. Returns a function that unsubscribes. */
  onStop(listener: () => void): () => void {
    if (this.#isStopping) listener()
    else this.#waiting.add(listener)
    return () => void this.#waiting.delete(listener)
  }

  stop(): void {
    this.#isStopping = true
    for (const listener of this.#waiting) listener()
    this.#waiting.clear()
  }
}
