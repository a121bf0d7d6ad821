/** What an engine reads while 100,000 delayed jobs wait in its store: nothing but the time of the next one. */
import { describe, expect, it, vi } from "vitest"
import { parameters, sql } from "../../src/journal/postgres/sql.generated.ts"
import { createMemoryStore, type MemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { handler, open, until } from "../engine/stage.ts"
import { postgresStage } from "./postgres-stage.ts"

const JOBS = 100_000
const PARTITIONS = Array.from({ length: 64 }, (_, partition) => partition)
const FIRST = Date.UTC(2040, 0, 1)

/** The partition is in the id; starts are a second apart. */
const insertPostgres = `
  insert into umbra.jobs (id, partition, seq, status, updated_at, wake_at, error, owner, workflow, workflow_version, priority, created_at)
  select ('0198c0de-7a11-7' || lpad(to_hex(n % 64), 3, '0') || '-8000-' || lpad(to_hex(n), 12, '0'))::uuid, n % 64, n, 'PENDING',
    0, ${FIRST} + n * 1000, json_build_object('start_at', ${FIRST} + n * 1000), 'ada', 'flow', 1, 0, 0
  from generate_series(0, ${JOBS - 1}) as n`

describe("delayed jobs in the store", () => {
  it("S2 on PostgreSQL: a query for due jobs reads one range of the index per partition, and no row that is not due", async () => {
    const { bystander, open: openStore } = await postgresStage()
    const journal = await openStore()
    await bystander.query(insertPostgres)
    await bystander.query("vacuum analyze umbra.jobs")
    await bystander.query(`prepare due (text, text, text, text, text) as ${sql.dueJobs}`)
    const id = "00000000-0000-0000-0000-000000000000"
    const given: { [name: string]: unknown } = {
      partitions: `{${PARTITIONS}}`,
      at: FIRST - 1,
      limit: 500,
      wakeAt: 0,
      id,
    }
    const values = parameters.dueJobs!.map(name => `'${given[name]}'`).join(", ")
    const { rows } = await bystander.query<{ "QUERY PLAN": [{ Plan: PlanNode }] }>(
      `explain (analyze, buffers, format json) execute due (${values})`,
    )
    const [{ Plan: plan }] = rows[0]!["QUERY PLAN"]
    const scans = nodesOf(plan).filter(node => node["Relation Name"] === "jobs")
    expect(scans.map(node => node["Node Type"])).toEqual([expect.stringMatching(/^Index (Only )?Scan$/)])
    expect(scans[0]!["Actual Rows"]).toBe(0)
    // The root and the leaf of the index, for each partition.
    const pages = plan["Shared Hit Blocks"]! + plan["Shared Read Blocks"]!
    expect(pages).toBeLessThan(PARTITIONS.length * 5)
    expect(await journal.dueJobs({ partitions: PARTITIONS, at: FIRST - 1, limit: 500 })).toEqual({
      jobs: [],
      nextWakeAt: FIRST,
    })
    const due = await journal.dueJobs({ partitions: PARTITIONS, at: FIRST + 9000, limit: 500 })
    expect(due.jobs.map(({ wakeAt }) => wakeAt)).toEqual(
      Array.from({ length: 10 }, (_, n) => FIRST + n * 1000),
    )
  })

  it("S2 on SQLite: each partition is one search of the index", async () => {
    const store = filledStore()
    const all = vi.spyOn(store.connection, "all")
    const journal = openMemory(store)
    expect(await journal.dueJobs({ partitions: PARTITIONS, at: FIRST - 1, limit: 500 })).toEqual({
      jobs: [],
      nextWakeAt: FIRST,
    })
    const statements = all.mock.calls.map(([text, ...values]) => ({ text, values }))
    all.mockRestore()
    expect(statements.length).toBeGreaterThanOrEqual(PARTITIONS.length)
    for (const { text, values } of statements) {
      const plan = store.connection.all<{ detail: string }>(`explain query plan ${text}`, ...values)
      expect(plan.map(({ detail }) => detail)).toEqual([
        expect.stringMatching(/^SEARCH jobs USING COVERING INDEX jobs_wake_at \(partition=\? AND/),
      ])
      expect(store.connection.all(text, ...values)).toEqual([])
    }
    const due = await journal.dueJobs({ partitions: PARTITIONS, at: FIRST + 9000, limit: 500 })
    expect(due.jobs.map(({ wakeAt }) => wakeAt)).toEqual(
      Array.from({ length: 10 }, (_, n) => FIRST + n * 1000),
    )
  })

  it("an engine on a store with them has none in memory, reads the facts of none, and does not poll", async () => {
    const journal = openMemory(filledStore())
    const readFacts = vi.spyOn(journal, "readFacts")
    const dueJobs = vi.spyOn(journal, "dueJobs")
    const clock = new VirtualClock()
    const umbra = await open({ at: journal, handlers: [handler("act", () => {})], clock })
    const pass = async (ms: number) => {
      clock.advance(ms)
      for (let turn = 0; turn < 5; turn++) await new Promise(resolve => setImmediate(resolve))
    }
    await until("all partitions are taken", async () => {
      await pass(1)
      return umbra.health().partitions === PARTITIONS.length
    })
    const job = await umbra.submit({ name: "other", nodes: [{ id: "a", handler: "act" }] })
    expect((await job.wait()).status).toBe("COMPLETED")
    await until("the job has left memory", () => umbra.health().liveJobs === 0)
    const queries = dueJobs.mock.calls.length
    for (let hour = 0; hour < 48; hour++) await pass(3_600_000)
    expect(dueJobs.mock.calls.length).toBe(queries)
    const read = readFacts.mock.calls.flatMap(([ids]) => ids)
    expect(read.filter(id => id !== job.id)).toEqual([])
    expect(umbra.health().liveJobs).toBe(0)
  })
})

function filledStore(): MemoryStore {
  const store = createMemoryStore()
  store.connection.run(`
    with recursive numbers (n) as (select 0 union all select n + 1 from numbers where n < ${JOBS - 1})
    insert into jobs (id, partition, seq, status, updated_at, wake_at, error, owner, workflow, workflow_version, priority, created_at)
    select '0198c0de-7a11-7' || printf('%03x', n % 64) || '-8000-' || printf('%012x', n), n % 64, n, 'PENDING',
      0, ${FIRST} + n * 1000, '{"start_at":' || (${FIRST} + n * 1000) || '}', 'ada', 'flow', 1, 0, 0
    from numbers`)
  return store
}

interface PlanNode {
  readonly "Node Type": string
  readonly "Relation Name"?: string
  readonly "Actual Rows"?: number
  readonly "Shared Hit Blocks"?: number
  readonly "Shared Read Blocks"?: number
  readonly Plans?: readonly PlanNode[]
}

function nodesOf(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)]
}
