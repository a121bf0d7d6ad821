/**
 * Common part of both kinds of streams: until a new stream has caught up, changes that arrive meanwhile are held back.
 * Bounded: a stream that stays behind is dropped.
 */
import type { Following } from "./feed.ts"
import { type EndReason, frame, type ResetReason } from "./frames.ts"

/** The destination of a stream's text. */
export interface Sink {
  write(bytes: Buffer): void
  /** Writes bytes that may be left out when there is no room. */
  spare(bytes: Buffer): void
  /** Resolves when everything was sent, or cannot be sent any more. */
  flushed(): Promise<void>
  /** Writes the last bytes. */
  end(bytes: Buffer): void
  /** The stream cannot continue: the client reconnects with the last id it has seen. */
  drop(): void
}

/** A stream with more held changes than this while it catches up never will. */
const MAX_HELD = 10_000

export abstract class Stream<Batch extends { readonly changes: readonly unknown[] }> {
  protected readonly sink: Sink
  #held: Batch[] | null = []
  #heldChanges = 0
  #following: Following | null = null
  #isClosed = false

  constructor(sink: Sink) {
    this.sink = sink
  }

  /** Sends the current state, then continues with changes. */
  async open(follow: () => Promise<Following>): Promise<void> {
    this.#following = await follow()
    if (this.#isClosed) return this.#following.leave()
    try {
      await this.catchUp(this.#following)
      for (const batch of this.#held ?? []) if (!this.#isClosed) this.pass(batch)
      this.#held = null
    } catch (error) {
      this.close()
      throw error
    }
  }

  changed(batch: Batch): void {
    if (this.#isClosed) return
    if (this.#held === null) this.pass(batch)
    else this.#hold(this.#held, batch)
  }

  #hold(held: Batch[], batch: Batch): void {
    held.push(batch)
    this.#heldChanges += batch.changes.length
    if (this.#heldChanges <= MAX_HELD) return
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

  /** Sends everything before the position at which the changes begin. */
  protected abstract catchUp(following: Following): Promise<void>
  protected abstract pass(batch: Batch): void

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
