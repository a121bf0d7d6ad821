import { describe, expect, it } from "vitest"
import { z } from "zod"
import { compileWorkflow, loadWorkflow } from "../../../src/definition/index.ts"
import { cast, expr, pipeline, text, workflow } from "../../../src/definition/typed/builder.ts"
import { UmbraError } from "../../../src/errors.ts"
import { catalogs } from "./catalog.ts"

const httpFetch = {
  type: "http_fetch",
  config: z.strictObject({ url: z.string(), timeout: z.number().optional() }),
}
const echo = { type: "echo" }

const built = pipeline(
  "crawl",
  {
    description: "pages of a site",
    input: z.object({ url: z.string(), depth: z.number().default(2) }),
    ttlSeconds: 3600,
    maxHops: 20,
  },
  flow => {
    const pages = flow.queue<{ url: string }>("pages")
    flow.init(pages, { url: flow.input.url })
    flow.init("chunks", { depth: flow.input.depth, by: flow.job.id })
    flow
      .route("fetch", {
        inbound: pages,
        outbound: { default: "chunks", link: pages },
        runOn: "workers",
        concurrency: 16,
        rate: 2.5,
        backpressure: { minConcurrency: 2, maxQueued: 100 },
        errorHandling: { retries: 5, backoff: { initialSeconds: 2 }, circuitBreaker: { minCalls: 3 } },
      })
      .adapter(httpFetch, message => ({ url: message.url, timeout: 3 }))
      .adapter(echo, message => ({ title: text`Page ${cast<{ title: string }>(message).title}` }))
    flow
      .route("store", { inbound: "chunks", errorHandling: { circuitBreaker: false } })
      .adapter(echo, { key: flow.secret("KEY"), all: expr("{{ message }}"), literal: "{{ not a template }}" })
      .adapter(echo)
  },
)

const yaml = `
name: crawl
description: pages of a site
ttl_seconds: 3600
max_hops: 20
input:
  type: object
  required: [url]
  properties: { depth: { type: number, default: 2 }, url: { type: string } }
init:
  - { queue: pages, body: { url: "{{ input.url }}" } }
  - { queue: chunks, body: { depth: "{{ input.depth }}", by: "{{ job.id }}" } }
routes:
  - name: fetch
    inbound: pages
    outbound: { link: pages, default: chunks }
    run_on: workers
    concurrency: 16
    prefetch: 64
    rate: 2.5
    backpressure: { min_concurrency: 2, max_queued: 100 }
    error_handling: { retries: 5, backoff: { initial_seconds: 2 }, circuit_breaker: { min_calls: 3 } }
    adapters:
      - { type: http_fetch, config: { timeout: 3, url: "{{ message.url }}" } }
      - { type: echo, config: { title: "Page {{ message.title }}" } }
  - name: store
    inbound: chunks
    error_handling: { circuit_breaker: false }
    adapters:
      - type: echo
        config:
          key: "{{ secrets.KEY }}"
          all: "{{ message }}"
          literal: '{{ "{{ not a template }}" }}'
      - type: echo
`

describe("P1 a built pipeline is the hand-written one", () => {
  const { plan, problems } = compileWorkflow(built.definition, catalogs)

  it("has the hash and the canonical content of the same pipeline in YAML and JSON", () => {
    expect(problems).toBeUndefined()
    const fromYaml = loadWorkflow(yaml, catalogs).plan
    expect(fromYaml?.canonical).toEqual(plan?.canonical)
    expect(fromYaml?.hash).toBe(plan?.hash)
    expect(loadWorkflow(JSON.stringify(built.definition), catalogs).plan?.hash).toBe(plan?.hash)
  })

  it("says only what was said", () => {
    const small = pipeline("small", flow => flow.route("a", { inbound: "q" }).adapter(echo))
    expect(small.definition).toEqual({
      name: "small",
      routes: [{ name: "a", inbound: "q", adapters: [{ type: "echo" }] }],
    })
    expect(small).toMatchObject({ name: "small", handlers: [], workflows: [] })
  })

  it("has a kind called name, which is no queue", () => {
    const { definition } = pipeline("x", { maxHops: 1 }, flow =>
      flow.route("a", { inbound: "q", outbound: { name: flow.queue("q") } }).adapter(echo),
    )
    expect(definition.routes[0]?.outbound).toEqual({ name: "q" })
    const { definition: other } = pipeline("x", { maxHops: 1 }, flow =>
      flow.route("a", { inbound: "q", outbound: flow.queue("q") }).adapter(echo),
    )
    expect(other.routes[0]?.outbound).toBe("q")
  })

  it("lists the adapters it uses, each once", () => {
    expect(built.adapters).toEqual([httpFetch, echo])
  })

  it("can be run by a node of a workflow", () => {
    const parent = workflow("parent", flow => {
      flow.run("crawl", built, { url: "https://example.org" })
    })
    expect(parent.workflows).toEqual([built])
    expect(parent.adapters).toEqual([])
  })
})

describe("what cannot be built is refused where it is written", () => {
  const refusal = (build: () => unknown): UmbraError => {
    try {
      build()
    } catch (error) {
      if (error instanceof UmbraError) return error
    }
    throw new Error("nothing was refused")
  }

  it("two routes with one name, and a name that is none", () => {
    expect(
      refusal(() =>
        pipeline("x", flow => {
          flow.route("a", { inbound: "q" })
          flow.route("a", { inbound: "r" })
        }),
      ),
    ).toMatchObject({ code: "E104", message: expect.stringContaining('already a route "a"') })
    expect(refusal(() => pipeline("x", flow => flow.route("9", { inbound: "q" })))).toMatchObject({
      code: "E101",
    })
  })

  it("two adapters of one type", () => {
    const build = () =>
      pipeline("x", flow => flow.route("a", { inbound: "q" }).adapter(echo).adapter({ type: "echo" }))
    expect(refusal(build)).toMatchObject({
      code: "E103",
      message: expect.stringContaining('pipeline "x" uses two different adapters called "echo"'),
    })
  })

  it("the message of another adapter, or the input of another pipeline", () => {
    let kept: unknown
    const build = () =>
      pipeline("x", flow =>
        flow
          .route("a", { inbound: "q" })
          .adapter(echo, message => {
            kept = message
            return {}
          })
          .adapter(echo, { other: kept as never }),
      )
    expect(refusal(build)).toMatchObject({
      code: "E111",
      message: expect.stringContaining("routes.a.adapters[1].config.other uses {{ message }}"),
    })
    let input: unknown
    pipeline("y", flow => {
      input = flow.input
    })
    expect(refusal(() => pipeline("x", flow => flow.init("q", input as never)))).toMatchObject({
      code: "E111",
    })
  })
})
