/** The stores of `bench -- retention`, and their figures: rows, bytes, vacuum, and what waits to be removed. */
import { once } from "node:events"
import { mkdtemp, rm, stat } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Worker } from "node:worker_threads"
import pg from "pg"
import { startPostgres } from "../scripts/services/postgres.ts"

export interface Figures {
  /** Rows of the large tables, and rows that were removed and not vacuumed yet. */
  readonly rows: number
  readonly dead: number
  /** Bytes of each table and index. */
  readonly bytes: ReadonlyMap<string, number>
  readonly vacuums: number
  /** Ended jobs that are older than the retention. */
  readonly backlog: number
  /** Samples since the last figures in which an append waited for a lock of another kind of statement. */
  readonly blocked: number
}

/** What retention-sqlite.js answers. */
interface SqliteFigures {
  readonly rows: number
  readonly backlog: number
  readonly bytes: readonly [string, number][]
}

export interface BenchStore {
  readonly name: string
  readonly location: string
  /** `before`: jobs that ended earlier should have been removed. */
  figures(before: number): Promise<Figures>
  close(): Promise<void>
}

const SAMPLE_MS = 50

const FIGURES = `
select relname, n_live_tup::bigint as rows, n_dead_tup::bigint as dead, vacuum_count + autovacuum_count as vacuums
from pg_stat_user_tables
where schemaname = 'umbra' and relname in ('jobs', 'journal', 'executions', 'pipeline_messages', 'pipeline_lineage', 'pipeline_parked')`

const BYTES = `
select relname, pg_relation_size(c.oid) + coalesce(pg_relation_size(nullif(c.reltoastrelid, 0)), 0) as bytes
from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
where n.nspname = 'umbra' and c.relkind in ('r', 'i')`

const BACKLOG = "select count(*) from umbra.jobs where finished_at < $1"

/**
 * Appends that wait for a lock of a statement that is not an append itself: two appends that extend the same table wait for
 * each other for microseconds. A commit of a pipeline counts as an append.
 */
const BLOCKED = `
with activity as (
  select pid, wait_event_type, wait_event, left(query, 60) as statement, backend_type,
    query like '%insert into umbra.journal%' or query like '%insert into umbra.pipeline_messages%' as is_append
  from pg_stat_activity
)
select a.wait_event, coalesce(b.statement, b.backend_type) as blocker
from activity as a
cross join unnest(pg_blocking_pids(a.pid)) as blocking (pid)
join activity as b on b.pid = blocking.pid
where a.wait_event_type = 'Lock' and a.is_append and not b.is_append`

export async function postgresStore(): Promise<BenchStore> {
  const server = await startPostgres()
  const connect = async () => {
    const client = new pg.Client({ connectionString: server.url })
    await client.connect()
    return client
  }
  const [client, sampler] = [await connect(), await connect()]
  let [blocked, isOpen] = [0, true]
  const sampling = (async () => {
    while (isOpen) {
      const { rows } = await sampler.query(BLOCKED)
      if (rows.length > 0) blocked++
      for (const { wait_event, blocker } of rows)
        console.log(`    an append waits (${wait_event}) for: ${blocker}`)
      await new Promise(resolve => setTimeout(resolve, SAMPLE_MS))
    }
  })()
  return {
    name: `PostgreSQL ${server.version}`,
    location: server.url,
    async figures(before) {
      const tables = (await client.query(FIGURES)).rows
      const sum = (key: string) => tables.reduce((total, row) => total + Number(row[key]), 0)
      const bytes = new Map((await client.query(BYTES)).rows.map(row => [row.relname, Number(row.bytes)]))
      const backlog = Number((await client.query(BACKLOG, [before])).rows[0].count)
      const figures = { rows: sum("rows"), dead: sum("dead"), vacuums: sum("vacuums") }
      const taken = { ...figures, bytes, backlog, blocked }
      blocked = 0
      return taken
    },
    async close() {
      isOpen = false
      await sampling
      await Promise.all([client.end(), sampler.end()])
      await server.stop()
    },
  }
}

/** The figures are read in a thread: they are queries of up to a second. */
export async function sqliteStore(): Promise<BenchStore> {
  const folder = await mkdtemp(join(tmpdir(), "umbra-bench-"))
  const file = join(folder, "umbra.db")
  const thread = new Worker(new URL("./retention-sqlite.js", import.meta.url))
  return {
    name: "SQLite",
    location: folder,
    async figures(before) {
      const answer = once(thread, "message")
      thread.postMessage({ file, before })
      const [{ rows, backlog, bytes }] = (await answer) as [SqliteFigures]
      const sizes: [string, number][] = [
        ...bytes,
        ["file", (await stat(file)).size],
        ["wal", (await stat(`${file}-wal`)).size],
      ]
      return { rows, dead: 0, bytes: new Map(sizes), vacuums: 0, backlog, blocked: 0 }
    },
    async close() {
      await thread.terminate()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
