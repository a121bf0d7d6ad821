import { REMEMBERED_MS } from "../../journal/marks.ts"
import type { Journal, MarkEntry } from "../../journal/port/journal.ts"
import type { Log } from "../../log.ts"
import type { Clock } from "../clock.ts"
import { partitionOf } from "../ids.ts"
import type { PartitionOwner } from "../owner/owner.ts"
import type { ReadyPartitions } from "../partitions/ready-partitions.ts"

const MIN_MS = 1000
const PAGE = 1000
/** Rows of pipelines that are removed in one statement. */
const ROW_PAGE = 10_000
/** Steps of 1,000 entries of job_marks in one run. */
const MARK_STEPS = 1000
const SHOW_DEAD_MS = 10 * 60_000
/**
 * How long a webhook may wait for its submission, and a provider be asked to cancel an operation, also where jobs are
 * kept for less. A provider that never answers does not keep them for ever.
 */
const UNSETTLED_MS = 24 * 3600_000

/**
 * Removes jobs that ended long ago (J17). Every engine does so for its own partitions: a retry of an old job is decided by
 * its owner too, so the two never conflict. Jobs that are being loaded here are left out, and a load that begins
 * meanwhile waits; after a take-over the fence keeps the former owner from removing anything.
 */
export class Retention {
  readonly #parts: RetentionParts
  #cancel = () => {}
  #running: Promise<void> = Promise.resolve()
  #stopped = false
  #lastMark: MarkEntry | null = null

  constructor(parts: RetentionParts) {
    this.#parts = parts
  }

  /** Jobs of new partitions may have waited long: their last owner may have been dead for weeks. */
  partitionsAdded(): void {
    this.#schedule(0)
  }

  stop(): void {
    this.#stopped = true
    this.#cancel()
  }

  #schedule(ms: number): void {
    this.#cancel()
    if (this.#stopped) return
    this.#cancel = this.#parts.clock.after(ms, () => {
      this.#running = this.#running.then(() => this.#run())
      void this.#running.then(() => this.#schedule(this.#everyMs()))
    })
  }

  /** A tenth of the shortest retention time: a row is removed at most that much later than it could be. */
  #everyMs(): number {
    const { retentionSeconds, lineageRetentionSeconds, retentionSweepSeconds } = this.#parts
    const never = Number.POSITIVE_INFINITY
    const kept = Math.min(retentionSeconds ?? never, lineageRetentionSeconds ?? never)
    return Math.min(Math.max(kept * 100, MIN_MS), retentionSweepSeconds * 1000)
  }

  async #run(): Promise<void> {
    const { journal, retentionSeconds, lineageRetentionSeconds, clock, log } = this.#parts
    const before = this.#before(retentionSeconds)
    try {
      while (retentionSeconds !== null && !this.#stopped && (await this.#purgePage(before)));
      // Also when lineage is kept for ever: lineage of jobs that were just removed is not.
      const purge = { before: this.#before(lineageRetentionSeconds), limit: ROW_PAGE }
      while (!this.#stopped && (await journal.pipelines.purgeLineage(purge)) > 0);
      // Dead engines stay listed for a while: a person who follows up an alert should find the name.
      const silentSince = clock.now() - SHOW_DEAD_MS
      if (!this.#stopped)
        await journal.tidy({ before, unsettledBefore: this.#unsettledBefore(), silentSince })
      if (retentionSeconds !== null) await this.#purgeMarks(before)
    } catch (error) {
      log.warn({ error: String(error) }, "could not remove old jobs; retrying later")
    }
  }

  /** Continues where the last run ended. Entries that stay longer than their jobs only cost space. */
  async #purgeMarks(before: number): Promise<void> {
    const { journal, partitions, clock } = this.#parts
    const old = Math.min(before, clock.now() - 2 * REMEMBERED_MS)
    for (let step = 0; step < MARK_STEPS && !this.#stopped; step++) {
      const purge = { partitions: partitions.all(), before: old, after: this.#lastMark, limit: PAGE }
      this.#lastMark = (await journal.purgeMarks(purge)).next
      if (this.#lastMark === null) return
    }
  }

  #unsettledBefore(): number {
    return this.#parts.clock.now() - UNSETTLED_MS
  }

  /** null becomes 0: nothing is that old, so nothing is removed. */
  #before(seconds: number | null): number {
    return seconds === null ? 0 : this.#parts.clock.now() - seconds * 1000
  }

  /** Returns whether there may be more. Children can be removed after their parents. */
  async #purgePage(before: number): Promise<boolean> {
    const { journal, owner, partitions } = this.#parts
    const unsettledBefore = this.#unsettledBefore()
    const found = await journal.endedJobs({
      partitions: partitions.all(),
      before,
      unsettledBefore,
      limit: PAGE,
    })
    const purged = await owner.loader.blockFree(found, async free => {
      const fences = [...new Set(free.map(partitionOf))].flatMap(partition => {
        const epoch = owner.owned.get(partition)?.epoch
        return epoch === undefined ? [] : [{ partition, epoch }]
      })
      return fences.length === 0 ? 0 : journal.purge({ fences, jobIds: free, before })
    })
    return purged > 0
  }
}

interface RetentionParts {
  readonly journal: Journal
  readonly owner: PartitionOwner
  readonly partitions: Pick<ReadyPartitions, "all">
  readonly clock: Clock
  readonly retentionSeconds: number | null
  readonly lineageRetentionSeconds: number | null
  /** The longest interval between two runs. */
  readonly retentionSweepSeconds: number
  readonly log: Log
}
