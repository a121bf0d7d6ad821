/** `GET /jobs/stream`: all jobs of an owner. */

import { type FeedFact, type FeedRange, inFeedOrder } from "../journal/port/feed.ts"
import { expandFacts } from "./changes.ts"
import type { Feed, Following } from "./feed.ts"
import { type OwnerChange, ownerFrames } from "./frames.ts"
import { INLINE_BYTES, KnownJobs } from "./known-jobs.ts"
import type { Position } from "./position.ts"
import { type Sink, Stream } from "./stream.ts"
import type { OwnerChanges } from "./watches.ts"

export interface OwnerStreamParts {
  readonly feed: Feed
  readonly owner: string
  /** The position that the client sent; `unknown`: a position that is not valid here. */
  readonly after: Position | "unknown" | null
  readonly sink: Sink
}

/** Facts almost as old as the retention time may be incomplete. */
const SHARE_OF_RETENTION = 0.9
/** Facts of one partition in a page. */
const PAGE = 1000

export class OwnerStream extends Stream<OwnerChanges> {
  readonly #parts: OwnerStreamParts
  #store = ""
  /** The client has everything up to here, which may be ahead of this process; null: it is not ahead. */
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

  protected override pass(batch: OwnerChanges): void {
    const floor = this.#floor
    if (floor === null) {
      this.sink.write(batch.bytes)
      return
    }
    const fresh = batch.changes
      .filter(({ partition, seq }) => seq > floor[partition]!)
      // The client has changes that this process has not delivered yet: its next position must include them.
      .map(change => ({ ...change, seqs: furthest(change.seqs, floor) }))
    if (fresh.length > 0) this.sink.write(Buffer.from(ownerFrames(this.#store, fresh)))
    if (batch.seqs.every((seq, partition) => seq >= floor[partition]!)) this.#floor = null
  }

  /** Jobs that ended after this position may have been removed since. */
  #isTooOld({ at }: Position): boolean {
    const { retentionSeconds, now } = this.#parts.feed.parts
    return retentionSeconds !== null && at < now() - SHARE_OF_RETENTION * 1000 * retentionSeconds
  }

  /** The target of the catch-up: if another process delivered more to the client, the current end of the store. */
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
    // With its own states: those of the feed are of another position.
    const expanded = await expandFacts(feed.parts, facts, { known: new KnownJobs(0), withNodes: () => false })
    const seqs = [...after.seqs]
    const missed: OwnerChange[] = []
    for (const { row, changes } of expanded) {
      seqs[row.partition] = row.seq
      for (const change of changes)
        if (!(isPartlyDelivered(after, row) && change.place <= after.place))
          missed.push({ ...change, partition: row.partition, seqs: [...seqs] })
    }
    return missed
  }
}

/** Includes the rest of a fact that was delivered in part. null: too many. */
async function factsBetween(
  { parts: { journal, settings } }: Feed,
  owner: string,
  after: Position,
  upTo: readonly number[],
): Promise<FeedFact[] | null> {
  let ranges: FeedRange[] = upTo
    .map((seq, partition) => ({ partition, after: rangeStart(after, partition), upTo: seq }))
    .filter(range => range.upTo > range.after)
  const facts: FeedFact[] = []
  let scanned = 0
  while (ranges.length > 0) {
    const page = await journal.feed.read({ ranges, owners: [owner], limit: PAGE, inlineBytes: INLINE_BYTES })
    facts.push(...page.facts)
    for (const reach of page.reached) scanned += reach.looked
    if (facts.length > settings.catchUpFacts || scanned > settings.catchUpLooked) return null
    ranges = page.reached
      .filter(({ isMore }) => isMore)
      .map(({ partition, seq }) => ({ partition, after: seq, upTo: upTo[partition]! }))
  }
  // First the rest of a fact that was delivered in part: no other position could express that it is still missing.
  const isFirst = (fact: FeedFact) => Number(isPartlyDelivered(after, fact))
  return facts.sort((a, b) => isFirst(b) - isFirst(a) || inFeedOrder(a, b))
}

function rangeStart({ seqs, partition: partlyDelivered }: Position, partition: number): number {
  return partlyDelivered === partition ? seqs[partition]! - 1 : seqs[partition]!
}

function isPartlyDelivered(after: Position, { partition, seq }: FeedFact): boolean {
  return partition === after.partition && seq === after.seqs[partition]
}

function furthest(a: readonly number[], b: readonly number[]): number[] {
  return a.map((seq, partition) => Math.max(seq, b[partition]!))
}
