import { describe, expect, it } from "vitest"
import { stringify } from "yaml"
import { compileWorkflow, loadWorkflow, validateWorkflow } from "../../../src/definition/index.ts"
import type { PipelineDefinition } from "../../../src/definition/pipeline/schema.ts"
import { expr, pipeline } from "../../../src/definition/typed/builder.ts"
import fc from "../../support/property.ts"
import { catalogs } from "./catalog.ts"
import { anyEdges, closure, hasCycle, pipelines, routesOf } from "./drawn.ts"

function compile(source: unknown) {
  const { plan, problems } = compileWorkflow(source, catalogs)
  if (plan === undefined) throw new Error(problems.map(({ message }) => message).join("\n"))
  return plan
}

const codes = (source: unknown) => validateWorkflow(source, catalogs).map(({ code }) => code)

/** The same content with its keys in another order. */
function turned<T>(value: T, by: number): T {
  if (Array.isArray(value)) return value.map(item => turned(item, by)) as T
  if (typeof value !== "object" || value === null) return value
  const entries = Object.entries(value)
  const at = by % Math.max(1, entries.length)
  return Object.fromEntries(
    [...entries.slice(at), ...entries.slice(0, at)].map(([key, member]) => [key, turned(member, by)]),
  ) as T
}

const camel = (value: unknown): unknown =>
  typeof value !== "object" || value === null
    ? value
    : Object.fromEntries(
        Object.entries(value).map(([key, member]) => [
          key.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()),
          camel(member),
        ]),
      )

/** Strings as they stand: all of them are templates of the drawn pipeline. */
const asTemplates = (value: unknown): unknown => {
  if (typeof value === "string") return value.includes("{{") ? expr(value) : value
  if (typeof value !== "object" || value === null) return value
  if (Array.isArray(value)) return value.map(asTemplates)
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, asTemplates(member)]))
}

function built({ name, max_hops, ttl_seconds, init, routes }: PipelineDefinition) {
  const options = {
    ...(max_hops == null ? {} : { maxHops: max_hops }),
    ...(ttl_seconds == null ? {} : { ttlSeconds: ttl_seconds }),
  }
  return pipeline(name, options, flow => {
    for (const message of init == null ? [] : [init].flat())
      flow.init(message.queue ?? routes[0]!.inbound, asTemplates(message.body) as never)
    for (const { name, inbound, outbound, adapters, ...settings } of routes) {
      const options = { inbound, ...(outbound == null ? {} : { outbound }), ...(camel(settings) as object) }
      const route = flow.route(name, options)
      for (const { type, config } of adapters)
        route.adapter(catalogs.adapters.get(type)!, asTemplates(config ?? undefined) as never)
    }
  })
}

describe("P1 any sound pipeline", () => {
  it("has one hash, whatever the order of keys, as an object, in JSON, YAML and from the builder", () => {
    fc.assert(
      fc.property(pipelines, fc.nat(20), (source, turn) => {
        const { hash, canonical } = compile(source)
        const other = turned(source, turn)
        expect(compile(other).hash).toBe(hash)
        expect(loadWorkflow(JSON.stringify(other, null, turn % 3), catalogs).plan?.hash).toBe(hash)
        expect(loadWorkflow(stringify(other), { ...catalogs, format: "yaml" }).plan?.hash).toBe(hash)
        expect(compile(built(source).definition).hash).toBe(hash)
        const again = compile(canonical)
        expect(again.canonical).toEqual(canonical)
        expect(JSON.stringify(again.canonical)).toBe(JSON.stringify(canonical))
        expect(again.hash).toBe(hash)
        expect(JSON.stringify(again.pipeline?.routes)).toBe(JSON.stringify(compile(source).pipeline?.routes))
      }),
      { numRuns: 200 },
    )
  })

  it.each<[string, string, (source: PipelineDefinition, at: number) => void]>([
    [
      "an adapter of a type that nobody has",
      "E103",
      ({ routes }, at) => {
        routes[at]!.adapters[0] = { type: "no_such_type" }
      },
    ],
    [
      "a config that does not fit",
      "E102",
      ({ routes }, at) => {
        routes[at]!.adapters.push({ type: "http_fetch", config: { url: 3 } })
      },
    ],
    [
      "a second route of one name",
      "E104",
      ({ routes }, at) => {
        routes.push({ name: routes[at]!.name, inbound: "another", adapters: [{ type: "echo" }] })
        routes[at]!.outbound = { ...(routes[at]!.outbound as object), more: "another" }
      },
    ],
    [
      "a second reader",
      "E104",
      ({ routes }, at) => {
        routes.push({ ...routes[at]!, name: "second" })
      },
    ],
    [
      "a queue that nobody reads",
      "E113",
      ({ routes }, at) => {
        routes[at]!.outbound = { ...(routes[at]!.outbound as object), lost: "nobody_reads_this" }
      },
    ],
    [
      "a queue that nobody writes to",
      "E109",
      ({ routes }) => {
        routes.push({ name: "alone", inbound: "nobody_writes_this", adapters: [{ type: "echo" }] })
      },
    ],
    [
      "an unknown name",
      "E111",
      ({ routes }, at) => {
        routes[at]!.adapters.push({ type: "echo", config: { v: "{{ something_else }}" } })
      },
    ],
    [
      "an unknown key",
      "E101",
      ({ routes }, at) => {
        Object.assign(routes[at]!, { zzzzzzzz: 1 })
      },
    ],
    [
      "a setting out of bounds",
      "E101",
      ({ routes }, at) => {
        routes[at]!.prefetch = 0
      },
    ],
  ])("with %s has that problem alone", (_, code, change) => {
    fc.assert(
      fc.property(pipelines, fc.nat(20), (drawn, at) => {
        const source = structuredClone(drawn)
        change(source, at % source.routes.length)
        expect(codes(source)).toEqual([code])
      }),
      { numRuns: 60 },
    )
  })
})

describe("any route graph", () => {
  it("is checked in time that grows with its edges alone", () => {
    // 500 routes that nothing comes to, each writing to the same 499 that write to each other.
    const count = 1000
    const routes = Array.from({ length: count }, (_, i) => ({
      name: `r${i}`,
      inbound: `q${i}`,
      adapters: [{ type: "echo" }],
      outbound: Object.fromEntries(
        Array.from({ length: count / 2 - 1 }, (_, j) => [`k${j}`, `q${j + count / 2 + 1}`]),
      ),
    }))
    const begun = process.cpuUsage()
    const found = validateWorkflow({ name: "x", max_hops: 1, init: { queue: "q500" }, routes }, catalogs)
    expect(found.map(({ code }) => code)).toEqual(Array.from({ length: 500 }, () => "E109"))
    expect(process.cpuUsage(begun).user / 1000).toBeLessThan(10_000)
  })

  it("E107, E109: cycles and unreached routes are found, and nothing else", () => {
    const seen = new Set<string>()
    fc.assert(
      fc.property(anyEdges, fc.boolean(), fc.nat(6), (edges, withHops, start) => {
        const init = { queue: `q-${start % edges.length}` }
        const source = { name: "x", init, routes: routesOf(edges), ...(withHops ? { max_hops: 1 } : {}) }
        const found = validateWorkflow(source, catalogs)
        const reach = closure(edges)
        const first = start % edges.length
        const unreached = edges.flatMap((_, i) => (i === first || reach[first]![i] ? [] : i))
        const cyclic = hasCycle(edges)
        const of = (code: string) => found.filter(problem => problem.code === code)
        expect(of("E107")).toHaveLength(cyclic && !withHops ? 1 : 0)
        expect(of("E101")).toHaveLength(!cyclic && withHops ? 1 : 0)
        // One for each group that nothing else leads to: together they lead to all that are not reached.
        const named = of("E109").map(({ path }) => Number(/\d+/.exec(path)?.[0]))
        for (const route of named) expect(unreached).toContain(route)
        for (const route of unreached)
          expect(named.some(from => from === route || reach[from]![route])).toBe(true)
        for (const a of named) for (const b of named) if (a !== b) expect(reach[a]![b]).toBe(false)
        expect(found).toHaveLength(of("E107").length + of("E101").length + named.length)
        for (const { code } of found) seen.add(code)
        if (found.length === 0) seen.add("sound")
      }),
      { numRuns: 1000 },
    )
    expect([...seen].sort()).toEqual(["E101", "E107", "E109", "sound"])
  })
})
