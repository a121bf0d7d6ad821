import type { Broker } from "../../broker/port.ts"
import type { LiveJob } from "../owner/live-job.ts"
import { handOver, isWorkedOnHere, type Tell } from "./task-handover.ts"

export interface DeparturesParts {
  readonly jobs: ReadonlyMap<string, LiveJob>
  readonly broker: () => Broker
  readonly tell: Tell
  /** Resolves when all decisions for the partition are stored. */
  readonly durable: (partition: number) => Promise<void>
  /** Discards all memory of the partition. */
  readonly forget: (partition: number) => void
}

/**
 * Busy partitions that are given to another engine while this one keeps running. None of their tasks begins here any
 * more, running handlers get time to end, and the rest is handed over as by a process that stops in order: the next
 * owner begins it again, and this is not counted as a loss. Tasks on other workers continue, and are adopted.
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

  /** Resolves when nothing of the partition is in memory any more; rejects if it was lost meanwhile. */
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

  /** Called before the process stops in order, after the grace time of running handlers. */
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
