/** Connects the events of this process's engine and of others with waiting callers and the feed. */

import type { EngineObserver } from "../engine/engine.ts"
import type { LiveJob } from "../engine/owner/live-job.ts"
import { RemoteEnds } from "../jobs/remote-ends.ts"
import type { Watchers } from "../jobs/watchers.ts"
import { Feed } from "./feed.ts"
import type { FoldParts } from "./known-jobs.ts"
import { Neighbours } from "./neighbours.ts"
import type { NodeProgress } from "./progress.ts"
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
  /** Sets whether the heartbeat says that this engine follows the others. */
  follow(isFollowing: boolean): void
  /** Sends a heartbeat at once: another engine has released partitions, or has taken its first. */
  beatNow(): void
}

export class Live implements EngineObserver {
  readonly feed: Feed
  readonly ends: RemoteEnds
  readonly #neighbours: Neighbours
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
    this.#neighbours = new Neighbours(id, {
      feed: journal.feed,
      tellMs: settings.tellMs,
      validMs: leaseMs,
      changed: partitions => {
        this.feed.changed(partitions)
        this.ends.changed(partitions)
      },
      progressed: nodeProgress => this.feed.progressed(nodeProgress),
      released: () => parts.beatNow(),
    })
  }

  #follows(isFollowing: boolean): void {
    this.#followers += isFollowing ? 1 : -1
    if (isFollowing && this.#followers === 1) {
      this.#follow(true)
      this.#neighbours.announceFollowing()
    } else if (this.#followers === 0) this.#follow(false)
  }

  async start(): Promise<void> {
    await this.#neighbours.start()
  }

  async close(): Promise<void> {
    await this.#neighbours.stop()
  }

  changed(job: Pick<LiveJob, "id" | "partition">): void {
    const { partition } = job
    this.#watchers.changed(job)
    if (this.feed.isFollowed) this.feed.changed([partition])
    this.#neighbours.changed(partition)
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
    this.#neighbours.progressed(nodeProgress)
  }

  released(): void {
    this.#neighbours.announceRelease()
  }

  followed(isFollowed: boolean): void {
    this.#neighbours.followed(isFollowed)
  }
}

/** The interval of polls for the ends of jobs without notifications: one query, however many jobs are waited for. */
const POLL_MS = 250
