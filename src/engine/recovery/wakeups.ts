import type { Log } from "../../log.ts"
import type { Clock } from "../clock.ts"
import type { ReadyPartitions } from "../partitions/ready-partitions.ts"
import type { Schedules } from "../schedules/schedules.ts"
import type { Recovery } from "./recovery.ts"

export interface WakeupsParts {
  readonly clock: Clock
  readonly recovery: Recovery
  readonly partitions: Pick<ReadyPartitions, "all">
  /** Schedules share the alarm. */
  readonly schedules: Pick<Schedules, "alarm" | "partitionsAdded">
  readonly log: Log
}

/** The alarm clock of parked jobs and of schedules: one timer for the earliest of them, whatever their number. */
export class Wakeups {
  readonly #parts: WakeupsParts
  /** All jobs due up to here have been woken. */
  #cursor: number
  #timer: { readonly at: number; readonly cancel: () => void } | null = null
  #querying: Promise<void> | null = null
  /** Jobs that were parked while a query was in flight, and that it did not see, are due after this. */
  #rewoundTo = Number.POSITIVE_INFINITY
  #queryAgain = false
  #stopped = false

  constructor(parts: WakeupsParts) {
    this.#parts = parts
    this.#cursor = parts.clock.now()
  }

  /** A job was parked until then. */
  parked(wakeAt: number | null): void {
    if (wakeAt === null) return
    // Already before the cursor: the system's clock was set back.
    if (wakeAt <= this.#cursor) this.#rewind(wakeAt - 1)
    this.#arm(wakeAt)
  }

  /** This engine took partitions, in which all jobs due until `since` are awake. */
  partitionsAdded(since: number): Promise<void> {
    this.#parts.schedules.partitionsAdded()
    this.#rewind(since)
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
    }
  }

  #arm(at: number): void {
    if (this.#stopped || (this.#timer !== null && this.#timer.at <= at)) return
    this.#timer?.cancel()
    const cancel = this.#parts.clock.after(at - this.#parts.clock.now(), () => {
      this.#timer = null
      this.#parts.schedules.alarm()
      // A query in flight may have been sent before the row of this job was stored.
      this.#queryAgain ||= this.#querying !== null
      void this.#queryNow()
    })
    this.#timer = { at, cancel }
  }
}

const RETRY_MS = 1000
/** Sorts after every job of the same time. */
const LAST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff"
