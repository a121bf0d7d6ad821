import { writeFile } from "node:fs/promises"
import type { ServerResponse } from "node:http"
import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { silentLog } from "../../src/log.ts"
import { httpProvider, loadProviders } from "../../src/provider/http-provider.ts"
import type { HttpProviderDefinition } from "../../src/provider/http-spec.ts"
import type { SubmitContext } from "../../src/provider/provider.ts"
import { freshFolder } from "../journal/folder.ts"
import { type Asked, json, serve } from "../worker/server.ts"

async function startServer(answer: (asked: Asked, response: ServerResponse) => void) {
  const service = await serve(answer)
  onTestFinished(service.close)
  return service
}

const ctx: SubmitContext = {
  ...{ idempotencyKey: "job/a", jobId: "job", nodeId: "a", signal: new AbortController().signal },
  ...{ secret: name => `secret ${name}`, now: Date.now, log: silentLog },
  place: async () => {},
}
const signature = { scheme: "standard-webhooks" as const, secrets: ["S"] }
const allow = { allowPrivateAddresses: true }

const definition = (url: string, over: Partial<HttpProviderDefinition> = {}): HttpProviderDefinition => ({
  name: "acme",
  submit: {
    url: `${url}/jobs?by={{ node_id }}`,
    headers: { Authorization: "Bearer {{ secrets.KEY }}", "X-Job": "{{ job_id }}" },
    query: { mode: "{{ config.mode }}" },
    json: { prompt: "{{ config.prompt }}", list: "{{ config.list }}" },
    external_id: "{{ body.job.id }}",
    idempotency_header: "X-Once",
  },
  poll: {
    url: `${url}/jobs/{{ external_id | urlencode }}`,
    status: "{{ body.state }}",
    done: ["ready", 2],
    failed: ["broken"],
    output: { url: "{{ body.url }}", status: "{{ response.status }}" },
    error: "{{ body.why }}",
    retryable: "{{ body.again }}",
    progress: "{{ body.percent }}",
    message: "{{ body.note }}",
    preview: "{{ body.thumbnail }}",
  },
  ...over,
})

describe("a provider that is plain REST", () => {
  it("knows the secrets that it sends, so that they can be taken out of its webhooks", () => {
    expect(httpProvider(definition("https://acme.example"), allow).secrets).toEqual(["KEY"])
  })

  it("submits with its template, its secrets and our key", async () => {
    const service = await startServer((_, response) => json(response, { job: { id: 17 } }))
    const provider = httpProvider(definition(service.url), allow)
    const config = { mode: "fast", prompt: "a cat", list: [1, 2] }
    expect(await provider.submit!(config, ctx)).toEqual({ externalId: "17" })
    const { path: url, method, headers, body } = service.asked[0]!
    expect({ url, method, body: JSON.parse(body) }).toEqual({
      url: "/jobs?by=a&mode=fast",
      method: "POST",
      body: { prompt: "a cat", list: [1, 2] },
    })
    expect(headers).toMatchObject({ authorization: "Bearer secret KEY", "x-job": "job", "x-once": "job/a" })
  })

  it.each([
    [
      { state: "ready", url: "u" },
      { status: "completed", output: { url: "u", status: 200 } },
    ],
    [
      { state: 2, url: "u" },
      { status: "completed", output: { url: "u", status: 200 } },
    ],
    [
      { state: "broken", why: "no film", again: false },
      { status: "failed", message: "The provider says: no film", retryable: false },
    ],
    [
      { state: "broken", why: "no film", again: "false" },
      {
        status: "failed",
        message:
          "The provider says: no film (`retryable` of its definition yields text, which is not a condition, so the operation is not retried.)",
        retryable: false,
      },
    ],
    [{ state: "broken" }, { status: "failed", message: "The provider says: broken", retryable: true }],
    [{ state: "queued" }, { status: "running" }],
    [
      { state: "queued", percent: 40, note: "soon", thumbnail: { t: 1 } },
      { status: "running", progress: 40, message: "soon", preview: { t: 1 } },
    ],
  ])("reads %j as %j", async (answer, news) => {
    const service = await startServer((_, response) => {
      response.setHeader("content-type", "application/json")
      response.end(JSON.stringify(answer))
    })
    const provider = httpProvider(definition(service.url), allow)
    expect(await provider.poll!({ externalId: "a/b" }, ctx)).toEqual(news)
  })

  it("refuses a template that can only yield text where a boolean or number is meant", () => {
    const { poll, ...rest } = definition("https://acme.example")
    const load = (over: object) => () => httpProvider({ ...rest, poll: { ...poll!, ...over } }, allow)
    expect(load({ retryable: "{% if body.again %}true{% endif %}" })).toThrow(/poll\.retryable yields text/)
    expect(load({ retryable: "false" })).toThrow(/poll\.retryable yields text/)
    expect(load({ progress: "{{ body.percent }} %" })).toThrow(/poll\.progress yields text/)
    expect(load({ status: "s{{ body.state }}" })).toThrow(/poll\.status yields text.*values such as 2/)
    expect(load({ status: "s{{ body.state }}", done: ["s2"] })).not.toThrow()
  })

  it("ignores white space around such an expression", async () => {
    const service = await startServer((_, response) => json(response, { state: 2, url: "u" }))
    const { poll, ...rest } = definition(service.url)
    const provider = httpProvider({ ...rest, poll: { ...poll!, status: "{{ body.state }}\n" } }, allow)
    expect(await provider.poll!({ externalId: "x" }, ctx)).toMatchObject({ status: "completed" })
  })

  it("fails a poll whose response cannot be read", async () => {
    const service = await startServer((_, response) => {
      response.statusCode = 429
      response.setHeader("retry-after", "7")
      response.end("slow down")
    })
    const provider = httpProvider(definition(service.url), allow)
    await expect(provider.poll!({ externalId: "x" }, ctx)).rejects.toMatchObject({
      code: "E409",
      retryAfterSeconds: 7,
    })
  })

  it("takes an operation that is gone for cancelled", async () => {
    const statuses = [404, 410, 409, 204, 500]
    const service = await startServer((_, response) => {
      response.statusCode = statuses.shift()!
      response.end()
    })
    const cancel = { url: `${service.url}/jobs/{{ external_id }}` }
    const provider = httpProvider(definition(service.url, { cancel }), allow)
    for (const _ of [1, 2, 3, 4]) await provider.cancel!({ externalId: "x" }, ctx)
    await expect(async () => provider.cancel!({ externalId: "x" }, ctx)).rejects.toMatchObject({
      code: "E410",
    })
  })

  it("goes to allowed addresses only", async () => {
    const provider = httpProvider(definition("http://127.0.0.1:1"), { allowPrivateAddresses: false })
    await expect(provider.poll!({ externalId: "x" }, ctx)).rejects.toMatchObject({ code: "E412" })
  })

  it.each([[null], [{ id: 1 }], [true], [""]])("takes %j for no name", async id => {
    const service = await startServer((_, response) => json(response, { job: { id } }))
    const webhook = {
      ...{ external_id: "{{ body.id }}", event_id: "{{ body.event }}", signature },
      ...{ status: "{{ body.state }}", done: ["ready"] },
    }
    const provider = httpProvider(definition(service.url, { webhook }), allow)
    const config = { mode: "fast", prompt: "a cat", list: [] }
    expect(await provider.submit!(config, ctx)).toEqual({ externalId: "" })
    const received = await provider.webhook!({ body: { id, event: id, state: "queued" }, headers: {} })
    expect(received).toEqual({ externalId: "", news: { status: "running" } })
  })

  it("says what is wrong with a definition", () => {
    const wrong = (over: object) => () => httpProvider({ ...definition("http://x"), ...over } as never)
    expect(wrong({ pol: {} })).toThrow(/E?.*Unrecognized key/)
    expect(wrong({ poll: { url: "http://x", status: "{{ body.", done: ["a"] } })).toThrow(
      /poll.status does not parse/,
    )
    expect(wrong({ webhook: { external_id: "x", signature } })).toThrow(/is_hint/)
    expect(wrong({ cancel: { url: "http://x/{{ body.id }}" } })).toThrow(
      /cancel.url reads "body".* Available: external_id/,
    )
    const poll = { url: "http://x", status: "{{ body.s }}", done: ["a"], output: "{{ secrets.S }}" }
    expect(wrong({ poll })).toThrow(/poll.output reads "secrets"/)
    expect(wrong({ poll: undefined })).toThrow(/there is no way to detect the end of an operation/)
    const ed25519 = { scheme: "ed25519", header: "x", public_keys: ["short"] }
    expect(wrong({ webhook: { external_id: "x", is_hint: true, signature: ed25519 } })).toThrow(/public key/)
    expect(wrong({ concurrency: 0 })).toThrow(/concurrency/)
    expect(() => httpProvider(null as never)).toThrow(/Provider "\?" is invalid/)
  })
})

describe("a file of providers", () => {
  it("may be YAML with one or several, or a module", async () => {
    const folder = await freshFolder()
    const yaml = join(folder, "providers.yaml")
    await writeFile(
      yaml,
      JSON.stringify([definition("http://a"), { ...definition("http://b"), name: "other" }]),
    )
    expect((await loadProviders(yaml)).map(({ name }) => name)).toEqual(["acme", "other"])
    const module = join(folder, "providers.mjs")
    const brand = 'Symbol.for("umbra.provider")'
    await writeFile(
      module,
      `export const one = { name: "one", [${brand}]: true }; export const two = [one]; export const x = 1`,
    )
    expect((await loadProviders(module)).map(({ name }) => name)).toEqual(["one"])
    const wrong = join(folder, "wrong.yaml")
    await writeFile(wrong, "name: acme\nsubmitt: {}\n")
    await expect(loadProviders(wrong)).rejects.toThrow(/wrong.yaml: Provider "acme" is invalid/)
    const none = join(folder, "none.mjs")
    await writeFile(none, "export const x = 1")
    await expect(loadProviders(none)).rejects.toMatchObject({ code: "E605" })
    await expect(loadProviders(join(folder, "none.yaml"))).rejects.toMatchObject({ code: "E605" })
  })
})
