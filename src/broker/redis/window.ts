import { FairQueue, type Queued } from "../fair-queue.ts"

/**
 * Limits the number of tasks of one handler in Redis. Workers take tasks from Redis in the order in which
 * they were added, so only as many as keep the workers busy are added. The rest waits here, where owners take
 * turns and priorities count.
 */
export class Window<T extends Queued> {
  readonly queue = new FairQueue<T>()
  /** The number of tasks that are in Redis or with a worker. */
  sent = 0
  readonly #slotMs: number
  readonly #capacity: () => number
  #slot = 0
  #count = 0
  /** The number of tasks that were finished in a recent time slot. */
  #recent = 0

  constructor(options: { readonly slotMs: number; readonly capacity: () => number }) {
    this.#slotMs = options.slotMs
    this.#capacity = options.capacity
  }

  get hasRoom(): boolean {
    const capacity = this.#capacity()
    return capacity > 0 && this.sent < Math.max(capacity, this.#recent)
  }

  finished(): void {
    this.sent -= 1
    const slot = Math.floor(performance.now() / this.#slotMs)
    if (slot !== this.#slot) {
      this.#recent = Math.max(this.#count, Math.floor(this.#recent / 2))
      this.#count = 0
      this.#slot = slot
    }
    this.#count += 1
  }
}
