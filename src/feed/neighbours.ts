/**
 * Engines of the same store notify each other of their commits, as long as another engine follows them: which partitions
 * have new facts, and the progress that handlers report; and that partitions are free. These are hints, outside of every
 * append: a lost one costs time.
 */
import type { JournalFeed } from "../journal/port/feed.ts"
import { LatestProgress, type NodeProgress } from "./progress.ts"

export interface NeighbourParts {
  readonly feed: JournalFeed
  /** The minimum time between two notifications. */
  readonly tellMs: number
  /** How long a notification that an engine follows is valid, until a heartbeat confirms it. */
  readonly validMs: number
  /** Another engine has committed facts in these partitions. */
  changed(partitions: readonly number[]): void
  progressed(nodeProgress: NodeProgress): void
  /** Another engine has released partitions, or has taken its first. */
  released(): void
}

interface Notification {
  readonly from: string
  readonly released?: true
  readonly follows?: true
  readonly partitions?: readonly number[]
  readonly progress?: readonly NodeProgress[]
}

/** PostgreSQL accepts at most 7,999 bytes. */
const MAX_BYTES = 7900

export class Neighbours {
  readonly #parts: NeighbourParts
  readonly #id: string
  readonly #partitions = new Set<number>()
  readonly #progress = new LatestProgress()
  #isFollowedByHeartbeat = false
  #followedUntil = 0
  #timer: NodeJS.Timeout | null = null
  #unlisten: (() => Promise<void>) | null = null

  constructor(id: string, parts: NeighbourParts) {
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

  get #isFollowed(): boolean {
    return this.#isFollowedByHeartbeat || (this.#followedUntil > 0 && performance.now() < this.#followedUntil)
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = null
      this.#flush()
    }, this.#parts.tellMs)
  }

  #flush(): void {
    const partitions = [...this.#partitions]
    const progress: NodeProgress[] = []
    let bytes = 400
    for (const nodeProgress of this.#progress.take()) {
      bytes += Buffer.byteLength(JSON.stringify(nodeProgress)) + 1
      if (bytes > MAX_BYTES) break
      progress.push(nodeProgress)
    }
    this.#partitions.clear()
    this.#send({ partitions, ...(progress.length > 0 ? { progress } : {}) })
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
