/** Retention of jobs: `purge` and `purgeFacts`, inside a transaction of the caller. */
import type * as port from "../port/journal.ts"
import { heldPartitions } from "./append.ts"
import { list, type SqliteConnection } from "./database.ts"

/**
 * A job with facts beyond the limit becomes an orphan, and the jobs after it stay. A pipeline may have millions of rows: they are only marked, and
 * `purgeLineage` removes them in pages; so are the jobs whose log rows `logs.purgeRows` removes.
 */
export function purge(
  connection: SqliteConnection,
  { fences, jobIds, before, limit }: Parameters<port.Journal["purge"]>[0],
): number {
  const held = heldPartitions(connection, fences)
  const ended = connection
    .all<{ id: string; seq: number; partition: number }>(
      `select id, seq, partition from jobs as j
       where id in (select value from json_each(?)) and finished_at < ?
         and seq <= (select w.seq from statistics_watermarks as w where w.partition = j.partition)
         and not exists (select 1 from held where held.held = j.id)`,
      list(jobIds),
      before,
    )
    .filter(job => held.has(job.partition))
  let left = limit
  let purged = 0
  for (const { id, seq } of ended) {
    if (left === 0) break
    left -= removeFacts(connection, { jobId: id, seq }, left)
    if (left === 0)
      connection.run("insert or replace into journal_orphans (job_id, seq) values (?, ?)", id, seq)
    connection.run("delete from idempotency_keys where job_id = ?", id)
    connection.run("delete from operations where job_id = ?", id)
    connection.run("delete from slots where job_id = ?", id)
    connection.run("delete from held where by = ?", id)
    connection.run(
      "insert or ignore into log_orphans (job_id) select ?1 where exists (select 1 from node_logs where job_id = ?1)",
      id,
    )
    connection.run(
      "update executions set is_orphan = 1, ended_at = coalesce(ended_at, ?) where job_id = ? and is_orphan = 0",
      before,
      id,
    )
    connection.run("delete from jobs where id = ?", id)
    purged++
  }
  return purged
}

export function purgeFacts(connection: SqliteConnection, limit: number): number {
  let removed = 0
  while (removed < limit) {
    const orphan = connection.get<Orphan>("select job_id as jobId, seq from journal_orphans limit 1")
    if (orphan === undefined) break
    removed += removeFacts(connection, orphan, limit - removed)
    if (removed < limit)
      removed += connection.run("delete from journal_orphans where job_id = ?", orphan.jobId)
  }
  return removed
}

interface Orphan {
  readonly jobId: string
  readonly seq: number
}

function removeFacts(connection: SqliteConnection, { jobId, seq }: Orphan, limit: number): number {
  const sql = `delete from journal
   where job_id = ?1 and seq in (select seq from journal where job_id = ?1 and seq <= ?2 order by seq limit ?3)`
  return connection.run(sql, jobId, seq, limit)
}
