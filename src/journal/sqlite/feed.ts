/**
 * The feed on one SQLite connection. Nothing else runs between the statements of a method: each reads one
 * state.
 */
import type { FeedFact, FeedPage, FeedQuery, FeedRange, FeedStart, JournalFeed } from "../port/feed.ts"
import { inFeedOrder } from "../port/feed.ts"
import { type Connection, list, type Sync } from "./database.ts"

export class SqliteFeed implements Sync<JournalFeed> {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  position(): { readonly store: string; readonly seqs: readonly number[] } {
    const store = this.#connection.get<{ id: string }>("select id from store")!.id
    return { store, seqs: this.#seqs() }
  }

  start({ owner, limit }: { readonly owner: string; readonly limit: number }): FeedStart {
    const sql = "select id from jobs where owner = ? and finished_at is null order by id desc limit ?"
    const jobs = this.#connection.all<{ id: string }>(sql, owner, limit).map(({ id }) => id)
    return { seqs: this.#seqs(), jobs }
  }

  read(query: FeedQuery): FeedPage {
    const pages = query.ranges.map(range => this.#readRange(range, query))
    return {
      reached: pages.flatMap(({ reached }) => reached),
      facts: pages.flatMap(({ facts }) => facts).sort(inFeedOrder),
    }
  }

  #readRange({ partition, after, upTo }: FeedRange, { owners, limit, inlineBytes }: FeedQuery): FeedPage {
    const head = Math.min(upTo ?? Number.POSITIVE_INFINITY, this.#head(partition))
    if (head <= after) return { reached: [], facts: [] }
    const looked = this.#connection.get<{ seq: number | null; count: number }>(
      `select max(seq) as seq, count(*) as count from (
         select seq from journal where partition = ? and seq > ? and seq <= ? order by seq limit ?
       )`,
      partition,
      after,
      head,
      limit,
    )!
    const isMore = looked.count >= limit
    const seq = isMore ? looked.seq! : head
    const reached = [{ partition, seq, looked: looked.count, isMore }]
    return { reached, facts: this.#facts({ partition, after, upTo: seq }, owners, inlineBytes) }
  }

  #facts(range: Required<FeedRange>, owners: readonly string[] | null, inlineBytes: number): FeedFact[] {
    const { partition, after, upTo } = range
    return this.#connection.all(
      `select f.partition, j.owner, f.job_id as jobId, f.seq, f.at, f.type,
         case when f.bytes <= ?4 then f.data end as data, f.bytes
       from journal as f join jobs as j on j.id = f.job_id
       where f.partition = ?1 and f.seq > ?2 and f.seq <= ?3
         and (?5 is null or j.owner in (select value from json_each(?5)))
       order by f.seq`,
      partition,
      after,
      upTo,
      inlineBytes,
      owners === null ? null : list(owners),
    )
  }

  #head(partition: number): number {
    const sql = "select coalesce(max(seq), 0) as seq from journal where partition = ?"
    return this.#connection.get<{ seq: number }>(sql, partition)!.seq
  }

  #seqs(): number[] {
    const partitions = this.#connection.all<{ id: number }>("select id from partitions order by id")
    return partitions.map(({ id }) => this.#head(id))
  }
}
