/**
 * Engines of the same store tell each other of what they commit, as long as somebody there follows it: which partitions
 * have something new, and how far handlers say that they are; and that partitions are free. Hints, outside of every
 * append: a lost one costs time.
 */
import type { JournalFeed } from "../journal/port/feed.ts"
import { LatestProgress, type ProgressNews } from "./progress.ts"

export interface NeighbourParts {
  readonly feed: JournalFeed
  /** Between two words to the others. */
  readonly tellMs: number
  /** How long a word that somebody follows is believed, until a beat says the same. */
  readonly believeMs: number
  /** What another engine tells. */
  changed(partitions: readonly number[]): void
  progressed(news: ProgressNews): void
  /** It has let go of partitions, or has its first. */
  released(): void
}

interface Told {
  readonly from: string
  readonly released?: true
  readonly follows?: true
  readonly partitions?: readonly number[]
  readonly progress?: readonly ProgressNews[]
}

/** PostgreSQL takes 8,000 bytes less one. */
const MOST_BYTES = 7900

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

  /** What the beats say. */
  followed(isFollowed: boolean): void {
    this.#isFollowedByBeat = isFollowed
  }

  /** Beats are seconds apart: those who commit should not wait for the next. */
  tellThatWeFollow(): void {
    if (this.#parts.feed.listen !== null) this.#say({ follows: true })
  }

  /** Partitions were let go of here, or the first were taken. */
  tellThatWeReleased(): void {
    if (this.#parts.feed.listen !== null) this.#say({ released: true })
  }

  /** Something was committed here. */
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
      if (bytes > MOST_BYTES) break
      progress.push(news)
    }
    this.#partitions.clear()
    this.#say({ partitions, ...(progress.length > 0 ? { progress } : {}) })
  }

  #say(told: Omit<Told, "from">): void {
    this.#parts.feed.notify(JSON.stringify({ from: this.#id, ...told } satisfies Told))
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

/** null: somebody else uses the channel, or an engine of another release. */
function toldBy(text: string): Told | null {
  try {
    return JSON.parse(text) as Told | null
  } catch {
    return null
  }
}
