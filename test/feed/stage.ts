/** Engines on one store in memory whose reading of the feed a test may hold up, and streams that write into a list. */

import { readPosition } from "../../src/feed/position.ts"
import { JobStream, OwnerStream, type Sink } from "../../src/feed/stream.ts"
import type { FeedPage, FeedQuery } from "../../src/journal/port/feed.ts"
import { type MemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { openUmbra, type Umbra, type UmbraOptions } from "../../src/umbra.ts"

export interface ReceivedEvent {
  readonly event: string
  readonly id: string | null
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects.
  readonly data: any
}

export class ListSink implements Sink {
  readonly received: ReceivedEvent[] = []
  isDropped = false

  write(bytes: Buffer): void {
    for (const block of bytes.toString().split("\n\n").slice(0, -1)) {
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(block)?.[1] ?? null
      this.received.push({ event: field("event")!, id: field("id"), data: JSON.parse(field("data")!) })
    }
  }

  async flushed(): Promise<void> {}

  writeIfRoom(bytes: Buffer): void {
    this.write(bytes)
  }

  end(bytes: Buffer): void {
    this.write(bytes)
  }

  drop(): void {
    this.isDropped = true
  }

  states(job: string): string[] {
    return this.received
      .filter(({ event, data }) => event === "job" && data.job_id === job)
      .map(({ data }) => data.status)
  }

  get lastId(): string {
    return this.received.findLast(({ id }) => id !== null)!.id!
  }
}

export interface FeedStage {
  readonly umbra: Umbra
  /** From now on reading the feed waits. */
  hold(): void
  /** How many reads wait. */
  readonly held: number
  letGo(): void
  owner(owner: string, after?: string): Promise<{ sink: ListSink; stream: OwnerStream }>
  job(owner: string, jobId: string): Promise<{ sink: ListSink; stream: JobStream }>
}

export async function openFeedStage(store: MemoryStore, options: UmbraOptions = {}): Promise<FeedStage> {
  const journal = openMemory(store)
  const read = journal.feed.read.bind(journal.feed)
  let isHolding = false
  let held: (() => void)[] = []
  journal.feed.read = async (query: FeedQuery): Promise<FeedPage> => {
    // What is read is what there is when it is asked for; the answer is late.
    const page = await read(query)
    if (isHolding) await new Promise<void>(resolve => held.push(resolve))
    return page
  }
  const umbra = await openUmbra(journal, { engine: { beatSeconds: 0.05, leaseSeconds: 30 }, ...options })
  return {
    umbra,
    hold() {
      isHolding = true
    },
    get held() {
      return held.length
    },
    letGo() {
      isHolding = false
      for (const go of held) go()
      held = []
    },
    async owner(owner, after) {
      const sink = new ListSink()
      const position = after === undefined ? null : readPosition(after)
      if (position === "malformed") throw new Error(`${after} is no position`)
      const stream = new OwnerStream({ feed: umbra.feed, owner, after: position, sink })
      await stream.begin()
      return { sink, stream }
    },
    async job(owner, jobId) {
      const sink = new ListSink()
      const stream = new JobStream({ feed: umbra.feed, owner, jobId, after: null, sink })
      await stream.begin()
      return { sink, stream }
    },
  }
}
