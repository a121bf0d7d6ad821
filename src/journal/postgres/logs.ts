import type { LoggedLines } from "../../log.ts"
import { isDuplicate } from "../errors.ts"
import { FIELD, plain, records } from "../joined-text.ts"
import type { LogExtent, LoggedAttempt, LogQuery, LogRow, LogStore } from "../port/logs.ts"
import { SqlStore } from "./database.ts"

/** The number of removed jobs whose rows one statement removes. */
const ORPHANS_PAGE = 100

/** Log lines on PostgreSQL. */
export class SqlLogs extends SqlStore implements LogStore {
  async write(rows: readonly LoggedLines[]): Promise<void> {
    const values = [records(rows, logRecord)]
    for (;;) {
      try {
        await this.database.append("writeLogs", values)
        return
      } catch (error) {
        // Another process has stored rows of the same job: the next statement chooses later positions.
        if (!isDuplicate(error)) throw error
      }
    }
  }

  async read(query: LogQuery) {
    const values = { ...query, direction: query.downwards ? -1 : 1 }
    if (query.nodeId === undefined) return this.database.query<LogRow>("readLogs", values)
    return this.database.query<LogRow>(query.item === undefined ? "readNodeLogs" : "readItemLogs", values)
  }

  async extents(jobId: string, attempts: readonly LoggedAttempt[]) {
    const list = records(attempts, ({ nodeId, item, fence, attempt, runId = 0 }) =>
      [plain(nodeId), item, fence, attempt, runId].join(FIELD),
    )
    return this.database.query<LogExtent>("readLogExtents", { jobId, attempts: list })
  }

  async purgeRows({ limit }: Parameters<LogStore["purgeRows"]>[0]) {
    return this.counted("purgeLogs", { limit, orphans: ORPHANS_PAGE })
  }
}

function logRecord(row: LoggedLines): string {
  const { jobId, nodeId, item, fence, attempt, runId = 0, firstLine, lastLine, level, lines } = row
  const key = [jobId, plain(nodeId), item, fence, attempt, runId]
  return [...key, firstLine, lastLine, level, plain(lines)].join(FIELD)
}
