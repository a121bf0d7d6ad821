import {
  type FeedFact,
  type FeedPage,
  type FeedQuery,
  type FeedStart,
  inFeedOrder,
  type JournalFeed,
} from "../port/feed.ts"
import type { Database } from "./database.ts"

/** How the notifications of the feed reach other processes; absent where there are no others. */
export interface FeedNotifications {
  notify(payload: string): void
  listen(listener: (notifications: string) => void): Promise<() => Promise<void>>
}

/** Above every seq. */
const NO_END = Number.MAX_SAFE_INTEGER

/** The feed on PostgreSQL. */
export class SqlFeed implements JournalFeed {
  readonly listen: JournalFeed["listen"]
  readonly #database: Database
  readonly #notifications: FeedNotifications | null

  constructor(database: Database, notifications: FeedNotifications | null) {
    this.#database = database
    this.#notifications = notifications
    this.listen = notifications?.listen.bind(notifications) ?? null
  }

  async position() {
    return (await this.#database.query<{ store: string; seqs: number[] }>("feedPosition", []))[0]!
  }

  async start({ owner, limit }: { readonly owner: string; readonly limit: number }): Promise<FeedStart> {
    return (await this.#database.query<FeedStart>("feedStart", [owner, limit]))[0]!
  }

  async read({ ranges, owners, limit, inlineBytes }: FeedQuery): Promise<FeedPage> {
    if (ranges.length === 0) return { reached: [], facts: [] }
    const found = await this.#database.query<FeedFact & { readonly looked: number | null }>("feedRead", [
      ranges.map(range => range.partition),
      ranges.map(range => range.after),
      ranges.map(range => range.upTo ?? NO_END),
      owners,
      limit,
      inlineBytes,
    ])
    return {
      reached: found.flatMap(({ partition, seq, looked }) =>
        looked === null ? [] : [{ partition, seq, looked, isMore: looked >= limit }],
      ),
      facts: found.flatMap(({ looked, ...fact }) => (looked === null ? [fact] : [])).sort(inFeedOrder),
    }
  }

  notify(payload: string): void {
    this.#notifications?.notify(payload)
  }
}
