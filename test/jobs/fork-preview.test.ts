/** What the preview of a fork says about time, usage and the critical path, from statistics. */
import { describe, expect, it } from "vitest"
import { compileWorkflow } from "../../src/definition/compile.ts"
import type { NodeDecision } from "../../src/definition/fork.ts"
import { forkPreview, type NodeExpectation } from "../../src/jobs/fork/preview.ts"
import { atOnce } from "../../src/turns.ts"

const handlers = { get: (name: string) => ({ name, effects: name === "pay" }), names: () => [] }
const { plan } = compileWorkflow(
  {
    name: "w",
    nodes: [
      { id: "kept", handler: "h" },
      { id: "slow", handler: "h", dependencies: ["kept"] },
      { id: "quick", handler: "h", dependencies: ["kept"] },
      { id: "longer", handler: "pay", dependencies: ["quick"] },
      { id: "end", handler: "h", dependencies: ["slow", "longer"] },
    ],
  },
  { handlers },
)

const decisions: readonly NodeDecision[] = plan!.nodes.map(({ id }, position) => ({
  node: id,
  position,
  origin: position,
  ...(id === "kept"
    ? { action: "reuse", reason: { code: "unchanged" } }
    : { action: "run", reason: { code: "not_completed" } }),
}))

const preview = (statistics: Readonly<Record<string, NodeExpectation>>) =>
  atOnce(
    forkPreview({
      ...{
        originId: "job",
        origin: plan!,
        plan: plan!,
        version: 1,
        decisions,
        handlers,
        confirm: {},
        repeats: true,
      },
      items: () => null,
      statistics: new Map(Object.entries(statistics)),
    }),
  )

const took = (p50: number, p90: number, tokens?: number): NodeExpectation => ({
  duration_ms: { p50, p90 },
  usage: tokens === undefined ? null : { tokens: { mean: tokens, p50: tokens - 1, p90: tokens * 2 } },
})

describe("the expectation of a fork", () => {
  it("is the slowest path through what runs, and the usage of all of it", () => {
    const { expected, effects } = preview({
      ...{ kept: took(9999, 9999, 9999), slow: took(1000, 4000, 5), quick: took(10, 20) },
      ...{ longer: took(20, 30, 2), end: took(5, 6) },
    })
    expect(expected).toEqual({
      duration_ms: { p50: 1005, p90: 4006 },
      usage: { tokens: { mean: 7, p50: 5, p90: 14 } },
      critical_path: ["slow", "end"],
      without_data: [],
    })
    expect(effects).toEqual({ safe: ["slow", "quick", "end"], unsafe: ["longer"], unknown: [] })
  })

  it("has no percentile of usage if a node that runs has none", () => {
    const old = {
      ...took(20, 30),
      usage: { tokens: { mean: 3, p50: null, p90: null }, cost: { mean: 1, p50: 1, p90: 2 } },
    }
    const { expected, will_run } = preview({ slow: took(1000, 4000, 5), longer: old })
    expect(expected.usage).toEqual({
      tokens: { mean: 8, p50: null, p90: null },
      cost: { mean: 1, p50: 1, p90: 2 },
    })
    expect(will_run.find(({ node }) => node === "slow")!.usage).toEqual({
      tokens: { mean: 5, p50: 4, p90: 10 },
    })
  })

  it("is null without data, never 0, and names the nodes that have none", () => {
    const some = preview({ slow: took(1000, 4000), quick: took(1, 1) })
    expect(some.expected).toEqual({
      duration_ms: null,
      usage: null,
      critical_path: ["slow", "end"],
      without_data: ["longer", "end"],
    })
    expect(some.will_run.map(({ duration_ms }) => duration_ms?.p50 ?? null)).toEqual([1000, 1, null, null])
    const none = preview({})
    expect(none.expected).toMatchObject({ duration_ms: null, usage: null })
    // The most nodes, where no time is known.
    expect(none.expected.critical_path).toEqual(["quick", "longer", "end"])
  })
})
