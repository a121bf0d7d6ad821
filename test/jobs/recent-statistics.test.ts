import { describe, expect, it } from "vitest"
import { addJob, encodeTotals, type Totals } from "../../src/core/statistics/totals.ts"
import { nodeExpectations } from "../../src/jobs/fork/expectations.ts"
import { type StatisticsParts, StatisticsQueries } from "../../src/jobs/statistics.ts"
import type { StatisticsQuery } from "../../src/journal/port/statistics.ts"

/** A store that counts the reads of roll-ups. Workflows have this many nodes with runs. */
function stage({ nodes = 2, data }: { nodes?: number; data?: string } = {}) {
  const totals = new Map<string, Totals>()
  const names = Array.from({ length: nodes }, (_, n) => `n${n}`)
  addJob(totals, {
    ...{ status: "COMPLETED", code: null, durationMs: 5, queuedMs: 1, usage: null, retries: 0 },
    ...{ plain: names.flatMap(name => [name, 5, 1]), nodes: [], rest: null },
  })
  const rows = [...totals].map(([node, each]) => ({ version: 1, node, data: data ?? encodeTotals(each) }))
  const read: StatisticsQuery[] = []
  const store = { now: 1e12, fails: false, isEmpty: false }
  const journal = {
    statistics: {
      read: async (query: StatisticsQuery) => {
        read.push(query)
        await new Promise(resolve => setImmediate(resolve))
        if (store.fails) throw new Error("away")
        return store.isEmpty ? [] : rows
      },
    },
    readWorkflow: async () => null,
  }
  const dependencies = { starts: new Int32Array(names.length + 1), items: new Int32Array(0) }
  const plan = { nodes: names.map(id => ({ id })), dependencies, order: names.map((_, n) => n) }
  const parts = { journal, plans: { get: async () => plan }, now: () => store.now }
  return { queries: new StatisticsQueries(parts as unknown as StatisticsParts), read, store }
}

const flow = { owner: "o", workflow: "flow" }

describe("the nodes of a workflow in the last week", () => {
  it("are read once for all callers of ten seconds", async () => {
    const { queries, read, store } = stage()
    const answers = await Promise.all(Array.from({ length: 50 }, () => queries.recentNodes(flow)))
    expect(new Set(answers).size).toBe(1)
    expect(answers[0]).toMatchObject([
      { node: "n0", count: 1 },
      { node: "n1", count: 1 },
    ])
    store.now += 9_999
    expect(await queries.recentNodes(flow)).toBe(answers[0])
    expect(read).toHaveLength(1)
    store.now += 1
    await queries.recentNodes(flow)
    expect(read).toHaveLength(2)
  })

  it("have a mean without percentiles, if their usage was stored without histograms", async () => {
    const old = '{"n":[4,1,1,0,5,0],"d":[5,3],"q":[1,4],"e":[["E405",1]],"u":[["tokens",1000]]}'
    const mean = { p50: null, p90: null }
    const { queries } = stage({ nodes: 1, data: old })
    expect((await queries.recentNodes(flow))[0]!.usage).toEqual({
      tokens: { total: 1000, mean: 200, ...mean, p95: null, p99: null },
    })
    expect(await nodeExpectations(queries, flow)).toEqual(
      new Map([["n0", { duration_ms: { p50: 5, p90: 5 }, usage: { tokens: { mean: 200, ...mean } } }]]),
    )
  })

  it("are those of one owner", async () => {
    const { queries, read } = stage()
    await queries.recentNodes(flow)
    await queries.recentNodes({ ...flow, owner: "other" })
    await queries.recentNodes({ ...flow, workflow: "other" })
    expect(read.map(({ owner, workflow }) => [owner, workflow])).toEqual([
      ["o", "flow"],
      ["other", "flow"],
      ["o", "other"],
    ])
  })

  it("are read again after a failure, and while there are none", async () => {
    const { queries, read, store } = stage()
    store.fails = true
    await expect(queries.recentNodes(flow)).rejects.toThrow("away")
    store.fails = false
    store.isEmpty = true
    expect(await queries.recentNodes(flow)).toEqual([])
    store.isEmpty = false
    expect(await queries.recentNodes(flow)).toHaveLength(2)
    expect(read).toHaveLength(3)
  })

  it("are evicted beyond 10,000 nodes, first those that were not read for the longest time", async () => {
    const { queries, read } = stage({ nodes: 4000 })
    for (const workflow of ["a", "b", "a", "c", "a"]) await queries.recentNodes({ ...flow, workflow })
    expect(read.map(({ workflow }) => workflow)).toEqual(["a", "b", "c"])
    await queries.recentNodes({ ...flow, workflow: "b" })
    expect(read).toHaveLength(4)
  })
})
