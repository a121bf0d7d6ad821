/**
 * What both kinds of stream have in common: until a new one has caught up, what happens meanwhile is held back.
 * Bounded: one that stays behind is given up.
 */
import type { Following } from "./feed.ts"
import { type EndReason, frame, type ResetReason } from "./frames.ts"

/** Where a stream's text goes. */
export interface Sink {
  write(bytes: Buffer): void
  /** What may be left out when there is no room. */
  spare(bytes: Buffer): void
  /** The last that comes. */
  end(bytes: Buffer): void
  /** It cannot go on: the client comes again with the last id it has seen. */
  drop(): void
}

/** More news than this while it catches up: it will not. */
const MOST_HELD = 10_000

export abstract class Stream<News extends { readonly changes: readonly unknown[] }> {
  protected readonly sink: Sink
  #held: News[] | null = []
  #heldChanges = 0
  #following: Following | null = null
  #isClosed = false

  constructor(sink: Sink) {
    this.sink = sink
  }

  /** Tells what there is, then goes on with what happens. */
  async open(follow: () => Promise<Following>): Promise<void> {
    this.#following = await follow()
    if (this.#isClosed) return this.#following.leave()
    try {
      await this.catchUp(this.#following)
      for (const news of this.#held ?? []) if (!this.#isClosed) this.pass(news)
      this.#held = null
    } catch (error) {
      this.close()
      throw error
    }
  }

  changed(news: News): void {
    if (this.#isClosed) return
    if (this.#held === null) this.pass(news)
    else this.#hold(this.#held, news)
  }

  #hold(held: News[], news: News): void {
    held.push(news)
    this.#heldChanges += news.changes.length
    if (this.#heldChanges <= MOST_HELD) return
    this.close()
    this.sink.drop()
  }

  progressed(bytes: Buffer): void {
    if (!this.#isClosed && this.#held === null) this.sink.spare(bytes)
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#held = null
    this.#following?.leave()
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Everything before the position at which the news begins. */
  protected abstract catchUp(following: Following): Promise<void>
  protected abstract pass(news: News): void

  protected reset(reason: ResetReason): void {
    this.sink.write(Buffer.from(frame("reset", { reason })))
  }

  protected end(reason: EndReason): void {
    this.close()
    this.sink.end(endFrame(reason))
  }
}

export function endFrame(reason: EndReason): Buffer {
  return Buffer.from(frame("end", { reason }))
}
