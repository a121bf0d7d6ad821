/** Log lines on one SQLite connection: each method is one transaction. */
import type { LoggedLines } from "../../../log.ts"
import type { LogExtent, LoggedAttempt, LogQuery, LogRow, LogStore } from "../../port/logs.ts"
import { SqliteStore, type Sync } from "../database.ts"

const OF_ATTEMPT =
  "from node_logs where job_id = @job_id and node_id = @node_id and item = @item and fence = @fence"

const LAST_OF_RUN = `${OF_ATTEMPT} and run_id = @run_id order by run desc, first_line desc limit 1`

/** Not rows with lines that come before or among those that are stored of their run. */
const WRITE = `
insert into node_logs
  (job_id, position, node_id, item, fence, attempt, run_id, run, first_line, last_line, level, bytes, lines)
select
  @job_id, coalesce((select max(position) from node_logs where job_id = @job_id), 0) + 1, @node_id, @item, @fence,
  @attempt, @run_id, coalesce((select run ${LAST_OF_RUN}), (select coalesce(max(run), 0) + 1 ${OF_ATTEMPT})),
  @first_line, @last_line, @level, @bytes, @lines
where exists (select 1 from jobs where id = @job_id) and @first_line > coalesce((select last_line ${LAST_OF_RUN}), 0)`

/** Of the runs before this one, the last row of the newest. */
const LAST_ROW = `select run, position, last_line as lastLine, run_id as runId ${OF_ATTEMPT} and run < @before
  order by run desc, first_line desc limit 1`

const EXTENT = `
select
  (select position ${OF_ATTEMPT} order by run, first_line limit 1) as first,
  exists (
    select 1 from node_logs where job_id = @job_id and node_id = @node_id and item = @item and fence < @fence and attempt = @attempt
  ) as isRepeated`

/** `+`: their rows are few enough to be sorted, not by an index of positions. */
const reading = (condition: string, position: "position" | "+position", isDownwards: boolean) => {
  const direction = isDownwards ? "desc" : "asc"
  return `
select
  l.position, l.node_id as nodeId, l.item, l.fence, l.attempt, l.run, l.first_line as firstLine, l.last_line as lastLine, l.level,
  l.first_line - 1 - coalesce((
    select b.last_line from node_logs as b
    where b.job_id = l.job_id and b.node_id = l.node_id and b.item = l.item and b.fence = l.fence
      and b.run = l.run and b.first_line < l.first_line
    order by b.first_line desc limit 1
  ), 0) as lost,
  case when l.level >= @level and coalesce(sum(l.bytes) filter (where l.level >= @level) over (
    order by l.position ${direction} rows between unbounded preceding and 1 preceding
  ), 0) < @max_bytes then (select lines from node_logs where job_id = l.job_id and position = l.position) end as lines
from (
  select job_id, position, node_id, item, fence, attempt, run, first_line, last_line, level, bytes from node_logs
  where ${condition} and ${position} ${isDownwards ? "<=" : ">="} @from order by ${position} ${direction} limit @limit
) as l
order by l.position ${direction}`
}

const OF_NODE = "job_id = @job_id and node_id = @node_id and (@attempt is null or attempt = @attempt)"

const [upwards, downwards] = [false, true].map(isDownwards => ({
  ofJob: reading("job_id = @job_id", "position", isDownwards),
  ofNode: reading(OF_NODE, "position", isDownwards),
  ofItem: reading(`${OF_NODE} and item = @item`, "+position", isDownwards),
})) as [Readings, Readings]

type Readings = Record<"ofJob" | "ofNode" | "ofItem", string>

interface LastRow {
  readonly run: number
  readonly position: number
  readonly lastLine: number
  readonly runId: number
}

export class SqliteLogs extends SqliteStore implements Sync<LogStore> {
  write(rows: readonly LoggedLines[]): void {
    this.connection.unsynced(() => {
      for (const row of rows)
        this.connection.run(WRITE, { runId: 0, ...row, bytes: Buffer.byteLength(row.lines) })
    })
  }

  read(query: LogQuery): LogRow[] {
    const { ofJob, ofNode, ofItem } = query.downwards ? downwards : upwards
    if (query.nodeId === undefined) return this.connection.all(ofJob, query)
    return this.connection.all(query.item === undefined ? ofNode : ofItem, query)
  }

  extents(jobId: string, attempts: readonly LoggedAttempt[]): LogExtent[] {
    return attempts.map(attempt => {
      const of = { jobId, ...attempt }
      let [last, lastLine]: [number | null, number] = [null, 0]
      for (let before = Number.MAX_SAFE_INTEGER; ; ) {
        const row = this.connection.get<LastRow>(LAST_ROW, { ...of, before })
        if (row == null) break
        before = row.run
        last = Math.max(last ?? 0, row.position)
        const { runId = 0 } = attempt
        if (runId === 0 || row.runId === 0 || row.runId === runId) lastLine = Math.max(lastLine, row.lastLine)
      }
      const { first, isRepeated } = this.connection.get<{ first: number | null; isRepeated: number }>(
        EXTENT,
        of,
      )!
      return { lastLine, first, last, isRepeated: isRepeated === 1 }
    })
  }

  purgeRows({ limit }: Parameters<LogStore["purgeRows"]>[0]): number {
    return this.connection.transaction(() => {
      let removed = 0
      while (removed < limit) {
        const [jobId] = this.ids("select min(job_id) as id from log_orphans")
        if (jobId == null) break
        const sql = `delete from node_logs where job_id = ?1
          and position in (select position from node_logs where job_id = ?1 order by position limit ?2)`
        removed += this.connection.run(sql, jobId, limit - removed)
        if (removed < limit) this.connection.run("delete from log_orphans where job_id = ?", jobId)
      }
      return removed
    })
  }
}
