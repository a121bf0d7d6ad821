/** What the queries of schedules read while very many schedules are stored, and very many of them are due. */
import { expect, it, vi } from "vitest"
import type { Journal } from "../../src/journal/port/journal.ts"
import { parameters, sql } from "../../src/journal/postgres/sql.generated.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { postgresStage } from "./postgres-stage.ts"

const COUNT = 20_000
const PARTITIONS = Array.from({ length: 64 }, (_, partition) => partition)
const DOCUMENT = `{"workflow":"w","every":"1d"}`
/** Half of them are due at the same time. */
const DUE = 1000
const LATER = 2000
const bounds = { partitions: PARTITIONS, limit: 100, limitOfPartition: 10, maxBytes: 1e6 }

/** Each verb that an engine or a list uses. */
async function queryAll(journal: Journal, id: string): Promise<void> {
  const { schedules } = journal
  const page = await schedules.due({ ...bounds, at: DUE })
  expect(page.schedules).toHaveLength(100)
  expect(page.nextAt).toBe(LATER)
  await schedules.queued(PARTITIONS)
  await schedules.readMany([id])
  await schedules.read({ owner: "ada", name: "s77" })
  await schedules.list({ owner: "ada", after: "s5", limit: 10, maxBytes: 1e6 })
  expect(await schedules.count({ owner: "ada", limit: 50 })).toBe(50)
  await schedules.fires({ scheduleId: id, before: { tick: 5, kind: "" }, limit: 10 })
  await schedules.firesBetween({ scheduleId: id, after: { tick: 5, kind: "" }, to: 9, limit: 10 })
}

it("on SQLite each is a search of an index, and none sorts schedules", async () => {
  const store = createMemoryStore()
  store.connection.run(`
    with recursive numbers (n) as (select 0 union all select n + 1 from numbers where n < ${COUNT - 1})
    insert into schedules (id, owner, name, partition, revision, document, created_at, updated_at, last_tick, next_at)
    select printf('%08x', n), 'ada', 's' || n, n % 64, 1, '${DOCUMENT}', 1, 1, 1, iif(n / 64 % 2 = 0, ${DUE}, ${LATER} + n / 64)
    from numbers`)
  store.connection.run("update schedules set next_at = 2000 where name = 's64'")
  const spies = [vi.spyOn(store.connection, "all"), vi.spyOn(store.connection, "get")]
  await queryAll(openMemory(store), "00000001")
  const statements = spies.flatMap(spy => spy.mock.calls)
  for (const spy of spies) spy.mockRestore()
  expect(statements.length).toBeGreaterThan(PARTITIONS.length + 6)
  for (const [text, ...values] of statements) {
    const plan = store.connection.all<{ detail: string }>(`explain query plan ${text}`, ...values)
    const details = plan.map(({ detail }) => detail)
    expect(
      details.filter(detail => /SCAN (schedules|fires)/.test(detail)),
      text,
    ).toEqual([])
    // Only a page is sorted.
    if (!text.includes("json_each")) expect(details.join(), text).not.toMatch(/TEMP B-TREE/)
  }
})

it("on PostgreSQL none reads a row that it does not need", async () => {
  const { bystander, open } = await postgresStage()
  const journal = await open()
  await bystander.query(`
    insert into umbra.schedules (id, owner, name, partition, revision, document, created_at, updated_at, last_tick, next_at)
    select gen_random_uuid(), case when n % 100 = 7 then 'ada' else 'o' || n % 100 end, 's' || n, n % 64, 1, '${DOCUMENT}', 1, 1, 1,
      case when n / 64 % 2 = 0 then ${DUE} when n = 64 then ${LATER} else ${LATER} + n / 64 end
    from generate_series(0, ${COUNT - 1}) as n`)
  await bystander.query("vacuum analyze umbra.schedules")
  await queryAll(journal, "00000000-0000-0000-0000-000000000000")
  const all = `{${PARTITIONS}}`
  const { limitOfPartition } = bounds
  const due = { ...bounds, partitions: all, at: DUE }
  const cases: { readonly [statement: string]: { readonly [name: string]: string | number } } = {
    dueSchedules: due,
    nextSchedule: due,
    queuedSchedules: due,
    readSchedules: { ids: "{00000000-0000-0000-0000-000000000000}" },
    countSchedules: { owner: "ada", limit: 50 },
    listSchedules: { owner: "ada", after: "s5", limit: 10, maxBytes: 1e6 },
  }
  // Plans that know nothing about the values.
  await bystander.query("set plan_cache_mode = force_generic_plan")
  for (const [name, values] of Object.entries(cases)) {
    const types = parameters[name]!.map(() => "text").join(", ")
    await bystander.query(`prepare ${name} (${types}) as ${sql[name as keyof typeof sql]}`)
    const given = parameters[name]!.map(parameter => `'${values[parameter]}'`).join(", ")
    const { rows } = await bystander.query(`explain (analyze, format json) execute ${name} (${given})`)
    const scans = planNodes(rows[0]["QUERY PLAN"][0].Plan).filter(
      node => node["Relation Name"] === "schedules",
    )
    expect(scans.length, name).toBeGreaterThan(0)
    for (const scan of scans) {
      expect(scan["Node Type"], name).toMatch(/^(Index (Only )?Scan|Bitmap Heap Scan)$/)
      const read = (scan["Actual Rows"] + (scan["Rows Removed by Filter"] ?? 0)) * scan["Actual Loops"]
      expect(read, name).toBeLessThanOrEqual(PARTITIONS.length * limitOfPartition)
    }
  }
})

interface PlanNode {
  readonly "Node Type": string
  readonly "Relation Name"?: string
  readonly "Actual Rows": number
  readonly "Actual Loops": number
  readonly "Rows Removed by Filter"?: number
  readonly Plans?: readonly PlanNode[]
}

function planNodes(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(planNodes)]
}
