import type { Broker } from "../../broker/port.ts"
import { LONGEST_WAIT } from "../clock.ts"
import type { JobOwner, LiveJob } from "../owner/live-job.ts"
import { handOverTasks, hasLocalTasks } from "./task-handover.ts"

interface HandoverOwner extends JobOwner {
  readonly broker: Broker
  /** Resolves when all decisions for the partition are stored. */
  allDurable(partition: number): Promise<void>
  /** Resolves when a task has ended, and those that waited for its place have begun. */
  nextTaskEnd(): Promise<void>
  /** Discards all memory of the partition. */
  forget(partition: number): void
}

/**
 * Busy partitions that are given to another engine while this one keeps running. None of their tasks begins here any
 * more, running handlers get time to end, and the rest is handed over as by a process that shuts down cleanly: the next
 * owner begins it again, and this is not counted as a loss. Tasks on other workers continue, and are adopted.
 */
export class Handover {
  readonly #owner: HandoverOwner

  constructor(owner: HandoverOwner) {
    this.#owner = owner
  }

  /** Resolves when nothing of the partition is in memory any more; rejects if it was lost meanwhile. */
  async handOver(partition: number, graceMs: number): Promise<void> {
    const owner = this.#owner
    const departing = owner.owned.get(partition)
    if (departing !== undefined) departing.isDeparting = true
    try {
      await this.#waitUntilIdle(partition, graceMs)
      owner.broker.remote?.left([partition])
      for (const job of this.#jobsIn(partition)) handOverTasks(job, owner)
      await owner.allDurable(partition)
      owner.forget(partition)
    } finally {
      if (departing !== undefined) departing.isDeparting = false
    }
  }

  /** Called before the process shuts down cleanly, after the grace time of running handlers. */
  handOverAll(): void {
    for (const job of [...this.#owner.jobs.values()]) handOverTasks(job, this.#owner)
  }

  async #waitUntilIdle(partition: number, graceMs: number): Promise<void> {
    let isOver = false
    let timer: NodeJS.Timeout | undefined
    const over = new Promise<void>(resolve => {
      timer = setTimeout(
        () => {
          isOver = true
          resolve()
        },
        Math.min(graceMs, LONGEST_WAIT),
      )
    })
    const isBusy = () => this.#jobsIn(partition).some(job => hasLocalTasks(job, this.#owner.broker))
    while (!isOver && isBusy()) await Promise.race([over, this.#owner.nextTaskEnd()])
    clearTimeout(timer)
  }

  #jobsIn(partition: number): LiveJob[] {
    return [...this.#owner.jobs.values()].filter(job => job.partition === partition)
  }
}
