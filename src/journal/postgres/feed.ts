import {
  type FeedFact,
  type FeedPage,
  type FeedQuery,
  type FeedStart,
  inFeedOrder,
  type JournalFeed,
} from "../port/feed.ts"
import { type Database, SqlStore } from "./database.ts"

/** Above every seq. */
const NO_END = Number.MAX_SAFE_INTEGER

/** The feed on PostgreSQL. */
export class SqlFeed extends SqlStore implements JournalFeed {
  readonly notify: JournalFeed["notify"]
  readonly listen: JournalFeed["listen"]

  constructor(database: Database, { notify, listen }: Pick<JournalFeed, "notify" | "listen">) {
    super(database)
    this.notify = notify
    this.listen = listen
  }

  async position() {
    return (await this.first<{ store: string; seqs: number[] }>("feedPosition"))!
  }

  async start(query: Parameters<JournalFeed["start"]>[0]) {
    return (await this.first<FeedStart>("feedStart", query))!
  }

  async read({ ranges, ...query }: FeedQuery): Promise<FeedPage> {
    if (ranges.length === 0) return { reached: [], facts: [] }
    const found = await this.database.query<FeedFact & { readonly looked: number | null }>("feedRead", {
      ...query,
      partitions: ranges.map(range => range.partition),
      after: ranges.map(range => range.after),
      upTo: ranges.map(range => range.upTo ?? NO_END),
    })
    return {
      reached: found.flatMap(({ partition, seq, looked }) =>
        looked === null ? [] : [{ partition, seq, looked, isMore: looked >= query.limit }],
      ),
      facts: found.flatMap(({ looked, ...fact }) => (looked === null ? [fact] : [])).sort(inFeedOrder),
    }
  }
}
