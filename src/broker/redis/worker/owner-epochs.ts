import type { Link } from "../client/link.ts"
import type { Keys } from "../keys.ts"

/** The epochs under which partitions of a store are owned, as far as a worker knows. An epoch only rises. */
export class OwnerEpochs {
  readonly #epochs = new Map<number, number>()

  async read(link: Link, keys: Keys): Promise<void> {
    const row = (await link.send(["ZRANGE", keys.epochs, "0", "-1", "WITHSCORES"])) as string[]
    const epochs: [number, number][] = []
    for (let i = 0; i < row.length; i += 2) epochs.push([Number(row[i]), Number(row[i + 1])])
    this.changed(epochs)
  }

  changed(epochs: readonly (readonly [partition: number, epoch: number])[]): void {
    for (const [partition, epoch] of epochs)
      if (epoch > (this.#epochs.get(partition) ?? 0)) this.#epochs.set(partition, epoch)
  }

  /** The worker switches to another store, which has epochs of its own. */
  clear(): void {
    this.#epochs.clear()
  }

  /** The epoch of the partition's current owner. */
  current(partition: number): number {
    return this.#epochs.get(partition) ?? 0
  }
}
