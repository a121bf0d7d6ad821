/** Log lines on one SQLite connection: each method is one transaction. */
import type { LoggedLines } from "../../../log.ts"
import type { LogExtent, LoggedAttempt, LogQuery, LogRow, LogStore } from "../../port/logs.ts"
import { type Connection, freeText, type Sync } from "../database.ts"

const WRITE = `
insert into node_logs (job_id, position, node_id, item, fence, attempt, first_line, last_line, level, bytes, lines)
select ?1, coalesce((select max(position) from node_logs where job_id = ?1), 0) + 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10
where exists (select 1 from jobs where id = ?1)
on conflict (job_id, node_id, item, fence, first_line) do nothing`

const OF_ATTEMPT = "from node_logs where job_id = ?1 and node_id = ?2 and item = ?3 and fence = ?4"

const EXTENT = `
select
  coalesce((select last_line ${OF_ATTEMPT} order by first_line desc limit 1), 0) as lastLine,
  (select position ${OF_ATTEMPT} order by first_line limit 1) as first,
  (select position ${OF_ATTEMPT} order by first_line desc limit 1) as last,
  exists (
    select 1 from node_logs where job_id = ?1 and node_id = ?2 and item = ?3 and fence < ?4 and attempt = ?5
  ) as isRepeated`

/** `+`: their rows are few enough to be sorted, not by an index of positions. */
const reading = (condition: string, position: "position" | "+position", isDownwards: boolean) => {
  const direction = isDownwards ? "desc" : "asc"
  return `
select
  l.position, l.node_id as nodeId, l.item, l.fence, l.attempt, l.first_line as firstLine, l.last_line as lastLine, l.level,
  l.first_line - 1 - coalesce((
    select b.last_line from node_logs as b
    where b.job_id = l.job_id and b.node_id = l.node_id and b.item = l.item and b.fence = l.fence
      and b.first_line < l.first_line
    order by b.first_line desc limit 1
  ), 0) as lost,
  case when l.level >= ?3 and coalesce(sum(l.bytes) filter (where l.level >= ?3) over (
    order by l.position ${direction} rows between unbounded preceding and 1 preceding
  ), 0) < ?5 then (select lines from node_logs where job_id = l.job_id and position = l.position) end as lines
from (
  select job_id, position, node_id, item, fence, attempt, first_line, last_line, level, bytes from node_logs
  where ${condition} and ${position} ${isDownwards ? "<=" : ">="} ?2 order by ${position} ${direction} limit ?4
) as l
order by l.position ${direction}`
}

const [upwards, downwards] = [false, true].map(isDownwards => ({
  ofJob: reading("job_id = ?1", "position", isDownwards),
  ofNode: reading("job_id = ?1 and node_id = ?6 and (?7 is null or attempt = ?7)", "position", isDownwards),
  ofItem: reading(
    "job_id = ?1 and node_id = ?6 and item = ?8 and (?7 is null or attempt = ?7)",
    "+position",
    isDownwards,
  ),
})) as [Readings, Readings]

type Readings = Record<"ofJob" | "ofNode" | "ofItem", string>

export class SqliteLogs implements Sync<LogStore> {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  write(rows: readonly LoggedLines[]): void {
    this.#connection.unsynced(() => {
      for (const row of rows) this.#write(row)
    })
  }

  #write(row: LoggedLines): void {
    const { jobId, nodeId, item, fence, attempt, firstLine, lastLine, level, lines } = row
    const key = [freeText(jobId), freeText(nodeId), item, fence, attempt, firstLine, lastLine] as const
    this.#connection.run(WRITE, ...key, level, Buffer.byteLength(lines), freeText(lines))
  }

  read(query: LogQuery): LogRow[] {
    const { jobId, nodeId, item, attempt, level, from, limit, maxBytes } = query
    const { ofJob, ofNode, ofItem } = query.downwards ? downwards : upwards
    const page = [jobId, from, level, limit, maxBytes] as const
    if (nodeId === undefined) return this.#connection.all(ofJob, ...page)
    if (item === undefined) return this.#connection.all(ofNode, ...page, nodeId, attempt ?? null)
    return this.#connection.all(ofItem, ...page, nodeId, attempt ?? null, item)
  }

  extents(jobId: string, attempts: readonly LoggedAttempt[]): LogExtent[] {
    return attempts.map(({ nodeId, item, fence, attempt }) => {
      const key = [jobId, nodeId, item, fence, attempt] as const
      const found = this.#connection.get<Omit<LogExtent, "isRepeated"> & { isRepeated: number }>(
        EXTENT,
        ...key,
      )!
      return { ...found, isRepeated: found.isRepeated === 1 }
    })
  }

  purgeRows({ limit }: Parameters<LogStore["purgeRows"]>[0]): number {
    return this.#connection.transaction(() => {
      let removed = 0
      while (removed < limit) {
        const { jobId } = this.#connection.get<{ jobId: string | null }>(
          "select min(job_id) as jobId from log_orphans",
        )!
        if (jobId === null) break
        removed += this.#connection.run(
          `delete from node_logs where job_id = ?1
             and position in (select position from node_logs where job_id = ?1 order by position limit ?2)`,
          jobId,
          limit - removed,
        )
        if (removed < limit) this.#connection.run("delete from log_orphans where job_id = ?", jobId)
      }
      return removed
    })
  }
}
