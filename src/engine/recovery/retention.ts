import type { Journal } from "../../journal/port/journal.ts"
import type { Log } from "../../log.ts"
import type { Clock } from "../clock.ts"
import { partitionOf } from "../ids.ts"
import type { PartitionOwner } from "../owner/owner.ts"
import type { Recovery } from "./recovery.ts"

const LEAST_MS = 1000
const MOST_MS = 10 * 60_000
const PAGE = 1000
/** Rows of pipelines that are removed at a time. */
const ROW_PAGE = 10_000
const SHOW_DEAD_MS = 10 * 60_000
/**
 * For so long a webhook may wait for its submission, and a provider be told that an operation is not wanted any more, also
 * where jobs are kept for less. A provider that never listens does not keep them for ever.
 */
const UNSETTLED_MS = 24 * 3600_000

/**
 * Removes what ended long ago (J17). Every engine does so for its own partitions: a retry of an old job is decided by
 * its owner too, so the two never meet. What is being looked at here is left out, and who comes meanwhile waits; after
 * a take-over the fence keeps the former owner from removing anything.
 */
export class Retention {
  readonly #parts: RetentionParts
  #cancel = () => {}
  #running: Promise<void> = Promise.resolve()
  #stopped = false

  constructor(parts: RetentionParts) {
    this.#parts = parts
  }

  /** Theirs may have waited long: their last owner may have been dead for weeks. */
  partitionsCame(): void {
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

  /** A tenth of the shorter time for which something is kept: it goes at most that much later than it could. */
  #everyMs(): number {
    const { retentionSeconds, lineageRetentionSeconds } = this.#parts
    const never = Number.POSITIVE_INFINITY
    const kept = Math.min(retentionSeconds ?? never, lineageRetentionSeconds ?? never)
    return Math.min(Math.max(kept * 100, LEAST_MS), MOST_MS)
  }

  async #run(): Promise<void> {
    const { journal, retentionSeconds, lineageRetentionSeconds, clock, log } = this.#parts
    const before = this.#before(retentionSeconds)
    try {
      while (retentionSeconds !== null && !this.#stopped && (await this.#purgePage(before)));
      // Even if lineage stays for ever: that of jobs which were just removed does not.
      const purge = { before: this.#before(lineageRetentionSeconds), limit: ROW_PAGE }
      while (!this.#stopped && (await journal.pipelines.purgeLineage(purge)) > 0);
      // Who died is shown for a while: whoever looks after the alarm should find its name.
      const silentSince = clock.now() - SHOW_DEAD_MS
      if (!this.#stopped)
        await journal.tidy({ before, unsettledBefore: this.#unsettledBefore(), silentSince })
    } catch (error) {
      log.warn({ error: String(error) }, "could not remove old jobs; trying again later")
    }
  }

  #unsettledBefore(): number {
    return this.#parts.clock.now() - UNSETTLED_MS
  }

  /** 0, when nothing is old: never. */
  #before(seconds: number | null): number {
    return seconds === null ? 0 : this.#parts.clock.now() - seconds * 1000
  }

  /** May there be more? Children can go when their parents have. */
  async #purgePage(before: number): Promise<boolean> {
    const { journal, owner, recovery, partitions } = this.#parts
    const unsettledBefore = this.#unsettledBefore()
    const found = await journal.endedJobs({ partitions: partitions(), before, unsettledBefore, limit: PAGE })
    const purged = await recovery.keepOut(found, async free => {
      const fences = [...new Set(free.map(partitionOf))].flatMap(partition => {
        const epoch = owner.holdings.get(partition)?.epoch
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
  readonly recovery: Recovery
  readonly partitions: () => readonly number[]
  readonly clock: Clock
  readonly retentionSeconds: number | null
  readonly lineageRetentionSeconds: number | null
  readonly log: Log
}
