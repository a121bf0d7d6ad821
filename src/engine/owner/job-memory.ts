import { jobHasEnded } from "../../core/states.ts"
import { nextTimer, wakeAt } from "../../core/timers.ts"
import { ChildCounts } from "../children/child-counts.ts"
import type { Clock } from "../clock.ts"
import type { Alarms } from "./alarms.ts"
import type { LiveJob } from "./live-job.ts"
import { parkingOf } from "./parking.ts"

export interface JobMemoryParts {
  readonly clock: Clock
  readonly alarms: Alarms
  readonly parkAfterMs: number
  /** A job has left that goes on at this time; null: when somebody tells it something. */
  readonly parked: (wakeAt: number | null) => void
}

/**
 * The jobs that an owner has in memory: as long as something of them, or of one of their children, is in flight or
 * undurable. Otherwise their facts and `wakeAt` are enough. A large one stays a little longer.
 */
export class JobMemory {
  readonly jobs: ReadonlyMap<string, LiveJob>
  readonly #jobs = new Map<string, LiveJob>()
  readonly #kin = new ChildCounts()
  readonly #parts: JobMemoryParts

  constructor(parts: JobMemoryParts) {
    this.#parts = parts
    this.jobs = this.#jobs
  }

  keep(job: LiveJob): void {
    this.#jobs.set(job.id, job)
    this.#kin.came(job)
  }

  remove(job: LiveJob): void {
    job.evicted = true
    this.#parts.alarms.clear(job)
    if (!this.#jobs.delete(job.id)) return
    const parent = this.#kin.left(job)
    const inMemory = parent === null ? undefined : this.#jobs.get(parent)
    if (inMemory !== undefined) this.letGo(inMemory)
  }

  /** Called whenever a job may have come to rest. */
  letGo(job: LiveJob): void {
    const { clock, alarms, parkAfterMs, parked } = this.#parts
    if (this.#kin.hasChildren(job.id)) return
    const rest = parkingOf(job, { now: clock.now(), parkAfterMs })
    if (rest === "stays") return
    if (rest !== "leaves") {
      alarms.set(job, Math.min(nextTimer(job.state) ?? rest.until, rest.until))
      return
    }
    this.remove(job)
    if (!jobHasEnded(job.state.status)) parked(wakeAt(job.state))
  }
}
