import { REMEMBERED_MS } from "../../journal/marks.ts"
import type { EndedJob, EndedJobKey, Journal, MarkEntry } from "../../journal/port/journal.ts"
import { BEFORE_ALL_ENDED } from "../../journal/values.ts"
import type { Log } from "../../log.ts"
import type { Clock } from "../clock.ts"
import { jobPartition } from "../ids.ts"
import type { PartitionOwner } from "../owner/owner.ts"
import type { ReadyPartitions } from "../partitions/ready-partitions.ts"
import { PacedLoop, type PacedLoopParts } from "./paced-loop.ts"

/**
 * The jobs, and the rows of other kinds, that one step removes. On SQLite nothing else is stored meanwhile: a step of
 * 100 jobs of one node takes 3 ms of processor time (docs/decisions/0048-retention-in-small-steps.md). Elsewhere steps
 * that cannot keep pace grow.
 */
const JOBS = 100
const ROWS = 1000
/** Each has up to 64 KB. */
const LOG_ROWS = 100
const MAX_SCALE = 10
/** The interval of steps that find nothing. */
const MIN_MS = 1000
const MAX_IDLE_MS = 60_000
/** A job may be stored this long after its end without being missed by the walk. */
const LATE_MS = 10_000
const SHOW_DEAD_MS = 10 * 60_000
/**
 * How long a webhook may wait for its submission, and a provider be asked to cancel an operation, also where jobs are
 * kept for less. A provider that never answers does not keep them for ever.
 */
const HOUR_MS = 3600_000
const DAY_MS = 24 * 3600_000
const UNSETTLED_MS = DAY_MS

/**
 * Removes jobs that ended long ago (J17), in small steps. Every engine does so for its own partitions: a retry of an old
 * job is decided by its owner too, so the two never conflict. Jobs that are being loaded here are left out, and a load
 * that begins meanwhile waits; after a take-over the fence keeps the former owner from removing anything. Rows that no
 * longer belong to a job are removed by any engine.
 *
 * A walk reads ended jobs in the order of their ends and passes over those that are kept (for a parent, a provider). It
 * then continues with the jobs that became old meanwhile. After a tenth of the retention time it begins again, at the
 * first job that was kept; after `retention_sweep_seconds`, or with new partitions, at the beginning. It does not begin at the beginning
 * each time because the index holds an entry for each removed job there until a vacuum.
 */
export class Retention {
  readonly #parts: RetentionParts
  readonly #jobs: PacedLoop
  readonly #loops: PacedLoop[]
  /** The last job that this walk has read. */
  #after: EndedJobKey | null = null
  /** The last job before the first one that this walk has passed over. */
  #beforeKept: EndedJobKey | null = null
  #hasKept = false
  #walkBegun = 0
  #wholeWalkBegun = 0
  #hasNewPartitions = true
  #afterKey: string | null = null
  #lastMark: MarkEntry | null = null
  #hasMarksOfNewPartitions = true

  constructor(parts: RetentionParts) {
    this.#parts = parts
    const { clock, log } = parts
    const maxScale = parts.journal.capabilities.purgesHoldAppends ? 1 : MAX_SCALE
    const loop = (step: PacedLoopParts["step"], idleMs: number, isWalk = false) =>
      new PacedLoop({ step, idleMs, isWalk, maxScale, clock, log })
    const idleMs = this.#tenthMs(MAX_IDLE_MS)
    this.#jobs = loop(scale => this.#purgeJobs(Math.floor(JOBS * scale), Math.floor(ROWS * scale)), idleMs)
    this.#loops = [
      this.#jobs,
      loop(scale => this.#purgeLineage(Math.floor(ROWS * scale)), idleMs),
      loop(scale => this.#purgeFacts(Math.floor(ROWS * scale)), this.#tenthMs()),
      loop(scale => this.#purgeLogs(Math.floor(LOG_ROWS * scale)), this.#tenthMs()),
      loop(() => this.#purgeKeys(), this.#walkMs, true),
      loop(() => this.#purgeMarks(), this.#walkMs, true),
      loop(() => this.#tidy(), this.#tenthMs()),
      loop(() => this.#purgeStatistics(), HOUR_MS),
    ]
    const { artifacts } = parts
    if (artifacts != null)
      this.#loops.push(loop(() => this.#sweepArtifacts(artifacts), artifacts.sweepMs, true))
  }

  /** Jobs of new partitions may have waited long: their last owner may have been dead for weeks. */
  partitionsAdded(): void {
    this.#hasNewPartitions = true
    this.#hasMarksOfNewPartitions = true
    for (const loop of this.#loops) loop.soon()
  }

  stop(): void {
    for (const loop of this.#loops) loop.stop()
  }

  /** A tenth of the shortest retention time: a row is removed at most that much later than it could be. */
  #tenthMs(maxMs = Number.POSITIVE_INFINITY): number {
    const { retentionSeconds, lineageRetentionSeconds } = this.#parts
    const never = Number.POSITIVE_INFINITY
    const kept = Math.min(retentionSeconds ?? never, lineageRetentionSeconds ?? never)
    return Math.min(Math.max(kept * 100, MIN_MS), maxMs, this.#sweepMs)
  }

  /** The interval of walks over all keys and marks. Walks read many that stay, and what stays too long only costs space. */
  get #walkMs(): number {
    const { retentionSeconds } = this.#parts
    return Math.min(Math.max((retentionSeconds ?? Number.POSITIVE_INFINITY) * 100, MIN_MS), DAY_MS)
  }

  get #sweepMs(): number {
    return this.#parts.retentionSweepSeconds * 1000
  }

  #unsettledBefore(): number {
    return this.#parts.clock.now() - UNSETTLED_MS
  }

  /** null becomes 0: nothing is that old, so nothing is removed. */
  #before(seconds: number | null): number {
    return seconds === null ? 0 : this.#parts.clock.now() - seconds * 1000
  }

  async #purgeJobs(jobs: number, facts: number): Promise<boolean> {
    const { journal, partitions, retentionSeconds } = this.#parts
    if (retentionSeconds === null) return false
    const before = this.#before(retentionSeconds)
    if (this.#hasNewPartitions) this.#beginWholeWalk()
    const page = await journal.endedJobs({
      ...{ partitions: partitions.all(), before, unsettledBefore: this.#unsettledBefore(), limit: jobs },
      ...(this.#after !== null && { after: this.#after }),
    })
    const free = page.filter(job => job.isFree).map(({ id }) => id)
    const { blocked, purged } =
      free.length === 0 ? { blocked: 0, purged: 0 } : await this.#purge(free, before, facts)
    // Jobs with many facts fill a step sooner: the next one continues with this page.
    if (purged > 0 && purged < free.length - blocked) return true
    // The others are in memory, or another job has begun to hold them.
    this.#passOver(page, purged < free.length)
    if (page.length === jobs) return true
    this.#walkAgain(before)
    return false
  }

  /** `blocked`: jobs in memory are left out. */
  async #purge(jobIds: readonly string[], before: number, limit: number) {
    const { journal, partitionOwner } = this.#parts
    return partitionOwner.loader.blockFree(jobIds, async free => {
      const fences = [...new Set(free.map(jobPartition))].flatMap(partition => {
        const epoch = partitionOwner.owned.get(partition)?.epoch
        return epoch === undefined ? [] : [{ partition, epoch }]
      })
      const purged = fences.length === 0 ? 0 : await journal.purge({ fences, jobIds: free, before, limit })
      return { blocked: jobIds.length - free.length, purged }
    })
  }

  #passOver(page: readonly EndedJob[], hasKeptFree: boolean): void {
    const last = page.at(-1)
    if (last === undefined) return
    if (!this.#hasKept) {
      const first = hasKeptFree ? 0 : page.findIndex(job => job.isMine && !job.isFree)
      this.#hasKept = first !== -1
      if (first > 0) this.#beforeKept = page[first - 1]!
      else if (first === -1) this.#beforeKept = last
    }
    this.#after = last
  }

  /** The walk has read everything that is old, and continues, or begins again. */
  #walkAgain(before: number): void {
    const now = this.#parts.clock.now()
    if (now - this.#wholeWalkBegun >= this.#sweepMs) this.#beginWholeWalk()
    else if (now - this.#walkBegun >= this.#tenthMs()) {
      const late = { ...BEFORE_ALL_ENDED, finishedAt: before - LATE_MS }
      const isKeptEarlier = this.#beforeKept === null || this.#beforeKept.finishedAt < late.finishedAt
      this.#beginWalk(isKeptEarlier ? this.#beforeKept : late)
    }
  }

  #beginWholeWalk(): void {
    this.#hasNewPartitions = false
    this.#wholeWalkBegun = this.#parts.clock.now()
    this.#beginWalk(null)
  }

  #beginWalk(after: EndedJobKey | null): void {
    this.#walkBegun = this.#parts.clock.now()
    this.#after = after
    this.#beforeKept = after
    this.#hasKept = false
  }

  async #purgeFacts(limit: number): Promise<boolean> {
    return (await this.#parts.journal.purgeFacts({ limit })) >= limit
  }

  async #purgeLogs(limit: number): Promise<boolean> {
    return (await this.#parts.journal.logs.purgeRows({ limit })) >= limit
  }

  /** Also when lineage is kept for ever: lineage of jobs that were removed is not. */
  async #purgeLineage(limit: number): Promise<boolean> {
    const { journal, lineageRetentionSeconds } = this.#parts
    const purge = { before: this.#before(lineageRetentionSeconds), limit }
    // The last row may be left because its message would exceed the limit.
    return (await journal.pipelines.purgeLineage(purge)) >= limit - 1
  }

  async #purgeKeys(): Promise<boolean> {
    const { journal, retentionSeconds } = this.#parts
    if (retentionSeconds === null) return false
    const purge = { before: this.#before(retentionSeconds), after: this.#afterKey, limit: ROWS }
    this.#afterKey = await journal.purgeKeys(purge)
    return this.#afterKey !== null
  }

  /** Entries that stay longer than their jobs only cost space. */
  async #purgeMarks(): Promise<boolean> {
    const { journal, partitions, clock, retentionSeconds } = this.#parts
    if (retentionSeconds === null) return false
    if (this.#hasMarksOfNewPartitions) this.#lastMark = null
    this.#hasMarksOfNewPartitions = false
    const before = Math.min(this.#before(retentionSeconds), clock.now() - 2 * REMEMBERED_MS)
    const purge = { partitions: partitions.all(), before, after: this.#lastMark, limit: ROWS }
    this.#lastMark = (await journal.purgeMarks(purge)).next
    return this.#lastMark !== null
  }

  /** The content belongs to no partition: the owner of the first one sweeps. */
  async #sweepArtifacts({ step }: ArtifactSweeps): Promise<boolean> {
    return this.#parts.partitions.all().includes(0) && (await step())
  }

  async #purgeStatistics(): Promise<boolean> {
    const { journal, statisticsRetentionDays: days = null } = this.#parts
    if (days === null) return false
    const purge = { before: this.#before(days * 24 * 3600), limit: ROWS }
    return (await journal.statistics.purgeHours(purge)) >= ROWS
  }

  async #tidy(): Promise<boolean> {
    const { journal, clock, retentionSeconds } = this.#parts
    return journal.tidy({
      before: this.#before(retentionSeconds),
      unsettledBefore: this.#unsettledBefore(),
      // Dead engines stay listed for a while: a person who follows up an alert should find the name.
      silentSince: clock.now() - SHOW_DEAD_MS,
      limit: ROWS,
    })
  }
}

/** Removes artifacts that nothing refers to. */
export interface ArtifactSweeps {
  /** One page; resolves with whether there are more. */
  readonly step: () => Promise<boolean>
  readonly sweepMs: number
}

interface RetentionParts {
  readonly journal: Journal
  readonly partitionOwner: PartitionOwner
  readonly partitions: Pick<ReadyPartitions, "all">
  readonly clock: Clock
  /** null or absent: this process has no content store. */
  readonly artifacts?: ArtifactSweeps | null
  readonly retentionSeconds: number | null
  readonly lineageRetentionSeconds: number | null
  /** The longest interval between two walks over all that is kept. */
  readonly retentionSweepSeconds: number
  /** Absent or null: statistics are kept for ever. */
  readonly statisticsRetentionDays?: number | null
  readonly log: Log
}
