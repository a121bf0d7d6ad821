import { createHash } from "node:crypto"
import { describe, expect, it } from "vitest"
import { stringify } from "yaml"
import {
  adapterCatalog,
  compileWorkflow,
  defaultRetryPolicy,
  loadWorkflow,
  retryDefaults,
} from "../../src/definition/index.ts"
import fc from "../support/property.ts"
import { handlers, planOf } from "./catalog.ts"
import { type Drawn, workflows } from "./drawn.ts"

const compile = (source: unknown) => {
  const { plan, problems } = compileWorkflow(source, { handlers })
  if (plan === undefined) throw new Error(JSON.stringify(problems))
  return plan
}

/** The same content with the keys of every mapping in another order. */
function shuffled(value: unknown, turn: number): unknown {
  if (Array.isArray(value)) return value.map(item => shuffled(item, turn))
  if (typeof value !== "object" || value === null) return value
  const entries = Object.entries(value)
  const at = entries.length === 0 ? 0 : turn % entries.length
  const turned = [...entries.slice(at), ...entries.slice(0, at)].reverse()
  return Object.fromEntries(turned.map(([key, member]) => [key, shuffled(member, turn + 1)]))
}

describe("J3 a plan", () => {
  const plan = planOf(`name: diamond
input: { type: object, properties: { n: { type: number } } }
ttl_seconds: 60
nodes:
  - { id: join, handler: output, config: { l: "{{ left }}", r: "{{ right }}" } }
  - { id: left, handler: echo, dependencies: [top], timeout_seconds: 5, heartbeat_seconds: 2, provider: openai }
  - { id: right, handler: echo, when: "{{ top.go }}", retry: { max_attempts: 7 } }
  - { id: top, handler: echo, for_each: [1, 2], max_parallel: 2, when: true }
`)

  it("keeps nodes in document order, with a topological order beside it", () => {
    expect(plan.nodes.map(({ id }) => id)).toEqual(["join", "left", "right", "top"])
    expect(Array.from(plan.order)).toEqual([3, 1, 2, 0])
    expect(Array.from(plan.inDegrees)).toEqual([2, 1, 1, 0])
    expect(plan.dependencies).toEqual({
      starts: Int32Array.of(0, 2, 3, 4, 4),
      items: Int32Array.of(1, 2, 3, 3),
    })
    expect(plan.successors).toEqual({
      starts: Int32Array.of(0, 0, 1, 2, 4),
      items: Int32Array.of(0, 0, 1, 2),
    })
    expect(Array.from(plan.exits)).toEqual([0])
    expect(plan.positions.get("right")).toBe(2)
  })

  it("has every default filled in", () => {
    const [join, left, right, top] = plan.nodes
    expect(join).toMatchObject({
      timeoutSeconds: null,
      heartbeatSeconds: null,
      when: null,
      forEach: null,
      maxParallel: null,
      provider: null,
    })
    expect(join?.retry).toEqual(defaultRetryPolicy)
    expect(left).toMatchObject({ timeoutSeconds: 5, heartbeatSeconds: 2, provider: "openai" })
    expect(right?.retry).toEqual({ ...defaultRetryPolicy, maxAttempts: 7 })
    expect(top).toMatchObject({ maxParallel: 2, when: null })
    expect(plan.ttlSeconds).toBe(60)
  })

  it("cannot be changed, also not through what it was made from", () => {
    const source = { name: "x", nodes: [{ id: "a", handler: "echo", config: { list: [1] } }] }
    const made = compile(source)
    source.nodes[0]?.config.list.push(2)
    expect(made.nodes[0]?.config.source).toEqual({ list: [1] })
    expect(Object.isFrozen(made) && Object.isFrozen(made.nodes) && Object.isFrozen(made.nodes[0])).toBe(true)
  })

  it("has no output node where the output is a template", () => {})

  it("seed 002's node form is accepted as it stands", () => {
    const node = {
      id: "a",
      handler: "llm_service",
      config: { prompt: "hello" },
      dependencies: [],
      timeout_seconds: 30,
    }
    expect(compile({ name: "x", nodes: [node] }).nodes).toHaveLength(1)
  })
})

describe("a name", () => {
  const named = (name: string) => ({ name, nodes: [{ id: "a", handler: "echo" }] })

  it.each([
    ...[".", "..", "x@1", "x@latest", "a b@stable"],
    " ",
    "\u3000\u200b",
    "in\u202evoice",
    "a\u2028b",
  ])('"%s" is refused, unless it was stored before', name => {
    const { problems } = compileWorkflow(named(name), { handlers })
    expect(problems).toMatchObject([{ code: "E101", path: "name" }])
    expect(compileWorkflow(named(name), { handlers, rules: 1 }).plan?.name).toBe(name)
    const routes = [{ name: "r", inbound: "q", adapters: [{ type: "t" }] }]
    const adapters = adapterCatalog([{ type: "t" }])
    const pipeline = compileWorkflow({ name, routes }, { handlers, adapters })
    expect(pipeline.problems).toMatchObject([{ code: "E101", path: "name" }])
  })

  it.each(["...", ".x", "@1", "x@", "mail@example.com", "a@b c", " x", "é 👩‍👩‍👧"])(
    '"%s" can be one',
    name => {
      expect(compileWorkflow(named(name), { handlers }).plan?.name).toBe(name)
    },
  )
})

describe("the hash of the content", () => {
  const base = {
    name: "x",
    nodes: [
      { id: "a", handler: "echo" },
      { id: "b", handler: "echo", config: { v: "{{ a }}" } },
    ],
  }
  const [a, b] = base.nodes

  it("is the sha256 of the canonical form's text", () => {
    const { hash, canonical } = compile(base)
    expect(hash).toBe(createHash("sha256").update(JSON.stringify(canonical)).digest("hex"))
  })

  it.each<[string, object]>([
    ["an inferred dependency", { ...base, nodes: [a, { ...b, dependencies: ["a"] }] }],
    ["every default of retry", { ...base, nodes: [a, { ...b, retry: { ...retryDefaults } }] }],
    [
      "when: true, an empty config, no dependencies",
      { ...base, nodes: [{ ...a, when: true, config: {}, dependencies: [] }, b] },
    ],
    [
      "null for what is left out",
      {
        ...base,
        description: null,
        output: null,
        nodes: [{ ...a, timeout_seconds: null, heartbeat_seconds: null }, b],
      },
    ],
    ["$schema", { ...base, $schema: "./workflow.schema.json" }],
  ])("is the same when %s is written down", (_, source) => {
    expect(compile(source).hash).toBe(compile(base).hash)
  })

  it.each<[string, object]>([
    ["a config", { ...base, nodes: [a, { ...b, config: { v: "{{ a.x }}" } }] }],
    ["the order of nodes", { ...base, nodes: [b, a] }],
    ["a timeout", { ...base, nodes: [{ ...a, timeout_seconds: 1 }, b] }],
    ["a heartbeat", { ...base, nodes: [{ ...a, heartbeat_seconds: 1 }, b] }],
    ["when: false", { ...base, nodes: [{ ...a, when: false }, b] }],
    ["the input schema", { ...base, input: { type: "object" } }],
    ["the output", { ...base, output: { nodes: [] } }],
  ])("is another with %s", (_, source) => {
    expect(compile(source).hash).not.toBe(compile(base).hash)
  })

  it("does not depend on key order or source format, and the canonical form gives it again", () => {
    fc.assert(
      fc.property(workflows, fc.nat(20), (workflow: Drawn, turn) => {
        const { hash, canonical } = compile(workflow)
        const other = shuffled(workflow, turn)
        expect(compile(other).hash).toBe(hash)
        expect(loadWorkflow(JSON.stringify(other, null, turn % 3), { handlers }).plan?.hash).toBe(hash)
        expect(loadWorkflow(stringify(other), { handlers, format: "yaml" }).plan?.hash).toBe(hash)
        const again = compile(canonical)
        expect(again.hash).toBe(hash)
        expect(again.canonical).toEqual(canonical)
      }),
      { numRuns: 300 },
    )
  })
})

describe("compiling is deterministic", () => {
  it("the same source gives the same plan", () => {
    fc.assert(
      fc.property(workflows, workflow => {
        const plain = (source: unknown) => {
          const plan = compile(source)
          const nodes = plan.nodes.map(node => ({
            ...node,
            config: node.config.source,
            when: node.when?.source,
            forEach: node.forEach?.source,
          }))
          return { ...plan, nodes, output: plan.output?.source }
        }
        expect(plain(structuredClone(workflow))).toEqual(plain(workflow))
      }),
      { numRuns: 100 },
    )
  })
})
