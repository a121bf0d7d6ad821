import type { TaskName } from "../../broker/port.ts"
import { taskKey } from "../../core/state.ts"
import type { OwnedPartition } from "../commit/batch.ts"
import type { StoreHealth } from "../commit/sender.ts"
import type { Dispatcher } from "../dispatch/dispatcher.ts"
import type { Capacity } from "../providers/capacity.ts"
import type { OverlayOwner } from "../remote/live-overlay.ts"
import type { LiveJob } from "./live-job.ts"
import type { PendingDecisions } from "./reports.ts"

export interface TaskLocationsParts {
  readonly store: StoreHealth
  readonly owned: ReadonlyMap<number, OwnedPartition>
  readonly capacity: Capacity
  readonly dispatcher: Dispatcher
  readonly pendingDecisions: PendingDecisions
}

/** Where tasks are that no broker has: explains to users why a task does not run. */
export class TaskLocations implements OverlayOwner {
  readonly store: StoreHealth
  readonly #parts: TaskLocationsParts
  #isStopping = false

  constructor(parts: TaskLocationsParts) {
    this.#parts = parts
    this.store = parts.store
  }

  isDispatching(job: LiveJob, task: TaskName): boolean {
    if (job.pendingBatches > 0) return true
    // A broker that drains drops what is dispatched: the next owner begins it.
    if (job.running.has(taskKey(task)) && !this.isLeaving(job.partition)) return true
    const { dispatcher, pendingDecisions } = this.#parts
    return dispatcher.isDispatching(job, task) || pendingDecisions.has(job.id, task)
  }

  rateWait(task: TaskName): ReturnType<Capacity["rateWait"]> {
    return this.#parts.capacity.rateWait(task)
  }

  isLeaving(partition: number): boolean {
    return this.#isStopping || this.#parts.owned.get(partition)?.isDeparting === true
  }

  /** The process is about to end: no further task begins here. */
  stopping(): void {
    this.#isStopping = true
  }
}
