import { describe, expect, it, onTestFinished, vi } from "vitest"
import { toFault } from "../../../src/core/faults.ts"
import { inputChecks } from "../../../src/definition/index.ts"
import { json, serve } from "../../worker/server.ts"
import { builtIn, run } from "../adapter-run.ts"

describe("http_fetch", () => {
  it("answers with status, headers and body, alone or added to the message", async () => {
    await using server = await serve((_, response) => json(response, { ok: true }, 200, { "x-a": "1" }))
    const config = { url: `${server.url}/x`, method: "POST", json: { a: 1 }, query: { q: "ä" } }
    const { answer } = await run(builtIn("http_fetch"), { config })
    expect(answer).toMatchObject({
      status: 200,
      encoding: "json",
      body: { ok: true },
      url: `${server.url}/x?q=%C3%A4`,
    })
    expect(server.asked[0]).toMatchObject({ method: "POST", body: '{"a":1}' })
    expect(server.asked[0]!.headers["idempotency-key"]).toBe("job-1/route:1/0")
    const added = await run(builtIn("http_fetch"), {
      body: { id: 7 },
      config: { url: server.url, as: "page" },
    })
    expect(added.answer).toMatchObject({ id: 7, page: { status: 200, headers: { "x-a": "1" } } })
  })

  it.each([
    ["json", { a: 1 }],
    ["text", '{"a":1}'],
    ["base64", Buffer.from('{"a":1}').toString("base64")],
  ])("gives the body as %s", async (how, body) => {
    await using server = await serve((_, response) => response.end('{"a":1}'))
    const { answer } = await run(builtIn("http_fetch"), { config: { url: server.url, response: how } })
    expect(answer).toMatchObject({ encoding: how, body })
  })

  it("Retry-After of a busy service is honoured; what was not expected and does not pass is final", async () => {
    await using server = await serve(({ path }, response) =>
      json(response, {}, Number(path.slice(1)), { "retry-after": "7" }),
    )
    const faultWith = async (status: number, more = {}) => {
      const error = await run(builtIn("http_fetch"), {
        config: { url: `${server.url}/${status}`, ...more },
      }).catch(error => error)
      return toFault(error, { now: 0 })
    }
    expect(await faultWith(503)).toMatchObject({ code: "E410", retryable: true, retry_after_seconds: 7 })
    expect(await faultWith(429)).toMatchObject({ code: "E409", retryable: true, retry_after_seconds: 7 })
    expect(await faultWith(404)).toMatchObject({ code: "E411", retryable: false })
    expect(await faultWith(200, { expected_status: 201 })).toMatchObject({ code: "E411" })
    const allowed = { url: `${server.url}/404`, expected_status: [200, 404] }
    expect((await run(builtIn("http_fetch"), { config: allowed })).answer).toMatchObject({ status: 404 })
  })

  it("has the worker's guards: private addresses, size, time, abort", async () => {
    await using server = await serve(({ path }, response) => {
      if (path === "/big") response.end("x".repeat(2000))
    })
    const closed = builtIn("http_fetch", { allowPrivateAddresses: false })
    await expect(run(closed, { config: { url: server.url } })).rejects.toMatchObject({ code: "E412" })
    const big = { url: `${server.url}/big`, max_response_bytes: 1000 }
    await expect(run(builtIn("http_fetch"), { config: big })).rejects.toMatchObject({ code: "E413" })
    const slow = { url: server.url, timeout_seconds: 0.05 }
    await expect(run(builtIn("http_fetch"), { config: slow })).rejects.toMatchObject({ code: "E408" })
    const controller = new AbortController()
    const running = run(builtIn("http_fetch"), { config: { url: server.url }, signal: controller.signal })
    controller.abort(new Error("enough"))
    await expect(running).rejects.toThrow()
  })
})

describe("llm", () => {
  it("calls a model and reports its usage", async () => {
    const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 }
    await using server = await serve((_, response) =>
      json(response, {
        model: "tiny-1",
        choices: [{ message: { role: "assistant", content: '{"mood":"good"}' }, finish_reason: "stop" }],
        usage,
      }),
    )
    const messages = [{ role: "user", content: "How is Ada?" }]
    const { answer } = await run(builtIn("llm"), {
      body: { name: "Ada" },
      config: { base_url: server.url, model: "tiny", messages, json: true, as: "llm" },
    })
    expect(answer).toMatchObject({ name: "Ada", llm: { json: { mood: "good" }, model: "tiny-1", usage } })
    expect(JSON.parse(server.asked[0]!.body)).toMatchObject({ model: "tiny", messages })
    expect(server.asked[0]!.headers["idempotency-key"]).toBe("job-1/route:1/0")
  })

  it("an answer is checked on the time of its job's owner", async () => {
    const checks = vi.spyOn(inputChecks, "check")
    onTestFinished(() => checks.mockRestore())
    await using server = await serve((_, response) =>
      json(response, { choices: [{ message: { content: '{"mood":"good"}' }, finish_reason: "stop" }] }),
    )
    const schema = { type: "object", properties: { mood: { type: "string" } } }
    const config = { base_url: server.url, model: "m", prompt: "p", json: schema }
    await run(builtIn("llm"), { config, owner: "ada", jobId: "job-7" })
    expect(checks.mock.calls.map(([, , by]) => by)).toEqual([{ owner: "ada" }])
  })

  it("a model that is busy is called again, a wrong key is final", async () => {
    await using server = await serve(({ headers }, response) =>
      json(response, {}, headers.authorization === undefined ? 429 : 401, { "retry-after": "3" }),
    )
    const ask = (more = {}) =>
      run(builtIn("llm"), { config: { base_url: server.url, model: "m", prompt: "p", ...more } })
    await expect(ask()).rejects.toMatchObject({ code: "E409", retryable: true, retryAfterSeconds: 3 })
    await expect(ask({ api_key: "wrong-key" })).rejects.toMatchObject({ code: "E411", retryable: false })
  })
})
