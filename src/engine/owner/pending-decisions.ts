/**
 * What workers reported and nobody has decided on yet, because something must be read first: an output that left memory,
 * the workflow of a child. Until then there is nothing that could be durable.
 */
export class PendingDecisions {
  readonly #byPartition = new Map<number, Set<Promise<unknown>>>()

  /** Its failure is the business of whoever made it. */
  add(partition: number, decision: Promise<unknown>): void {
    const open = this.#byPartition.get(partition) ?? new Set()
    this.#byPartition.set(partition, open)
    open.add(decision)
    const over = () => {
      open.delete(decision)
    }
    decision.then(over, over)
  }

  /** Resolves when all that is open now is decided; undefined: nothing is. */
  decided(partition: number): Promise<unknown> | undefined {
    const open = this.#byPartition.get(partition)
    return open === undefined || open.size === 0 ? undefined : Promise.allSettled(open)
  }
}
