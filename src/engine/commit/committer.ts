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
 * one half of the partitions while the database commits the other; with one they would take turns. What is said about
 * order and durability holds within a partition, and nobody needs more.
 */
export class Committer {
  readonly #lanes: readonly AppendLane[]
  readonly #store: Availability
  /** Lanes whose append does not come through. */
  readonly #away = new Set<number>()

  constructor(parts: {
    journal: Journal
    clock: Clock
    events: LaneEvents
    store: Availability
    holdings: ReadonlyMap<number, OwnedPartition>
    metrics?: EngineMetrics
  }) {
    const { appendLanes } = parts.journal.capabilities
    const metrics = parts.metrics ?? new EngineMetrics()
    this.#store = parts.store
    const headStart = new EarlyDispatch()
    this.#lanes = Array.from({ length: appendLanes }, (_, lane) => {
      const store = {
        unavailable: (error: unknown, tries: number) => this.#unavailable(lane, error, tries),
        available: () => this.#available(lane),
      }
      return new AppendLane({ ...parts, store, metrics, headStart })
    })
  }

  /** For `apply`: what follows from a fact of this job waits in the open batch, unless it may begin early. */
  effectsFor(job: LiveJob): Effects {
    return this.#laneOf(job.partition).effectsFor(job)
  }

  record(job: LiveJob, fact: Fact, outputText?: string): void {
    this.#laneOf(job.partition).record(job, fact, outputText)
  }

  /** Called before a command's facts: they, and the answer to whoever sent it, are one commit. */
  closeIfFull({ partition }: { readonly partition: number }): void {
    this.#laneOf(partition).closeIfFull()
  }

  answer(job: { partition: number; jobId: string }, messageId: number, answer: string): void {
    this.#laneOf(job.partition).answer(job, messageId, answer)
  }

  /** Resolves when everything recorded of the job is durable; at once if it is. Rejects if its partition is lost meanwhile. */
  durable(job: { readonly partition: number; readonly id: string }): Promise<void> {
    return this.#laneOf(job.partition).durable(job)
  }

  /** Whatever was decided on the memory of this partition must never be stored. */
  forget(partition: number): void {
    this.#laneOf(partition).forget(partition)
  }

  /** The job is new, and nothing of it has been sent to the store. */
  withdraw(job: LiveJob, error: unknown): void {
    this.#laneOf(job.partition).withdraw(job, error)
  }

  /** See `AppendLane.writeRow`. */
  writeRow(job: LiveJob, error: string | null): void {
    this.#laneOf(job.partition).writeRow(job, error)
  }

  get isIdle(): boolean {
    return this.#lanes.every(lane => lane.isIdle)
  }

  /** Gives up on appends that do not come through. */
  stop(): void {
    for (const lane of this.#lanes) lane.stop()
  }

  #laneOf(partition: number): AppendLane {
    return this.#lanes[partition % this.#lanes.length]!
  }

  /** The store is away once, not once for every lane. */
  #unavailable(lane: number, error: unknown, tries: number): void {
    this.#away.add(lane)
    if (lane === Math.min(...this.#away)) this.#store.unavailable(error, tries)
  }

  #available(lane: number): void {
    this.#away.delete(lane)
    if (this.#away.size === 0) this.#store.available()
    for (const other of this.#away) this.#lanes[other]!.hurry()
  }
}
