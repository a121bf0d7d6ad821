/**
 * The baseline: the least a durable engine can do. Graphs in memory, one journal, one statement per group
 * commit, no retries, templates, timers, owners or recovery. Umbra's results are given as a share of this.
 */
import { randomUUID } from "node:crypto"
import { join } from "node:path"
import pg from "pg"
import { openDatabase } from "../src/journal/sqlite/driver.ts"
import { noopOutput, type Workload } from "./workloads.ts"

interface Facts {
  readonly facts: readonly { s: number; j: string; t: number; d: unknown }[]
  readonly born: readonly { j: string; i: unknown }[]
  readonly ended: readonly { j: string; o: unknown }[]
}

/** Each method is one commit. */
export interface Store {
  prepare(): Promise<void>
  commitOne(id: number, data: string): Promise<void>
  append(batch: Facts): Promise<void>
  close(): Promise<void>
}

export function postgresStore(url: string): Store {
  const pool = new pg.Pool({ connectionString: url, max: 2 })
  const query = async (name: string, text: string, values: readonly unknown[]) =>
    void (await pool.query({ name, text, values: [...values] }))
  return {
    prepare: async () => void (await pool.query(schema)),
    commitOne: (id, data) => query("raw", "insert into baseline.raw values ($1, $2)", [id, data]),
    append: ({ facts, born, ended }) =>
      query(
        "append",
        append,
        [facts, born, ended].map(part => JSON.stringify(part)),
      ),
    close: () => pool.end(),
  }
}

/** In the thread of the benchmark: it waits for the disk, and so does everything else. */
export function sqliteStore(folder: string): Store {
  const database = openDatabase(join(folder, "baseline.db"))
  database.exec("pragma journal_mode = wal; pragma synchronous = full")
  database.exec(sqliteSchema)
  const prepare = (sql: string) => database.prepare(sql)
  const raw = prepare("insert into raw values (?, ?)")
  const fence = prepare("select epoch from partitions where id = 0 and epoch = 1")
  const fact = prepare("insert into journal values (?, ?, ?, ?, ?)")
  const born = prepare("insert into jobs values (?, 'w', 'o', 'PROCESSING', ?, null, ?, null)")
  const ended = prepare("update jobs set status = 'COMPLETED', output = ?, finished_at = ? where id = ?")
  return {
    prepare: async () => {},
    commitOne: async (id, data) => void raw.run(id, data),
    append: async batch => {
      const now = Date.now()
      database.exec("begin immediate")
      if (fence.get() === undefined) throw new Error("fenced")
      for (const { s, j, t, d } of batch.facts) fact.run(s, j, now, t, JSON.stringify(d))
      for (const { j, i } of batch.born) born.run(j, JSON.stringify(i), now)
      for (const { j, o } of batch.ended) ended.run(JSON.stringify(o), now, j)
      database.exec("commit")
    },
    close: async () => database.close(),
  }
}

const sqliteSchema = `
create table partitions (id integer primary key, epoch integer not null);
insert into partitions values (0, 1);
create table jobs (id text primary key, workflow text not null, owner text not null, status text not null, input text,
  output text, created_at integer not null, finished_at integer);
create table journal (seq integer primary key, job_id text not null, at integer not null, type integer not null, data text);
create index journal_job on journal (job_id, seq);
create table raw (id integer primary key, data text);
`

const schema = `
drop schema if exists baseline cascade;
create schema baseline;
create table baseline.partitions (id int primary key, epoch bigint not null);
insert into baseline.partitions values (0, 1);
create table baseline.jobs (id uuid primary key, workflow text not null, owner text not null, status text not null,
  input jsonb, output jsonb, created_at timestamptz not null default now(), finished_at timestamptz);
create table baseline.journal (seq bigint not null, job_id uuid not null, at timestamptz not null, type smallint not null,
  data jsonb, primary key (seq));
create index on baseline.journal (job_id, seq);
create table baseline.raw (id bigint primary key, data jsonb);
`

const append = `
with fence as (select epoch from baseline.partitions where id = 0 and epoch = 1 for share),
facts as (insert into baseline.journal (seq, job_id, at, type, data)
  select s, j, now(), t, d from jsonb_to_recordset($1::jsonb) as r (s bigint, j uuid, t smallint, d jsonb), fence returning 1),
born as (insert into baseline.jobs (id, workflow, owner, status, input)
  select j, 'w', 'o', 'PROCESSING', i from jsonb_to_recordset($2::jsonb) as r (j uuid, i jsonb), fence returning 1),
ended as (update baseline.jobs set status = 'COMPLETED', output = r.o, finished_at = now()
  from jsonb_to_recordset($3::jsonb) as r (j uuid, o jsonb), fence where jobs.id = r.j returning 1)
select (select count(*) from facts) as facts`

interface Pending {
  facts: Facts["facts"][number][]
  born: Facts["born"][number][]
  ended: Facts["ended"][number][]
  waiting: (() => void)[]
}

export class Baseline {
  readonly #store: Store
  #seq = 0
  #open: Pending | null = null
  #isFlying = false

  private constructor(store: Store) {
    this.#store = store
  }

  static async open(store: Store): Promise<Baseline> {
    await store.prepare()
    return new Baseline(store)
  }

  /** The median time of a one-row commit, in milliseconds. */
  async rawCommit(times: number): Promise<number> {
    const taken: number[] = []
    for (let i = 0; i < times; i++) {
      const at = performance.now()
      await this.#store.commitOne(++this.#seq, JSON.stringify(noopOutput))
      taken.push(performance.now() - at)
    }
    return taken.sort((a, b) => a - b)[taken.length >> 1]!
  }

  async runJob(shape: Shape): Promise<void> {
    const id = randomUUID()
    const remaining = Int32Array.from(shape.inDegrees)
    let left = remaining.length
    await this.#append({ j: id, t: 0, d: null }, { j: id, i: { a: 1 } }, null)
    await new Promise<void>(resolve => {
      const run = async (node: number): Promise<void> => {
        const output = await noopOutput
        const isLast = --left === 0
        const ready = shape.successors[node]!.filter(successor => --remaining[successor]! === 0)
        await this.#append(
          { j: id, t: 1, d: { n: node, o: output } },
          null,
          isLast ? { j: id, o: output } : null,
        )
        for (const successor of ready) void run(successor)
        if (isLast) resolve()
      }
      for (const [node, degree] of shape.inDegrees.entries()) if (degree === 0) void run(node)
    })
  }

  #append(
    fact: Omit<Facts["facts"][number], "s">,
    born: Facts["born"][number] | null,
    ended: Facts["ended"][number] | null,
  ): Promise<void> {
    this.#open ??= { facts: [], born: [], ended: [], waiting: [] }
    const { facts, born: newJobs, ended: endedJobs, waiting } = this.#open
    facts.push({ s: ++this.#seq, ...fact })
    if (born !== null) newJobs.push(born)
    if (ended !== null) endedJobs.push(ended)
    if (!this.#isFlying) {
      this.#isFlying = true
      setImmediate(() => void this.#fly())
    }
    return new Promise(resolve => waiting.push(resolve))
  }

  async #fly(): Promise<void> {
    const batch = this.#open!
    this.#open = null
    await this.#store.append(batch)
    for (const resolve of batch.waiting) resolve()
    if (this.#open === null) this.#isFlying = false
    else setImmediate(() => void this.#fly())
  }
}

export interface Shape {
  readonly inDegrees: readonly number[]
  readonly successors: readonly (readonly number[])[]
}

export function shapeOf({ nodes }: Workload): Shape {
  const positions = new Map(nodes.map((node, i) => [node.id, i]))
  const successors: number[][] = nodes.map(() => [])
  for (const [i, node] of nodes.entries())
    for (const id of node.dependencies) successors[positions.get(id)!]!.push(i)
  return { inDegrees: nodes.map(node => node.dependencies.length), successors }
}
