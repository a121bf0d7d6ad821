import type { Log } from "../log.ts"
import type { Availability } from "./sending.ts"

/** Says when appends do not come through, and when they do again. */
export class StoreNews implements Availability {
  readonly #log: Log
  readonly #triesBeforePause: number
  readonly #available: (isAvailable: boolean) => void

  constructor(parts: { log: Log; triesBeforePause: number; available: (isAvailable: boolean) => void }) {
    this.#log = parts.log
    this.#triesBeforePause = parts.triesBeforePause
    this.#available = parts.available
  }

  unavailable(error: unknown, tries: number): void {
    if (tries === this.#triesBeforePause) this.#available(false)
    const message = error instanceof Error ? error.message : String(error)
    this.#log.warn(
      { tries, error: message },
      tries >= this.#triesBeforePause
        ? "database away: engine paused, results are kept"
        : "append failed; sending it again",
    )
  }

  available(): void {
    this.#log.info({}, "database is back: engine goes on")
    this.#available(true)
  }
}
