/** A wait that can be ended early. */
export class InterruptibleWait {
  #end: (() => void) | null = null

  /** Resolves after this time, or when `end` is called. */
  wait(ms: number): Promise<void> {
    return new Promise(resolve => {
      const timer = setTimeout(resolve, ms)
      this.#end = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  end(): void {
    this.#end?.()
  }
}
