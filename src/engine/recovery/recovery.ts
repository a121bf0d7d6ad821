import { failpoint } from "../../failpoints.ts"
import { JournalUnavailableError } from "../../journal/errors.ts"
import type { DueJob } from "../../journal/port/journal.ts"
import type { Log } from "../../log.ts"
import type { Clock } from "../clock.ts"
import { QUARANTINED_AT } from "../commit/batch.ts"
import { partitionMoved } from "../commit/owned-partition.ts"
import { partitionOf } from "../ids.ts"
import type { LiveJob } from "../owner/live-job.ts"
import type { PartitionOwner } from "../owner/owner.ts"
import { foldJob, type LoadParts, readJobs, toLiveJob } from "./fold.ts"

/**
 * Loads jobs from the journal into their owner's memory: at take-over, when they are due, or on a command.
 *
 * 1. Each job is loaded once at a time: other callers wait. So what was read cannot be stale when it is adopted.
 * 2. A job that was read under one epoch is adopted under that epoch or not at all.
 */
export class Recovery {
  readonly #parts: LoadParts
  readonly #owner: PartitionOwner
  readonly #clock: Clock
  readonly #log: Log
  readonly #loading = new Map<string, Promise<LiveJob | null>>()
  /** Jobs of pages that are being woken. */
  readonly #waking = new Map<string, Promise<void>>()
  /** Jobs that are being purged. */
  readonly #blocked = new Map<string, Promise<void>>()
  /** Partitions that are being recovered: no other code may load a job whose lost tasks are not known yet. */
  readonly #recovering = new Map<number, Promise<void>>()

  constructor(parts: LoadParts & { owner: PartitionOwner; clock: Clock; log: Log }) {
    this.#parts = parts
    this.#owner = parts.owner
    this.#clock = parts.clock
    this.#log = parts.log
  }

  /** null: there is no such job. */
  async load(id: string): Promise<LiveJob | null> {
    for (let busy = this.#inProgress(id); busy !== undefined; busy = this.#inProgress(id)) await busy
    const here = this.#owner.jobs.get(id)
    if (here !== undefined) return here
    const under = this.#loading.get(id)
    if (under !== undefined) return under
    const loading = this.#loadOne(id).finally(() => this.#loading.delete(id))
    this.#loading.set(id, loading)
    return loading
  }

  /**
   * Loads the job, unless it is in memory, and calls `use` before anything else can happen to it; afterwards the job is
   * parked if it is idle. null: there is no such job.
   */
  async withJob<T>(id: string, use: (job: LiveJob) => T | Promise<T>): Promise<T | null> {
    for (;;) {
      // A caller that waited for the same load, and continued first, may have submitted the job.
      const job = (await this.load(id)) ?? this.#owner.jobs.get(id)
      if (job === undefined) return null
      if (job.evicted) continue
      try {
        return await use(job)
      } finally {
        this.#owner.parkIfIdle(job)
      }
    }
  }

  /** Reads all of these jobs that are not being loaded yet in one query: callers that load one of them meanwhile share the query. */
  prefetch(ids: readonly string[]): void {
    const free = [...new Set(ids)].filter(id => this.#isFree(id))
    if (free.length < 2) return
    const reading = readJobs(this.#parts, free)
    for (const id of free) {
      const loading = this.#adoptOne(id, reading).finally(() => this.#loading.delete(id))
      loading.catch(nothing)
      this.#loading.set(id, loading)
    }
  }

  #isFree(id: string): boolean {
    return !this.#owner.jobs.has(id) && !this.#loading.has(id) && this.#inProgress(id) === undefined
  }

  #inProgress(id: string): Promise<void> | undefined {
    return this.#waking.get(id) ?? this.#blocked.get(id) ?? this.#recovering.get(partitionOf(id))
  }

  /** No caller can load these jobs while `work` runs. Jobs that are being loaded already are left out. */
  async blockLoading<T>(ids: readonly string[], work: (free: readonly string[]) => Promise<T>): Promise<T> {
    const free = ids.filter(id => this.#isFree(id))
    const working = work(free)
    const over = working.then(nothing, nothing)
    for (const id of free) this.#blocked.set(id, over)
    try {
      return await working
    } finally {
      for (const id of free) this.#blocked.delete(id)
    }
  }

  #loadOne(id: string): Promise<LiveJob | null> {
    return this.#adoptOne(id, readJobs(this.#parts, [id]))
  }

  async #adoptOne(id: string, reading: ReturnType<typeof readJobs>): Promise<LiveJob | null> {
    const epoch = this.#epoch(partitionOf(id))
    const rows = (await reading).get(id)
    const job = rows === undefined ? null : toLiveJob(id, await foldJob(this.#parts, rows))
    // Checked also when there is no such job: another owner may have created it since.
    if (epoch === undefined || this.#epoch(partitionOf(id)) !== epoch) throw partitionMoved(partitionOf(id))
    if (job !== null) {
      const wasQuarantined = this.#owner.isQuarantined(id)
      this.#owner.keep(job)
      if (wasQuarantined) {
        this.#owner.releaseFromQuarantine(job)
        this.#owner.recover(job)
      }
    }
    return job
  }

  #epoch(partition: number): number | undefined {
    return this.#owner.owned.get(partition)?.epoch
  }

  /** After take-over: everything that was in flight was lost with its process, and is continued here. Returns the time up to which due jobs were loaded. */
  async recover(partitions: readonly number[]): Promise<number> {
    const recovering = this.#recoverAll(partitions)
    const over = recovering.then(nothing, nothing)
    for (const partition of partitions) this.#recovering.set(partition, over)
    try {
      return await recovering
    } finally {
      for (const partition of partitions) this.#recovering.delete(partition)
    }
  }

  async #recoverAll(partitions: readonly number[]): Promise<number> {
    failpoint("recover.before")
    const at = this.#clock.now()
    await this.#eachDue({ partitions, at }, job => {
      this.#owner.recover(job)
      this.#owner.fireTimers(job)
    })
    failpoint("recover.after")
    return at
  }

  /** Wakes parked jobs that became due since `after`. Returns when the next one is due. */
  async wakeDue(query: { partitions: readonly number[]; after: DueJob; at: number }): Promise<number | null> {
    return this.#eachDue(query, job => this.#owner.fireTimers(job))
  }

  async #eachDue(
    query: { partitions: readonly number[]; after?: DueJob; at: number },
    act: (job: LiveJob) => void,
  ): Promise<number | null> {
    let { after } = query
    for (;;) {
      const epochs = new Map(query.partitions.map(partition => [partition, this.#epoch(partition)]))
      const due = await this.#parts.journal.dueJobs({
        ...query,
        ...(after === undefined ? {} : { after }),
        limit: PAGE,
      })
      const found = due.jobs.map(job => job.id)
      // A job that another caller loads under an earlier epoch is not adopted: it must be read again here. All must be
      // free at the same time: while this code waits for one, another caller may begin with another.
      for (let busy = this.#anyInProgress(found); busy !== undefined; busy = this.#anyInProgress(found))
        await busy
      const alarms = new Map(due.jobs.map(({ id, wakeAt }) => [id, wakeAt]))
      const ids = found.filter(id => !this.#owner.jobs.has(id))
      if (ids.length > 0) await this.#wakePage(ids, { epochs, alarms }, act)
      after = due.jobs.at(-1)
      if (due.jobs.length < PAGE) return due.nextWakeAt
    }
  }

  /** Set while another caller loads one of them. */
  #anyInProgress(ids: readonly string[]): Promise<unknown> | undefined {
    for (const id of ids) {
      const busy = this.#waking.get(id) ?? this.#loading.get(id)?.then(nothing, nothing)
      if (busy !== undefined) return busy
    }
    return undefined
  }

  async #wakePage(ids: readonly string[], query: DueQuery, act: (job: LiveJob) => void): Promise<void> {
    const waking = this.#wakeAll(ids, query, act)
    const over = waking.catch(nothing)
    for (const id of ids) this.#waking.set(id, over)
    try {
      await waking
    } finally {
      for (const id of ids) this.#waking.delete(id)
    }
  }

  async #wakeAll(
    ids: readonly string[],
    { epochs, alarms }: DueQuery,
    act: (job: LiveJob) => void,
  ): Promise<void> {
    const rows = await readJobs(this.#parts, ids)
    for (const id of ids) {
      const job = await this.#fold(id, rows.get(id) ?? [], alarms.get(id))
      const epoch = epochs.get(partitionOf(id))
      if (job === null || epoch === undefined || this.#epoch(job.partition) !== epoch) continue
      this.#owner.keep(job)
      if (alarms.get(id) === QUARANTINED_AT) this.#owner.releaseFromQuarantine(job)
      act(job)
    }
  }

  async #fold(
    id: string,
    rows: Parameters<typeof foldJob>[1],
    alarm: number | undefined,
  ): Promise<LiveJob | null> {
    try {
      return toLiveJob(id, await foldJob(this.#parts, rows), alarm)
    } catch (error) {
      // The store is unavailable, the job is intact: the caller retries, or jobs would never be woken.
      if (error instanceof JournalUnavailableError) throw error
      // One job that cannot be folded must not stop the others.
      this.#log.error({ job_id: id, error }, "job quarantined: its journal cannot be folded")
      return null
    }
  }
}

interface DueQuery {
  /** From before the query: jobs that were due under an earlier owner may be lost for this one. */
  readonly epochs: ReadonlyMap<number, number | undefined>
  /** By job: when it was due, according to its row. */
  readonly alarms: ReadonlyMap<string, number>
}

const nothing = () => {}

/** Jobs read at once: their facts are in memory together. */
const PAGE = 500
