import type { Effects } from "../../core/effects.ts"
import type { Fact } from "../../core/facts.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { Clock } from "../clock.ts"
import { EngineMetrics } from "../metrics.ts"
import type { LiveJob } from "../owner/live-job.ts"
import { EarlyDispatch } from "./early-dispatch.ts"
import { AppendLane, type LaneEvents } from "./lane.ts"
import type { OwnedPartition } from "./owned-partition.ts"
import type { Availability } from "./sender.ts"

/**
 * Every partition commits in one lane, and each lane has one append in flight. With two lanes this process decides for
 * one half of the partitions while the database commits the other half; with one lane they would alternate. Order and
 * durability are guaranteed within a partition only, which is all that the engine needs.
 */
export class Committer {
  readonly #lanes: readonly AppendLane[]
  readonly #store: Availability
  /** Lanes whose append fails because the store is unavailable. */
  readonly #unavailableLanes = new Set<number>()

  constructor(parts: {
    journal: Journal
    clock: Clock
    events: LaneEvents
    store: Availability
    owned: ReadonlyMap<number, OwnedPartition>
    metrics?: EngineMetrics
  }) {
    const { appendLanes } = parts.journal.capabilities
    const metrics = parts.metrics ?? new EngineMetrics()
    this.#store = parts.store
    const earlyDispatch = new EarlyDispatch()
    this.#lanes = Array.from({ length: appendLanes }, (_, lane) => {
      const store = {
        unavailable: (error: unknown, tries: number) => this.#laneUnavailable(lane, error, tries),
        available: () => this.#laneAvailable(lane),
      }
      return new AppendLane({ ...parts, store, metrics, earlyDispatch })
    })
  }

  /** For `apply`: the effects of a fact of this job wait in the open batch, except dispatches that may begin early. */
  effectsFor(job: LiveJob): Effects {
    return this.#laneFor(job.partition).effectsFor(job)
  }

  record(job: LiveJob, fact: Fact, outputText?: string): void {
    this.#laneFor(job.partition).record(job, fact, outputText)
  }

  /** Called before the facts of a command: its facts and the answer to its sender are one commit. */
  closeIfFull({ partition }: { readonly partition: number }): void {
    this.#laneFor(partition).closeIfFull()
  }

  answer(job: { partition: number; jobId: string }, messageId: number, answer: string): void {
    this.#laneFor(job.partition).answer(job, messageId, answer)
  }

  /** Resolves when everything recorded of the job is durable. Rejects if this engine loses the partition before that. */
  durable(job: { readonly partition: number; readonly id: string }): Promise<void> {
    return this.#laneFor(job.partition).durable(job)
  }

  /** Decisions made on the discarded memory of this partition must never be stored. */
  forget(partition: number): void {
    this.#laneFor(partition).forget(partition)
  }

  /** The job is new, and none of its facts has been sent to the store. */
  withdraw(job: LiveJob, error: unknown): void {
    this.#laneFor(job.partition).withdraw(job, error)
  }

  /** See `AppendLane.writeRow`. */
  writeRow(job: LiveJob, error: string | null): void {
    this.#laneFor(job.partition).writeRow(job, error)
  }

  get isIdle(): boolean {
    return this.#lanes.every(lane => lane.isIdle)
  }

  /** Stops retrying appends that fail. */
  stop(): void {
    for (const lane of this.#lanes) lane.stop()
  }

  #laneFor(partition: number): AppendLane {
    return this.#lanes[partition % this.#lanes.length]!
  }

  /** Reports one outage of the store once, not once per lane. */
  #laneUnavailable(lane: number, error: unknown, tries: number): void {
    this.#unavailableLanes.add(lane)
    if (lane === Math.min(...this.#unavailableLanes)) this.#store.unavailable(error, tries)
  }

  #laneAvailable(lane: number): void {
    this.#unavailableLanes.delete(lane)
    if (this.#unavailableLanes.size === 0) this.#store.available()
    for (const other of this.#unavailableLanes) this.#lanes[other]!.retryNow()
  }
}
