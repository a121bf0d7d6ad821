/** What the engine of this process and those of others say, brought to who waits and to the feed, and back. */

import type { EngineObserver } from "../engine/engine-parts.ts"
import type { LiveJob } from "../engine/owner/live-job.ts"
import { RemoteEnds } from "../jobs/remote-ends.ts"
import type { Watchers } from "../jobs/watchers.ts"
import { Feed } from "./feed.ts"
import type { FoldParts } from "./known-jobs.ts"
import { Neighbours } from "./neighbours.ts"
import type { ProgressNews } from "./progress.ts"
import type { FeedSettings } from "./settings.ts"

export interface LiveParts extends FoldParts {
  readonly settings: FeedSettings
  /** Of this engine. */
  readonly id: string
  /** How long a word of another engine is believed without a beat that says the same. */
  readonly leaseMs: number
  readonly retentionSeconds: number | null
  readonly watchers: Watchers
  now(): number
  /** Lets the beat say that this engine follows the others, or that it does not. */
  follow(isFollowing: boolean): void
  /** Lets the beat come at once: another engine has let go of partitions, or has its first. */
  beatNow(): void
}

export class Live implements EngineObserver {
  readonly feed: Feed
  readonly ends: RemoteEnds
  readonly #neighbours: Neighbours
  readonly #watchers: Watchers
  readonly #now: () => number
  readonly #follow: (isFollowing: boolean) => void
  /** Live streams, and those who wait for jobs that run elsewhere. */
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
      lookAgainMs: LOOK_AGAIN_MS,
      follows,
    })
    this.#neighbours = new Neighbours(id, {
      feed: journal.feed,
      tellMs: settings.tellMs,
      believeMs: leaseMs,
      changed: partitions => {
        this.feed.changed(partitions)
        this.ends.changed(partitions)
      },
      progressed: news => this.feed.progressed(news),
      released: () => parts.beatNow(),
    })
  }

  #follows(isFollowing: boolean): void {
    this.#followers += isFollowing ? 1 : -1
    if (isFollowing && this.#followers === 1) {
      this.#follow(true)
      this.#neighbours.tellThatWeFollow()
    } else if (this.#followers === 0) this.#follow(false)
  }

  async start(): Promise<void> {
    await this.#neighbours.start()
  }

  async close(): Promise<void> {
    await this.#neighbours.stop()
  }

  changed(job: LiveJob): void {
    const { partition } = job
    this.#watchers.changed(job)
    if (this.feed.isFollowed) this.feed.changed([partition])
    this.#neighbours.changed(partition)
  }

  ended(job: LiveJob): void {
    this.#watchers.ended(job)
  }

  progressed(job: LiveJob, node: number): void {
    this.#watchers.progressed(job)
    const progress = job.progress?.get(node)
    if (progress === undefined) return
    const news: ProgressNews = {
      job_id: job.id,
      owner: job.state.owner,
      node: job.plan.nodes[node]!.id,
      ...progress,
      at: this.#now(),
    }
    if (this.feed.isFollowed) this.feed.progressed(news)
    this.#neighbours.progressed(news)
  }

  released(): void {
    this.#neighbours.tellThatWeReleased()
  }

  followed(isFollowed: boolean): void {
    this.#neighbours.followed(isFollowed)
  }
}

/** Between two looks for the ends of jobs when nobody says anything: one question, however many are waited for. */
const LOOK_AGAIN_MS = 250
