/** Which nodes a fork takes over, and why: the rules alone, on plans. */
import { describe, expect, it } from "vitest"
import type { Json } from "../../src/core/json.ts"
import { compileWorkflow } from "../../src/definition/compile.ts"
import { decideFork, type ForkTarget } from "../../src/definition/fork.ts"
import { atOnce } from "../../src/turns.ts"
import fc from "../support/property.ts"

const handlers = { get: (name: string) => ({ name }), names: () => [] }

function planOf(nodes: readonly object[], rules?: number) {
  const { plan, problems } = compileWorkflow(
    { name: "w", nodes },
    { handlers, ...(rules === undefined ? {} : { rules }) },
  )
  if (plan === undefined) throw new Error(JSON.stringify(problems))
  return plan
}

const chain = [
  { id: "a", handler: "h", config: { x: "{{ input.x }}" } },
  { id: "b", handler: "h", config: { of: "{{ a }}", y: "{{ input.y.z }}" } },
  { id: "c", handler: "h", config: { of: "{{ b }}" }, when: "{{ input.on }}" },
]

interface Given extends Partial<Omit<ForkTarget, "plan">> {
  readonly after?: readonly object[]
  readonly before?: readonly object[]
  readonly undone?: readonly string[]
  readonly partly?: readonly string[]
  readonly was?: Json
}

function decided({
  before = chain,
  after = before,
  undone = [],
  partly = [],
  was = null,
  ...target
}: Given = {}) {
  const plan = planOf(before)
  const work = decideFork(
    {
      plan,
      input: was,
      done: node => {
        const { id } = plan.nodes[node]!
        return undone.includes(id) ? "nothing" : partly.includes(id) ? "items" : "all"
      },
    },
    {
      ...{ plan: planOf(after), input: was, from: new Set(), pinned: new Set(), reuse: new Set() },
      ...{ items: new Map(), readsInput: () => false, ...target },
    },
  )
  const decisions = atOnce(work)
  return Object.fromEntries(decisions.map(({ node, action, reason }) => [node, [action, reason]]))
}

const reused = ["reuse", { code: "unchanged" }]

describe("what a fork takes over", () => {
  it("a part of the input that many nodes read is compared once, in pieces", () => {
    const nodes = Array.from({ length: 300 }, (_, i) => ({
      ...{ id: `n${i}`, handler: "h", config: { n: "{{ input.list }}" } },
    }))
    const plan = planOf(nodes)
    const listFrom = (first: number) => Array.from({ length: 30_000 }, (_, i) => [i === 0 ? first : i])
    const work = decideFork(
      { plan, input: { list: listFrom(0) }, done: () => "all" },
      {
        ...{ plan, input: { list: listFrom(-1) }, from: new Set(), pinned: new Set(), reuse: new Set() },
        ...{ items: new Map(), readsInput: () => false },
      },
    )
    let pieces = 0
    let step = work.next()
    for (; !step.done; step = work.next()) pieces++
    expect(step.value.every(({ action }) => action === "run")).toBe(true)
    expect(pieces).toBeGreaterThan(300)
    expect(pieces).toBeLessThan(1000)
  })

  it("everything that is done, and nothing behind what is not", () => {
    expect(decided()).toEqual({ a: reused, b: reused, c: reused })
    expect(decided({ undone: ["b", "c"] })).toEqual({
      a: reused,
      b: ["run", { code: "not_completed" }],
      c: ["run", { code: "not_completed" }],
    })
  })

  it("nothing that the request runs, nor what depends on it", () => {
    expect(decided({ from: new Set(["b"]) })).toEqual({
      a: reused,
      b: ["run", { code: "requested" }],
      c: ["run", { code: "dependency", nodes: ["b"] }],
    })
    expect(decided({ pinned: new Set(["a"]) })).toMatchObject({
      a: ["pin", { code: "pinned" }],
      b: ["run", { code: "dependency", nodes: ["a"] }],
    })
  })

  it.each([
    ["handler", { handler: "other" }],
    ["config", { config: { of: "{{ a }}", y: 1 } }],
    ["when", { when: "{{ input.maybe }}" }],
    ["for_each", { for_each: "{{ [1] }}" }],
    ["provider", { provider: "p" }],
  ])("no node whose %s has changed", (field, change) => {
    const after = chain.map(node => (node.id === "b" ? { ...node, ...change } : node))
    expect(decided({ after })).toMatchObject({ a: reused, b: ["run", { code: "changed", fields: [field] }] })
  })

  it("a node whose policies or whose order of keys have changed", () => {
    const after = chain.map(node => ({
      ...{ retry: { max_attempts: 7 }, timeout_seconds: 9 },
      ...node,
      config: Object.fromEntries(Object.entries(node.config).reverse()),
    }))
    expect(decided({ after })).toEqual({ a: reused, b: reused, c: reused })
  })

  it("no node with other dependencies, and new ones never", () => {
    const after = [{ id: "first", handler: "h" }, { ...chain[0], dependencies: ["first"] }, ...chain.slice(1)]
    expect(decided({ after })).toMatchObject({
      first: ["run", { code: "new" }],
      a: ["run", { code: "changed", fields: ["dependencies"] }],
      b: ["run", { code: "dependency", nodes: ["a"] }],
    })
  })

  it("only nodes that read nothing of what changed in the input", () => {
    const was = { x: 1, y: { z: 2, w: 3 }, on: true }
    const to = (input: Json, more: Given = {}) => decided({ was, input, ...more })
    expect(to({ ...was, y: { z: 2, w: 4 } })).toEqual({ a: reused, b: reused, c: reused })
    expect(to({ ...was, y: { z: 9, w: 3 } })).toMatchObject({
      a: reused,
      b: ["run", { code: "input_changed", paths: ["input.y.z"] }],
    })
    expect(to({ ...was, on: false })).toMatchObject({ b: reused, c: ["run", { code: "input_changed" }] })
    expect(to({ x: 1, y: { z: 2 } })).toMatchObject({
      c: ["run", { code: "input_changed", paths: ["input.on"] }],
    })
    const readsInput = (name: string) => name === "h"
    expect(to({ ...was, other: 1 }, { readsInput })).toMatchObject({
      a: ["run", { code: "handler_reads_input" }],
    })
    expect(to(was, { readsInput })).toEqual({ a: reused, b: reused, c: reused })
    const reuse = new Set(["a"])
    expect(to({ ...was, x: 2 }, { reuse })).toMatchObject({ a: ["reuse", { code: "kept" }], b: reused })
    // A null is not a missing value.
    expect(to({ ...was, x: null })).toMatchObject({ a: ["run", { code: "input_changed" }] })
  })

  it("items of a list, if nothing else makes the node run", () => {
    const before = [
      { id: "each", handler: "h", for_each: "{{ input.list }}" },
      { id: "end", handler: "h", dependencies: ["each"] },
    ]
    const list = { before, was: { list: [1, 2] } }
    expect(decided({ ...list, partly: ["each"], undone: ["end"] })).toMatchObject({
      each: ["items", { code: "items_not_completed" }],
    })
    const items = new Map([["each", new Set([0])]])
    expect(decided({ ...list, items })).toEqual({
      each: ["items", { code: "items_requested" }],
      end: ["run", { code: "dependency", nodes: ["each"] }],
    })
    expect(decided({ ...list, items, input: { list: [1] } })).toMatchObject({
      each: ["run", { code: "input_changed", paths: ["input.list"] }],
    })
  })

  it("in any graph: a node that is taken over is done, unchanged, and so are all above it", () => {
    const drawn = fc
      .array(
        fc.record({
          reads: fc.uniqueArray(fc.nat(7), { maxLength: 3 }),
          done: fc.boolean(),
          from: fc.boolean(),
        }),
        {
          minLength: 1,
          maxLength: 8,
        },
      )
      .map(list => list.map((node, at) => ({ ...node, reads: node.reads.filter(other => other < at) })))
    fc.assert(
      fc.property(drawn, fc.nat(7), (nodes, changed) => {
        const of = (salt: number) =>
          nodes.map(({ reads }, at) => ({
            id: `n${at}`,
            handler: "h",
            dependencies: reads.map(other => `n${other}`),
            config: { salt: at === changed ? salt : 0 },
          }))
        const from = new Set(nodes.flatMap(({ from: runs }, at) => (runs && at % 3 === 0 ? [`n${at}`] : [])))
        const undone = nodes.flatMap(({ done }, at) => (done ? [] : [`n${at}`]))
        const found = decided({ before: of(0), after: of(1), undone, from })
        for (const [at, { reads }] of nodes.entries()) {
          const isKept =
            at !== changed &&
            !undone.includes(`n${at}`) &&
            !from.has(`n${at}`) &&
            reads.every(other => found[`n${other}`]![0] === "reuse")
          expect(found[`n${at}`]![0]).toBe(isKept ? "reuse" : "run")
        }
      }),
    )
  })
})
