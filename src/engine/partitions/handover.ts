import type { Broker } from "../../broker/port.ts"
import type { OwnedPartition } from "../commit/owned-partition.ts"
import type { LiveJob } from "../owner/live-job.ts"
import { handOverTasks, hasLocalTasks, type SendCommand } from "./task-handover.ts"

export interface HandoverParts {
  readonly jobs: ReadonlyMap<string, LiveJob>
  readonly owned: ReadonlyMap<number, OwnedPartition>
  readonly broker: () => Broker
  readonly command: SendCommand
  /** Resolves when all decisions for the partition are stored. */
  readonly durable: (partition: number) => Promise<void>
  /** Discards all memory of the partition. */
  readonly forget: (partition: number) => void
}

/**
 * Busy partitions that are given to another engine while this one keeps running. None of their tasks begins here any
 * more, running handlers get time to end, and the rest is handed over as by a process that shuts down cleanly: the next
 * owner begins it again, and this is not counted as a loss. Tasks on other workers continue, and are adopted.
 */
export class Handover {
  readonly #parts: HandoverParts

  constructor(parts: HandoverParts) {
    this.#parts = parts
  }

  /** Resolves when nothing of the partition is in memory any more; rejects if it was lost meanwhile. */
  async handOver(partition: number, graceMs: number): Promise<void> {
    const { owned, broker, command, durable, forget } = this.#parts
    const departing = owned.get(partition)
    if (departing !== undefined) departing.isDeparting = true
    try {
      await this.#waitUntilIdle(partition, graceMs)
      broker().remote?.left([partition])
      for (const job of this.#jobsIn(partition)) handOverTasks(job, broker(), command)
      await durable(partition)
      forget(partition)
    } finally {
      if (departing !== undefined) departing.isDeparting = false
    }
  }

  /** Called before the process shuts down cleanly, after the grace time of running handlers. */
  handOverAll(): void {
    const { jobs, broker, command } = this.#parts
    for (const job of [...jobs.values()]) handOverTasks(job, broker(), command)
  }

  async #waitUntilIdle(partition: number, graceMs: number): Promise<void> {
    const until = performance.now() + graceMs
    const isBusy = () => this.#jobsIn(partition).some(job => hasLocalTasks(job, this.#parts.broker()))
    while (performance.now() < until && isBusy()) await new Promise(resolve => setTimeout(resolve, POLL_MS))
  }

  #jobsIn(partition: number): LiveJob[] {
    return [...this.#parts.jobs.values()].filter(job => job.partition === partition)
  }
}

const POLL_MS = 20
