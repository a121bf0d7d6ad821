/** `GET /jobs/stream`: all jobs of an owner. */
import { type FeedFact, type FeedRange, inFeedOrder } from "../journal/port/feed.ts"
import type { Feed, Following } from "./feed.ts"
import { type OwnerChange, ownerFrames } from "./frames.ts"
import { INLINE_BYTES, KnownJobs } from "./known-jobs.ts"
import { tellFacts } from "./page.ts"
import type { Position } from "./position.ts"
import { type Sink, Stream } from "./stream.ts"
import type { OwnerNews } from "./watches.ts"

export interface OwnerStreamParts {
  readonly feed: Feed
  readonly owner: string
  /** Where the client says that it stands; `unknown`: at a position that means nothing here. */
  readonly after: Position | "unknown" | null
  readonly sink: Sink
}

/** What is nearly as old as what is removed may be incomplete. */
const SHARE_OF_RETENTION = 0.9
/** Facts of one partition in a page. */
const PAGE = 1000

export class OwnerStream extends Stream<OwnerNews> {
  readonly #parts: OwnerStreamParts
  #store = ""
  /** The client has everything up to here, which may be ahead of what this process has told; null: it is not. */
  #floor: readonly number[] | null = null

  constructor(parts: OwnerStreamParts) {
    super(parts.sink)
    this.#parts = parts
  }

  begin(): Promise<void> {
    const { feed, owner } = this.#parts
    return this.open(() => feed.followOwner(owner, this))
  }

  protected override async catchUp({ store, seqs }: Following): Promise<void> {
    const { after } = this.#parts
    this.#store = store
    if (after === null) return this.#snapshot()
    if (after === "unknown" || after.store !== store || after.seqs.length !== seqs.length)
      this.reset("unknown_position")
    else {
      const upTo = await this.#upTo(after, seqs)
      const missed = this.#isTooOld(after) ? null : await this.#missed(after, upTo)
      if (missed !== null) {
        if (missed.length > 0) this.sink.write(Buffer.from(ownerFrames(store, missed)))
        this.#floor = furthest(after.seqs, upTo)
        return
      }
      this.reset("too_far_behind")
    }
    return this.#snapshot()
  }

  protected override pass(news: OwnerNews): void {
    const floor = this.#floor
    if (floor === null) {
      this.sink.write(news.bytes)
      return
    }
    const fresh = news.changes
      .filter(({ partition, seq }) => seq > floor[partition]!)
      // What this process has not told yet, but the client has: its next position must not lose it.
      .map(change => ({ ...change, seqs: furthest(change.seqs, floor) }))
    if (fresh.length > 0) this.sink.write(Buffer.from(ownerFrames(this.#store, fresh)))
    if (news.seqs.every((seq, partition) => seq >= floor[partition]!)) this.#floor = null
  }

  /** Jobs that ended after it may have been removed since. */
  #isTooOld({ at }: Position): boolean {
    const { retentionSeconds, now } = this.#parts.feed.parts
    return retentionSeconds !== null && at < now() - SHARE_OF_RETENTION * 1000 * retentionSeconds
  }

  /** A client that was told more by another process: then as far as the store is. */
  async #upTo(after: Position, seqs: readonly number[]): Promise<readonly number[]> {
    const isAhead = after.seqs.some((seq, partition) => seq > seqs[partition]!)
    return isAhead ? (await this.#parts.feed.parts.journal.feed.position()).seqs : seqs
  }

  async #snapshot(): Promise<void> {
    const { feed, owner } = this.#parts
    const { bytes, seqs } = await feed.snapshots.owner(owner, this.#store)
    this.sink.write(bytes)
    this.#floor = seqs
  }

  /** The changes between the client's position and this process's; null: too many. */
  async #missed(after: Position, upTo: readonly number[]): Promise<OwnerChange[] | null> {
    const { feed, owner } = this.#parts
    const facts = await factsBetween(feed, owner, after, upTo)
    if (facts === null) return null
    // States of its own: those that the feed knows are of another time.
    const told = await tellFacts(feed.parts, facts, { known: new KnownJobs(0), withNodes: () => false })
    const seqs = [...after.seqs]
    const missed: OwnerChange[] = []
    for (const { row, changes } of told) {
      seqs[row.partition] = row.seq
      for (const change of changes)
        if (!(isPartlyTold(after, row) && change.place <= after.place))
          missed.push({ ...change, partition: row.partition, seqs: [...seqs] })
    }
    return missed
  }
}

/** Of a fact that was told in part the rest is missed. null: too many. */
async function factsBetween(
  { parts: { journal, settings } }: Feed,
  owner: string,
  after: Position,
  upTo: readonly number[],
): Promise<FeedFact[] | null> {
  let ranges: FeedRange[] = upTo
    .map((seq, partition) => ({ partition, after: beginOf(after, partition), upTo: seq }))
    .filter(range => range.upTo > range.after)
  const facts: FeedFact[] = []
  let looked = 0
  while (ranges.length > 0) {
    const page = await journal.feed.read({ ranges, owners: [owner], limit: PAGE, inlineBytes: INLINE_BYTES })
    facts.push(...page.facts)
    for (const reach of page.reached) looked += reach.looked
    if (facts.length > settings.catchUpFacts || looked > settings.catchUpLooked) return null
    ranges = page.reached
      .filter(({ isMore }) => isMore)
      .map(({ partition, seq }) => ({ partition, after: seq, upTo: upTo[partition]! }))
  }
  // First the rest of a fact that was told in part: no other position could say that it is still to come.
  const isFirst = (fact: FeedFact) => Number(isPartlyTold(after, fact))
  return facts.sort((a, b) => isFirst(b) - isFirst(a) || inFeedOrder(a, b))
}

function beginOf({ seqs, partition: told }: Position, partition: number): number {
  return told === partition ? seqs[partition]! - 1 : seqs[partition]!
}

function isPartlyTold(after: Position, { partition, seq }: FeedFact): boolean {
  return partition === after.partition && seq === after.seqs[partition]
}

function furthest(a: readonly number[], b: readonly number[]): number[] {
  return a.map((seq, partition) => Math.max(seq, b[partition]!))
}
