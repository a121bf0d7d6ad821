import type { Log } from "../log.ts"
import type { Clock } from "./clock.ts"
import type { EngineMetrics } from "./metrics.ts"
import type { LiveJob } from "./owner/live-job.ts"

const EVERY_MS = 60_000
/** After a take-over: tasks of recovered jobs are dispatched by then. */
const AFTER_TAKE_OVER_MS = 5000
/** A job must be without a reason twice: a task may be between two steps. */
const SECOND_LOOK_MS = 1000
/** The largest number of jobs in memory that one check examines to find one of each partition. */
const MOST = 1000

export interface ReasonCheckParts {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: EngineMetrics
  readonly jobs: ReadonlyMap<string, LiveJob>
  /** Ids of the nodes for which this engine knows no reason why they do not run. */
  lost(job: LiveJob): readonly string[]
}

/**
 * A job that makes no progress without a reason is a defect of the engine. One job of each partition is checked every minute
 * and after a take-over, and each job for which `why` is requested: never all of them.
 */
export class ReasonCheck {
  readonly #parts: ReasonCheckParts
  /**
   * Ids of the jobs that are left to check before the walk over all jobs begins again. Ids, not an iterator of the map: an
   * iterator that is kept makes V8 keep old tables of the map, and the ended jobs in them (decision 51).
   */
  #unchecked: string[] = []
  readonly #timers = new Set<() => void>()
  #isStopped = false

  constructor(parts: ReasonCheckParts) {
    this.#parts = parts
  }

  start(): void {
    this.#after(EVERY_MS, () => {
      this.check()
      this.start()
    })
  }

  partitionsAdded(): void {
    this.#after(AFTER_TAKE_OVER_MS, () => this.check())
  }

  stop(): void {
    this.#isStopped = true
    for (const cancel of this.#timers) cancel()
  }

  /** Checks the next job in memory of each partition. */
  check(): void {
    const seen = new Set<number>()
    for (let read = 0; read < Math.min(MOST, this.#parts.jobs.size); read++) {
      const job = this.#nextJob()
      if (job === undefined) return
      if (seen.has(job.partition)) continue
      seen.add(job.partition)
      this.#look(job)
    }
  }

  #nextJob(): LiveJob | undefined {
    const { jobs } = this.#parts
    if (this.#unchecked.length === 0) this.#unchecked = [...jobs.keys()].reverse()
    for (let id = this.#unchecked.pop(); id !== undefined; id = this.#unchecked.pop()) {
      const job = jobs.get(id)
      if (job !== undefined) return job
    }
    return undefined
  }

  #look(job: LiveJob): void {
    const first = this.#parts.lost(job)
    if (first.length === 0) return
    this.#after(SECOND_LOOK_MS, () => {
      if (job.evicted) return
      const again = new Set(this.#parts.lost(job))
      const nodes = first.filter(node => again.has(node))
      if (nodes.length > 0) this.defect(job.id, nodes)
    })
  }

  defect(jobId: string, nodes: readonly string[]): void {
    const { log, metrics } = this.#parts
    metrics.jobsWithoutReason++
    log.error(
      { job_id: jobId, nodes },
      "these nodes do not run, and the engine knows no reason: a defect of the engine",
    )
  }

  #after(ms: number, act: () => void): void {
    if (this.#isStopped) return
    const cancel = this.#parts.clock.after(ms, () => {
      this.#timers.delete(cancel)
      act()
    })
    this.#timers.add(cancel)
  }
}
