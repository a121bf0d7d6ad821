import { type FeedPage, type FeedQuery, type FeedStart, inFeedOrder, type JournalFeed } from "../port/feed.ts"
import type { Database, Row } from "./database.ts"
import { arrayLiteral, textArrayLiteral } from "./encode.ts"
import * as rows from "./rows.ts"

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
    const found = await this.#database.query("feedPosition", [])
    return { store: rows.text(found[0], 2), seqs: found.map(row => rows.number(row, 1)) }
  }

  async start({ owner, limit }: { readonly owner: string; readonly limit: number }): Promise<FeedStart> {
    const found = await this.#database.query("feedStart", [owner, String(limit)])
    const seqs: number[] = []
    for (const row of of(found, "position")) seqs[rows.number(row, 1)] = rows.number(row, 2)
    const jobs = of(found, "job").map(row => rows.text(row, 1))
    return { seqs, jobs: jobs.sort().reverse() }
  }

  async read({ ranges, owners, limit, inlineBytes }: FeedQuery): Promise<FeedPage> {
    if (ranges.length === 0) return { reached: [], facts: [] }
    const found = await this.#database.query("feedRead", [
      arrayLiteral(ranges.map(range => range.partition)),
      arrayLiteral(ranges.map(range => range.after)),
      arrayLiteral(ranges.map(range => range.upTo ?? NO_END)),
      owners === null ? null : textArrayLiteral(owners),
      String(limit),
      String(inlineBytes),
    ])
    const looked = new Map(of(found, "looked").map(row => [rows.number(row, 1), row]))
    const reached = of(found, "head").map(row => {
      const partition = rows.number(row, 1)
      const counted = looked.get(partition)
      const count = counted === undefined ? 0 : rows.number(counted, 3)
      const isMore = count >= limit
      return { partition, seq: rows.number(isMore ? counted : row, 2), looked: count, isMore }
    })
    return { reached, facts: of(found, "fact").map(toFact).sort(inFeedOrder) }
  }

  notify(payload: string): void {
    this.#notifications?.notify(payload)
  }
}

function of(found: readonly Row[], kind: string): Row[] {
  return found.filter(row => row[0] === kind)
}

function toFact(row: Row) {
  return {
    partition: rows.number(row, 1),
    ...rows.factRow(row.slice(2)),
    owner: rows.text(row, 8),
  }
}
