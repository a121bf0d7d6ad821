import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { readGraph } from "../../../src/core/compiled-graph.ts"
import { criticalPath } from "../../../src/core/statistics/critical-path.ts"
import { Histogram } from "../../../src/core/statistics/histogram.ts"
import {
  decodeFigures,
  encodeFigures,
  type JobFigures,
  type NodeFigures,
  needsFold,
} from "../../../src/core/statistics/job-figures.ts"
import {
  addJob,
  decodeTotals,
  encodeTotals,
  mergeByNode,
  type Totals,
} from "../../../src/core/statistics/totals.ts"
import { seed } from "../../support/seed.ts"

const duration = fc.oneof(fc.nat(30), fc.nat(5_000), fc.nat(1e6), fc.nat(1e12))
const durations = fc.array(duration, { minLength: 1, maxLength: 300 })

function histogram(values: readonly number[]): Histogram {
  const made = new Histogram()
  for (const value of values) made.add(value)
  return made
}

/** The smallest value that at least this share of the values does not exceed. */
function exact(values: readonly number[], rank: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.max(1, Math.ceil(rank * sorted.length)) - 1]!
}

describe("a histogram", () => {
  it("gives every quantile within 5 % of the sorted list", () => {
    fc.assert(
      fc.property(durations, fc.double({ min: 0, max: 1, noNaN: true }), (values, rank) => {
        const [found] = histogram(values).quantiles([rank])!
        const wanted = exact(values, rank)
        expect(Math.abs(found! - wanted)).toBeLessThanOrEqual(0.05 * wanted)
      }),
      { numRuns: 1000, seed },
    )
  })

  it("of every single value is within 5 %, and exact up to 20 ms", () => {
    for (let ms = 0; ms < 50_000; ms++) {
      const [found] = histogram([ms]).quantiles([0.5])!
      expect(Math.abs(found! - ms)).toBeLessThanOrEqual(ms <= 20 ? 0 : 0.05 * ms)
    }
  })

  it("of a union is the sum of the histograms, also as stored", () => {
    fc.assert(
      fc.property(durations, durations, (first, second) => {
        const sum = Histogram.decode(histogram(first).encode())
        sum.merge(histogram(second))
        expect(sum.encode()).toEqual(histogram([...first, ...second]).encode())
      }),
      { numRuns: 200, seed },
    )
  })

  it("without values has no quantile", () => {
    expect(new Histogram().quantiles([0.5])).toBeNull()
  })
})

const usage = fc.option(
  fc.dictionary(fc.constantFrom("tokens", "cost", "__proto__"), fc.integer({ min: 1, max: 1e6 }), {
    minKeys: 1,
  }),
)
const code = fc.constantFrom("E401", "E404", 'my "code"', "\u0001")
const node: fc.Arbitrary<NodeFigures> = fc
  .record({
    node: fc.constantFrom("a", "b", "c-d_e"),
    outcome: fc.constantFrom("completed" as const, "failed" as const, "cancelled" as const),
    code,
    durationMs: fc.option(duration),
    queuedMs: fc.option(duration),
    attempts: fc.nat(9),
    losses: fc.nat(3),
    usage,
  })
  .map(({ code, ...rest }) => ({ ...rest, code: rest.outcome === "failed" ? code : null }))
const figures: fc.Arbitrary<JobFigures> = fc.record({
  status: fc.constantFrom("COMPLETED" as const, "FAILED" as const, "CANCELLED" as const, "EXPIRED" as const),
  code: fc.option(code),
  durationMs: duration,
  queuedMs: fc.option(duration),
  usage,
  retries: fc.nat(2),
  plain: fc
    .array(fc.tuple(fc.constantFrom("a", "b", "c-d_e"), fc.option(duration), fc.option(duration)), {
      maxLength: 6,
    })
    .map(nodes => nodes.flat()),
  nodes: fc.array(node, { maxLength: 6 }),
  rest: fc.option(
    fc
      .array(node, { minLength: 1, maxLength: 3 })
      .map(nodes => totalsOf([{ ...plain, nodes }]).get("a") ?? null),
  ),
})
const plain: JobFigures = {
  ...{ status: "COMPLETED", code: null, durationMs: 1, queuedMs: null, usage: null, retries: 0 },
  ...{ plain: [], nodes: [], rest: null },
}

function totalsOf(jobs: readonly JobFigures[]): Map<string, Totals> {
  const totals = new Map<string, Totals>()
  for (const job of jobs) addJob(totals, job)
  return totals
}

const comparable = (totals: ReadonlyMap<string, Totals>) =>
  [...totals]
    .map(([name, each]) => {
      const { n, d, q, e = [], u = [] } = JSON.parse(encodeTotals(each))
      return [name, n, d, q, [...e].sort(), [...u].sort()]
    })
    .sort(([a], [b]) => (String(a) < String(b) ? -1 : 1))

describe("figures and totals", () => {
  it("of a job are read as they were written", () => {
    fc.assert(
      fc.property(figures, fc.nat(2 ** 31), (given, seq) => {
        const text = encodeFigures(given, seq)
        expect(text.startsWith(`{"e":${seq},`)).toBe(true)
        expect(needsFold(text)).toBe(given.retries > 0 || given.rest !== null)
        if (given.rest !== null) return
        const { seq: read, figures: found } = decodeFigures(text)
        expect(read).toBe(seq)
        expect(comparable(totalsOf([found]))).toEqual(comparable(totalsOf([given])))
        expect({ ...found, rest: null }).toEqual({ ...given, rest: null })
      }),
      { numRuns: 300, seed },
    )
  })

  it("of a job with many nodes are short, and must be folded", () => {
    const nodes = Array.from({ length: 33 }, (_, n) => [`node${n}`, n, 0]).flat()
    expect(needsFold(encodeFigures({ ...plain, plain: nodes.slice(3) }, 1))).toBe(false)
    const text = encodeFigures({ ...plain, plain: nodes }, 1)
    expect(needsFold(text)).toBe(true)
    expect(text.length).toBeLessThan(50)
  })

  it("of a union are the sums of the totals, also as stored", () => {
    fc.assert(
      fc.property(fc.array(figures), fc.array(figures), (first, second) => {
        const sum = new Map(
          [...totalsOf(first)].map(([name, each]) => [name, decodeTotals(encodeTotals(each))]),
        )
        mergeByNode(sum, totalsOf(second))
        expect(comparable(sum)).toEqual(comparable(totalsOf([...first, ...second])))
      }),
      { numRuns: 200, seed },
    )
  })
})

describe("the critical path", () => {
  it("has the greatest sum of all paths", () => {
    const graphs = fc
      .integer({ min: 1, max: 8 })
      .chain(size =>
        fc.tuple(
          fc.array(fc.integer({ min: 0, max: 2 ** size - 1 }), { minLength: size, maxLength: size }),
          fc.array(fc.nat(100), { minLength: size, maxLength: size }),
        ),
      )
    fc.assert(
      fc.property(graphs, ([edges, times]) => {
        const above = edges.map((bits, node) =>
          times.flatMap((_, other) => (other < node && (bits >> other) & 1 ? [other] : [])),
        )
        const graph = readGraph({
          nodes: above.map((list, node) => ({
            ...{ id: `n${node}`, handler: "h", depends_on: list.map(other => `n${other}`), provider: null },
            ...{
              timeout_seconds: null,
              heartbeat_seconds: null,
              max_parallel: null,
              fail_fast: true,
              for_each: false,
              resumes: false,
            },
            retry: { max_attempts: 1, initial_seconds: 1, max_seconds: 1, multiplier: 1, jitter: 0 },
          })),
        })
        const path = criticalPath(graph, node => times[node]!)
        const longest = (node: number): number => times[node]! + Math.max(0, ...above[node]!.map(longest))
        const sum = path.reduce((total, node) => total + times[node]!, 0)
        expect(sum).toBe(Math.max(...times.map((_, node) => longest(node))))
        path.forEach((node, index) => {
          if (index > 0) expect(above[node]).toContain(path[index - 1])
          else expect(above[node]).toEqual([])
        })
      }),
      { numRuns: 200, seed },
    )
  })
})
