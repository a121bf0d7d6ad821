import type { Log } from "../../log.ts"
import type { Availability } from "./sender.ts"

/** Logs and reports when appends fail because the store is unavailable, and when they succeed again. */
export class StoreHealth implements Availability {
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
    const { message, cause } = error instanceof Error ? error : new Error(String(error))
    // A driver may reject with a plain object, whose message the wrapping error does not repeat.
    const { message: reason } = (cause ?? {}) as { readonly message?: unknown }
    this.#log.warn(
      { tries, error: message, ...(typeof reason === "string" ? { cause: reason } : {}) },
      tries >= this.#triesBeforePause
        ? "database unavailable: engine paused, results are kept"
        : "append failed; retrying",
    )
  }

  available(): void {
    this.#log.info({}, "database available again: engine resumes")
    this.#available(true)
  }
}
