/**
 * The feed on one SQLite connection. Nothing else runs between the statements of a method: each reads one
 * state.
 */
import type { FeedFact, FeedPage, FeedQuery, FeedRange, FeedStart, JournalFeed } from "../port/feed.ts"
import { inFeedOrder } from "../port/feed.ts"
import { SqliteStore, type Sync } from "./database.ts"

export class SqliteFeed extends SqliteStore implements Sync<JournalFeed> {
  position(): { readonly store: string; readonly seqs: readonly number[] } {
    const store = this.connection.get<{ id: string }>("select id from store")!.id
    return { store, seqs: this.#seqs() }
  }

  start({ owner, limit }: Parameters<JournalFeed["start"]>[0]): FeedStart {
    const sql = "select id from jobs where owner = ? and finished_at is null order by id desc limit ?"
    return { seqs: this.#seqs(), jobs: this.ids(sql, owner, limit) }
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
    const looked = this.connection.get<{ seq: number | null; count: number }>(
      `select max(seq) as seq, count(*) as count from (
         select seq from journal where partition = @partition and seq > @after and seq <= @head order by seq limit @limit
       )`,
      { partition, after, head, limit },
    )!
    const isMore = looked.count >= limit
    const seq = isMore ? looked.seq! : head
    const reached = [{ partition, seq, looked: looked.count, isMore }]
    const facts = this.connection.all<FeedFact>(
      `select f.partition, j.owner, f.job_id as jobId, f.seq, f.at, f.type,
         case when f.bytes <= @inline_bytes then f.data end as data, f.bytes
       from journal as f join jobs as j on j.id = f.job_id
       where f.partition = @partition and f.seq > @after and f.seq <= @seq
         and (@owners is null or j.owner in (select value from json_each(@owners)))
       order by f.seq`,
      { partition, after, seq, inlineBytes, owners },
    )
    return { reached, facts }
  }

  #head(partition: number): number {
    const sql = "select coalesce(max(seq), 0) as seq from journal where partition = ?"
    return this.connection.get<{ seq: number }>(sql, partition)!.seq
  }

  #seqs(): number[] {
    const partitions = this.connection.all<{ id: number }>("select id from partitions order by id")
    return partitions.map(({ id }) => this.#head(id))
  }
}
