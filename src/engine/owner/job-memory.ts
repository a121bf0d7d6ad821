import { jobHasEnded } from "../../core/states.ts"
import { nextTimer, wakeAt } from "../../core/timers.ts"
import { ChildCounts } from "../children/child-counts.ts"
import type { Clock } from "../clock.ts"
import type { Alarms } from "./alarms.ts"
import type { LiveJob } from "./live-job.ts"
import { decideParking } from "./parking.ts"

export interface JobMemoryParts {
  readonly clock: Clock
  readonly alarms: Alarms
  readonly parkAfterMs: number
  /** A job was parked until this time; null: until a command arrives for it. */
  readonly parked: (wakeAt: number | null) => void
}

/**
 * The jobs that an owner keeps in memory: those with something in flight or not yet durable, of their own or of one of
 * their children. For all others their facts and `wakeAt` are enough. A large job stays a little longer.
 */
export class JobMemory {
  readonly jobs: ReadonlyMap<string, LiveJob>
  readonly #jobs = new Map<string, LiveJob>()
  readonly #childCounts = new ChildCounts()
  readonly #parts: JobMemoryParts

  constructor(parts: JobMemoryParts) {
    this.#parts = parts
    this.jobs = this.#jobs
  }

  keep(job: LiveJob): void {
    this.#jobs.set(job.id, job)
    this.#childCounts.added(job)
  }

  remove(job: LiveJob): void {
    job.evicted = true
    this.#parts.alarms.clear(job)
    if (!this.#jobs.delete(job.id)) return
    const parent = this.#childCounts.removed(job)
    const inMemory = parent === null ? undefined : this.#jobs.get(parent)
    if (inMemory !== undefined) this.parkIfIdle(inMemory)
  }

  /** Called whenever a job may have become idle. */
  parkIfIdle(job: LiveJob): void {
    const { clock, alarms, parkAfterMs, parked } = this.#parts
    if (this.#childCounts.hasChildren(job.id)) return
    const parking = decideParking(job, { now: clock.now(), parkAfterMs })
    if (parking === "stays") return
    if (parking !== "leaves") {
      alarms.set(job, Math.min(nextTimer(job.state) ?? parking.until, parking.until))
      return
    }
    this.remove(job)
    if (!jobHasEnded(job.state.status)) parked(wakeAt(job.state))
  }
}
