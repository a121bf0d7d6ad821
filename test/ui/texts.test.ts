/** Definitions as YAML, differences between texts and between jobs, and amounts. */
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { parse } from "yaml"
import { type Comparison, divergenceText, verdictText } from "../../ui/src/compare/differences.ts"
import { amount, clock, usageRange, visible, withClock } from "../../ui/src/model/format.ts"
import { hunks, lineDiff } from "../../ui/src/model/line-diff.ts"
import { SliderScale } from "../../ui/src/model/slider-scale.ts"
import { numbered } from "../../ui/src/model/tries.ts"
import { toYaml } from "../../ui/src/model/yaml.ts"

const words = fc.constantFrom(
  "a",
  "true",
  "no",
  "12",
  "1e3",
  "0x1f",
  "- x",
  "a: b",
  "# c",
  "{{ input.a }}",
  "",
  "~",
)
const texts = fc.oneof(
  words,
  fc.string(),
  fc.array(words, { maxLength: 4 }).map(list => list.join("\n")),
)
const { json } = fc.letrec(tie => ({
  json: fc.oneof(
    { maxDepth: 4 },
    fc.oneof(
      texts,
      fc.boolean(),
      fc.constant(null),
      fc.integer(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
    ),
    fc.array(tie("json"), { maxLength: 4 }),
    fc.dictionary(texts, tie("json"), { maxKeys: 4 }),
  ),
}))

describe("a value as YAML", () => {
  it("is read back as the same value", () => {
    fc.assert(
      fc.property(json, value => {
        const given = JSON.parse(JSON.stringify(value))
        expect(parse(toYaml(given))).toEqual(given)
      }),
      { numRuns: 2000 },
    )
  })

  it("looks as people write it", () => {
    const text = toYaml({
      name: "film",
      nodes: [
        { id: "script", handler: "llm_service", config: { prompt: "Write.\n\nBe brief.\n", n: 2 } },
        { id: "cut", handler: "transform", dependencies: ["script"], config: { value: "{{ script.text }}" } },
      ],
    })
    expect(text).toBe(`name: film
nodes:
  - id: script
    handler: llm_service
    config:
      prompt: |
        Write.

        Be brief.
      n: 2
  - id: cut
    handler: transform
    dependencies: [script]
    config:
      value: "{{ script.text }}"
`)
  })
})

describe("the difference between texts", () => {
  const lists = fc.array(fc.constantFrom("a", "b", "c", "d"), { maxLength: 30 })

  it("gives both texts again, and is empty only if they are equal", () => {
    fc.assert(
      fc.property(lists, lists, (a, b) => {
        const lines = lineDiff(a.join("\n"), b.join("\n"))
        const side = (other: string) => lines.filter(({ kind }) => kind !== other).map(({ text }) => text)
        expect(side("added")).toEqual(a)
        expect(side("removed")).toEqual(b)
        expect(lines.every(({ kind }) => kind === "same")).toBe(a.join() === b.join())
        expect(lines.flatMap(line => line.a ?? [])).toEqual(a.map((_, n) => n + 1))
        expect(lines.flatMap(line => line.b ?? [])).toEqual(b.map((_, n) => n + 1))
      }),
    )
  })

  it("is short: one changed line is one removed and one added", () => {
    const before = Array.from({ length: 400 }, (_, n) => `line ${n}`)
    const lines = lineDiff(before.join("\n"), before.with(200, "other").join("\n"))
    expect(lines.filter(({ kind }) => kind !== "same").map(({ text }) => text)).toEqual(["line 200", "other"])
    expect(hunks(lines).map(line => ("skipped" in line ? line.skipped : line.text))).toEqual([
      ...[
        197,
        "line 197",
        "line 198",
        "line 199",
        "line 200",
        "other",
        "line 201",
        "line 202",
        "line 203",
        196,
      ],
    ])
  })
})

describe("a comparison", () => {
  const side = { status: "COMPLETED", attempts: 1, began_ms: 0, took_ms: 1, usage: {}, error: null } as const
  const node = {
    ...{ id: "a", a: { ...side, output: "1" }, b: { ...side, output: "2" }, same_definition: true },
    ...{ same_inputs: true, same_output: false, delta: null, divergence: "output" },
  }
  const compared = (over: object) =>
    ({ divergence: null, nodes: [], complete: true, same_input: true, ...over }) as unknown as Comparison

  it("says what was compared by hash only", () => {
    const divergence = { kind: "output", node: "a" }
    const byHash = { ...node, by_hash: true as const }
    expect(verdictText(node)).toBe("differs here")
    expect(verdictText(byHash)).toBe("differs here, by hash")
    expect(divergenceText(compared({ divergence, nodes: [node] }))).not.toContain("hash")
    expect(divergenceText(compared({ divergence, nodes: [byHash] }))).toContain("by hash, too large")
    const input = { divergence: { kind: "input", node: null }, same_input: false }
    expect(divergenceText(compared(input))).not.toContain("hash")
    expect(divergenceText(compared({ ...input, input_by_hash: true }))).toContain("differ by hash, too large")
  })

  it("does not call the same what was not compared", () => {
    const { output: _, ...a } = node.a
    const unknown = { ...node, a, same_output: null, divergence: null }
    expect(verdictText(unknown)).toBe("not compared, too large")
    expect(verdictText({ ...node, divergence: null, same_inputs: null })).toBe("differs")
    expect(verdictText({ ...node, divergence: null, same_inputs: false })).toBe("differs, follows")
    expect(divergenceText(compared({ complete: false, same_input: null }))).toContain(
      "the inputs are too large",
    )
    expect(divergenceText(compared({ complete: false }))).toContain("some outputs are too large")
  })
})

describe("an amount", () => {
  it("is readable, and 0 only if it is 0", () => {
    const texts = [0, 0.00012, 0.0123, 0.5, 12.5].map(value => amount("cost_usd", value))
    expect(texts).toEqual(["$0.000", "$0.00012", "$0.012", "$0.500", "$12.50"])
    expect([0, 3, 94.5, 1234.5, 123456.7].map(value => amount("tokens", value))).toEqual([
      "0",
      "3",
      "94.50",
      "1,235",
      "123,457",
    ])
  })

  it("has a range, or a mean without percentiles", () => {
    expect(usageRange("tokens", { mean: 5, p50: 3, p90: 9 })).toBe("3 – 9")
    expect(usageRange("tokens", { mean: 5, p50: 3, p90: 3 })).toBe("3")
    expect(usageRange("tokens", { mean: 5, p50: null, p90: null })).toBe("mean 5")
  })
})

describe("texts that others wrote", () => {
  it("have marks of the direction of writing as escapes", () => {
    expect(visible("file=\u202Etxt.exe \u2066 שלום")).toBe("file=\\u202etxt.exe \\u2066 שלום")
  })

  it("have times as the pages write them", () => {
    const at = Date.parse("2001-02-03T04:05:06.007Z")
    const text = withClock("Node a waits for signal go until 2001-02-03T04:05:06.007Z.")
    expect(text).toBe(`Node a waits for signal go until ${clock(at)}.`)
    expect(clock(at)).toContain("3 Feb")
  })
})

describe("attempts", () => {
  it("have the numbers that people see: one that was handed over or did not begin has that of the next", () => {
    const ended = (outcome: string, startedAt: number | null = 1) =>
      ({ node: 0, seq: 1, outcome, startedAt, endedAt: 2, worker: null, error: null, retryAt: null }) as const
    const outcomes = [
      ended("failed"),
      ended("handed_over"),
      ended("lost", null),
      ended("lost"),
      ended("postponed"),
      ended("failed"),
    ]
    expect(numbered(outcomes).map(({ number }) => number)).toEqual([1, 2, 2, 2, 3, 3])
  })
})

describe("the axis of the time slider", () => {
  const axis = (...times: number[]) => new SliderScale(times.map(at => ({ at })) as never, times.at(-1)!)

  it("folds a stretch without events that is far longer than the others", () => {
    const hour = 3_600_000
    const { breaks } = axis(0, 100, 200, 300, hour, hour + 100)
    expect(breaks.map(({ from, to }) => [from, to])).toEqual([[300, hour]])
  })

  it("keeps the proportions of a job with few events, whose stretches are all long", () => {
    const scale = axis(0, 0, 52, 137, 207, 378, 631)
    expect(scale.breaks).toEqual([])
    expect(scale.timeToX(52)).toBeCloseTo(52 / 631)
  })
})
