/** Retention of pipelines: `purgeLineage`, inside its transaction. */
import { ABANDONED_MS } from "../pipeline-rules.ts"
import type { MessageKey } from "../port/pipelines.ts"
import type { SqliteConnection } from "./database.ts"

/**
 * Returns the number of removed rows. First the rows of removed jobs: all of them are removed, so this is the
 * cheapest part.
 */
export function purgePipelines(
  connection: SqliteConnection,
  { before, limit }: { readonly before: number; readonly limit: number },
): number {
  settleExecutions(connection, before)
  let removed = removeOrphans(connection, limit)
  // One row of lineage may remove its message with it.
  while (removed === 0 || limit - removed > 1) {
    const execution = nextEnded(connection, before)
    if (execution === undefined) break
    removed += trim(connection, execution, limit - removed)
  }
  return removed
}

/**
 * Executions whose job has ended without a record of their own end; and claims whose job was never stored.
 */
function settleExecutions(connection: SqliteConnection, before: number): void {
  connection.run(
    `update executions
     set ended_at = (select j.finished_at from jobs as j where j.id = executions.job_id)
     where ended_at is null
       and exists (
         select 1 from jobs as j where j.id = executions.job_id and j.finished_at >= executions.claimed_at
       )`,
  )
  connection.run(
    `update executions set is_orphan = 1, ended_at = claimed_at
     where ended_at is null and claimed_at < ?
       and not exists (select 1 from jobs as j where j.id = executions.job_id)`,
    before - ABANDONED_MS,
  )
}

const ROWS_OF_EXECUTION = [
  ["pipeline_lineage", "route, seq, attempt, commit_number, place"],
  ["pipeline_messages", "route, seq"],
  ["pipeline_parked", "route, seq"],
  ["pipeline_stored", "key"],
].map(
  ([table, key]) =>
    `delete from ${table} where (execution, ${key}) in (select execution, ${key} from ${table} where execution = ? limit ?)`,
)

/** Removes the rows of executions whose job no longer exists; then the execution. */
function removeOrphans(connection: SqliteConnection, limit: number): number {
  let removed = 0
  while (removed < limit) {
    const orphan = connection.get<{ readonly id: number }>(
      "select id from executions where is_orphan = 1 order by id limit 1",
    )
    if (orphan === undefined) break
    for (const sql of ROWS_OF_EXECUTION)
      if (removed < limit) removed += connection.run(sql, orphan.id, limit - removed)
    if (removed < limit) connection.run("delete from executions where id = ?", orphan.id)
  }
  return removed
}

function nextEnded(connection: SqliteConnection, before: number): number | undefined {
  const row = connection.get<{ readonly id: number }>(
    `select id from executions
     where ended_at is not null and is_trimmed = 0 and ended_at < ? order by ended_at, id limit 1`,
    before,
  )
  return row?.id
}

interface LineageKey extends MessageKey {
  readonly attempt: number
  readonly commit_number: number
  readonly place: number
}

/** Removes lineage and its messages: a message that has lineage and is not parked was acknowledged. */
function trim(connection: SqliteConnection, execution: number, limit: number): number {
  // A message may be removed with each row of lineage.
  const page = Math.max(1, Math.floor(limit / 2))
  const sql = `select route, seq, attempt, commit_number, place from pipeline_lineage
   where execution = ? order by route, seq, attempt, commit_number, place limit ?`
  const rows = connection.all<LineageKey>(sql, execution, page)
  let removed = rows.length
  let last: MessageKey | undefined
  for (const row of rows) {
    const { route, seq, attempt, commit_number: commit, place } = row
    const sql = `delete from pipeline_lineage
     where execution = ? and route = ? and seq = ? and attempt = ? and commit_number = ? and place = ?`
    connection.run(sql, execution, route, seq, attempt, commit, place)
    if (last?.route !== route || last.seq !== seq) removed += removeAcknowledged(connection, execution, row)
    last = row
  }
  if (rows.length < page) connection.run("update executions set is_trimmed = 1 where id = ?", execution)
  return removed
}

function removeAcknowledged(
  connection: SqliteConnection,
  execution: number,
  { route, seq }: MessageKey,
): number {
  const sql = `delete from pipeline_messages
   where execution = ?1 and route = ?2 and seq = ?3
     and not exists (select 1 from pipeline_parked where execution = ?1 and route = ?2 and seq = ?3)`
  return connection.run(sql, execution, route, seq)
}
