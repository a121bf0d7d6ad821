import { describe, expect, it } from "vitest"
import type { Json } from "../../src/core/json.ts"
import { compileWorkflow, handlerCatalog } from "../../src/definition/index.ts"
import { builtinHandlers } from "../../src/worker/handlers/index.ts"
import { builtinSpecs } from "../../src/worker/handlers/specs.ts"
import { json, serve } from "./server.ts"
import { faultIn, outputIn, task, worker } from "./support.ts"

const secrets = (name: string) => (name === "LLM_KEY" ? "sk-very-secret" : undefined)
const { run, reports } = worker(builtinHandlers({ allowPrivateAddresses: true }), { secrets })
const ask = (config: Json, more = {}) => run(task("llm_service", { config, ...more }))

const completion = (content: unknown, more = {}) => ({
  model: "tiny-1",
  choices: [{ message: { role: "assistant", content }, finish_reason: "stop" }],
  usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 },
  ...more,
})

const answering = (content: unknown, more = {}) =>
  serve((_, response) => json(response, completion(content, more)))

describe("llm_service", () => {
  it("sends prompt and system, and returns text and usage; J22 the usage is reported", async () => {
    await using server = await answering("Hello!")
    const outcome = await ask({
      base_url: `${server.url}/v1/`,
      model: "tiny",
      prompt: "Hi",
      system: "Be kind",
      temperature: 0.5,
      max_tokens: 9,
      extra: { top_k: 3 },
    })
    const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 }
    expect(outcome).toMatchObject({
      usage,
      output: { text: "Hello!", model: "tiny-1", usage, finish_reason: "stop" },
    })
    expect(server.asked[0]!.path).toBe("/v1/chat/completions")
    expect(JSON.parse(server.asked[0]!.body)).toEqual({
      model: "tiny",
      messages: [
        { role: "system", content: "Be kind" },
        { role: "user", content: "Hi" },
      ],
      temperature: 0.5,
      max_tokens: 9,
      top_k: 3,
    })
  })

  it("sends messages as they are, and the key of a named secret, which is never revealed", async () => {
    await using server = await serve((asked, response) =>
      json(response, { error: `bad key ${asked.headers.authorization}` }, 401),
    )
    const messages = [{ role: "user", content: [{ type: "text", text: "Hi" }] }]
    const late = [{ path: ["api_key"], source: "{{ secrets.LLM_KEY }}", names: {}, nodes: {} }]
    const outcome = await ask({ base_url: server.url, model: "m", messages, api_key: "" }, { late })
    expect(server.asked[0]!.headers.authorization).toBe("Bearer sk-very-secret")
    expect(JSON.parse(server.asked[0]!.body)).toEqual({ model: "m", messages })
    expect(faultIn(outcome)).toMatchObject({ code: "E411", retryable: false })
    expect(JSON.stringify(outcome)).toContain("[secret LLM_KEY]")
    expect(JSON.stringify(reports)).not.toContain("sk-very-secret")
  })

  it("JSON mode gives the answer parsed, also from between fences", async () => {
    await using plain = await answering('{"a": 1}')
    expect(outputIn(await ask({ base_url: plain.url, model: "m", prompt: "p", json: true }))).toMatchObject({
      json: { a: 1 },
    })
    expect(JSON.parse(plain.asked[0]!.body).response_format).toEqual({ type: "json_object" })
    await using fenced = await answering('```json\n{"a": 2}\n```')
    expect(outputIn(await ask({ base_url: fenced.url, model: "m", prompt: "p", json: true }))).toMatchObject({
      json: { a: 2 },
    })
  })

  it("a schema is sent along, and the answer must fit it", async () => {
    const schema = { type: "object", properties: { n: { type: "number" } }, required: ["n"] }
    await using good = await answering('{"n": 1}')
    expect(outputIn(await ask({ base_url: good.url, model: "m", prompt: "p", json: schema }))).toMatchObject({
      json: { n: 1 },
    })
    expect(JSON.parse(good.asked[0]!.body).response_format).toEqual({
      type: "json_schema",
      json_schema: { name: "answer", schema },
    })
    for (const text of ['{"n": "one"}', "null", "Sure! Here it is"]) {
      await using bad = await answering(text)
      const fault = faultIn(await ask({ base_url: bad.url, model: "m", prompt: "p", json: schema }))
      expect(fault).toMatchObject({ code: "E414", retryable: true, details: { answer: text } })
    }
  })

  it("a pattern of the schema is matched in linear time", async () => {
    const schema = { properties: { a: { pattern: "^(a+)+$" } } }
    await using good = await answering('{"a": "aaa"}')
    expect(outputIn(await ask({ base_url: good.url, model: "m", prompt: "p", json: schema }))).toMatchObject({
      json: { a: "aaa" },
    })
    await using bad = await answering(JSON.stringify({ a: `${"a".repeat(5000)}!` }))
    const fault = faultIn(await ask({ base_url: bad.url, model: "m", prompt: "p", json: schema }))
    expect(fault).toMatchObject({
      code: "E414",
      message: "The model's answer does not match the schema. answer.a: String does not match pattern.",
    })
  })

  it("E102 a pattern that cannot be is refused with the workflow", () => {
    const problems = (pattern: string) => {
      const config = { model: "m", prompt: "p", json: { properties: { a: { pattern } } } }
      const definition = { name: "x", nodes: [{ id: "a", handler: "llm_service", config }] }
      const { problems = [] } = compileWorkflow(definition, { handlers: handlerCatalog(builtinSpecs) })
      return problems.map(({ code, path, message }) => `${code} ${path}: ${message}`)
    }
    expect(problems("^(a+)+$")).toEqual([])
    expect(problems("^(?!b)a+$")).toEqual([
      'E102 nodes[0].config.json.properties.a.pattern: The pattern has a negative lookahead ("(?!"), which cannot be matched in linear time. Rewrite the pattern without it.',
    ])
  })

  it("JSON that ended at max_tokens is final: another try would end there too", async () => {
    await using server = await answering('{"n": ', {
      choices: [{ message: { content: '{"n": ' }, finish_reason: "length" }],
    })
    const fault = faultIn(await ask({ base_url: server.url, model: "m", prompt: "p", json: true }))
    expect(fault).toMatchObject({ code: "E414", retryable: false })
    expect(fault.message).toContain("Raise max_tokens")
  })

  it("usage is zeros where the endpoint does not say", async () => {
    await using server = await answering("x", { usage: undefined, model: undefined })
    expect(outputIn(await ask({ base_url: server.url, model: "mine", prompt: "p" }))).toMatchObject({
      model: "mine",
      usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
    })
  })

  it.each([
    [429, "E409", true],
    [529, "E410", true],
    [400, "E411", false],
  ])("J13 status %i is %s, retryable: %s", async (status, code, retryable) => {
    await using server = await serve((_, response) => json(response, {}, status, { "retry-after": "4" }))
    const fault = faultIn(await ask({ base_url: server.url, model: "m", prompt: "p" }))
    expect(fault).toMatchObject({ code, retryable, retry_after_seconds: 4 })
  })

  it.each([
    ["a web page", "<html>", "not JSON"],
    ["other JSON", '{"hello": 1}', "not a chat completion"],
    ["a refusal", '{"choices":[{"message":{"content":null,"refusal":"No."}}]}', "refused to answer: No."],
    ["nothing", '{"choices":[{"message":{"content":null}}]}', "without any text"],
  ])("%s is a clear fault", async (_, body, message) => {
    await using server = await serve((_, response) =>
      response.writeHead(200, { "content-type": "text/html" }).end(body),
    )
    const fault = faultIn(await ask({ base_url: server.url, model: "m", prompt: "p" }))
    expect(fault).toMatchObject({ code: "E414", retryable: false })
    expect(fault.message).toContain(message)
  })

  it("is held to the same addresses as any call", async () => {
    const guarded = worker(builtinHandlers({ allowPrivateAddresses: false }))
    const config = { base_url: "http://127.0.0.1:1/v1", model: "m", prompt: "p" }
    expect(faultIn(await guarded.run(task("llm_service", { config }))).code).toBe("E412")
  })
})
