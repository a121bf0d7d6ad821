/** How PostgreSQL reads pages of facts and of logs: by index, and no row more. */
import pg from "pg"
import { expect, it, onTestFinished } from "vitest"
import { openPostgres } from "../../src/journal/postgres/open.ts"
import { parameters, sql } from "../../src/journal/postgres/sql.generated.ts"
import { freshDatabase } from "../support/services.ts"
import { batch, fact, hold, newId, newJob, store } from "./fixture.ts"

interface PlanNode {
  readonly "Node Type": string
  readonly "Actual Rows": number
  readonly Plans?: readonly PlanNode[]
}

/** The values of the parameters of a statement, in their order. */
const valuesOf = (statement: string, given: { readonly [name: string]: string | number | null }) =>
  parameters[statement]!.map(name => given[name]?.toString() ?? null)

const nodesOf = (plan: PlanNode): PlanNode[] => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)]

it("a page in the middle of 20,000 facts reads as many rows as it has, and sorts nothing", async () => {
  const { url, drop } = await freshDatabase()
  onTestFinished(drop)
  const journal = await openPostgres(url)
  onTestFinished(() => journal.close())
  const held = await hold(journal)
  const [jobId, other] = [newId(), newId()]
  for (let from = 0; from < 40_000; from += 5000) {
    const facts = Array.from({ length: 5000 }, (_, i) =>
      fact(held, from + i, { jobId: i % 2 === 0 ? jobId : other }),
    )
    await journal.append(batch(held, { facts }))
  }
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  onTestFinished(() => client.end())
  // Without statistics, and with them.
  for (const prepare of ["select 1", "analyze umbra.journal"]) {
    await client.query(prepare)
    const page = {
      jobId,
      after: held.seq(20_000),
      limit: 10,
      inlineBytes: 1000,
      upTo: Number.MAX_SAFE_INTEGER,
    }
    const values = valuesOf("readFactPage", page)
    const { rows } = await client.query(`explain (analyze, format json) ${sql.readFactPage}`, values)
    const nodes = nodesOf(rows[0]["QUERY PLAN"][0].Plan as PlanNode)
    expect(nodes.map(node => node["Node Type"])).toEqual(["Limit", "Index Scan"])
    expect(nodes.map(node => node["Actual Rows"])).toEqual([10, 10])
  }
})

it("a page in the middle of 20,000 log rows reads as many rows as it has, in both directions", async () => {
  const { url, drop } = await freshDatabase()
  onTestFinished(drop)
  const journal = await openPostgres(url)
  onTestFinished(() => journal.close())
  const held = await hold(journal)
  const job = newJob(held, 1)
  await store(journal, held, [job])
  const row = { jobId: job.id, fence: 1, attempt: 1, level: 1, lines: `["${"x".repeat(100)}"]` }
  for (let from = 1; from < 20_000; from += 2000)
    await journal.logs.write(
      Array.from({ length: 2000 }, (_, i) => {
        const line = from + i
        return {
          ...row,
          nodeId: line % 2 === 0 ? "a" : "b",
          item: line % 200,
          firstLine: line,
          lastLine: line,
        }
      }),
    )
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  onTestFinished(() => client.end())
  const pageOf = (direction: number) => ({
    ...{ jobId: job.id, from: 10_000, level: 0, limit: 10, maxBytes: 1_000_000, direction },
    ...{ nodeId: "a", attempt: null, item: 4 },
  })
  let count = 0
  // Without statistics, and with them.
  for (const prepare of ["select 1", "analyze umbra.node_logs"]) {
    await client.query(prepare)
    const scans = async (
      statement: "readLogs" | "readNodeLogs" | "readItemLogs",
      page: ReturnType<typeof pageOf>,
    ) => {
      await client.query("set plan_cache_mode = force_generic_plan")
      const { rows } = await client.query({
        name: `page ${++count}`,
        text: `explain (analyze, format json) ${sql[statement]}`,
        values: valuesOf(statement, page),
      })
      const nodes = nodesOf(rows[0]["QUERY PLAN"][0].Plan as PlanNode)
      return nodes.filter(node => / Scan$/.test(node["Node Type"]) && node["Node Type"] !== "Subquery Scan")
    }
    for (const direction of [1, -1]) {
      const page = pageOf(direction)
      for (const statement of ["readLogs", "readNodeLogs"] as const) {
        // The page, and for each of its rows the one before it of the same attempt.
        const found = (await scans(statement, page)).filter(scan => scan["Actual Rows"] > 0)
        expect(found.map(scan => scan["Actual Rows"]).toSorted((one, other) => other - one)).toEqual([10, 1])
        expect(found.map(scan => scan["Node Type"])).toContain("Index Scan")
      }
      // 100 rows of one item, of which those after the position are sorted.
      const ofItem = await scans("readItemLogs", page)
      for (const scan of ofItem) expect(scan["Actual Rows"]).toBeLessThanOrEqual(100)
    }
  }
})
