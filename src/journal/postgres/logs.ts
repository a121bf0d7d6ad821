import type { LoggedLines } from "../../log.ts"
import { isDuplicate } from "../errors.ts"
import { FIELD, plain, records } from "../joined-text.ts"
import type { LogExtent, LoggedAttempt, LogQuery, LogRow, LogStore } from "../port/logs.ts"
import type { Database } from "./database.ts"

/** The number of removed jobs whose rows one statement removes. */
const ORPHANS_PAGE = 100

/** Log lines on PostgreSQL. */
export class SqlLogs implements LogStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async write(rows: readonly LoggedLines[]): Promise<void> {
    const values = [records(rows, logRecord)]
    for (;;) {
      try {
        await this.#database.append("writeLogs", values)
        return
      } catch (error) {
        // Another process has stored rows of the same job: the next statement chooses later positions.
        if (!isDuplicate(error)) throw error
      }
    }
  }

  async read({ jobId, nodeId, item, attempt, level, from, downwards, limit, maxBytes }: LogQuery) {
    const page = [jobId, from, level, limit, maxBytes, downwards ? -1 : 1]
    if (nodeId === undefined) return this.#database.query<LogRow>("readLogs", page)
    if (item === undefined) return this.#database.query<LogRow>("readNodeLogs", [...page, nodeId, attempt])
    return this.#database.query<LogRow>("readItemLogs", [...page, nodeId, attempt, item])
  }

  async extents(jobId: string, attempts: readonly LoggedAttempt[]) {
    const list = records(attempts, ({ nodeId, item, fence, attempt }) =>
      [plain(nodeId), item, fence, attempt].join(FIELD),
    )
    return this.#database.query<LogExtent>("readLogExtents", [jobId, list])
  }

  async purgeRows({ limit }: Parameters<LogStore["purgeRows"]>[0]) {
    const values = [limit, ORPHANS_PAGE]
    return (await this.#database.query<{ count: number }>("purgeLogs", values))[0]!.count
  }
}

function logRecord(row: LoggedLines): string {
  const { jobId, nodeId, item, fence, attempt, firstLine, lastLine, level, lines } = row
  return [jobId, plain(nodeId), item, fence, attempt, firstLine, lastLine, level, plain(lines)].join(FIELD)
}
