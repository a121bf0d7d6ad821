/**
 * The part of the storage contract that live streams read: what was committed since a position.
 *
 * 1. A position is one seq per partition. A partition has one writer with one append in flight, and a new
 *    owner starts above everything its predecessor wrote: facts become visible in the order of their seqs. So
 *    a reader that continues from a position misses nothing and sees nothing twice, in any process and after
 *    any failure.
 * 2. Every method reads one state of the store.
 * 3. Notifications to other processes are hints: losing one only costs time.
 */
export interface JournalFeed {
  position(): Promise<{
    /** Positions of another store are not valid here. */
    readonly store: string
    /** By partition, the seq of its last fact; 0: it has none. */
    readonly seqs: readonly number[]
  }>
  /**
   * The newest jobs of the owner that have not ended, newest first, and the position at which this was their
   * state.
   */
  start(query: { readonly owner: string; readonly limit: number }): Promise<FeedStart>
  read(query: FeedQuery): Promise<FeedPage>

  /** Notifies every process that listens, this one too. */
  notify(payload: string): void
  /** null: there are no other processes. */
  readonly listen: ((listener: (payload: string) => void) => Promise<() => Promise<void>>) | null
}

export interface FeedStart {
  readonly seqs: readonly number[]
  readonly jobs: readonly string[]
}

export interface FeedQuery {
  /** Facts after `after`, up to `upTo` if it is given. */
  readonly ranges: readonly FeedRange[]
  /** The owners of the jobs; null: all owners. */
  readonly owners: readonly string[] | null
  /** The maximum number of facts read per partition, including those of other owners. */
  readonly limit: number
  /** Larger data is left out: it is null, and `bytes` is its size. */
  readonly inlineBytes: number
}

export interface FeedRange {
  readonly partition: number
  readonly after: number
  readonly upTo?: number
}

export interface FeedPage {
  /** Partitions with new facts, and how far they were read. */
  readonly reached: readonly FeedReach[]
  /** By partition and seq. */
  readonly facts: readonly FeedFact[]
}

export interface FeedReach {
  readonly partition: number
  readonly seq: number
  readonly looked: number
  /** The limit was reached: continue from here. */
  readonly isMore: boolean
}

export interface FeedFact {
  readonly partition: number
  readonly owner: string
  readonly jobId: string
  readonly seq: number
  readonly at: number
  readonly type: string
  readonly data: string | null
  readonly bytes: number
}

export function inFeedOrder(
  a: { readonly partition: number; readonly seq: number },
  b: { readonly partition: number; readonly seq: number },
): number {
  return a.partition - b.partition || a.seq - b.seq
}
