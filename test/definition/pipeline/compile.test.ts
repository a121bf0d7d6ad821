import { describe, expect, it } from "vitest"
import { compileWorkflow, loadWorkflow } from "../../../src/definition/index.ts"
import { routeDefaults } from "../../../src/definition/pipeline/schema.ts"
import { catalogs, planOf } from "./catalog.ts"

const crawl = `
name: crawl
description: pages of a site
input: { type: object, properties: { url: { type: string } } }
ttl_seconds: 3600
max_hops: 20
init:
  - { queue: pages, body: { url: "{{ input.url }}", job: "{{ job.id }}" } }
  - { queue: chunks }
routes:
  - name: fetch
    inbound: pages
    adapters:
      - type: http_fetch
        config: { url: "{{ message.url }}" }
      - { type: transform }
    outbound: { link: pages, default: chunks }
    run_on: workers
    concurrency: 16
    prefetch: 8
    rate: 2.5
    backpressure: { adaptive: false, max_queued: 100 }
    error_handling:
      retries: 0
      backoff: { jitter: 0 }
      circuit_breaker: { min_calls: 2 }
      dead_letter: false
  - { name: store, inbound: chunks, adapters: [{ type: echo, config: { key: "{{ secrets.KEY }}" } }] }
`

const smallest = "name: x\nroutes: [{ name: a, inbound: q, adapters: [{ type: echo }] }]\n"

describe("P2 the plan of a pipeline", () => {
  it("is that of a workflow with one node, whose output is the job's", () => {
    const plan = planOf(crawl)
    expect(plan.name).toBe("crawl")
    expect(plan.ttlSeconds).toBe(3600)
    expect(plan.nodes.map(({ id, handler }) => ({ id, handler }))).toEqual([
      { id: "pipeline", handler: "routes" },
    ])
    expect(plan.nodes[0]?.config.render({ names: {}, node: () => undefined, nodeIds: () => [] })).toEqual({})
    expect([...plan.order]).toEqual([0])
    expect([...plan.exits]).toEqual([0])
    expect([...plan.dependencies.starts]).toEqual([0, 0])
    const scope = {
      names: {},
      node: (id: string) => (id === "pipeline" ? { a: 1 } : undefined),
      nodeIds: () => [],
    }
    expect(plan.output?.render(scope)).toEqual({ a: 1 })
    expect(plan.input).toEqual({ properties: { url: { type: "string" } }, type: "object" })
  })

  it("has its routes with their queues resolved", () => {
    const { pipeline } = planOf(crawl)
    expect(pipeline.maxHops).toBe(20)
    expect([...pipeline.positions]).toEqual([
      ["fetch", 0],
      ["store", 1],
    ])
    expect([...pipeline.readers]).toEqual([
      ["pages", 0],
      ["chunks", 1],
    ])
    expect(pipeline.init.map(({ route, body }) => ({ route, body: body.source }))).toEqual([
      { route: 0, body: { job: "{{ job.id }}", url: "{{ input.url }}" } },
      { route: 1, body: "{{ input }}" },
    ])
    const [fetch, store] = pipeline.routes
    expect({
      ...fetch,
      adapters: fetch?.adapters.map(({ type }) => type),
      outbound: [...fetch!.outbound],
    }).toEqual({
      name: "fetch",
      inbound: "pages",
      adapters: ["http_fetch", "transform"],
      outbound: [
        ["default", 1],
        ["link", 0],
      ],
      runOn: "workers",
      concurrency: 16,
      prefetch: 8,
      rate: 2.5,
      backpressure: { adaptive: false, minConcurrency: 1, tolerance: 2, maxQueued: 100 },
      retry: { maxAttempts: 1, initialSeconds: 1, maxSeconds: 60, multiplier: 2, jitter: 0 },
      deadLetter: false,
      breaker: { failureRate: 0.5, minCalls: 2, windowSeconds: 30, openSeconds: 15, trialCalls: 3 },
      rules: 2,
    })
    expect(store?.adapters[0]?.config.source).toEqual({ key: "{{ secrets.KEY }}" })
  })

  it("P4 has the defaults of the one table where nothing is said", () => {
    const { pipeline } = planOf(smallest)
    expect(pipeline.maxHops).toBeNull()
    expect(pipeline.init.map(({ route, body }) => ({ route, body: body.source }))).toEqual([
      { route: 0, body: "{{ input }}" },
    ])
    const { backpressure, error_handling: handling } = routeDefaults
    const { backoff, circuit_breaker: breaker } = handling
    expect(pipeline.routes[0]).toMatchObject({
      runOn: routeDefaults.run_on,
      concurrency: routeDefaults.concurrency,
      prefetch: routeDefaults.prefetch,
      rate: null,
      backpressure: {
        adaptive: backpressure.adaptive,
        minConcurrency: backpressure.min_concurrency,
        tolerance: backpressure.tolerance,
        maxQueued: backpressure.max_queued,
      },
      retry: {
        maxAttempts: handling.retries + 1,
        initialSeconds: backoff.initial_seconds,
        maxSeconds: backoff.max_seconds,
        multiplier: backoff.multiplier,
        jitter: backoff.jitter,
      },
      deadLetter: true,
      breaker: {
        failureRate: breaker.failure_rate,
        minCalls: breaker.min_calls,
        windowSeconds: breaker.window_seconds,
        openSeconds: breaker.open_seconds,
        trialCalls: breaker.trial_calls,
      },
    })
  })

  it("has no circuit breaker where it says so", () => {
    const plan = planOf(`${smallest.trimEnd().slice(0, -2)}, error_handling: { circuit_breaker: false } }]\n`)
    expect(plan.pipeline.routes[0]?.breaker).toBeNull()
    expect(planOf(JSON.stringify(plan.canonical)).pipeline.routes[0]?.breaker).toBeNull()
  })

  it("is null for a document with nodes", () => {
    const { plan } = loadWorkflow("name: x\nnodes: [{ id: a, handler: echo }]\n", catalogs)
    expect(plan?.pipeline).toBeNull()
  })
})

describe("the canonical form of a pipeline", () => {
  it("has sorted keys and leaves out what equals a default", () => {
    expect(JSON.stringify(planOf(smallest).canonical)).toBe(
      '{"name":"x","routes":[{"adapters":[{"type":"echo"}],"inbound":"q","name":"a"}]}',
    )
    const { backpressure, error_handling } = routeDefaults
    const spelledOut = {
      ttl_seconds: null,
      routes: [
        {
          ...routeDefaults,
          backpressure: { ...backpressure, tolerance: null },
          error_handling: { ...error_handling, backoff: {} },
          name: "a",
          adapters: [{ config: {}, type: "echo" }],
          outbound: {},
          inbound: "q",
        },
      ],
      init: { queue: "q", body: "{{ input }}" },
      $schema: "x",
      name: "x",
    }
    const { plan, problems } = compileWorkflow(spelledOut, catalogs)
    expect(problems).toBeUndefined()
    expect(plan?.canonical).toEqual(planOf(smallest).canonical)
    expect(plan?.hash).toBe(planOf(smallest).hash)
  })

  it.each([
    ["one outbound queue", "outbound: q", "outbound: { default: q }"],
    ["one initial message", "init: { body: 3 }", "init: [{ queue: q, body: 3 }]"],
  ])("is the same for both ways to write %s", (_, a, b) => {
    const text = (line: string) => {
      const isRoute = line.startsWith("outbound")
      const route = `{ name: a, inbound: q, adapters: [{ type: echo }]${isRoute ? `, ${line}` : ""} }`
      return `name: x\nroutes: [${route}]\n${isRoute ? "max_hops: 1" : line}\n`
    }
    expect(planOf(text(a)).hash).toBe(planOf(text(b)).hash)
    expect(planOf(text(a)).hash).not.toBe(planOf(smallest).hash)
  })

  it("compiles to the same plan", () => {
    const plan = planOf(crawl)
    const again = planOf(JSON.stringify(plan.canonical))
    expect(again.canonical).toEqual(plan.canonical)
    expect(again.hash).toBe(plan.hash)
    expect(JSON.stringify(again.pipeline.routes)).toBe(JSON.stringify(plan.pipeline.routes))
  })

  it("changes with the order of routes and of adapters", () => {
    const text = (adapters: string) => `name: x\nroutes: [{ name: a, inbound: q, adapters: [${adapters}] }]\n`
    expect(planOf(text("{ type: echo }, { type: transform }")).hash).not.toBe(
      planOf(text("{ type: transform }, { type: echo }")).hash,
    )
  })
})
