/** Connects the events of this process's engine and of others with waiting callers and the feed. */
import type { EngineObserver } from "../engine/engine.ts"
import type { LiveJob } from "../engine/owner/live-job.ts"
import type { FiredTick } from "../engine/schedules/schedules.ts"
import { RemoteEnds } from "../jobs/remote-ends.ts"
import type { Watchers } from "../jobs/watchers.ts"
import type { JournalFeed } from "../journal/port/feed.ts"
import { Feed } from "./feed.ts"
import type { FoldParts } from "./known-jobs.ts"
import { LatestProgress, type NodeProgress } from "./progress.ts"
import type { FeedSettings } from "./settings.ts"

export interface LiveParts extends FoldParts {
  readonly settings: FeedSettings
  /** The id of this engine. */
  readonly id: string
  /** How long a notification of another engine is valid without a heartbeat that confirms it. */
  readonly leaseMs: number
  readonly retentionSeconds: number | null
  readonly watchers: Watchers
  now(): number
  /** Sets whether the heartbeat reports that this engine follows the others. */
  follow(isFollowing: boolean): void
  /** Sends a heartbeat at once: another engine has released partitions, or has taken its first. */
  beatNow(): void
}

export class Live implements EngineObserver {
  readonly feed: Feed
  readonly ends: RemoteEnds
  readonly #notifications: EngineNotifications
  readonly #watchers: Watchers
  readonly #now: () => number
  readonly #follow: (isFollowing: boolean) => void
  /** The number of users: live streams, and callers that wait for jobs of other processes. */
  #followers = 0

  constructor(parts: LiveParts) {
    const { journal, settings, id, leaseMs } = parts
    this.#watchers = parts.watchers
    this.#now = () => parts.now()
    this.#follow = isFollowing => parts.follow(isFollowing)
    const follows = (isFollowing: boolean) => this.#follows(isFollowing)
    this.feed = new Feed({ ...parts, follows })
    const { readMs } = settings
    this.ends = new RemoteEnds({
      journal,
      watchers: parts.watchers,
      readMs,
      pollMs: POLL_MS,
      follows,
    })
    this.#notifications = new EngineNotifications(id, {
      feed: journal.feed,
      notifyMs: settings.notifyMs,
      validMs: leaseMs,
      changed: partitions => {
        this.feed.changed(partitions)
        this.ends.changed(partitions)
      },
      progressed: nodeProgress => this.feed.progressed(nodeProgress),
      fired: fire => this.feed.fired(fire),
      released: () => parts.beatNow(),
    })
  }

  #follows(isFollowing: boolean): void {
    this.#followers += isFollowing ? 1 : -1
    if (isFollowing && this.#followers === 1) {
      this.#follow(true)
      this.#notifications.announceFollowing()
    } else if (this.#followers === 0) this.#follow(false)
  }

  async start(): Promise<void> {
    await this.#notifications.start()
  }

  async close(): Promise<void> {
    await this.#notifications.stop()
  }

  changed(job: Pick<LiveJob, "id" | "partition">): void {
    const { partition } = job
    this.#watchers.changed(job)
    if (this.feed.isFollowed) this.feed.changed([partition])
    this.#notifications.changed(partition)
  }

  ended(job: LiveJob): void {
    this.#watchers.ended(job)
  }

  lost(partition: number): void {
    this.#watchers.lost(partition)
  }

  progressed(job: LiveJob, node: number): void {
    this.#watchers.progressed(job)
    const progress = job.progress?.get(node)
    if (progress === undefined) return
    const nodeProgress: NodeProgress = {
      job_id: job.id,
      owner: job.state.owner,
      node: job.plan.nodes[node]!.id,
      ...progress,
      at: this.#now(),
    }
    if (this.feed.isFollowed) this.feed.progressed(nodeProgress)
    this.#notifications.progressed(nodeProgress)
  }

  fired(fire: FiredTick): void {
    if (this.feed.isFollowed) this.feed.fired(fire)
    this.#notifications.fired(fire)
  }

  released(): void {
    this.#notifications.announceRelease()
  }

  followed(isFollowed: boolean): void {
    this.#notifications.followed(isFollowed)
  }
}

/** The interval of polls for the ends of jobs without notifications: one query, however many jobs are waited for. */
const POLL_MS = 250

interface EngineNotificationsParts {
  readonly feed: JournalFeed
  /** The minimum time between two notifications. */
  readonly notifyMs: number
  /** How long a notification that an engine follows is valid, until a heartbeat confirms it. */
  readonly validMs: number
  /** Another engine has committed facts in these partitions. */
  changed(partitions: readonly number[]): void
  progressed(nodeProgress: NodeProgress): void
  fired(fire: FiredTick): void
  /** Another engine has released partitions, or has taken its first. */
  released(): void
}

interface Notification {
  readonly from: string
  readonly released?: true
  readonly follows?: true
  readonly partitions?: readonly number[]
  readonly progress?: readonly NodeProgress[]
  readonly fires?: readonly FiredTick[]
}

/** PostgreSQL accepts at most 7,999 bytes. */
const MAX_BYTES = 7900

/**
 * Engines of the same store notify each other of their commits, as long as another engine follows them: which partitions
 * have new facts, and the progress that handlers report; and that partitions are free. These are hints, outside of every
 * append: a lost one costs time.
 */
class EngineNotifications {
  readonly #parts: EngineNotificationsParts
  readonly #id: string
  readonly #partitions = new Set<number>()
  readonly #progress = new LatestProgress()
  readonly #fires: FiredTick[] = []
  #isFollowedByHeartbeat = false
  #followedUntil = 0
  #timer: NodeJS.Timeout | null = null
  #unlisten: (() => Promise<void>) | null = null

  constructor(id: string, parts: EngineNotificationsParts) {
    this.#id = id
    this.#parts = parts
  }

  async start(): Promise<void> {
    this.#unlisten = (await this.#parts.feed.listen?.(text => this.#receive(text))) ?? null
  }

  async stop(): Promise<void> {
    clearTimeout(this.#timer ?? undefined)
    this.#isFollowedByHeartbeat = false
    this.#followedUntil = 0
    await this.#unlisten?.()
  }

  /** Set from heartbeats. */
  followed(isFollowed: boolean): void {
    this.#isFollowedByHeartbeat = isFollowed
  }

  /** Heartbeats are seconds apart: engines that commit should not wait for the next one. */
  announceFollowing(): void {
    if (this.#parts.feed.listen !== null) this.#send({ follows: true })
  }

  /** This engine released partitions, or took its first. */
  announceRelease(): void {
    if (this.#parts.feed.listen !== null) this.#send({ released: true })
  }

  /** This engine committed facts in the partition. */
  changed(partition: number): void {
    if (!this.#isFollowed) return
    this.#partitions.add(partition)
    this.#schedule()
  }

  progressed(nodeProgress: NodeProgress): void {
    if (!this.#isFollowed) return
    this.#progress.add(nodeProgress)
    this.#schedule()
  }

  fired(fire: FiredTick): void {
    if (!this.#isFollowed) return
    this.#fires.push(fire)
    this.#schedule()
  }

  get #isFollowed(): boolean {
    return this.#isFollowedByHeartbeat || (this.#followedUntil > 0 && performance.now() < this.#followedUntil)
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = null
      this.#flush()
    }, this.#parts.notifyMs)
  }

  #flush(): void {
    const partitions = [...this.#partitions]
    let bytes = 400
    const fitting = <T>(all: readonly T[]) => {
      const over = all.findIndex(each => {
        bytes += Buffer.byteLength(JSON.stringify(each)) + 1
        return bytes > MAX_BYTES
      })
      return over < 0 ? all : all.slice(0, over)
    }
    const fires = fitting(this.#fires.splice(0))
    const progress = fitting(this.#progress.take())
    this.#partitions.clear()
    this.#send({
      partitions,
      ...(progress.length > 0 ? { progress } : {}),
      ...(fires.length > 0 ? { fires } : {}),
    })
  }

  #send(notification: Omit<Notification, "from">): void {
    this.#parts.feed.notify(JSON.stringify({ from: this.#id, ...notification } satisfies Notification))
  }

  #receive(text: string): void {
    const notification = parseNotification(text)
    if (notification === null || notification.from === this.#id) return
    if (notification.follows === true) this.#followedUntil = performance.now() + this.#parts.validMs
    if (notification.released === true) this.#parts.released()
    if (notification.partitions !== undefined) this.#parts.changed(notification.partitions)
    for (const nodeProgress of notification.progress ?? []) this.#parts.progressed(nodeProgress)
    for (const fire of notification.fires ?? []) this.#parts.fired(fire)
  }
}

/** null: the message is of another program, or of an engine of another release. */
function parseNotification(text: string): Notification | null {
  try {
    return JSON.parse(text) as Notification | null
  } catch {
    return null
  }
}
