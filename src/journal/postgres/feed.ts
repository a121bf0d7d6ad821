import type * as port from "../port/feed.ts"
import { inFeedOrder } from "../port/feed.ts"
import { type Database, SqlStore } from "./database.ts"

/** Above every seq. */
const NO_END = Number.MAX_SAFE_INTEGER

/** The feed on PostgreSQL. */
export class SqlFeed extends SqlStore implements port.JournalFeed {
  readonly notify: port.JournalFeed["notify"]
  readonly listen: port.JournalFeed["listen"]

  constructor(database: Database, { notify, listen }: Pick<port.JournalFeed, "notify" | "listen">) {
    super(database)
    this.notify = notify
    this.listen = listen
  }

  async position() {
    return (await this.first<{ store: string; seqs: number[] }>("feedPosition"))!
  }

  async start(query: Parameters<port.JournalFeed["start"]>[0]) {
    return (await this.first<port.FeedStart>("feedStart", query))!
  }

  async read({ ranges, ...query }: port.FeedQuery): Promise<port.FeedPage> {
    if (ranges.length === 0) return { reached: [], facts: [] }
    const found = await this.database.query<port.FeedFact & { readonly looked: number | null }>("feedRead", {
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
