/**
 * Jobs whose end this process waits for, by id. The last step of a job calls `end`: peers that report an end only
 * to those who poll for it are measured until that call, which is in their favour.
 */
export class Waiting {
  #waiting = new Map()

  /** Resolves with the result of the job. Call it before the job is submitted. */
  for(id) {
    return new Promise(resolve => this.#waiting.set(id, resolve))
  }

  end(id, value) {
    const resolve = this.#waiting.get(id)
    if (resolve === undefined) throw new Error(`the job ${id} ended twice, or was never submitted`)
    this.#waiting.delete(id)
    resolve(value)
  }
}
