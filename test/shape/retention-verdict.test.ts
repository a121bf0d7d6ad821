/** What `npm run bench -- retention` calls a pass. */
import { describe, expect, it } from "vitest"
import { growth, judge, type Period } from "../../bench/retention-verdict.ts"

const MB = 2 ** 20

function period(until: number, over: Partial<Period> = {}): Period {
  const bytes = new Map([["journal", 100 * MB]])
  return { until, rate: 4000, p50: 3, p99: 20, blocked: 0, backlog: 4000, bytes, ...over }
}

describe("the verdict on a steady state", () => {
  const targets = { rate: 4000, baseline: 10, steadyFrom: 100 }
  const times = [60, 120, 180, 240, 300]
  const missed = (periods: readonly Period[]) =>
    judge(periods, targets).flatMap(({ isMet }, index) => (isMet ? [] : [index]))

  it("meets every target when nothing changes", () => {
    expect(missed(times.map(until => period(until)))).toEqual([])
  })

  it.each([
    ["a rate that was not reached", { rate: 3900 }, 0],
    ["a p99 of more than three times the beginning's", { p99: 31 }, 1],
    ["a table that grew", { bytes: new Map([["journal", 130 * MB]]) }, 2],
    ["jobs that are not removed in time", { backlog: 40_001 }, 3],
    ["an append that waited for a lock", { blocked: 1 }, 4],
  ])("misses one for %s", (_, over, index) => {
    const last = period(300, over)
    expect(missed([...times.slice(0, -1).map(until => period(until)), last])).toEqual([index])
  })

  it("does not judge sizes by a run that was too short", () => {
    expect(missed([period(60), period(120)])).toEqual([2])
  })

  it("names the table that grew most, and leaves small ones out", () => {
    const sizes = (journal: number, jobs: number, small: number) => ({
      bytes: new Map([
        ["journal", journal * MB],
        ["jobs", jobs * MB],
        ["small", small],
      ]),
    })
    const found = growth([sizes(10, 10, 1), sizes(10, 10, 2), sizes(12, 20, 1000), sizes(11, 15, 10)])
    expect(found).toEqual({ name: "jobs", ratio: 2 })
  })
})
