import { type OwnedPartition, partitionMoved } from "../commit/batch.ts"
import { jobPartition } from "../ids.ts"
import type { LiveJob } from "../owner/live-job.ts"
import { foldJob, type LoadParts, readJobs, toLiveJob } from "./fold.ts"

interface LoadingOwner {
  readonly jobs: ReadonlyMap<string, LiveJob>
  readonly owned: ReadonlyMap<number, OwnedPartition>
  /** Adds a job to memory. */
  adopt(job: LiveJob): void
}

/**
 * Loads jobs from the journal into their owner's memory.
 *
 * 1. Each job is loaded once at a time: other callers wait. So what was read cannot be stale when it is adopted.
 * 2. A job that was read under one epoch is adopted under that epoch or not at all.
 */
export class JobLoader {
  readonly #owner: LoadingOwner
  readonly #parts: LoadParts
  readonly #loading = new Map<string, Promise<LiveJob | null>>()
  /** Jobs that are being woken or purged. */
  readonly #blocked = new Map<string, Promise<void>>()
  /** Partitions that are being recovered: no other code may load a job whose lost tasks are not known yet. */
  readonly #recovering = new Map<number, Promise<void>>()

  constructor(owner: LoadingOwner, parts: LoadParts) {
    this.#owner = owner
    this.#parts = parts
  }

  /** null: there is no such job. */
  async load(id: string): Promise<LiveJob | null> {
    for (let busy = this.blocked(id); busy !== undefined; busy = this.blocked(id)) await busy
    const known = this.#owner.jobs.get(id) ?? this.#loading.get(id)
    if (known !== undefined) return known
    const loading = this.#adopt(id, readJobs(this.#parts, [id])).finally(() => this.#loading.delete(id))
    this.#loading.set(id, loading)
    return loading
  }

  /** Folds a job from its facts without keeping it in memory; null: there is no such job. */
  async read(id: string): Promise<LiveJob | null> {
    return this.#fold(id, readJobs(this.#parts, [id]))
  }

  /** Reads all of these jobs that are not being loaded yet in one query: callers that load one of them meanwhile share the query. */
  prefetch(ids: readonly string[]): void {
    const free = [...new Set(ids)].filter(id => this.#isFree(id))
    if (free.length < 2) return
    const reading = readJobs(this.#parts, free)
    for (const id of free) {
      const loading = this.#adopt(id, reading).finally(() => this.#loading.delete(id))
      loading.catch(nothing)
      this.#loading.set(id, loading)
    }
  }

  /** Set while the job must not be loaded, nor used if it is in memory. */
  blocked(id: string): Promise<void> | undefined {
    return this.#blocked.get(id) ?? this.#recovering.get(jobPartition(id))
  }

  /** No caller can load these jobs while `work` runs. Jobs in memory, or being loaded, are left out. */
  blockFree<T>(ids: readonly string[], work: (free: readonly string[]) => Promise<T>): Promise<T> {
    const free = ids.filter(id => this.#isFree(id))
    return blockWhile(this.#blocked, free, work(free))
  }

  /**
   * The same for jobs that are to be woken. Jobs in memory are left out. A job that another caller loads under an earlier
   * epoch is not adopted: it must be read again by `work`. All must be free at the same time: while this code waits for
   * one, another caller may begin with another.
   */
  async blockDue(ids: readonly string[], work: (absent: readonly string[]) => Promise<void>): Promise<void> {
    for (let busy = this.#anyBusy(ids); busy !== undefined; busy = this.#anyBusy(ids)) await busy
    const absent = ids.filter(id => !this.#owner.jobs.has(id))
    if (absent.length > 0) await blockWhile(this.#blocked, absent, work(absent))
  }

  /** No job of these partitions can be loaded before `working` is over. */
  blockPartitions<T>(partitions: readonly number[], working: Promise<T>): Promise<T> {
    return blockWhile(this.#recovering, partitions, working)
  }

  #isFree(id: string): boolean {
    return !this.#owner.jobs.has(id) && !this.#loading.has(id) && this.blocked(id) === undefined
  }

  #anyBusy(ids: readonly string[]): Promise<unknown> | undefined {
    for (const id of ids) {
      const busy = this.#blocked.get(id) ?? this.#loading.get(id)?.then(nothing, nothing)
      if (busy !== undefined) return busy
    }
    return undefined
  }

  async #adopt(id: string, reading: ReturnType<typeof readJobs>): Promise<LiveJob | null> {
    const partition = jobPartition(id)
    const epoch = this.#owner.owned.get(partition)?.epoch
    const job = await this.#fold(id, reading)
    // Checked also when there is no such job: another owner may have created it since.
    if (epoch === undefined || this.#owner.owned.get(partition)?.epoch !== epoch)
      throw partitionMoved(partition)
    if (job !== null) this.#owner.adopt(job)
    return job
  }

  async #fold(id: string, reading: ReturnType<typeof readJobs>): Promise<LiveJob | null> {
    const rows = (await reading).get(id)
    return rows === undefined ? null : toLiveJob(id, await foldJob(this.#parts, rows))
  }
}

async function blockWhile<K, T>(
  blocked: Map<K, Promise<void>>,
  keys: readonly K[],
  working: Promise<T>,
): Promise<T> {
  const over = working.then(nothing, nothing)
  for (const key of keys) blocked.set(key, over)
  try {
    return await working
  } finally {
    for (const key of keys) blocked.delete(key)
  }
}

const nothing = () => {}
