/**
 * Engines of the same store notify each other of their commits, as long as another engine follows them: which partitions
 * have new facts, and the progress that handlers report; and that partitions are free. These are hints, outside of every
 * append: a lost one costs time.
 */
import type { JournalFeed } from "../journal/port/feed.ts"
import { LatestProgress, type ProgressNews } from "./progress.ts"

export interface NeighbourParts {
  readonly feed: JournalFeed
  /** The minimum time between two notifications. */
  readonly tellMs: number
  /** How long a notification that an engine follows is valid, until a heartbeat confirms it. */
  readonly believeMs: number
  /** Another engine has committed facts in these partitions. */
  changed(partitions: readonly number[]): void
  progressed(news: ProgressNews): void
  /** Another engine has released partitions, or has taken its first. */
  released(): void
}

interface Told {
  readonly from: string
  readonly released?: true
  readonly follows?: true
  readonly partitions?: readonly number[]
  readonly progress?: readonly ProgressNews[]
}

/** PostgreSQL accepts at most 7,999 bytes. */
const MAX_BYTES = 7900

export class Neighbours {
  readonly #parts: NeighbourParts
  readonly #id: string
  readonly #partitions = new Set<number>()
  readonly #progress = new LatestProgress()
  #isFollowedByBeat = false
  #believedUntil = 0
  #timer: NodeJS.Timeout | null = null
  #unlisten: (() => Promise<void>) | null = null

  constructor(id: string, parts: NeighbourParts) {
    this.#id = id
    this.#parts = parts
  }

  async start(): Promise<void> {
    this.#unlisten = (await this.#parts.feed.listen?.(text => this.#hear(text))) ?? null
  }

  async stop(): Promise<void> {
    clearTimeout(this.#timer ?? undefined)
    this.#isFollowedByBeat = false
    this.#believedUntil = 0
    await this.#unlisten?.()
  }

  /** Set from heartbeats. */
  followed(isFollowed: boolean): void {
    this.#isFollowedByBeat = isFollowed
  }

  /** Heartbeats are seconds apart: engines that commit should not wait for the next one. */
  tellThatWeFollow(): void {
    if (this.#parts.feed.listen !== null) this.#say({ follows: true })
  }

  /** This engine released partitions, or took its first. */
  tellThatWeReleased(): void {
    if (this.#parts.feed.listen !== null) this.#say({ released: true })
  }

  /** This engine committed facts in the partition. */
  changed(partition: number): void {
    if (!this.#isFollowed) return
    this.#partitions.add(partition)
    this.#schedule()
  }

  progressed(news: ProgressNews): void {
    if (!this.#isFollowed) return
    this.#progress.add(news)
    this.#schedule()
  }

  get #isFollowed(): boolean {
    return this.#isFollowedByBeat || (this.#believedUntil > 0 && performance.now() < this.#believedUntil)
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = null
      this.#tell()
    }, this.#parts.tellMs)
  }

  #tell(): void {
    const partitions = [...this.#partitions]
    const progress: ProgressNews[] = []
    let bytes = 400
    for (const news of this.#progress.take()) {
      bytes += Buffer.byteLength(JSON.stringify(news)) + 1
      if (bytes > MAX_BYTES) break
      progress.push(news)
    }
    this.#partitions.clear()
    this.#say({ partitions, ...(progress.length > 0 ? { progress } : {}) })
  }

  #say(told: Omit<Told, "from">): void {
    this.#parts.feed.tell(JSON.stringify({ from: this.#id, ...told } satisfies Told))
  }

  #hear(text: string): void {
    const told = toldBy(text)
    if (told === null || told.from === this.#id) return
    if (told.follows === true) this.#believedUntil = performance.now() + this.#parts.believeMs
    if (told.released === true) this.#parts.released()
    if (told.partitions !== undefined) this.#parts.changed(told.partitions)
    for (const news of told.progress ?? []) this.#parts.progressed(news)
  }
}

/** null: the message is of another program, or of an engine of another release. */
function toldBy(text: string): Told | null {
  try {
    return JSON.parse(text) as Told | null
  } catch {
    return null
  }
}
