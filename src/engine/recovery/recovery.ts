import { tasksInFlight } from "../../core/item-list.ts"
import { isDelayed } from "../../core/state.ts"
import { failpoint } from "../../failpoints.ts"
import { JournalUnavailableError } from "../../journal/errors.ts"
import type { DueJob } from "../../journal/port/journal.ts"
import type { Log } from "../../log.ts"
import type { Clock } from "../clock.ts"
import { QUARANTINED_AT } from "../commit/batch.ts"
import { firstSeq, jobPartition } from "../ids.ts"
import type { Queue } from "../owner/job-queue.ts"
import type { LiveJob } from "../owner/live-job.ts"
import type { PartitionOwner } from "../owner/owner.ts"
import { hasLostTasks } from "../partitions/handover.ts"
import { foldJob, type LoadParts, readJobs, toLiveJob } from "./fold.ts"

export interface RecoveryParts extends LoadParts {
  readonly partitionOwner: PartitionOwner
  readonly clock: Clock
  readonly log: Log
  /** Otherwise delayed jobs that are due stay rows, for another engine. */
  readonly startsJobs: boolean
}

/** Loads jobs that are due into their owner's memory: at take-over, and when their alarm has come. */
export class Recovery {
  readonly #parts: RecoveryParts

  constructor(parts: RecoveryParts) {
    this.#parts = parts
  }

  /** After take-over: everything that was in flight was lost with its process, and is continued here. Returns the time up to which due jobs were loaded. */
  recover(partitions: readonly number[]): Promise<number> {
    return this.#parts.partitionOwner.loader.blockPartitions(partitions, this.#recoverAll(partitions))
  }

  async #recoverAll(partitions: readonly number[]): Promise<number> {
    failpoint("recover.before")
    const at = this.#parts.clock.now()
    await this.#eachDue({ partitions, at }, job => {
      this.#parts.partitionOwner.recover(job)
      this.#parts.partitionOwner.fireTimers(job)
    })
    failpoint("recover.after")
    return at
  }

  /** Wakes parked jobs that became due since `after`. Returns when the next one is due. */
  async wakeDue(query: { partitions: readonly number[]; after: DueJob; at: number }): Promise<number | null> {
    return this.#eachDue(query, job => {
      if (hasLostTasks(job)) this.#parts.partitionOwner.recover(job)
      this.#parts.partitionOwner.fireTimers(job)
    })
  }

  /** Loads jobs that waited as rows and dispatches them. Returns those that were in use and have left memory since. */
  async begin(ids: readonly string[], queue: Queue): Promise<readonly string[]> {
    const { partitionOwner } = this.#parts
    const epochs = new Map([...partitionOwner.owned].map(([partition, { epoch }]) => [partition, epoch]))
    const read = new Set<string>()
    await partitionOwner.loader.blockDue(ids, absent => {
      for (const id of absent) read.add(id)
      return this.#wake(absent, { epochs, alarms: new Map() }, job => this.#dispatchQueued(job, queue))
    })
    const missed: string[] = []
    for (const id of ids) {
      if (read.has(id)) continue
      const job = partitionOwner.jobs.get(id)
      if (job === undefined) missed.push(id)
      else if (job.isQueued) this.#dispatchQueued(job, queue)
    }
    return missed
  }

  /** Dispatches a job that waited as a row. */
  #dispatchQueued(job: LiveJob, queue: Queue): void {
    const { partitionOwner, clock } = this.#parts
    if (!job.isQueued || job.state.paused !== null) {
      partitionOwner.parkIfIdle(job)
      return
    }
    job.isQueued = false
    const now = clock.now()
    if (job.state.expiresAt !== null && job.state.expiresAt <= now) {
      partitionOwner.fireTimers(job)
      return
    }
    partitionOwner.queue.entered(job)
    const { epoch } = partitionOwner.owned.get(job.partition)!
    if (job.seq < firstSeq(epoch) && queue.mayHaveBegun > 0) {
      queue.mayHaveBegun--
      partitionOwner.recover(job)
    } else for (const task of tasksInFlight(job.state, now)) partitionOwner.dispatch(job, task)
  }

  async #eachDue(
    query: { partitions: readonly number[]; after?: DueJob; at: number },
    act: (job: LiveJob) => void,
  ): Promise<number | null> {
    let { after } = query
    for (;;) {
      // From before the query: jobs that were due under an earlier owner may be lost for this one.
      const epochs = new Map(query.partitions.map(partition => [partition, this.#epoch(partition)]))
      const due = await this.#parts.journal.dueJobs({
        ...query,
        after,
        limit: PAGE,
      })
      const alarms = new Map(due.jobs.map(({ id, wakeAt }) => [id, wakeAt]))
      await this.#parts.partitionOwner.loader.blockDue([...alarms.keys()], ids =>
        this.#wake(ids, { epochs, alarms }, act),
      )
      after = due.jobs.at(-1)
      if (due.jobs.length < PAGE) return due.nextWakeAt
    }
  }

  #epoch(partition: number): number | undefined {
    return this.#parts.partitionOwner.owned.get(partition)?.epoch
  }

  async #wake(
    ids: readonly string[],
    { epochs, alarms }: DueQuery,
    act: (job: LiveJob) => void,
  ): Promise<void> {
    const rows = await readJobs(this.#parts, ids)
    for (const id of ids) {
      const folded = this.#fold(id, rows.get(id) ?? [], alarms.get(id))
      const job = folded instanceof Promise ? await folded : folded
      const epoch = epochs.get(jobPartition(id))
      if (job === null || epoch === undefined || this.#epoch(job.partition) !== epoch) continue
      if (isDelayed(job.state) && !this.#parts.startsJobs) continue
      this.#parts.partitionOwner.keep(job)
      if (alarms.get(id) === QUARANTINED_AT) this.#parts.partitionOwner.releaseFromQuarantine(job)
      act(job)
    }
  }

  /** A promise only if something must be read first. null: the job is left out. */
  #fold(
    id: string,
    rows: Parameters<typeof foldJob>[1],
    alarm: number | undefined,
  ): LiveJob | null | Promise<LiveJob | null> {
    try {
      const folded = foldJob(this.#parts, rows)
      if (!(folded instanceof Promise)) return toLiveJob(id, folded, alarm)
      return folded.then(
        job => toLiveJob(id, job, alarm),
        error => this.#foldFailed(id, error),
      )
    } catch (error) {
      return this.#foldFailed(id, error)
    }
  }

  #foldFailed(id: string, error: unknown): null {
    // The store is unavailable, the job is intact: the caller retries, or jobs would never be woken.
    if (error instanceof JournalUnavailableError) throw error
    // One job that cannot be folded must not stop the others.
    this.#parts.log.error({ job_id: id, error }, "job quarantined: its journal cannot be folded")
    return null
  }
}

interface DueQuery {
  readonly epochs: ReadonlyMap<number, number | undefined>
  /** By job: when it was due, according to its row. */
  readonly alarms: ReadonlyMap<string, number>
}

/** Jobs read at once: their facts are in memory together. */
const PAGE = 500
