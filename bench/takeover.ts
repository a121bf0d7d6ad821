/** The cost of many waiting jobs: taking over a database with a million of them, and an idle engine. */
import pg from "pg"
import { defineHandler, openUmbra } from "umbra"
import { databaseUrl } from "./services.ts"

const noop = defineHandler({ name: "noop", run: () => null })
const waiting = {
  name: "waiting",
  nodes: [{ id: "nap", handler: "sleep", config: { seconds: 7 * 24 * 3600 } }],
}

export async function takeover(): Promise<void> {
  const jobs = Math.round(1_000_000 * Number(process.env.BENCH_SCALE ?? 1))
  const { url, drop } = await databaseUrl()
  await makeWaiting(url, jobs)
  const before = process.memoryUsage().rss
  const begin = performance.now()
  const umbra = await openUmbra(url, { handlers: [noop] })
  const job = await umbra.submit({ name: "probe", nodes: [{ id: "n", handler: "noop" }] }, {})
  await job.wait()
  const seconds = (performance.now() - begin) / 1000
  const grown = (process.memoryUsage().rss - before) / 1e6
  console.log(
    `  take-over with ${jobs.toLocaleString("en")} waiting jobs: first new job done after ${seconds.toFixed(2)} s, memory +${grown.toFixed(0)} MB`,
  )
  await umbra.close()
  await drop()
  await atRest()
}

/** In a separate database: PostgreSQL's housekeeping after a million inserts is not caused by the engine. */
async function atRest(): Promise<void> {
  const { url, drop } = await databaseUrl()
  const umbra = await openUmbra(url, { handlers: [noop] })
  const job = await umbra.submit({ name: "probe", nodes: [{ id: "n", handler: "noop" }] }, {})
  await job.wait()
  console.log(`  at rest: ${(await statementsPerSecond(url, 15)).toFixed(2)} statements/s`)
  await umbra.close()
  await drop()
}

/** One real waiting job, then copies of it: a million submissions would measure something else. */
async function makeWaiting(url: string, jobs: number): Promise<void> {
  const umbra = await openUmbra(url, { handlers: [noop] })
  const { id } = await umbra.submit(waiting, {}, { ttlSeconds: null })
  while ((await umbra.job(id)).status !== "PROCESSING") await new Promise(resolve => setTimeout(resolve, 10))
  await umbra.close()
  await copyJob(url, jobs)
}

/** Copies the rows of the only job of the database, until there are so many. */
export async function copyJob(url: string, jobs: number): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const copyId =
    "overlay(overlay(id::text placing lpad(to_hex(n), 8, '0') from 1) placing lpad(to_hex(n % 64), 3, '0') from 16)::uuid"
  await client.query(
    `create temporary table copies as select n, ${copyId} as copy from umbra.jobs, generate_series(1, ${jobs - 1}) as n`,
  )
  const columns = async (table: string, id: string) => {
    const { rows } = await client.query(
      "select column_name from information_schema.columns where table_schema = 'umbra' and table_name = $1",
      [table],
    )
    return rows.map(row => String(row.column_name)).filter(name => name !== id && name !== "partition")
  }
  for (const [table, column] of [
    ["jobs", "id"],
    ["journal", "job_id"],
  ] as const) {
    const rest = await columns(table, column)
    // The time in the id, as in jobs that are submitted: others have four more marks.
    const values = rest.map(name => (name === "created_at" ? "n * 65536::bigint + created_at % 65536" : name))
    await client.query(
      `insert into umbra.${table} (${column}, partition, ${rest.join(", ")}) select copy, n % 64, ${values.join(", ")} from umbra.${table}, copies`,
    )
  }
  const { rows } = await client.query("select count(*) as n from umbra.jobs where wake_at is not null")
  if (Number(rows[0].n) !== jobs) throw new Error(`${rows[0].n} jobs wait, not ${jobs}`)
  await client.end()
}

/** Counted by the server itself, including the heartbeat. */
async function statementsPerSecond(url: string, seconds: number): Promise<number> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const count = async () => {
    await client.query("select pg_stat_clear_snapshot()")
    const { rows } = await client.query(
      "select xact_commit + xact_rollback as n from pg_stat_database where datname = current_database()",
    )
    return Number(rows[0].n)
  }
  // Sessions report their statistics up to ten seconds later.
  await new Promise(resolve => setTimeout(resolve, 15_000))
  const before = await count()
  await new Promise(resolve => setTimeout(resolve, seconds * 1000))
  const after = await count()
  await client.end()
  // Our own two queries and one count lie in between.
  return Math.max(0, after - before - 2) / seconds
}
