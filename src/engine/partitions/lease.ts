/**
 * Until when this engine can be sure of its partitions. Others take over when its heartbeat has not changed for a lease,
 * which begins when they see it: later than it was sent. So by its own clock this engine stops being sure before any
 * other can take over.
 */
export class Lease {
  readonly #ms: number
  #until: number

  constructor(ms: number, store: { readonly exclusive: boolean }) {
    this.#ms = ms
    this.#until = store.exclusive ? Number.POSITIVE_INFINITY : 0
  }

  get isSure(): boolean {
    return monotonicMs() < this.#until
  }

  /** A heartbeat that was sent then, by `monotonicMs`, has been stored. */
  renew(sentAt: number): void {
    this.#until = Math.max(this.#until, sentAt + this.#ms)
  }
}

/** The same in every thread of a process; it also advances while the process is suspended. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n)
}
