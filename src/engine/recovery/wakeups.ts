import type { Log } from "../../log.ts"
import type { Clock } from "../clock.ts"
import type { Recovery } from "./recovery.ts"

/** The alarm clock of jobs that are not in memory: one timer for the earliest of them, whatever their number. */
export class Wakeups {
  readonly #clock: Clock
  readonly #recovery: Recovery
  readonly #partitions: () => readonly number[]
  readonly #log: Log
  /** Everything due up to here has been looked at. */
  #cursor: number
  #timer: { readonly at: number; readonly cancel: () => void } | null = null
  #looking: Promise<void> | null = null
  /** What came while a look was under way, and was not seen by it, lies behind this. */
  #rewoundTo = Number.POSITIVE_INFINITY
  #lookAgain = false
  #stopped = false

  constructor(parts: { clock: Clock; recovery: Recovery; partitions: () => readonly number[]; log: Log }) {
    this.#clock = parts.clock
    this.#recovery = parts.recovery
    this.#partitions = parts.partitions
    this.#log = parts.log
    this.#cursor = parts.clock.now()
  }

  /** A job has left memory until then. */
  parked(wakeAt: number | null): void {
    if (wakeAt === null) return
    // Already behind the cursor: the system's clock was set back.
    if (wakeAt <= this.#cursor) this.#rewind(wakeAt - 1)
    this.#arm(wakeAt)
  }

  /** Partitions have come, in which everything due until `since` is awake. */
  partitionsCame(since: number): Promise<void> {
    this.#rewind(since)
    this.#lookAgain = true
    return this.#lookNow()
  }

  #rewind(to: number): void {
    this.#cursor = Math.min(this.#cursor, to)
    this.#rewoundTo = Math.min(this.#rewoundTo, to)
  }

  #lookNow(): Promise<void> {
    if (this.#stopped) return Promise.resolve()
    this.#looking ??= this.#lookUntilDone().finally(() => {
      this.#looking = null
    })
    return this.#looking
  }

  async #lookUntilDone(): Promise<void> {
    do {
      this.#lookAgain = false
      await this.#look()
    } while (this.#lookAgain && !this.#stopped)
  }

  stop(): Promise<void> {
    this.#stopped = true
    this.#timer?.cancel()
    return this.#looking ?? Promise.resolve()
  }

  async #look(): Promise<void> {
    const at = this.#clock.now()
    this.#rewoundTo = Number.POSITIVE_INFINITY
    try {
      const next = await this.#recovery.wakeDue({
        partitions: this.#partitions(),
        after: { wakeAt: this.#cursor, id: LAST_ID },
        at,
      })
      this.#cursor = Math.min(at, this.#rewoundTo)
      if (next !== null) this.#arm(next)
    } catch (error) {
      this.#log.warn({ error: String(error) }, "could not look for jobs whose time has come; trying again")
      this.#arm(at + RETRY_MS)
    }
  }

  #arm(at: number): void {
    if (this.#stopped || (this.#timer !== null && this.#timer.at <= at)) return
    this.#timer?.cancel()
    const cancel = this.#clock.after(at - this.#clock.now(), () => {
      this.#timer = null
      // A look under way may have asked the store before this job was in it.
      this.#lookAgain ||= this.#looking !== null
      void this.#lookNow()
    })
    this.#timer = { at, cancel }
  }
}

const RETRY_MS = 1000
/** Behind every job of the same time. */
const LAST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff"
