/** What the builder of pipelines accepts and refuses at compile time; types.test.ts runs it. */
import { z } from "zod"
import type { Json } from "../../../src/core/json.ts"
import type { PipelineDefinition } from "../../../src/definition/pipeline/schema.ts"
import {
  cast,
  type PipelineTotals,
  pipeline,
  type Ref,
  type Workflow,
  type WorkflowInput,
  type WorkflowOutput,
  workflow,
} from "../../../src/definition/typed/builder.ts"
import { type Adapter, defineAdapter } from "../../../src/pipeline/adapter.ts"

type Same<A, B> = (<X>() => X extends A ? 1 : 2) extends <X>() => X extends B ? 1 : 2 ? true : false
function same<A, B>(_proof: Same<A, B>): void {}
function is<T>(_value: T): void {}

const httpFetch = defineAdapter({
  type: "http_fetch",
  config: z.object({ url: z.string(), tries: z.number().default(3) }),
  process: (_message, { config }) => {
    is<number>(config.tries)
    return { body: config.url }
  },
})
const batch = defineAdapter({
  type: "batch",
  config: z.object({ count: z.number() }),
  process: message => message.body,
  gather: ({ count }) => ({ count, seconds: 1 }),
})
const open = defineAdapter({ type: "open", process: message => message.body })
is<readonly Adapter[]>([httpFetch, batch, open])

const input = z.object({ url: z.string(), depth: z.number().default(2) })

export const crawl = pipeline("crawl", { input, maxHops: 3 }, flow => {
  is<Ref<string>>(flow.input.url)
  is<Ref<number>>(flow.input.depth)
  // @ts-expect-error the input has no such field
  flow.input.uri

  const pages = flow.queue<{ url: string; depth: number }>("pages")
  flow.init(pages, { url: flow.input.url, depth: 0 })
  flow.init(pages)
  flow.init("anything", { any: [flow.job.id] })
  // @ts-expect-error messages of this queue have a depth
  flow.init(pages, { url: "x" })
  // @ts-expect-error which is a number
  flow.init(pages, { url: "x", depth: flow.input.url })

  const route = flow.route("fetch", {
    inbound: pages,
    outbound: { default: "chunks", link: pages },
    concurrency: 3,
    errorHandling: { circuitBreaker: false, backoff: { jitter: 0 } },
  })
  const next = route.adapter(httpFetch, message => {
    is<Ref<string>>(message.url)
    // @ts-expect-error a message of this queue has no such field
    message.uri
    return { url: message.url }
  })
  route.adapter(httpFetch, { url: "https://example.org", tries: flow.input.depth })
  // @ts-expect-error the url is missing
  route.adapter(httpFetch, { tries: 3 })
  // @ts-expect-error config cannot be left out where something in it is required
  route.adapter(httpFetch)
  // @ts-expect-error no such key
  route.adapter(httpFetch, { url: "x", uri: "x" })
  // @ts-expect-error a number is no url
  route.adapter(httpFetch, message => ({ url: message.depth }))
  // @ts-expect-error count is a number
  route.adapter(batch, { count: "3" })
  next.adapter(open).adapter(open, { any: "thing" })
  next.adapter(open, message => {
    is<Ref<Json>>(message)
    return { text: cast<{ text: string }>(message).text }
  })

  // @ts-expect-error a route needs a queue
  flow.route("a", {})
  // @ts-expect-error neither here nor there
  flow.route("b", { inbound: "q", runOn: "elsewhere" })
  // @ts-expect-error no such option
  flow.route("c", { inbound: "q", retries: 3 })
  // @ts-expect-error true says nothing: it is on
  flow.route("d", { inbound: "q", errorHandling: { circuitBreaker: true } })
})

is<Workflow>(crawl)
is<PipelineDefinition>(crawl.definition)
same<WorkflowOutput<typeof crawl>, PipelineTotals>(true)
same<WorkflowInput<typeof crawl>, { url: string; depth?: number | undefined }>(true)

export const parent = workflow("parent", flow => {
  const crawled = flow.run("crawl", crawl, { url: "https://example.org" })
  is<Ref<PipelineTotals["routes"]>>(crawled.output.routes)
  // @ts-expect-error it has routes alone
  crawled.output.nodes
  // @ts-expect-error its input needs a url
  flow.run("again", crawl, {})
})

// @ts-expect-error maxHops is a number
pipeline("x", { maxHops: "3" }, () => {})
