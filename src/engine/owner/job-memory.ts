import type { JobState } from "../../core/state.ts"
import { jobHasEnded } from "../../core/states.ts"
import { isBusy, nextTimer, wakeAt } from "../../core/timers.ts"
import type { Clock } from "../clock.ts"
import type { Alarms } from "./alarms.ts"
import type { Place } from "./job-queue.ts"
import type { LiveJob } from "./live-job.ts"
import type { OwnerEngine } from "./owner-parts.ts"
import type { QueuedFacts } from "./queued-facts.ts"

export interface JobMemoryParts {
  readonly clock: Clock
  readonly alarms: Alarms
  readonly parkAfterMs: number
  readonly engine: Pick<OwnerEngine, "parked">
  readonly queuedFacts: Pick<QueuedFacts, "loaded">
  readonly left: (job: LiveJob, place: Place) => void
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
    this.#parts.queuedFacts.loaded(job.id)
    this.#childCounts.added(job)
  }

  remove(job: LiveJob): void {
    job.evicted = true
    this.#parts.alarms.clear(job)
    if (job.place !== null) this.#parts.left(job, job.place)
    if (!this.#jobs.delete(job.id)) return
    const parent = this.#childCounts.removed(job)
    const inMemory = parent === null ? undefined : this.#jobs.get(parent)
    if (inMemory !== undefined) this.parkIfIdle(inMemory)
  }

  /** Called whenever a job may have become idle. */
  parkIfIdle(job: LiveJob): void {
    const { clock, alarms, parkAfterMs, engine } = this.#parts
    if (this.#childCounts.hasChildren(job.id)) return
    const parking = decideParking(job, { now: clock.now(), parkAfterMs })
    if (parking === "stays") return
    if (parking !== "leaves") {
      alarms.set(job, Math.min(nextTimer(job.state) ?? parking.until, parking.until))
      return
    }
    this.remove(job)
    const { status, paused } = job.state
    if (!jobHasEnded(status) && (status !== "QUEUED" || paused !== null))
      engine.parked(job.partition, wakeAt(job.state))
  }
}

/** When an idle job may leave its owner's memory: then its facts and `wakeAt` are enough. */

/** `until`: the job stays in memory and is checked again at that time. */
export type Parking = "stays" | "leaves" | { readonly until: number }

function decideParking(
  job: LiveJob,
  context: { readonly now: number; readonly parkAfterMs: number },
): Parking {
  if (job.evicted || job.users > 0 || job.pendingBatches > 0) return "stays"
  if (job.isQueued && job.state.status === "QUEUED") return "leaves"
  if (isBusy(job.state) || job.state.unsettled) return "stays"
  if (jobHasEnded(job.state.status)) return "leaves"
  const wake = wakeAt(job.state)
  if (wake !== null && wake - context.now < context.parkAfterMs) return "stays"
  if (job.projected?.wakeAt !== wake) return "stays"
  // A large job is costly to load again, and the events it waits for may arrive one by one: the items of a list at a
  // provider would be folded once for each slot and each result. It leaves when nothing has happened for a while.
  const until = job.at + context.parkAfterMs
  return until > context.now && jobSize(job.state) >= LARGE ? { until } : "leaves"
}

/** The number of nodes and items from which a job is costly to load again. */
const LARGE = 100

function jobSize({ nodeStatus, lists }: JobState): number {
  let size = nodeStatus.length
  for (const { items } of lists.values()) size += items.length
  return size
}

/**
 * How many children of each job are in memory. Their parent stays in memory as long as there are any: it is needed when
 * they end, and a parent that waits for ten thousand children would be folded again for each.
 */
class ChildCounts {
  readonly #children = new Map<string, number>()

  added({ state: { parent } }: LiveJob): void {
    if (parent !== null) this.#children.set(parent.job_id, (this.#children.get(parent.job_id) ?? 0) + 1)
  }

  /** Returns the parent's id if this was its last child in memory. */
  removed({ state: { parent } }: LiveJob): string | null {
    if (parent === null) return null
    const others = (this.#children.get(parent.job_id) ?? 1) - 1
    if (others > 0) this.#children.set(parent.job_id, others)
    else this.#children.delete(parent.job_id)
    return others > 0 ? null : parent.job_id
  }

  hasChildren(jobId: string): boolean {
    return this.#children.size > 0 && this.#children.has(jobId)
  }
}
