import type { Log } from "../../log.ts"
import { atTime, type Clock } from "../clock.ts"
import type { ReadyPartitions } from "../partitions/ready-partitions.ts"
import type { FiringSchedules } from "../schedules/schedules.ts"
import type { Recovery } from "./recovery.ts"

export interface WakeupsParts {
  readonly clock: Clock
  readonly recovery: Recovery
  readonly partitions: Pick<ReadyPartitions, "all" | "owns">
  /** Schedules share the alarm. */
  readonly schedules: Pick<FiringSchedules, "alarm" | "partitionsAdded">
  readonly log: Log
}

/** The alarm clock of parked jobs and of schedules: one timer for the earliest of them, whatever their number. */
export class Wakeups {
  readonly #parts: WakeupsParts
  /** All jobs due up to here have been woken. */
  #cursor: number
  #timer: { readonly at: number; readonly cancel: () => void } | null = null
  #querying: Promise<void> | null = null
  /** The query in flight reads jobs that are due up to here. */
  #queriedUntil = Number.NEGATIVE_INFINITY
  /** Jobs that were parked while a query was in flight, and that it did not see, are due after this. */
  #rewoundTo = Number.POSITIVE_INFINITY
  /** The earliest job that was parked in a partition which is still being recovered: queries do not read it yet. */
  #unread = Number.POSITIVE_INFINITY
  #queryAgain = false
  #stopped = false

  constructor(parts: WakeupsParts) {
    this.#parts = parts
    this.#cursor = parts.clock.now()
  }

  /** A job of the partition was parked until then. */
  parked(partition: number, wakeAt: number | null): void {
    if (wakeAt === null) return
    if (!this.#parts.partitions.owns(partition)) this.#unread = Math.min(this.#unread, wakeAt)
    // The cursor, or the query in flight, has passed this time: the system clock was set back.
    if (wakeAt <= Math.max(this.#cursor, this.#queriedUntil)) this.#rewind(wakeAt - 1)
    this.#arm(wakeAt)
  }

  /** This engine took partitions, in which all jobs due until `since` are awake, or were parked again. */
  partitionsAdded(since: number): Promise<void> {
    this.#parts.schedules.partitionsAdded()
    this.#rewind(Math.min(since, this.#unread - 1))
    this.#unread = Number.POSITIVE_INFINITY
    this.#queryAgain = true
    return this.#queryNow()
  }

  /** A schedule fires then. */
  fireAt(at: number): void {
    this.#arm(at)
  }

  #rewind(to: number): void {
    this.#cursor = Math.min(this.#cursor, to)
    this.#rewoundTo = Math.min(this.#rewoundTo, to)
  }

  #queryNow(): Promise<void> {
    if (this.#stopped) return Promise.resolve()
    this.#querying ??= this.#queryUntilDone().finally(() => {
      this.#querying = null
      // The alarm fired after the last query had ended.
      if (this.#queryAgain) void this.#queryNow()
    })
    return this.#querying
  }

  async #queryUntilDone(): Promise<void> {
    do {
      this.#queryAgain = false
      await this.#query()
    } while (this.#queryAgain && !this.#stopped)
  }

  stop(): Promise<void> {
    this.#stopped = true
    this.#timer?.cancel()
    return this.#querying ?? Promise.resolve()
  }

  async #query(): Promise<void> {
    const at = this.#parts.clock.now()
    this.#rewoundTo = Number.POSITIVE_INFINITY
    this.#queriedUntil = at
    try {
      const next = await this.#parts.recovery.wakeDue({
        partitions: this.#parts.partitions.all(),
        after: { wakeAt: this.#cursor, id: LAST_ID },
        at,
      })
      this.#cursor = Math.min(at, this.#rewoundTo)
      if (next !== null) this.#arm(next)
    } catch (error) {
      this.#parts.log.warn({ error: String(error) }, "could not query due jobs; retrying")
      this.#arm(at + RETRY_MS)
    } finally {
      this.#queriedUntil = Number.NEGATIVE_INFINITY
    }
  }

  #arm(at: number): void {
    if (this.#stopped || (this.#timer !== null && this.#timer.at <= at)) return
    this.#timer?.cancel()
    this.#timer = { at, cancel: atTime(this.#parts.clock, at, () => this.#alarm()) }
  }

  #alarm(): void {
    this.#timer = null
    this.#parts.schedules.alarm()
    // A query in flight may have been sent before the row of this job was stored.
    this.#queryAgain ||= this.#querying !== null
    void this.#queryNow()
  }
}

const RETRY_MS = 1000
/** Sorts after every job of the same time. */
const LAST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff"
