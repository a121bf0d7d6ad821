/** What `umbra jobs diff` prints about values that were not compared, or only by hash. */
import pc from "picocolors"
import { describe, expect, it } from "vitest"
import { comparisonText } from "../../src/cli/jobs/diff.ts"
import { type ComparedJob, type ComparedNode, comparison } from "../../src/core/view/compare.ts"
import { atOnce } from "../../src/turns.ts"

const node = (output?: string): ComparedNode => ({
  ...{ id: "price", definition: "d", reads: [], status: "COMPLETED", attempts: 1, began_ms: 0, took_ms: 10 },
  ...{ usage: {}, error: null, ...(output === undefined ? {} : { output }) },
})
const job = (input: string | undefined, output: string | undefined): ComparedJob => ({
  ...{ job_id: "j", workflow: "w", workflow_version: 1, status: "COMPLETED", definition: "w1" },
  ...{ took_ms: 100, usage: {}, nodes: [node(output)], ...(input === undefined ? {} : { input }) },
})
const moment = { seq: 1, index: 1, at: "2026-11-17T10:00:00.000Z" }

function text(
  a: ComparedJob,
  b: ComparedJob,
  byHash: readonly (string | null)[] = [],
  columns = Number.POSITIVE_INFINITY,
): string {
  const compared = atOnce(comparison(a, b, { equal: new Set(), byHash: new Set(byHash) }))
  return comparisonText({ ...compared, moments: { a: moment, b: moment } }, pc.createColors(false), columns)
}

describe("umbra jobs diff", () => {
  it("rounds what differs in usage", () => {
    const [a, b] = [job("in", "out"), job("in", "out")]
    const used = text({ ...a, usage: { usd: 0.1, tokens: 9 } }, { ...b, usage: { usd: 0.3, tokens: 2 } })
    expect(used).toContain("  usd +0.2\n  tokens -7\n")
  })

  it.each([40, 100])("fits into %i columns, and leaves nothing out", columns => {
    const id = "01a1eded-cdd9-7000-8000-4169a368994e"
    const [a, b] = [
      { ...job("in", "one"), job_id: id },
      { ...job("in", "two"), job_id: id },
    ]
    const narrow = text(a, b, ["price"], columns)
    for (const line of narrow.split("\n")) expect(line.length, line).toBeLessThanOrEqual(columns)
    const words = (from: string) => from.split(/\s+/)
    expect(words(narrow)).toEqual(words(text(a, b, ["price"])))
  })

  it("says how far a list is", () => {
    const [a, b] = [1, 2].map(done => {
      const list = { ...node(), status: "QUEUED", took_ms: null, items: { done, total: 3 } } as const
      return { ...job("in", undefined), nodes: [list] }
    })
    expect(text(a!, b!)).toContain("price  QUEUED, 1 of 3 items → 2 of 3 items, had the same inputs")
  })

  it("says what was compared by hash only", () => {
    expect(text(job("in", "one"), job("in", "two"), ["price"])).toContain(
      "price  COMPLETED, had the same inputs, but a different output, outputs compared by hash, not by value: too large\n",
    )
    expect(text(job("one", "out"), job("two", "out"), [null])).toContain(
      "The inputs of the jobs were compared by hash, not by value: too large.\n",
    )
  })

  it("says what was not compared, and does not call it the same", () => {
    const inputs = text(job(undefined, "one"), job(undefined, "two"))
    expect(inputs).toContain("No divergence was found, but not everything was compared.\n")
    expect(inputs).toContain("The inputs of the jobs were not compared: too large.\n")
    expect(inputs).toContain("price  COMPLETED, its inputs were not compared\n")
    expect(inputs).not.toContain("Some outputs")
    const outputs = text(job("in", undefined), job("in", "two"))
    expect(outputs).toContain("price  COMPLETED, output not compared, too large\n")
    expect(outputs).toContain("Some outputs were too large to compare.\n")
    expect(text(job("in", "one"), job("in", "one"))).toContain("No divergence.\n")
  })
})
