import { jobPartition } from "../engine/ids.ts"
import { lacksOutput, rowSnapshot } from "../engine/owner/snapshot.ts"
import type { Journal } from "../journal/port/journal.ts"
import type { Watchers } from "./watchers.ts"

/**
 * Finds the ends of jobs that other processes run, for callers that wait for them here: one query for all of them, when
 * an engine notifies of a commit, and now and then without that. However many callers wait, and however long, the number
 * of queries is that of one caller.
 */
export interface RemoteEndsParts {
  readonly journal: Journal
  readonly watchers: Watchers
  /** The minimum time between two queries, however much happens. */
  readonly readMs: number
  /** How long a missed notification may go unnoticed. */
  readonly pollMs: number
  /** Called when the first caller begins to wait and when the last has stopped. */
  follows(isFollowing: boolean): void
}

export class RemoteEnds {
  readonly #parts: RemoteEndsParts
  /** The number of waiting callers by job. */
  readonly #awaited = new Map<string, number>()
  readonly #dirty = new Set<number>()
  #timer: NodeJS.Timeout | null = null
  #isQuerying = false
  #queriedAt = 0
  #queriedAllAt = 0
  #unread: string[] = []

  constructor(parts: RemoteEndsParts) {
    this.#parts = parts
  }

  /** From now on `watchers` are notified of the job's end. The returned function stops that. */
  await(jobId: string): () => void {
    if (this.#awaited.size === 0) this.#parts.follows(true)
    this.#awaited.set(jobId, (this.#awaited.get(jobId) ?? 0) + 1)
    this.#schedule()
    return () => {
      const others = (this.#awaited.get(jobId) ?? 1) - 1
      if (others > 0) this.#awaited.set(jobId, others)
      else this.#awaited.delete(jobId)
      if (this.#awaited.size === 0) this.#stopFollowing()
    }
  }

  /** Notifies `watchers` if the job has ended already. Callers of one moment share a query. */
  find(jobId: string): void {
    if (this.#unread.length === 0) setImmediate(() => void this.#findAll())
    this.#unread.push(jobId)
  }

  async #findAll(): Promise<void> {
    const ids = this.#unread
    this.#unread = []
    for (let next = 0; next < ids.length; next += PAGE)
      // The store is unavailable: callers query it themselves in the end.
      await this.#notifyEnded(ids.slice(next, next + PAGE)).catch(() => {})
  }

  /** Something was committed in these partitions. */
  changed(partitions: Iterable<number>): void {
    if (this.#awaited.size === 0) return
    for (const partition of partitions) this.#dirty.add(partition)
    this.#schedule()
  }

  #stopFollowing(): void {
    clearTimeout(this.#timer ?? undefined)
    this.#timer = null
    this.#dirty.clear()
    this.#parts.follows(false)
  }

  #schedule(): void {
    if (this.#isQuerying || this.#awaited.size === 0) return
    const { readMs, pollMs } = this.#parts
    clearTimeout(this.#timer ?? undefined)
    const due = this.#dirty.size > 0 ? this.#queriedAt + readMs : this.#queriedAllAt + pollMs
    this.#timer = setTimeout(() => void this.#query(), Math.max(due - performance.now(), 0))
  }

  async #query(): Promise<void> {
    const { pollMs } = this.#parts
    this.#queriedAt = performance.now()
    const isAll = this.#queriedAt - this.#queriedAllAt >= pollMs
    if (isAll) this.#queriedAllAt = this.#queriedAt
    const ids = [...this.#awaited.keys()].filter(id => isAll || this.#dirty.has(jobPartition(id)))
    this.#dirty.clear()
    this.#isQuerying = true
    try {
      if (ids.length > 0) await this.#notifyEnded(ids)
    } catch {
      // The store is unavailable: callers that wait query it themselves in the end, and get the error.
    }
    this.#isQuerying = false
    this.#schedule()
  }

  async #notifyEnded(ids: readonly string[]): Promise<void> {
    const { journal, watchers } = this.#parts
    for (const row of await journal.finishedJobs(ids)) {
      const isWhole = row.outputLeftOut === undefined && !lacksOutput(row)
      watchers.notify(row.id, isWhole ? rowSnapshot(row, row.updatedAt) : null)
    }
  }
}

/** Jobs that `find` reads with one query. */
const PAGE = 1000
