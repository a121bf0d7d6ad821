/** How PostgreSQL reads a page of facts: by index, and no row more. */
import pg from "pg"
import { expect, it, onTestFinished } from "vitest"
import { openPostgres } from "../../src/journal/postgres/open.ts"
import { sql } from "../../src/journal/postgres/sql.generated.ts"
import { freshDatabase } from "../support/services.ts"
import { batch, fact, hold, newId } from "./fixture.ts"

interface PlanNode {
  readonly "Node Type": string
  readonly "Actual Rows": number
  readonly Plans?: readonly PlanNode[]
}

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
    const values = [jobId, held.seq(20_000), 10, 1000, Number.MAX_SAFE_INTEGER].map(String)
    const { rows } = await client.query(`explain (analyze, format json) ${sql.readFactPage}`, values)
    const nodes = nodesOf(rows[0]["QUERY PLAN"][0].Plan as PlanNode)
    expect(nodes.map(node => node["Node Type"])).toEqual(["Limit", "Index Scan"])
    expect(nodes.map(node => node["Actual Rows"])).toEqual([10, 10])
  }
})
