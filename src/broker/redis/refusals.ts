import type { Log } from "../../log.ts"

/**
 * Counts the tasks that a worker has refused. At a take-over there may be hundreds at once: one log line per
 * second reports their number.
 */
export class Refusals {
  readonly #log: Log
  #count = 0
  #loggedAt = Number.NEGATIVE_INFINITY

  constructor(log: Log) {
    this.#log = log
  }

  get count(): number {
    return this.#count
  }

  add(jobId: string, cause: string): void {
    this.#count += 1
    if (performance.now() - this.#loggedAt < LOG_MS) return
    this.#loggedAt = performance.now()
    this.#log.warn({ job_id: jobId, cause, refused: this.#count }, "this worker refused a task")
  }
}

const LOG_MS = 1000
