import { partitionOf } from "../engine/ids.ts"
import { lacksOutput, snapshotOfRow } from "../engine/owner/snapshot.ts"
import type { Journal } from "../journal/port/journal.ts"
import type { Watchers } from "./watchers.ts"

/**
 * Looks for the ends of jobs that other processes run, for those who wait for them here: one question for all of them,
 * when an engine says that it has committed something, and now and then without that. However many wait, and however
 * long, the store is asked as often as for one.
 */
export interface EndsParts {
  readonly journal: Journal
  readonly watchers: Watchers
  /** Between two looks, however much happens. */
  readonly readMs: number
  /** How long news may be missed. */
  readonly lookAgainMs: number
  /** Called when the first begins to wait and when the last has gone. */
  follows(isFollowing: boolean): void
}

export class RemoteEnds {
  readonly #parts: EndsParts
  /** How many wait for each. */
  readonly #awaited = new Map<string, number>()
  readonly #dirty = new Set<number>()
  #timer: NodeJS.Timeout | null = null
  #isLooking = false
  #lookedAt = 0
  #lookedAtAll = 0

  constructor(parts: EndsParts) {
    this.#parts = parts
  }

  /** From now on `watchers` hear of the job's end. The answer ends that. */
  await(jobId: string): () => void {
    if (this.#awaited.size === 0) this.#parts.follows(true)
    this.#awaited.set(jobId, (this.#awaited.get(jobId) ?? 0) + 1)
    this.#schedule()
    return () => {
      const others = (this.#awaited.get(jobId) ?? 1) - 1
      if (others > 0) this.#awaited.set(jobId, others)
      else this.#awaited.delete(jobId)
      if (this.#awaited.size === 0) this.#rest()
    }
  }

  /** Something was committed in these partitions. */
  changed(partitions: Iterable<number>): void {
    if (this.#awaited.size === 0) return
    for (const partition of partitions) this.#dirty.add(partition)
    this.#schedule()
  }

  #rest(): void {
    clearTimeout(this.#timer ?? undefined)
    this.#timer = null
    this.#dirty.clear()
    this.#parts.follows(false)
  }

  #schedule(): void {
    if (this.#isLooking || this.#awaited.size === 0) return
    const { readMs, lookAgainMs } = this.#parts
    clearTimeout(this.#timer ?? undefined)
    const due = this.#dirty.size > 0 ? this.#lookedAt + readMs : this.#lookedAtAll + lookAgainMs
    this.#timer = setTimeout(() => void this.#look(), Math.max(due - performance.now(), 0))
  }

  async #look(): Promise<void> {
    const { journal, watchers, lookAgainMs } = this.#parts
    this.#lookedAt = performance.now()
    const isAll = this.#lookedAt - this.#lookedAtAll >= lookAgainMs
    if (isAll) this.#lookedAtAll = this.#lookedAt
    const ids = [...this.#awaited.keys()].filter(id => isAll || this.#dirty.has(partitionOf(id)))
    this.#dirty.clear()
    this.#isLooking = true
    try {
      for (const row of ids.length === 0 ? [] : await journal.finishedJobs(ids)) {
        const isWhole = row.outputLeftOut === undefined && !lacksOutput(row)
        watchers.tell(row.id, isWhole ? snapshotOfRow(row, row.updatedAt) : null)
      }
    } catch {
      // The store is away: whoever waits looks for itself in the end, and is told why it cannot.
    }
    this.#isLooking = false
    this.#schedule()
  }
}
