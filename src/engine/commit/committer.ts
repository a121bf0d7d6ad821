import type { Journal } from "../../journal/port/journal.ts"
import type { Clock } from "../clock.ts"
import { EngineMetrics } from "../metrics.ts"
import { AppendLane } from "./lane.ts"
import type { OwnedPartition } from "./owned-partition.ts"
import type { Availability } from "./sender.ts"

/**
 * Every partition commits in one lane, and each lane has one append in flight. With two lanes this process decides for
 * one half of the partitions while the database commits the other half; with one lane they would alternate. Order and
 * durability are guaranteed within a partition only, which is all that the engine needs.
 */
export class Committer {
  readonly lanes: readonly AppendLane[]
  readonly #store: Availability
  /** Lanes whose append fails because the store is unavailable. */
  readonly #unavailableLanes = new Set<number>()

  constructor(parts: {
    journal: Journal
    clock: Clock
    store: Availability
    owned: ReadonlyMap<number, OwnedPartition>
    slotLeaseMs: number
    metrics?: EngineMetrics
  }) {
    const { appendLanes } = parts.journal.capabilities
    const metrics = parts.metrics ?? new EngineMetrics()
    this.#store = parts.store
    this.lanes = Array.from({ length: appendLanes }, (_, lane) => {
      const store = {
        unavailable: (error: unknown, tries: number) => this.#laneUnavailable(lane, error, tries),
        available: () => this.#laneAvailable(lane),
      }
      return new AppendLane({ ...parts, store, metrics })
    })
  }

  lane(partition: number): AppendLane {
    return this.lanes[partition % this.lanes.length]!
  }

  /** Resolves when everything recorded of the job is durable. Rejects if this engine loses the partition before that. */
  durable(job: { readonly partition: number; readonly id: string }): Promise<void> {
    return this.lane(job.partition).durable(job)
  }

  get isIdle(): boolean {
    return this.lanes.every(lane => lane.isIdle)
  }

  /** Stops retrying appends that fail. */
  stop(): void {
    for (const lane of this.lanes) lane.stop()
  }

  /** Reports one outage of the store once, not once per lane. */
  #laneUnavailable(lane: number, error: unknown, tries: number): void {
    this.#unavailableLanes.add(lane)
    if (lane === Math.min(...this.#unavailableLanes)) this.#store.unavailable(error, tries)
  }

  #laneAvailable(lane: number): void {
    this.#unavailableLanes.delete(lane)
    if (this.#unavailableLanes.size === 0) this.#store.available()
    for (const other of this.#unavailableLanes) this.lanes[other]!.retryNow()
  }
}
