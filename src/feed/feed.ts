import { shownAttempt } from "../core/attempt-times.ts"
import { valueIn } from "../core/maps.ts"
import { readNodeStatus } from "../core/state.ts"
import { type JobStatus, jobHasEnded } from "../core/states.ts"
import { jobPartition } from "../engine/ids.ts"
import { previewsField } from "../engine/owner/snapshot.ts"
import type { FiredTick } from "../engine/schedules/schedules.ts"
import { SingleFlight } from "../engine/single-flight.ts"
import type { FeedPage } from "../journal/port/feed.ts"
import { type Change, currentJobLine, expandFacts, type FactChanges, shownPreview } from "./changes.ts"
import { type Follower, JobChanges, OwnerChanges, OwnerFollowers } from "./followers.ts"
import { type FoldParts, foldJobs, INLINE_BYTES, KnownJobs } from "./known-jobs.ts"
import type { LogFrames } from "./log-stream.ts"
import { jobPositionText, positionText, storeMark } from "./position.ts"
import { fireFrame, LatestProgress, listProgress, type NodeProgress, progressFrame } from "./progress.ts"
import { QueryRate } from "./query-rate.ts"
import type { FeedSettings } from "./settings.ts"
import { frame, type OwnerChange } from "./stream.ts"

export interface FeedParts extends FoldParts {
  readonly settings: FeedSettings
  /** Finished jobs are removed after this; null: never. */
  readonly retentionSeconds: number | null
  now(): number
  /** Called when the first follower is added and when the last is removed. */
  follows(isFollowing: boolean): void
}

/** Up to this many followed owners the query filters by owner; with more, the facts of all owners are read. */
const FEW_OWNERS = 50
/** Facts of one partition in a page. */
const PAGE = 256

/**
 * One reader of the journal for all live streams of a process.
 *
 * 1. It reads only while there are followers, from position to position (src/journal/port/feed.ts): so every change
 *    arrives once and in the order of its job, whichever engine committed it.
 * 2. It reads after a hint (a commit here, a notification of another engine) and, where there are other engines, every
 *    second anyway. A lost hint costs time, never a change.
 * 3. Followers are added and removed only between two pages: a follower gets everything after the position it was given.
 * 4. A known job is one whose every fact up to the position has been applied. A job without followers is evicted.
 */
export class Feed {
  readonly parts: FeedParts
  readonly snapshots: Snapshots
  readonly queryRate = new QueryRate()
  readonly logPages = new SingleFlight<LogFrames>()
  readonly #followers = new Map<string, OwnerFollowers>()
  readonly #known: KnownJobs
  readonly #dirty = new Set<number>()
  readonly #progress = new LatestProgress()
  readonly #joining: (() => void)[] = []
  /** Everything up to here has been delivered; null: there are no followers. */
  #seqs: number[] | null = null
  #store = ""
  #users = 0
  #starting: Promise<void> | null = null
  #isReading = false
  #timer: NodeJS.Timeout | null = null
  #progressTimer: NodeJS.Timeout | null = null
  #isProgressDue = false
  #pollTimer: NodeJS.Timeout | null = null
  #readAt = 0

  constructor(parts: FeedParts) {
    this.parts = parts
    this.snapshots = new Snapshots(parts)
    this.#known = new KnownJobs(parts.settings.knownJobs)
  }

  get isFollowed(): boolean {
    return this.#users > 0
  }

  /** Something may have been committed in these partitions. */
  changed(partitions: Iterable<number>): void {
    if (this.#users === 0) return
    for (const partition of partitions) this.#dirty.add(partition)
    this.#schedule()
  }

  progressed(progress: NodeProgress): void {
    if (this.#followers.get(progress.owner)?.wants(progress.job_id) !== true) return
    this.#progress.add(progress)
    this.#progressTimer ??= setTimeout(() => {
      this.#progressTimer = null
      this.#isProgressDue = true
      this.#schedule()
    }, this.parts.settings.progressMs)
  }

  /** Sent once, to the open streams of the owner, and never repeated: the history of the schedule has it. */
  fired(fire: FiredTick): void {
    const followers = this.#followers.get(fire.owner)?.all
    if (followers === undefined || followers.size === 0) return
    const bytes = Buffer.from(fireFrame(fire))
    for (const follower of followers) follower.progressed(bytes)
  }

  /** Resolves with the position after which `follower` is notified, and a function that stops that. */
  followOwner(owner: string, follower: Follower<OwnerChanges>): Promise<Following> {
    return this.#follow(owner, {
      enter: followers => void followers.all.add(follower),
      leave: followers => {
        followers.all.delete(follower)
        if (followers.all.size === 0)
          this.#known.evictWhere(job => job.state.owner === owner && !followers.byJob.has(job.id))
      },
    })
  }

  followJob(owner: string, jobId: string, follower: Follower<JobChanges>): Promise<Following> {
    return this.#follow(owner, {
      enter: followers => followers.addJob(jobId, follower),
      leave: followers => {
        followers.removeJob(jobId, follower)
        if (!followers.wants(jobId)) this.#known.evict(jobId)
      },
    })
  }

  async #follow(
    owner: string,
    { enter, leave }: { enter(followers: OwnerFollowers): void; leave(followers: OwnerFollowers): void },
  ): Promise<Following> {
    this.#users++
    this.#starting ??= this.#start()
    const starting = this.#starting
    try {
      await starting
    } catch (error) {
      if (this.#starting === starting) this.#starting = null
      this.#followerRemoved()
      throw error
    }
    return this.#betweenPages(() => {
      const followers = valueIn(this.#followers, owner, () => new OwnerFollowers())
      enter(followers)
      let isGone = false
      const go = () => {
        if (isGone) return
        isGone = true
        leave(followers)
        if (followers.isEmpty) this.#followers.delete(owner)
        this.#followerRemoved()
      }
      return { store: this.#store, seqs: this.#seqs!.slice(), leave: go }
    })
  }

  /** Subscribes to notifications of commits first, then reads the position. */
  async #start(): Promise<void> {
    const { journal, settings, follows } = this.parts
    follows(true)
    const { store, seqs } = await journal.feed.position()
    this.#store = storeMark(store)
    this.#seqs = [...seqs]
    if (journal.feed.listen !== null)
      this.#pollTimer = setInterval(() => this.changed(this.#seqs?.keys() ?? []), settings.pollMs)
  }

  #followerRemoved(): void {
    if (--this.#users > 0) return
    this.#starting = null
    this.#seqs = null
    clearInterval(this.#pollTimer ?? undefined)
    clearTimeout(this.#timer ?? undefined)
    clearTimeout(this.#progressTimer ?? undefined)
    this.#timer = this.#progressTimer = null
    this.#dirty.clear()
    this.#progress.take()
    this.#known.evictWhere(() => true)
    this.parts.follows(false)
  }

  #betweenPages<T>(work: () => T): Promise<T> {
    if (!this.#isReading) return Promise.resolve(work())
    return new Promise(resolve => this.#joining.push(() => resolve(work())))
  }

  #schedule(waitMs = this.#readAt + this.parts.settings.readMs - performance.now()): void {
    if (this.#isReading || this.#timer !== null || this.#seqs === null) return
    this.#timer = setTimeout(() => {
      this.#timer = null
      void this.#run()
    }, waitMs)
  }

  async #run(): Promise<void> {
    const seqs = this.#seqs
    if (seqs === null) return
    this.#isReading = true
    this.#readAt = performance.now()
    let waitMs: number | undefined
    try {
      if (this.#dirty.size > 0) await this.#readNext(seqs)
      if (this.#isProgressDue) await this.#deliverProgress(seqs)
    } catch (error) {
      this.parts.log.warn({ error: String(error) }, "could not read the journal for live streams; retrying")
      for (const partition of seqs.keys()) this.#dirty.add(partition)
      waitMs = this.parts.settings.pollMs
    }
    this.#isReading = false
    for (const join of this.#joining.splice(0)) join()
    if (this.#dirty.size > 0 || this.#isProgressDue) this.#schedule(waitMs)
  }

  async #readNext(seqs: number[]): Promise<void> {
    const ranges = [...this.#dirty].map(partition => ({ partition, after: seqs[partition]! }))
    this.#dirty.clear()
    const owners = [...this.#followers.keys()]
    const page = await this.parts.journal.feed.read({
      ranges,
      owners: owners.length > FEW_OWNERS ? null : owners,
      limit: PAGE,
      inlineBytes: INLINE_BYTES,
    })
    const wanted = page.facts.filter(({ owner, jobId }) => this.#followers.get(owner)?.wants(jobId))
    const expanded = await expandFacts(this.parts, wanted, {
      known: this.#known,
      withNodes: ({ owner, jobId }) => this.#followers.get(owner)?.byJob.has(jobId) ?? false,
    })
    // All followers may have stopped, and a new one begun, meanwhile.
    if (this.#seqs === seqs) this.#deliver(seqs, page, expanded)
  }

  /** Synchronous: between two pages all followers have everything up to the same position. */
  #deliver(seqs: number[], page: FeedPage, expanded: readonly FactChanges[]): void {
    const byOwner = new Map<string, OwnerChange[]>()
    const byJob = new Map<string, { owner: string; changes: Change[] }>()
    for (const { row, changes, job, list: listNode } of expanded) {
      const followers = this.#followers.get(row.owner)
      seqs[row.partition] = Math.max(seqs[row.partition]!, row.seq)
      if (followers === undefined) continue
      if (followers.wants(row.jobId) && !jobHasEnded(job.state.status)) this.#known.keep(job)
      const further = listNode === null ? null : listProgress(job, listNode)
      if (further !== null) this.progressed(further)
      if (followers.byJob.has(row.jobId)) {
        const list = byJob.get(row.jobId) ?? { owner: row.owner, changes: [] }
        list.changes.push(...changes)
        byJob.set(row.jobId, list)
      }
      const ofJob = changes.filter(({ kind }) => kind === "job")
      if (followers.all.size === 0 || ofJob.length === 0) continue
      const at = seqs.slice()
      const list = byOwner.get(row.owner) ?? []
      for (const change of ofJob) list.push({ ...change, partition: row.partition, seqs: at })
      byOwner.set(row.owner, list)
    }
    for (const { partition, seq, isMore } of page.reached) {
      seqs[partition] = Math.max(seqs[partition]!, seq)
      if (isMore) this.#dirty.add(partition)
    }
    for (const [owner, changes] of byOwner) {
      const changed = new OwnerChanges(this.#store, changes, seqs.slice())
      for (const follower of this.#followers.get(owner)?.all ?? []) follower.changed(changed)
    }
    for (const [jobId, { owner, changes }] of byJob) {
      const changed = new JobChanges(changes)
      for (const follower of this.#followers.get(owner)?.byJob.get(jobId) ?? []) follower.changed(changed)
    }
  }

  /** Reports of handlers and progress of lists, merged with the job's state from the journal: so that progress never runs ahead of the changes. */
  async #deliverProgress(seqs: readonly number[]): Promise<void> {
    this.#isProgressDue = false
    const all = this.#progress.take()
    const ids = new Set(all.map(({ job_id }) => job_id))
    const found = await foldJobs(
      this.parts,
      [...ids].filter(id => this.#known.get(id) === undefined),
      ({ jobId, seq }) => seq <= (seqs[jobPartition(jobId)] ?? 0),
    )
    const frames = new Map<OwnerFollowers, Map<string, string[]>>()
    for (const progress of all) {
      const job = this.#known.get(progress.job_id) ?? found.get(progress.job_id)
      const followers = this.#followers.get(progress.owner)
      if (job === undefined || jobHasEnded(job.state.status) || followers?.wants(job.id) !== true) continue
      job.message = progress.message ?? job.message
      this.#known.keep(job)
      const byJob = valueIn(frames, followers, () => new Map<string, string[]>())
      valueIn(byJob, job.id, () => []).push(progressFrame(job, progress))
    }
    for (const [followers, byJob] of frames) followers.deliverProgress(byJob)
  }
}

export interface Following {
  readonly store: string
  readonly seqs: readonly number[]
  leave(): void
}

/** The first event of a stream. Many streams may begin at once: concurrent requests for the same snapshot share one. */

/** The maximum number of jobs, and of nodes, in a snapshot: a larger graph is requested separately. */
const MAX_JOBS = 100
const MAX_NODES = 1000
/** Sorts after every change of its fact. */
const WHOLE_FACT = 999_999_999

interface OwnerSnapshot {
  readonly bytes: Buffer
  readonly seqs: readonly number[]
}

interface JobSnapshot {
  readonly bytes: Buffer
  readonly seq: number
  readonly status: JobStatus
}

interface SnapshotParts extends FoldParts {
  now(): number
}

class Snapshots {
  readonly #parts: SnapshotParts
  readonly #ofOwners = new SingleFlight<OwnerSnapshot>()
  readonly #ofJobs = new SingleFlight<JobSnapshot | null>()

  constructor(parts: SnapshotParts) {
    this.#parts = parts
  }

  /** The newest of the owner's jobs that have not ended. */
  owner(owner: string, store: string): Promise<OwnerSnapshot> {
    return this.#ofOwners.run(owner, async () => {
      const at = this.#parts.now()
      const { seqs, jobs } = await this.#parts.journal.feed.start({ owner, limit: MAX_JOBS + 1 })
      const shown = jobs.slice(0, MAX_JOBS)
      const found = await foldJobs(this.#parts, shown, ({ jobId, seq }) => seq <= seqs[jobPartition(jobId)]!)
      const lines = shown.flatMap(id => {
        const job = found.get(id)
        return job === undefined ? [] : [currentJobLine(job)]
      })
      const id = positionText({ store, at, partition: -1, place: 0, seqs })
      const more = jobs.length > MAX_JOBS ? { more: true } : {}
      return { seqs, bytes: Buffer.from(frame("snapshot", { jobs: lines, ...more }, id)) }
    })
  }

  /** null: the job does not exist any more. */
  job(jobId: string): Promise<JobSnapshot | null> {
    return this.#ofJobs.run(jobId, async () => {
      const job = (await foldJobs(this.#parts, [jobId], () => true)).get(jobId)
      if (job === undefined) return null
      const { state, plan, seq } = job
      const nodes = plan.nodes.map(({ id }, node) => ({
        node: id,
        status: readNodeStatus(state, node),
        attempt: shownAttempt(state, node),
      }))
      const graph = nodes.length > MAX_NODES ? { more: true } : { nodes }
      const id = jobPositionText({ seq, place: WHOLE_FACT })
      const previews = (previewsField(state).previews ?? []).map(({ node, preview }) =>
        shownPreview({ node }, preview),
      )
      const line = { ...currentJobLine(job), previews: previews.length === 0 ? undefined : previews }
      return {
        status: state.status,
        seq,
        bytes: Buffer.from(frame("snapshot", { job: line, ...graph }, id)),
      }
    })
  }
}
