/**
 * Schedules: 1,000 that are due in the same second; an idle engine with 100,000 schedules and 1,000,000 delayed jobs beside one
 * without them; the plans of the queries over 1,000,000 schedules and 1,000,000 outcomes (`BENCH_SCALE=0.1`: a tenth of all).
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import pg from "pg"
import { defineHandler, openUmbra } from "umbra"
import { openJournal } from "../src/journal/open.ts"
import { parameters, sql } from "../src/journal/postgres/sql.generated.ts"
import { openDatabase } from "../src/journal/sqlite/driver.ts"
import { createMemoryStore, openMemory } from "../src/journal/sqlite/memory.ts"
import { databaseUrl } from "./services.ts"
import { copyJob } from "./takeover.ts"

const TOGETHER_ROUNDS = 5
const TICK_MS = 15_000
/** Schedules that are stored at the same time. */
const PUTS = 50
const YEAR_MS = 365 * 86_400_000
const IDLE_SECONDS = 20
/** An engine is idle after so many seconds with at most so many statements, and so much processor time, per second. */
const QUIET_SECONDS = 12
const QUIET_STATEMENTS = 1.5
const QUIET_CPU_MS = 10
const LONGEST_SETTLING_MS = 1_200_000
const ROUNDS = 3
/** All partitions. */
const ALL_PARTITIONS = `{${Array.from({ length: 64 }, (_, partition) => partition).join(",")}}`
const workflow = { name: "probe", nodes: [{ id: "n", handler: "noop" }] }

export async function schedules(): Promise<void> {
  const scale = Number(process.env.BENCH_SCALE ?? 1)
  const count = Math.round(1000 * scale)
  const { url, drop } = await databaseUrl()
  await together("PostgreSQL", url, count)
  await drop()
  const folder = mkdtempSync(join(tmpdir(), "umbra-bench-"))
  await together("SQLite", folder, count)
  rmSync(folder, { recursive: true })
  for (const name of ["PostgreSQL", "SQLite"])
    await idle(name, Math.round(100_000 * scale), Math.round(1_000_000 * scale))
  await plans(Math.round(1_000_000 * scale))
  await sqliteTimes(Math.round(1_000_000 * scale))
}

/** The time from the tick until the handler of the last job has begun. */
async function together(name: string, location: string, count: number): Promise<void> {
  const begun: number[] = []
  const noop = defineHandler({ name: "noop", run: () => void begun.push(Date.now()) })
  const umbra = await openUmbra(location, { handlers: [noop] })
  await umbra.register(workflow)
  const document = {
    workflow: "probe",
    every: `${TICK_MS / 1000}s`,
    overlap: "allow",
    catch_up: "none",
  } as const
  for (let n = 0; n < count; n += PUTS) {
    const names = Array.from({ length: Math.min(PUTS, count - n) }, (_, i) => `s${n + i}`)
    await Promise.all(names.map(name => umbra.schedules.put(name, document)))
  }
  const times: number[] = []
  const used: number[] = []
  for (let round = 0; round < TOGETHER_ROUNDS; round++) {
    const due = Math.ceil((Date.now() + 2000) / TICK_MS) * TICK_MS
    await new Promise(resolve => setTimeout(resolve, due - 100 - Date.now()))
    begun.length = 0
    const cpu = process.cpuUsage()
    while (begun.length < count) await new Promise(resolve => setTimeout(resolve, 5))
    times.push(Math.max(...begun) - due)
    const { user, system } = process.cpuUsage(cpu)
    used.push((user + system) / 1000)
    console.log(
      `    ${name}, round ${round + 1} of ${TOGETHER_ROUNDS}: the first job began ${Math.min(...begun) - due} ms after the tick, the last one ${times.at(-1)} ms`,
    )
  }
  const median = (all: number[]) => all.sort((a, b) => a - b)[Math.floor(all.length / 2)]!
  console.log(
    `  ${name}, ${count.toLocaleString("en")} schedules due in the same second: the last job has begun ${median(times)} ms after the tick (median of ${TOGETHER_ROUNDS}, worst ${times.at(-1)} ms; the aim is 2,000), with ${median(used).toFixed(0)} ms of processor time`,
  )
  await umbra.close()
}

interface Store {
  readonly location: string
  /** What its server has counted; null: there is none. */
  readonly counts: (() => Promise<Counts>) | null
  drop(): Promise<void>
}

interface Counts {
  readonly statements: number
  readonly pages: number
}

/** Two stores with one delayed job, of which the second one is filled. */
const fillers: Readonly<
  Record<string, (scheduleCount: number, jobCount: number) => Promise<readonly [Store, Store]>>
> = {
  PostgreSQL: async (scheduleCount, jobCount) => {
    const [empty, full] = [await postgresStore(), await postgresStore()]
    for (const { location } of [empty, full]) await prepare(location)
    await copyJob(full.location, jobCount)
    await insertSchedules(full.location, scheduleCount)
    await delayedPlans(full.location, jobCount)
    return [empty, full]
  },
  SQLite: async (scheduleCount, jobCount) => {
    const [empty, full] = [folderStore(), folderStore()]
    for (const { location } of [empty, full]) await prepare(location)
    fillFolder(full.location, scheduleCount, jobCount)
    return [empty, full]
  },
}

async function postgresStore(): Promise<Store> {
  const { url, drop } = await databaseUrl()
  const counts = async () => {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    const { rows } = await client.query(
      "select xact_commit + xact_rollback as statements, blks_hit + blks_read as pages from pg_stat_database where datname = current_database()",
    )
    await client.end()
    return { statements: Number(rows[0].statements), pages: Number(rows[0].pages) }
  }
  return { location: url, counts, drop }
}

function folderStore(): Store {
  const location = mkdtempSync(join(tmpdir(), "umbra-bench-"))
  return { location, counts: null, drop: async () => rmSync(location, { recursive: true }) }
}

/** Processor time of a process with an idle engine, and what its database does for it, in alternating rounds. */
async function idle(name: string, scheduleCount: number, jobCount: number): Promise<void> {
  const [schedules, jobs] = [scheduleCount.toLocaleString("en"), jobCount.toLocaleString("en")]
  console.log(`    preparing an idle engine on ${name} with ${schedules} schedules and ${jobs} delayed jobs`)
  const [empty, full] = await fillers[name]!(scheduleCount, jobCount)
  const found = { empty: [] as Usage[], full: [] as Usage[] }
  for (let round = 0; round < ROUNDS; round++) {
    found.empty.push(await usage(empty))
    found.full.push(await usage(full))
    const shown = [found.empty, found.full].map(all => `${all.at(-1)!.cpuMs.toFixed(1)} ms`)
    console.log(
      `    idle, round ${round + 1} of ${ROUNDS}: ${shown[0]} without them, ${shown[1]} with them, per second`,
    )
  }
  for (const [which, all] of Object.entries(found)) {
    const text = (field: keyof Usage, digits: number) =>
      all
        .map(each => each[field])
        .sort((a, b) => a - b)
        .map(value => value.toFixed(digits))
        .join(", ")
    const what = which === "empty" ? "without" : `${schedules} schedules and ${jobs} delayed jobs`
    const server =
      empty.counts === null ? "" : `; ${text("statements", 2)} statements/s; ${text("pages", 0)} pages/s`
    console.log(
      `  idle on ${name}, ${what}: ${text("cpuMs", 1)} ms of processor time per second${server}; idle at the latest ${text("settledSeconds", 0)} s after it opened`,
    )
  }
  await empty.drop()
  await full.drop()
}

interface Usage extends Counts {
  /** From the opening until the engine was idle. */
  readonly settledSeconds: number
  readonly cpuMs: number
}

async function usage({ location, counts }: Store): Promise<Usage> {
  const umbra = await openUmbra(location, { handlers: [] })
  const pass = async (seconds: number): Promise<Omit<Usage, "settledSeconds">> => {
    const before = await counts?.()
    const cpu = process.cpuUsage()
    await new Promise(resolve => setTimeout(resolve, seconds * 1000))
    const { user, system } = process.cpuUsage(cpu)
    const after = await counts?.()
    const rate = (field: keyof Counts) => ((after?.[field] ?? 0) - (before?.[field] ?? 0)) / seconds
    return {
      cpuMs: (user + system) / 1000 / seconds,
      statements: rate("statements"),
      pages: rate("pages"),
    }
  }
  // What follows a take-over: statistics count new facts, retention reads all keys and marks once. The server counts a
  // statement up to ten seconds later.
  const opened = Date.now()
  for (let isQuiet = false; !isQuiet && Date.now() - opened < LONGEST_SETTLING_MS; ) {
    const { statements, cpuMs } = await pass(QUIET_SECONDS)
    isQuiet = statements <= QUIET_STATEMENTS && cpuMs <= QUIET_CPU_MS
  }
  const settledSeconds = (Date.now() - opened) / 1000
  const used = await pass(IDLE_SECONDS)
  await umbra.close()
  return { settledSeconds, ...used }
}

/** One delayed job, whose rows can be copied. */
async function prepare(url: string): Promise<void> {
  const noop = defineHandler({ name: "noop", run: () => null })
  const umbra = await openUmbra(url, { handlers: [noop] })
  await umbra.register(workflow)
  await umbra.submit("probe", {}, { delaySeconds: YEAR_MS / 1000, ttlSeconds: null })
  await umbra.close()
}

async function insertSchedules(url: string, count: number): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const document = JSON.stringify({ workflow: "probe", every: "1d", zone: "UTC" })
  await client.query(
    `insert into umbra.schedules (id, owner, name, partition, revision, document, created_at, updated_at, last_tick, next_at)
     select gen_random_uuid(), case n % 10 when 0 then 'local' else 'o' || n % 100 end, 's' || n, n % 64, 1, $1::json, 1, 1, 1, $2::bigint + n
     from generate_series(1, ${count}) as n`,
    [document, Date.now() + YEAR_MS],
  )
  await client.query("vacuum analyze umbra.schedules")
  await client.end()
}

/** Copies the rows of its only job, and adds schedules. */
function fillFolder(folder: string, schedules: number, jobs: number): void {
  const database = openDatabase(join(folder, "umbra.db"))
  const columns = (table: string, id: string) =>
    (database.prepare(`select name from pragma_table_info('${table}')`).all() as { name: string }[])
      .map(({ name }) => name)
      .filter(name => name !== id && name !== "partition")
  const numbers = (count: number) =>
    `with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ${count})`
  const copyId = (id: string) =>
    `printf('%08x', n) || substr(${id}, 9, 7) || printf('%03x', n % 64) || substr(${id}, 19)`
  database.exec("begin")
  for (const [table, id] of [
    ["jobs", "id"],
    ["journal", "job_id"],
  ] as const) {
    const rest = columns(table, id)
    const values = rest.map(name => (name === "created_at" ? "n * 65536 + created_at % 65536" : name))
    database.exec(
      `insert into ${table} (${id}, partition, ${rest}) ${numbers(jobs - 1)}
       select ${copyId(id)}, n % 64, ${values} from (select * from ${table} limit 1), numbers`,
    )
  }
  database.exec(
    `insert into schedules (id, owner, name, partition, revision, document, created_at, updated_at, last_tick, next_at)
     ${numbers(schedules)} select printf('%08x', n), 'local', 's' || n, n % 64, 1, '{"workflow":"probe","every":"1d"}', 1, 1, 1, ${Date.now() + YEAR_MS} + n
     from numbers`,
  )
  database.exec("commit")
  const [waiting] = database.prepare("select count(*) as n from jobs where wake_at is not null").all() as {
    n: number
  }[]
  database.close()
  if (waiting!.n !== jobs) throw new Error(`${waiting!.n} jobs wait, not ${jobs}`)
}

/** No query of schedules reads more than it returns, however many there are. */
async function plans(count: number): Promise<void> {
  const { url, drop } = await databaseUrl()
  await (await openJournal(url)).close()
  await insertSchedules(url, count)
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query(
    `update umbra.schedules set next_at = 1000 + (hashtext(name) & 1023) where name in (select 's' || n * 97 from generate_series(1, 500) as n)`,
  )
  await client.query(
    `insert into umbra.fires (schedule_id, tick, kind, at, outcome, count)
     select id, n * 1000, 'tick', n * 1000, 'started', 1
     from (select id from umbra.schedules order by id limit 100) as s, generate_series(1, ${Math.ceil(count / 100)}) as n`,
  )
  await client.query("vacuum analyze umbra.schedules; ")
  await client.query("vacuum analyze umbra.fires")
  const id = (await client.query("select id from umbra.schedules order by id limit 1")).rows[0].id as string
  const middle = count * 5
  const owner = "local"
  const due = { partitions: ALL_PARTITIONS, at: 2100 }
  console.log(`  plans with ${count.toLocaleString("en")} schedules and as many outcomes:`)
  await explainAll(client, [
    ["due schedules", "dueSchedules", { ...due, limit: 1000, limitOfPartition: 63, maxBytes: 4194304 }],
    ["the next one", "nextSchedule", due],
    ["queued ticks", "queuedSchedules", due],
    ["one schedule", "readSchedule", { owner, name: "s70" }],
    ["one by its id", "readSchedules", { ids: `{${id}}` }],
    ["a page of the list", "listSchedules", { owner, after: "s5", limit: 101, maxBytes: 4194304 }],
    ["a count up to 10,000", "countSchedules", { owner, limit: 10_000 }],
    ["a page of the history", "listFires", { scheduleId: id, tick: middle, kind: "tick", limit: 101 }],
    [
      "ticks of a range",
      "firesBetween",
      { scheduleId: id, tick: middle, kind: "", to: count * 9, limit: 101 },
    ],
  ])
  await client.end()
  await drop()
}

/** Of an engine that owns all partitions: no delayed job is due, or the first 500 are. */
async function delayedPlans(url: string, count: number): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query("vacuum analyze umbra.jobs")
  const { rows } = await client.query("select min(wake_at) as first from umbra.jobs")
  const first = Number(rows[0].first)
  const all = { partitions: ALL_PARTITIONS }
  console.log(`  plans with ${count.toLocaleString("en")} delayed jobs:`)
  const nobody = "00000000-0000-0000-0000-000000000000"
  await explainAll(client, [
    ["none due", "dueJobs", { ...all, at: Date.now(), limit: 500, wakeAt: 0, id: nobody }],
    ["all due", "dueJobs", { ...all, at: first, limit: 500, wakeAt: 0, id: nobody }],
    ["the next one", "nextWakeAt", { ...all, at: Date.now() }],
  ])
  await client.end()
}

async function explainAll(
  client: pg.Client,
  cases: readonly (readonly [string, keyof typeof sql, { readonly [name: string]: string | number }])[],
): Promise<void> {
  // The server is stopped after a plan that reads too much.
  client.on("error", () => {})
  for (const [name, statement, values] of cases) {
    const { rows } = await client.query(
      `explain (analyze, buffers, format json) ${sql[statement]}`,
      parameters[statement]!.map(parameter => String(values[parameter])),
    )
    const [{ Plan: plan, "Execution Time": ms }] = rows[0]["QUERY PLAN"]
    const pages = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    const returned = plan["Actual Rows"]
    console.log(`    ${name}: ${ms.toFixed(2)} ms, ${returned} rows, ${pages} pages`)
    const isScan =
      JSON.stringify(plan).includes('"Seq Scan"') && !JSON.stringify(plan).includes('"Function Scan"')
    // A page or two of the index for each row or partition.
    if (isScan || pages > 10 * (returned + 64))
      throw new Error(`${name} reads too much: ${JSON.stringify(plan)}`)
  }
}

/** The same on SQLite in memory: times only, since its plans are checked by a test (test/journal/schedule-plans.test.ts). */
async function sqliteTimes(count: number): Promise<void> {
  const store = createMemoryStore()
  store.connection.run(`
    with recursive numbers (n) as (select 0 union all select n + 1 from numbers where n < ${count - 1})
    insert into schedules (id, owner, name, partition, revision, document, created_at, updated_at, last_tick, next_at)
    select printf('%08x', n * 2654435761 % 4294967296), 'local', 's' || n, n % 64, 1,
      '{"workflow":"probe","every":"1d"}', 1, 1, 1, iif(n % 1000 = 0, 1000, 1000000 + n)
    from numbers`)
  store.connection.run(`
    with recursive numbers (n) as (select 0 union all select n + 1 from numbers where n < ${count - 1})
    insert into fires (schedule_id, tick, kind, at, outcome, count)
    select printf('%08x', n % 100 * 2654435761 % 4294967296), n, 'tick', n, 'started', 1 from numbers`)
  const { schedules: queries } = openMemory(store)
  const partitions = Array.from({ length: 64 }, (_, partition) => partition)
  const scheduleId = "00000000"
  const middle = { tick: count / 2, kind: "" }
  const due = { partitions, limit: 1000, limitOfPartition: 63, maxBytes: 4_194_304 }
  const cases: [string, () => Promise<unknown>][] = [
    ["due schedules", () => queries.due({ ...due, at: 2000 })],
    ["none due", () => queries.due({ ...due, at: 1 })],
    ["queued ticks", () => queries.queued(partitions)],
    ["one schedule", () => queries.read({ owner: "local", name: "s77" })],
    [
      "a page of the list",
      () => queries.list({ owner: "local", after: "s5", limit: 100, maxBytes: 4_194_304 }),
    ],
    ["a count up to 10,000", () => queries.count({ owner: "local", limit: 10_000 })],
    ["a page of the history", () => queries.fires({ scheduleId, before: middle, limit: 100 })],
    ["ticks of a range", () => queries.firesBetween({ scheduleId, after: middle, to: count, limit: 100 })],
  ]
  console.log(`  SQLite with ${count.toLocaleString("en")} schedules and as many outcomes, median of 9:`)
  for (const [name, query] of cases) {
    const times: number[] = []
    for (let i = 0; i < 9; i++) {
      const start = performance.now()
      await query()
      times.push(performance.now() - start)
    }
    console.log(`    ${name}: ${times.sort((a, b) => a - b)[4]!.toFixed(2)} ms`)
  }
}
