/**
 * Reports of workers that cannot be decided yet, because something must be read first: an output that left memory, the
 * workflow of a child. Until they are decided there is no fact that could become durable.
 */
export class PendingDecisions {
  readonly #byPartition = new Map<number, Set<Promise<unknown>>>()

  /** The caller handles a rejection of the promise. */
  add(partition: number, decision: Promise<unknown>): void {
    const open = this.#byPartition.get(partition) ?? new Set()
    this.#byPartition.set(partition, open)
    open.add(decision)
    const remove = () => {
      open.delete(decision)
    }
    decision.then(remove, remove)
  }

  /** Resolves when all decisions that are pending now are made; undefined: none is pending. */
  whenDecided(partition: number): Promise<unknown> | undefined {
    const open = this.#byPartition.get(partition)
    return open === undefined || open.size === 0 ? undefined : Promise.allSettled(open)
  }
}
