import type { Broker } from "../../broker/port.ts"
import type { LiveJob } from "../owner/live-job.ts"
import { handOver, isWorkedOnHere, type Tell } from "./task-handover.ts"

export interface DeparturesParts {
  readonly jobs: ReadonlyMap<string, LiveJob>
  readonly broker: () => Broker
  readonly tell: Tell
  /** Resolves when all that was decided for the partition is stored. */
  readonly durable: (partition: number) => Promise<void>
  /** Throws away all memory of it. */
  readonly forget: (partition: number) => void
}

/**
 * Partitions with work in hand that are given to another engine while this one goes on. Nothing of them begins here any
 * more, what runs here has its time to end, and the rest is handed over as by a process that ends in order: begun again by
 * the next owner, which is no loss that counts. What workers elsewhere have in hand goes on, and is adopted.
 */
export class Handover {
  readonly #parts: DeparturesParts
  readonly #departing = new Set<number>()

  constructor(parts: DeparturesParts) {
    this.#parts = parts
  }

  has(partition: number): boolean {
    return this.#departing.has(partition)
  }

  /** Resolves when nothing of it is in memory any more; rejects if it was lost meanwhile. */
  async depart(partition: number, graceMs: number): Promise<void> {
    const { broker, tell, durable, forget } = this.#parts
    this.#departing.add(partition)
    try {
      await this.#ended(partition, graceMs)
      broker().remote?.left([partition])
      for (const job of this.#jobsOf(partition)) handOver(job, broker(), tell)
      await durable(partition)
      forget(partition)
    } finally {
      this.#departing.delete(partition)
    }
  }

  /** Before the process ends in order, when what ran here has had its time. */
  handOverAll(): void {
    const { jobs, broker, tell } = this.#parts
    for (const job of [...jobs.values()]) handOver(job, broker(), tell)
  }

  async #ended(partition: number, graceMs: number): Promise<void> {
    const until = performance.now() + graceMs
    const isBusy = () => this.#jobsOf(partition).some(job => isWorkedOnHere(job, this.#parts.broker()))
    while (performance.now() < until && isBusy()) await new Promise(resolve => setTimeout(resolve, LOOK_MS))
  }

  #jobsOf(partition: number): LiveJob[] {
    return [...this.#parts.jobs.values()].filter(job => job.partition === partition)
  }
}

const LOOK_MS = 20
