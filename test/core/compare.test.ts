import { isDeepStrictEqual } from "node:util"
import { describe, expect, it } from "vitest"
import type { Json } from "../../src/core/json.ts"
import { type ComparedJob, type ComparedNode, compareJobs } from "../../src/core/view/compare.ts"
import { diffJson } from "../../src/core/view/json-diff.ts"
import fc from "../support/property.ts"

function node(id: string, changed: Partial<ComparedNode> = {}): ComparedNode {
  return {
    ...{ id, definition: "d", reads: [], status: "COMPLETED", attempts: 1, began_ms: 0, took_ms: 10 },
    ...{ usage: {}, error: null, output: `${id} out` },
    ...changed,
  }
}

function job(nodes: readonly ComparedNode[], changed: Partial<ComparedJob> = {}): ComparedJob {
  return {
    ...{ job_id: "j", workflow: "w", workflow_version: 1, status: "COMPLETED", definition: "w1" },
    ...{ input: "in", took_ms: 100, usage: {}, nodes },
    ...changed,
  }
}

const chain = (changed: Partial<ComparedNode> = {}, last: Partial<ComparedNode> = {}) => [
  node("a"),
  node("b", { reads: ["a"], ...changed }),
  node("c", { reads: ["b"], ...last }),
]

describe("the comparison of two jobs", () => {
  it("finds no divergence in a job and itself", () => {
    const compared = compareJobs(job(chain()), job(chain()))
    expect(compared).toMatchObject({ divergence: null, divergences: [], complete: true, same_input: true })
    expect(compared.nodes.every(each => each.same_output && each.same_inputs)).toBe(true)
  })

  it("names the first node with the same inputs and another output, and not what follows from it", () => {
    const compared = compareJobs(job(chain()), job(chain({ output: "other" }, { output: "other too" })))
    expect(compared.divergences).toEqual([{ kind: "output", node: "b" }])
    expect(compared.nodes[2]).toMatchObject({ same_inputs: false, same_output: false, divergence: null })
  })

  it("names other inputs, definitions, states, and nodes of one job only", () => {
    expect(compareJobs(job(chain()), job(chain(), { input: "else" })).divergence).toEqual({
      kind: "input",
      node: null,
    })
    expect(compareJobs(job(chain()), job(chain({ definition: "e" }))).divergence).toEqual({
      kind: "definition",
      node: "b",
    })
    const failed = chain({ status: "FAILED", output: null }, { status: "FAILED", output: null })
    expect(compareJobs(job(chain()), job(failed)).divergences).toEqual([{ kind: "status", node: "b" }])
    const compared = compareJobs(job([node("a"), node("x")]), job([node("a"), node("y")]))
    expect(compared.divergences).toEqual([
      { kind: "only_a", node: "x" },
      { kind: "only_b", node: "y" },
    ])
    expect(compared.nodes.map(({ id, a, b }) => [id, a !== null, b !== null])).toEqual([
      ["a", true, true],
      ["x", true, false],
      ["y", false, true],
    ])
  })

  it("names the node that failed, not those that its failure has cancelled", () => {
    const cancelled = { status: "CANCELLED", output: null } as const
    const failed = { status: "FAILED", output: null } as const
    const whole = job([node("early"), node("cause"), node("late")])
    const half = [node("early", cancelled), node("cause", failed), node("late", cancelled)]
    const a = job(half, { status: "FAILED" })
    const cause = [{ kind: "status", node: "cause" }]
    expect(compareJobs(a, whole).divergences).toEqual(cause)
    expect(compareJobs(whole, a).divergences).toEqual(cause)
    expect(compareJobs(a, whole).nodes.map(({ divergence }) => divergence)).toEqual([null, "status", null])
    // Two jobs that failed at different nodes.
    const other = job([node("early", failed), node("cause", cancelled), node("late", cancelled)], {
      status: "FAILED",
    })
    expect(compareJobs(a, other).divergences).toEqual([{ kind: "status", node: "early" }, ...cause])
    // A user cancelled the job: nothing in it is the cause.
    const stopped = job([node("early"), node("cause", cancelled), node("late")], { status: "CANCELLED" })
    expect(compareJobs(whole, stopped).divergences).toEqual(cause)
  })

  it("does not guess about outputs that were not compared", () => {
    const { output: _, ...unknown } = node("b", { reads: ["a"] })
    const nodes = [node("a"), unknown, node("c", { reads: ["b"], output: "other" })]
    const compared = compareJobs(job(nodes), job(chain()))
    expect(compared).toMatchObject({ complete: false, divergence: null })
    expect(compared.nodes[2]).toMatchObject({ same_inputs: null, same_output: false })
  })

  it("does not guess about inputs that were not compared", () => {
    const { input: _, ...unknown } = job(chain())
    for (const [a, b] of [
      [unknown, unknown],
      [unknown, job(chain())],
    ] as const) {
      const compared = compareJobs(a, b)
      expect(compared).toMatchObject({ same_input: null, complete: false, divergences: [] })
      expect(compared.nodes.map(({ same_inputs }) => same_inputs)).toEqual([null, null, null])
    }
  })

  it("gives the differences of b from a", () => {
    const a = job([node("a", { usage: { tokens: 5, calls: 1 } })], { usage: { tokens: 5 } })
    const b = job([node("a", { usage: { tokens: 9, calls: 1 }, attempts: 3, took_ms: 4 })], { took_ms: 70 })
    expect(compareJobs(a, b)).toMatchObject({
      delta: { took_ms: -30, usage: { tokens: -5 } },
      nodes: [{ delta: { took_ms: -6, attempts: 2, usage: { tokens: 4 } } }],
    })
    const fewer = job([node("a", { usage: { tokens: 4, calls: 1 } })])
    expect(compareJobs(a, fewer).nodes[0]!.delta!.usage).toEqual({ tokens: -1 })
  })
})

describe("the difference of two JSON values", () => {
  it("names every value that was added, removed or changed", () => {
    const a = { name: "tea", list: [1, 2, 3], deep: { x: null }, "a b": 1 }
    const b = { list: [1, 5], deep: { x: 0 }, "a b": 1, extra: {} }
    expect(diffJson(a, b)).toEqual({
      complete: true,
      changes: [
        { path: "$.name", kind: "removed", a: '"tea"' },
        { path: "$.list[1]", kind: "changed", a: "2", b: "5" },
        { path: "$.list[2]", kind: "removed", a: "3" },
        { path: "$.deep.x", kind: "changed", a: "null", b: "0" },
        { path: "$.extra", kind: "added", b: "{}" },
      ],
    })
    expect(diffJson({ "a b": 1 }, { "a b": 2 }).changes[0]!.path).toBe('$["a b"]')
  })

  it("is empty exactly for equal values, whatever the order of keys", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), fc.jsonValue({ maxDepth: 4 }), (a, b) => {
        const [left, right] = [JSON.parse(JSON.stringify(a)) as Json, JSON.parse(JSON.stringify(b)) as Json]
        expect(diffJson(left, shuffled(left)).changes).toEqual([])
        expect(diffJson(left, right).changes.length === 0).toBe(isDeepStrictEqual(left, right))
      }),
    )
  })

  it("aligns the elements of lists by value", () => {
    const rows = Array.from({ length: 100 }, (_, n) => ({ id: n, name: `row ${n}` }))
    const inserted = [{ id: -1, name: "new" }, ...rows]
    expect(diffJson(rows, inserted).changes).toEqual([
      { path: "$[0]", kind: "added", b: '{"id":-1,"name":"new"}' },
    ])
    expect(diffJson(inserted, rows).changes).toEqual([
      { path: "$[0]", kind: "removed", a: '{"id":-1,"name":"new"}' },
    ])
    // One removed, one changed, one added, with keys in another order.
    const other = rows.map(({ id, name }) => ({ name: id === 60 ? "changed" : name, id }))
    other.splice(20, 1)
    other.push({ name: "last", id: 100 })
    expect(diffJson({ rows }, { rows: other }).changes).toEqual([
      { path: "$.rows[20]", kind: "removed", a: '{"id":20,"name":"row 20"}' },
      { path: "$.rows[59].name", kind: "changed", a: '"row 60"', b: '"changed"' },
      { path: "$.rows[99]", kind: "added", b: '{"name":"last","id":100}' },
    ])
    expect(diffJson([0, 0, 0, 1], [0, 0, 1]).changes).toHaveLength(1)
    expect(diffJson([0, 0, 1, 1], [0, 1, 1]).changes).toEqual([{ path: "$[0]", kind: "removed", a: "0" }])
    expect(diffJson([[1, 2], [3]], [[9], [1, 2], [3]]).changes).toEqual([
      { path: "$[0]", kind: "added", b: "[9]" },
    ])
    // Beyond the bounds: by position.
    const bounds = { changes: 1000, values: 250 }
    expect(diffJson(rows, inserted, bounds).complete).toBe(false)
    const long = Array.from({ length: 20_001 }, (_, n) => n)
    expect(diffJson(long, [-1, ...long], { changes: 10, values: 1e6 }).changes).toHaveLength(10)
  })

  it("has all changes that make b of a", () => {
    const element = fc.integer({ min: 0, max: 6 })
    fc.assert(
      fc.property(fc.array(element), fc.array(element), (a, b) => {
        const { changes } = diffJson(a, b)
        const at = (kind: string) => changes.filter(change => change.kind === kind)
        expect(a.length - at("removed").length + at("added").length).toBe(b.length)
        const removed = new Set(at("removed").map(({ path }) => Number(path.slice(2, -1))))
        const rebuilt = a.filter((_, place) => !removed.has(place)).map(String)
        for (const { path, b: text } of at("added")) rebuilt.splice(Number(path.slice(2, -1)), 0, text!)
        for (const { path, b: text } of at("changed")) rebuilt[Number(path.slice(2, -1))] = text!
        expect(rebuilt).toEqual(b.map(String))
      }),
    )
  })

  it("stays within its bounds, and shortens long values", () => {
    const many = Array.from({ length: 50 }, (_, i) => i)
    const bounded = diffJson(many, [], { changes: 10, values: 1000 })
    expect(bounded.changes).toHaveLength(10)
    expect(bounded.complete).toBe(false)
    expect(diffJson(many, many, { changes: 10, values: 20 }).complete).toBe(false)
    const [change] = diffJson("x".repeat(10_000), { deep: [many, "y".repeat(1000)] }).changes
    expect(change!.a!.length).toBeLessThanOrEqual(201)
    expect(change!.b).toMatch(/^\{"deep":\[\[0,1,2,.*…$/)
    let nested: Json = 1
    for (let i = 0; i < 50_000; i++) nested = [nested]
    expect(diffJson(nested, 2).changes).toHaveLength(1)
  })
})

function shuffled(value: Json): Json {
  if (Array.isArray(value)) return value.map(shuffled)
  if (typeof value !== "object" || value === null) return value
  const entries = Object.entries(value).map(([key, inner]) => [key, shuffled(inner as Json)] as const)
  return Object.fromEntries(entries.reverse())
}
