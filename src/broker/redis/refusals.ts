import type { Log } from "../../log.ts"

/** Tasks that a worker has refused. At a take-over hundreds may be at once: one line a second says how many. */
export class Refusals {
  readonly #log: Log
  #count = 0
  #toldAt = Number.NEGATIVE_INFINITY

  constructor(log: Log) {
    this.#log = log
  }

  get count(): number {
    return this.#count
  }

  add(jobId: string, cause: string): void {
    this.#count += 1
    if (performance.now() - this.#toldAt < TELL_MS) return
    this.#toldAt = performance.now()
    this.#log.warn({ job_id: jobId, cause, refused: this.#count }, "this worker refused a task")
  }
}

const TELL_MS = 1000
