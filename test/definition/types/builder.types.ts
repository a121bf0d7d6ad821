/**
 * What the builder accepts and refuses at compile time. An error that is expected and does not come is an error
 * itself, so every line here is proved by the compiler; types.test.ts runs it.
 */
import type { StandardSchemaV1 } from "@standard-schema/spec"
import { z } from "zod"
import type { JsonObject } from "../../../src/core/json.ts"
import {
  type AnyFlow,
  cast,
  expr,
  orElse,
  type Ref,
  text,
  type WorkflowInput,
  type WorkflowOutput,
  workflow,
} from "../../../src/definition/typed/builder.ts"
import { defineHandler } from "../../../src/worker/handler.ts"
import {
  callExternalServiceSpec,
  inputSpec,
  llmServiceSpec,
  outputSpec,
} from "../../../src/worker/handlers/specs.ts"
import { erased, fetchPage, llm, opaque } from "./handlers.ts"

type Same<A, B> = (<X>() => X extends A ? 1 : 2) extends <X>() => X extends B ? 1 : 2 ? true : false
function same<A, B>(_proof: Same<A, B>): void {}
function is<T>(_value: T): void {}

const input = z.object({ url: z.string(), limit: z.number().default(10), note: z.string().optional() })

export const summarize = workflow("summarize", { input }, flow => {
  is<Ref<string>>(flow.input.url)
  is<Ref<number>>(flow.input.limit)
  is<Ref<string>>(flow.job.id)
  // @ts-expect-error the input has no such field
  flow.input.uri
  // @ts-expect-error optional: may be missing
  is<Ref<string>>(flow.input.note)

  const page = flow.node("page", fetchPage, { url: flow.input.url })
  is<Ref<string>>(page.output.body)
  is<Ref<string | undefined>>(page.output.body)
  is<Ref<{ lang: string } | undefined>>(page.output.meta)
  is<Ref<string>>(page.output["content-type"])
  is<Ref<number>>(page.output.items[0].price)
  is<Ref<number>>(page.output.items[-1].price)
  is<Ref<string>>(page.output.size[1])

  // @ts-expect-error the output has no such field
  page.output.bodi
  // @ts-expect-error nor has an item
  page.output.items[0].cost
  // @ts-expect-error a tuple of two has no third
  page.output.size[2]
  // @ts-expect-error a string has no fields
  page.output.body.length
  // @ts-expect-error may be missing: orElse first
  page.output.meta.lang
  // @ts-expect-error `unknown` has no fields: cast first
  page.output.raw.anything
  // @ts-expect-error JavaScript would take it for a promise
  page.output.then

  is<Ref<string>>(orElse(page.output.title, "untitled"))
  is<Ref<string>>(orElse(page.output.meta, { lang: "en" }).lang)
  is<Ref<string>>(orElse(page.output.meta, { lang: page.output.body }).lang)
  is<Ref<string>>(orElse(page.output.headers.server, "none"))
  is<Ref<string>>(orElse(page.output.items[12]?.name, "none"))
  is<Ref<number>>(cast<{ n: number }>(page.output.raw).n)
  // @ts-expect-error a default of another type
  orElse(page.output.title, 3)
  // @ts-expect-error a default that lacks a field
  orElse(page.output.meta, {})

  flow.node("a", llm, { prompt: page.output.body })
  flow.node("b", llm, { prompt: text`${page.output.status}: ${page.output.body} ${1}` })
  flow.node("c", llm, { prompt: "plain", temperature: expr<number>`${page.output.items} | length` })
  flow.node("d", llm, { prompt: page.output.loose.any.depth, temperature: undefined })
  flow.node("e", fetchPage, { url: "x", method: "POST", headers: { a: page.output.body } })
  flow.node("f", fetchPage, {
    url: "x",
    headers: page.output.headers,
    retries: [{ after: page.output.status }],
  })
  // @ts-expect-error a number where a string is due
  flow.node("g", llm, { prompt: page.output.status })
  // @ts-expect-error a required key is missing
  flow.node("h", llm, { temperature: 1 })
  // @ts-expect-error config cannot be left out
  flow.node("i", llm)
  // @ts-expect-error a key the handler does not know
  flow.node("j", llm, { prompt: "x", temprature: 1 })
  // @ts-expect-error may be missing
  flow.node("k", llm, { prompt: page.output.title })
  // @ts-expect-error may be null
  flow.node("l", llm, { prompt: page.output.etag })
  // @ts-expect-error `unknown` is not known to be a string
  flow.node("m", llm, { prompt: page.output.raw })
  // @ts-expect-error not one of the methods
  flow.node("n", fetchPage, { url: "x", method: "PUT" })
  // @ts-expect-error any string is not one of the methods
  flow.node("o", fetchPage, { url: "x", method: page.output.body })
  // @ts-expect-error wrong at depth
  flow.node("p", fetchPage, { url: "x", retries: [{ after: page.output.body }] })
  // @ts-expect-error the node instead of its output
  flow.node("q", llm, { prompt: page })
  // @ts-expect-error text of something that may be missing
  text`${page.output.title}`
  // @ts-expect-error text of a list
  text`${page.output.items}`
  // @ts-expect-error arithmetic belongs into expr
  page.output.status + 1

  const short = flow.node(
    "short",
    llm,
    { prompt: page.output.body },
    { timeoutSeconds: 60, retry: { maxAttempts: 5 }, after: [page] },
  )
  // @ts-expect-error no such option
  flow.node("r", llm, { prompt: "x" }, { timeout: 60 })
  // @ts-expect-error no such retry setting
  flow.node("s", llm, { prompt: "x" }, { retry: { attempts: 3 } })
  // @ts-expect-error ids are not handles
  flow.node("t", llm, { prompt: "x" }, { after: ["page"] })
  // @ts-expect-error `when` is yes or no
  flow.node("u", llm, { prompt: "x" }, { when: page.output.body })

  const rare = flow.node("rare", llm, { prompt: "x" }, { when: expr<boolean>`${page.output.status} == 200` })
  is<Ref<string>>(orElse(rare.output.text, "skipped"))
  // @ts-expect-error a skipped node has no text
  is<Ref<string>>(rare.output.text)
  // @ts-expect-error nor is its output whole
  flow.node("v", opaque, { x: rare.output.text })

  const doubled = flow.node("doubled", erased, { n: page.output.status })
  is<Ref<number>>(doubled.output.doubled)
  // @ts-expect-error known from the handler's type alone
  flow.node("w", erased, { n: "1" })

  const some = flow.node("some", opaque)
  flow.node("x", opaque, { any: [page.output.raw, some.output, { deep: page.output.size }] })
  // @ts-expect-error unknown output has no fields
  some.output.field
  // @ts-expect-error not JSON
  flow.node("y", opaque, { at: new Date() })

  const picked = flow.transform("picked", { name: page.output.items[0].name, all: [page.output.status, 1] })
  is<Ref<string>>(picked.output.name)
  // @ts-expect-error not picked
  picked.output.price

  const each = flow.each("each", llm, page.output.items, (item, index) => ({
    prompt: text`${index}. ${item.name}`,
  }))
  is<Ref<string>>(each.output[0].text)
  // @ts-expect-error an item has no such field
  flow.each("z", llm, page.output.items, item => ({ prompt: item.title }))

  return { summary: short.output.text, tokens: [short.output.tokens], from: "page" as const }
})

/** A function that adds nodes to workflows of any input. */
function addPage(flow: AnyFlow): Ref<string> {
  // @ts-expect-error nothing is known of the input
  flow.input
  return flow.node("added", fetchPage, { url: "x" }).output.body
}
workflow("shared", { input }, flow => addPage(flow))

const defined = defineHandler({
  name: "defined",
  config: z.object({ url: z.string(), method: z.string().default("GET") }),
  output: z.object({ body: z.string() }),
  run: ({ url }) => ({ body: url }),
})
workflow("whole handlers", flow => {
  const page = flow.node("page", defined, { url: "x" })
  // @ts-expect-error a required key is missing
  flow.node("b", defined, { method: "GET" })
  // @ts-expect-error no such field
  page.output.status
  return page.output.body
})

workflow("built in", { input }, flow => {
  const start = flow.node("start", inputSpec)
  const call = flow.node("call", callExternalServiceSpec, {
    url: flow.input.url,
    json: { deep: [start.output] },
  })
  is<Ref<number>>(call.output.status)
  is<Ref<string>>(cast<{ title: string }>(call.output.body).title)
  const answer = flow.node("answer", llmServiceSpec, {
    model: "small",
    messages: [{ role: "user", content: text`Say ${call.output.status}` }],
    api_key: flow.secret("API_KEY"),
  })
  is<Ref<number>>(answer.output.usage.total_tokens)
  flow.node("end", outputSpec, { text: answer.output.text })
  // @ts-expect-error no such method
  flow.node("b", callExternalServiceSpec, { url: "https://example.org", method: "get" })
  // @ts-expect-error a role that does not exist
  flow.node("c", llmServiceSpec, { model: "m", messages: [{ role: "robot", content: "x" }] })
  // @ts-expect-error takes no config
  flow.node("d", inputSpec, { x: 1 })
})

same<WorkflowInput<typeof summarize>, { url: string; limit?: number | undefined; note?: string | undefined }>(
  true,
)
is<string>({} as WorkflowOutput<typeof summarize>["summary"])
is<"page">({} as WorkflowOutput<typeof summarize>["from"])
is<number>({} as WorkflowOutput<typeof summarize>["tokens"][0])
// @ts-expect-error the output has no such field
type _NoSuch = WorkflowOutput<typeof summarize>["text"]

// @ts-expect-error an output that may be missing
workflow("missing", { input }, flow => ({ note: flow.input.note }))

export const whole = workflow("whole", flow => flow.node("a", llm, { prompt: "x" }).output)
same<WorkflowOutput<typeof whole>, { text: string; tokens: number }>(true)

export const silent = workflow("silent", { ttlSeconds: 60 }, flow => {
  flow.node("a", llm, { prompt: "x" })
  // @ts-expect-error no input was declared
  flow.input.url
})
same<WorkflowOutput<typeof silent>, unknown>(true)

export const parent = workflow("parent", { input: z.object({ links: z.array(z.string()) }) }, flow => {
  const one = flow.run("one", summarize, { url: flow.input.links[0] })
  is<Ref<string>>(one.output.summary)
  const maybe = flow.run("maybe", whole, undefined, { when: true, at: "stable" })
  is<Ref<string | undefined>>(maybe.output.text)
  const all = flow.runEach("all", summarize, flow.input.links, url => ({ url, limit: 3 }), { maxParallel: 2 })
  is<Ref<string>>(all.output[0].summary)
  // @ts-expect-error the child wants a url
  flow.run("two", summarize, { uri: "x" })
  // @ts-expect-error a text, not a number
  flow.run("three", summarize, { url: 3 })
  // @ts-expect-error no such option
  flow.run("four", whole, undefined, { version: 3 })
  return { summaries: all.output }
})
is<string>({} as WorkflowOutput<typeof parent>["summaries"][0]["summary"])

declare const foreign: StandardSchemaV1<{ n?: number }, { n: number }>
declare const jsonSchema: JsonObject
export const explained = workflow(
  "explained",
  { input: foreign, inputJsonSchema: jsonSchema },
  flow => flow.input.n,
)
same<WorkflowInput<typeof explained>, { n?: number }>(true)
same<WorkflowOutput<typeof explained>, number>(true)
// @ts-expect-error a schema that cannot write itself as JSON Schema needs one beside it
workflow("unexplained", { input: foreign }, () => {})
// @ts-expect-error no such option
workflow("misspelt", { input, ttl: 60 }, () => {})
