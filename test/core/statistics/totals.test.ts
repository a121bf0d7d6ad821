import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { readGraph } from "../../../src/core/compiled-graph.ts"
import { criticalPath } from "../../../src/core/statistics/critical-path.ts"
import { Histogram } from "../../../src/core/statistics/histogram.ts"
import {
  decodeMetrics,
  encodeMetrics,
  type JobMetrics,
  type NodeMetrics,
  needsFold,
} from "../../../src/core/statistics/job-metrics.ts"
import {
  addJob,
  addStored,
  decodeTotals,
  encodeTotals,
  mergeByNode,
  newTotals,
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
        const sum = new Histogram()
        sum.addEncoded(histogram(first).encode())
        sum.merge(histogram(second))
        expect(sum.encode()).toEqual(histogram([...first, ...second]).encode())
      }),
      { numRuns: 200, seed },
    )
  })

  it("of amounts gives every quantile within 5 % too, also of fractions and amounts below 0", () => {
    const amount = fc.oneof(
      fc.integer({ min: -1e6, max: 1e6 }),
      fc.nat(30),
      fc
        .tuple(fc.double({ min: 1, max: 10, noNaN: true }), fc.integer({ min: -12, max: 12 }))
        .map(([a, b]) => a * 10 ** b),
    )
    fc.assert(
      fc.property(
        fc.array(amount, { minLength: 1, maxLength: 100 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (values, rank) => {
          const made = new Histogram()
          for (const value of values) made.addAmount(value)
          const stored = new Histogram()
          stored.addText(`[${made.encode()}]`, 1)
          const wanted = exact(values, rank)
          for (const each of [made, stored]) {
            const [found] = each.quantiles([rank])!
            expect(Math.abs(found! - wanted)).toBeLessThanOrEqual(0.05 * Math.abs(wanted))
          }
        },
      ),
      { numRuns: 1000, seed },
    )
  })

  it("of amounts is stored as whole numbers, whatever they are", () => {
    const made = new Histogram()
    for (const amount of [Number.MAX_VALUE, Number.MIN_VALUE, -Number.MAX_VALUE, -0, Infinity, Number.NaN])
      made.addAmount(amount)
    const stored = made.encode()
    expect(stored.every(Number.isSafeInteger)).toBe(true)
    expect(stored.filter((_, at) => at % 2 === 1)).toEqual([1, 1, 1, 1])
  })

  it("without values has no quantile", () => {
    expect(new Histogram().quantiles([0.5])).toBeNull()
  })
})

const usage = fc.option(
  fc.dictionary(
    fc.constantFrom("tokens", "cost", "__proto__"),
    fc.integer({ min: 1, max: 1e6 }).map(whole => whole / 8),
    {
      minKeys: 1,
    },
  ),
)
const code = fc.constantFrom("E401", "E404", 'my "code"', "\u0001")
const node: fc.Arbitrary<NodeMetrics> = fc
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
const metrics: fc.Arbitrary<JobMetrics> = fc.record({
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
const plain: JobMetrics = {
  ...{ status: "COMPLETED", code: null, durationMs: 1, queuedMs: null, usage: null, retries: 0 },
  ...{ plain: [], nodes: [], rest: null },
}

function totalsOf(jobs: readonly JobMetrics[]): Map<string, Totals> {
  const totals = new Map<string, Totals>()
  for (const job of jobs) addJob(totals, job)
  return totals
}

const comparable = (totals: ReadonlyMap<string, Totals>) =>
  [...totals]
    .map(([name, each]) => {
      const { n, d, q, h = [], e = [], u = [] } = JSON.parse(encodeTotals(each))
      const used = u.map((pair: [string, number], at: number) => [...pair, h[at] ?? []])
      return [name, n, d, q, [...e].sort(), used.sort()]
    })
    .sort(([a], [b]) => (String(a) < String(b) ? -1 : 1))

describe("metrics and totals", () => {
  it("of many roll-ups, a line each, are the totals of all their jobs", () => {
    fc.assert(
      fc.property(fc.array(fc.array(metrics, { maxLength: 5 }), { maxLength: 5 }), groups => {
        const texts = groups.map(jobs => encodeTotals(totalsOf(jobs).get("a") ?? newTotals()))
        const sum = newTotals()
        addStored(sum, texts.join("\n"))
        const expected = totalsOf(groups.flat()).get("a") ?? newTotals()
        expect(comparable(new Map([["a", sum]]))).toEqual(comparable(new Map([["a", expected]])))
        expect(comparable(new Map([["a", decodeTotals(encodeTotals(sum))]]))).toEqual(
          comparable(new Map([["a", sum]])),
        )
      }),
      { numRuns: 500, seed },
    )
  })

  it("are read as releases before wrote them", () => {
    const text =
      '{"n":[7,1,2,0,9,3],"d":[0,1,20,2,31,156,999,1],"q":[5,1],"e":[["my ],\\"d\\":[",1]],"u":[["tokens",1.5e3]]}'
    const { duration, queued, errors, usage, ...counts } = decodeTotals(text)
    expect(counts).toEqual({ count: 7, failed: 1, cancelled: 2, expired: 0, attempts: 9, losses: 3 })
    expect(duration.encode()).toEqual([0, 1, 20, 2, 31, 156, 999, 1])
    expect(queued.encode()).toEqual([5, 1])
    expect([...errors, ...usage]).toEqual([
      ['my ],"d":[', 1],
      ["tokens", { sum: 1500, histogram: null }],
    ])
    expect(encodeTotals(decodeTotals('{"n":[1,0,0,0,1,0],"q":[3,1]}'))).toBe('{"n":[1,0,0,0,1,0],"q":[3,1]}')
  })

  it("have histograms of usage, of what completed, beside sums that are stored without", () => {
    const used = (outcome: NodeMetrics["outcome"], usage: NodeMetrics["usage"]): JobMetrics => ({
      ...plain,
      nodes: [{ node: "a", outcome, code: null, durationMs: 1, queuedMs: 1, attempts: 1, losses: 0, usage }],
    })
    const jobs = [
      used("completed", { tokens: 3 }),
      used("failed", { tokens: 900 }),
      used("cancelled", { cost: 7 }),
    ]
    const text = encodeTotals(totalsOf(jobs).get("a")!)
    expect(text).toBe(
      '{"n":[2,1,1,0,3,0],"d":[1,1],"q":[1,3],"h":[[3,1],[]],"e":[["other",1]],"u":[["tokens",903],["cost",7]]}',
    )
    const sum = decodeTotals('{"n":[1,0,0,0,1,0],"u":[["cost",1],["tokens",5]]}')
    addStored(sum, text)
    expect(sum.usage.get("tokens")!.sum).toBe(908)
    expect(sum.usage.get("tokens")!.histogram!.encode()).toEqual([3, 1])
    expect(sum.usage.get("cost")).toEqual({ sum: 8, histogram: null })
    expect(encodeTotals(totalsOf([used("completed", null)]).get("a")!)).toBe(
      '{"n":[1,0,0,0,1,0],"d":[1,1],"q":[1,1]}',
    )
  })

  it("stay small, however many kinds of usage there are", () => {
    const names = (from: number) =>
      Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`kind${from + n}`, 0.5]))
    const totals = totalsOf([0, 30].map(from => ({ ...plain, usage: names(from) }))).get("")!
    const stored = decodeTotals(encodeTotals(totals))
    addStored(stored, encodeTotals(totalsOf([{ ...plain, usage: names(90) }]).get("")!))
    for (const { usage } of [totals, stored]) {
      expect(usage.size).toBe(51)
      expect([...usage].filter(([, { histogram }]) => histogram !== null).map(([name]) => name)).toEqual(
        Array.from({ length: 16 }, (_, n) => `kind${n}`),
      )
      expect(usage.get("other")!.histogram).toBeNull()
    }
    expect(stored.usage.get("other")!.sum).toBe(totals.usage.get("other")!.sum + 30)
  })

  it("with a histogram that is cut off are refused", () => {
    for (const list of ["", "[", "[1,2]", "[1,2],", "[1,2],]", "[1]]", "[1,2,]]"])
      expect(() => decodeTotals(`{"n":[1,0,0,0,1,0],"h":[${list},"u":[["a",1],["b",2]]}`), list).toThrow(
        SyntaxError,
      )
    expect(() => decodeTotals('{"n":[1,0,0,0,1,0],"h":[[1,2')).toThrow("A list of histograms is cut off.")
    for (const list of ["1", "1,", "1,2,", "1,2,3]", "1,x]", ""])
      expect(() => decodeTotals(`{"n":[1,0,0,0,1,0],"d":[${list}`)).toThrow(SyntaxError)
  })

  it("of a job are read as they were written", () => {
    fc.assert(
      fc.property(metrics, fc.nat(2 ** 31), (given, seq) => {
        const text = encodeMetrics(given, seq)
        expect(text.startsWith(`{"e":${seq},`)).toBe(true)
        expect(needsFold(text)).toBe(given.retries > 0 || given.rest !== null)
        if (given.rest !== null) return
        const { seq: read, metrics: found } = decodeMetrics(text)
        expect(read).toBe(seq)
        expect(comparable(totalsOf([found]))).toEqual(comparable(totalsOf([given])))
        expect({ ...found, rest: null }).toEqual({ ...given, rest: null })
      }),
      { numRuns: 300, seed },
    )
  })

  it("of a job with many nodes are short, and must be folded", () => {
    const nodes = Array.from({ length: 33 }, (_, n) => [`node${n}`, n, 0]).flat()
    expect(needsFold(encodeMetrics({ ...plain, plain: nodes.slice(3) }, 1))).toBe(false)
    const text = encodeMetrics({ ...plain, plain: nodes }, 1)
    expect(needsFold(text)).toBe(true)
    expect(text.length).toBeLessThan(50)
  })

  it("of a union are the sums of the totals, also as stored", () => {
    fc.assert(
      fc.property(fc.array(metrics), fc.array(metrics), (first, second) => {
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
