import { gzipSync } from "node:zlib"
import { describe, expect, it } from "vitest"
import type { Json } from "../../src/core/json.ts"
import { handlerCatalog, loadWorkflow } from "../../src/definition/index.ts"
import { builtinHandlers } from "../../src/worker/handlers/index.ts"
import { json, serve } from "./server.ts"
import { faultIn, outputIn, settled, task, worker } from "./support.ts"

const { run, broker } = worker(builtinHandlers({ allowPrivateAddresses: true }))
const call = (config: Json, more = {}) => run(task("call_external_service", { config, ...more }))

describe("call_external_service", () => {
  it("sends method, query, headers and JSON, and gives status, headers and parsed body", async () => {
    await using server = await serve((_, response) => json(response, { ok: [1] }, 201, { "x-id": "7" }))
    const outcome = await call(
      {
        method: "POST",
        url: `${server.url}/a?x=1`,
        query: { tag: ["p", "q"], n: 2 },
        headers: { "X-Own": 5 },
        json: { a: "ü" },
      },
      { jobId: "j", nodeId: "n" },
    )
    expect(outputIn(outcome)).toMatchObject({
      status: 201,
      headers: { "x-id": "7" },
      body: { ok: [1] },
      encoding: "json",
    })
    expect(server.asked[0]).toMatchObject({
      method: "POST",
      path: "/a?x=1&tag=p&tag=q&n=2",
      body: '{"a":"ü"}',
    })
    expect(server.asked[0]!.headers).toMatchObject({
      "content-type": "application/json",
      "content-length": "10",
      "x-own": "5",
      "idempotency-key": "j/n",
    })
  })

  it("a header that cannot be sent is an error of its own, without its value", async () => {
    await using server = await serve((_, response) => response.end("never"))
    const broken = { "X-Key": "top-secret\r\nX-Other: 1" }
    const cases = [broken, { "X-Key": "price: 5 €" }, { "a b": "1" }, { "": "1" }]
    const ofConnection = ["Content-Length", "Transfer-Encoding", "Connection", "Upgrade"].map(name => ({
      [name]: "1",
    }))
    for (const headers of [...cases, ...ofConnection]) {
      const fault = faultIn(await call({ method: "POST", url: server.url, headers, text: "x" }))
      expect([headers, fault.code, fault.retryable]).toEqual([headers, "E419", false])
      expect(fault.message).not.toContain("top-secret")
    }
    expect(server.asked).toEqual([])
    await call({ url: server.url, headers: { "X-Latin": "für" } })
    expect(server.asked).toHaveLength(1)
  })

  it("with a provider a Host header is refused, however it is written, and nothing is sent", async () => {
    await using server = await serve((_, response) => response.end("fine"))
    for (const name of ["Host", "host", "HOST"]) {
      const config = { url: server.url, headers: { [name]: "attacker.example" } }
      expect(faultIn(await call(config, { provider: "acme" }))).toMatchObject({
        ...{ code: "E424", retryable: false, details: { header: "host" } },
      })
    }
    expect(server.asked).toEqual([])
    await call({ url: server.url, headers: { Host: "inner.example" } })
    expect(server.asked[0]!.headers.host).toBe("inner.example")
    const node = {
      id: "n",
      handler: "call_external_service",
      config: { url: server.url, headers: { Host: "x" } },
    }
    const problems = (more: object, rules = 2) =>
      loadWorkflow(JSON.stringify({ name: "w", nodes: [{ ...node, ...more }] }), {
        ...{ handlers: handlerCatalog(builtinHandlers({ allowPrivateAddresses: true })), rules },
      }).problems ?? []
    expect(problems({ provider: "acme" })).toMatchObject([
      { code: "E102", path: "nodes[0].config.headers.Host" },
    ])
    expect([problems({}), problems({ provider: "acme" }, 1)]).toEqual([[], []])
  })

  it("sends text, and no idempotency key with what is repeatable", async () => {
    await using server = await serve((_, response) => response.end("plain"))
    await call({ method: "PUT", url: server.url, text: "<x/>", headers: { "Content-Type": "text/xml" } })
    expect(server.asked[0]).toMatchObject({ body: "<x/>", headers: { "content-type": "text/xml" } })
    const outcome = await call({ url: server.url })
    expect(outputIn(outcome)).toMatchObject({ body: "plain", encoding: "text" })
    expect(server.asked[1]!.headers).not.toHaveProperty("idempotency-key")
  })

  it("reads empty, compressed and binary bodies", async () => {
    const bodies: Record<string, [object, Buffer]> = {
      "/empty": [{}, Buffer.alloc(0)],
      "/gzip": [
        { "content-type": "application/problem+json", "content-encoding": "gzip" },
        gzipSync('{"z":1}'),
      ],
      "/binary": [{ "content-type": "image/png" }, Buffer.from([0x89, 0x50, 0xff])],
      "/latin": [{ "content-type": "text/plain; charset=iso-8859-1" }, Buffer.from([0xfc])],
    }
    await using server = await serve(({ path }, response) => {
      const [headers, body] = bodies[path]!
      response.writeHead(200, headers as never).end(body)
    })
    const read = async (path: string) => outputIn(await call({ url: server.url + path }))
    expect(await read("/empty")).toMatchObject({ body: null })
    expect(await read("/gzip")).toMatchObject({ body: { z: 1 }, encoding: "json" })
    expect(await read("/binary")).toMatchObject({ body: "iVD/", encoding: "base64" })
    expect(await read("/latin")).toMatchObject({ body: "ü", encoding: "text" })
  })

  it.each([
    [429, "E409", true],
    [500, "E410", true],
    [503, "E410", true],
    [408, "E410", true],
    [400, "E411", false],
    [404, "E411", false],
    [302, "E411", false],
  ])("J13 status %i is %s, retryable: %s", async (status, code, retryable) => {
    await using server = await serve((_, response) =>
      response.writeHead(status, { "retry-after": "9" }).end("why"),
    )
    const fault = faultIn(await call({ url: server.url }))
    expect(fault).toMatchObject({ code, retryable, retry_after_seconds: 9, details: { status, body: "why" } })
  })

  it("expected_status decides what is success", async () => {
    await using server = await serve((_, response) => response.writeHead(404).end())
    expect(outputIn(await call({ url: server.url, expected_status: [200, 404] }))).toMatchObject({
      status: 404,
    })
    expect(faultIn(await call({ url: server.url, expected_status: 200 })).details).toMatchObject({
      status: 404,
    })
  })

  it("a refused connection and a broken one are faults that may pass", async () => {
    const server = await serve((_, response) => response.destroy())
    expect(faultIn(await call({ url: server.url }))).toMatchObject({
      code: "E408",
      retryable: true,
      details: { cause: "ECONNRESET" },
    })
    await server.close()
    expect(faultIn(await call({ url: server.url }))).toMatchObject({
      code: "E408",
      retryable: true,
      details: { cause: "ECONNREFUSED" },
    })
  })

  it("an answer that breaks off is a fault, not half a body", async () => {
    await using server = await serve((_, response) => {
      response.writeHead(200, { "content-length": "100" }).write("half")
      setImmediate(() => response.destroy())
    })
    expect(faultIn(await call({ url: server.url }))).toMatchObject({ code: "E408", retryable: true })
  })

  it("timeout_seconds covers the whole answer", async () => {
    await using server = await serve((_, response) => void response.writeHead(200).write("and then nothing"))
    const fault = faultIn(await call({ url: server.url, timeout_seconds: 0.1 }))
    expect(fault).toMatchObject({ code: "E408", retryable: true })
    expect(fault.message).toContain("within 0.1 s")
  })

  it("J16 a cancelled request is closed", async () => {
    let closed = false
    await using server = await serve(
      (_, response) =>
        void response.on("close", () => {
          closed = true
        }),
    )
    const one = task("call_external_service", { config: { url: server.url } })
    broker.dispatch(one)
    await expect.poll(() => server.asked.length).toBe(1)
    broker.cancel(one)
    await expect.poll(() => closed).toBe(true)
    await settled()
    expect(broker.running).toBe(0)
  })

  it("a body over the limit is cut off while it arrives, also when it is small on the wire", async () => {
    let written = 0
    await using server = await serve(({ path }, response) => {
      if (path === "/zip") {
        response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync(Buffer.alloc(10_000_000)))
        return
      }
      response.writeHead(200)
      const more = () => {
        if (response.destroyed) return
        written += 10_000
        response.write("x".repeat(10_000), () => setImmediate(more))
      }
      more()
    })
    const config = { max_response_bytes: 100_000 }
    expect(faultIn(await call({ ...config, url: server.url }))).toMatchObject({
      code: "E413",
      retryable: false,
    })
    expect(written).toBeLessThan(50_000_000)
    expect(faultIn(await call({ ...config, url: `${server.url}/zip` }))).toMatchObject({ code: "E413" })
  })

  it("JSON that is none is a clear fault", async () => {
    await using server = await serve((_, response) =>
      response.writeHead(200, { "content-type": "application/json" }).end("<html>"),
    )
    expect(faultIn(await call({ url: server.url }))).toMatchObject({
      code: "E414",
      retryable: false,
      details: { body: "<html>" },
    })
  })
})

describe("redirects", () => {
  const to =
    (location: string, status = 302) =>
    (path: string) =>
      path === "/start" ? { location, status } : undefined

  async function redirecting(rule: (path: string) => { location: string; status: number } | undefined) {
    return serve(({ path }, response) => {
      const target = rule(path)
      if (target === undefined) json(response, path)
      else response.writeHead(target.status, { location: target.location }).end()
    })
  }

  it("are followed on one origin with headers; 303 turns a POST into a GET, 307 keeps it", async () => {
    await using after303 = await redirecting(to("/end", 303))
    const post = { method: "POST", json: { a: 1 }, headers: { "x-key": "k", authorization: "Bearer t" } }
    expect(outputIn(await call({ ...post, url: `${after303.url}/start` }))).toMatchObject({ body: "/end" })
    expect(after303.asked[1]).toMatchObject({
      method: "GET",
      body: "",
      headers: { "x-key": "k", authorization: "Bearer t" },
    })
    expect(after303.asked[1]!.headers).not.toHaveProperty("content-type")
    await using after307 = await redirecting(to("/end", 307))
    await call({ ...post, url: `${after307.url}/start` })
    expect(after307.asked[1]).toMatchObject({ method: "POST", body: '{"a":1}' })
  })

  it("to another origin lose every header that may be a credential", async () => {
    await using other = await redirecting(() => undefined)
    await using server = await redirecting(to(`${other.url}/end`))
    const headers = { authorization: "Bearer t", cookie: "c=1", "x-api-key": "k", "accept-language": "de" }
    await call({ url: `${server.url}/start`, headers })
    expect(other.asked[0]!.headers).toMatchObject({ "accept-language": "de" })
    for (const name of ["authorization", "cookie", "x-api-key"])
      expect(other.asked[0]!.headers).not.toHaveProperty(name)
  })

  it("to another origin do not carry a body along", async () => {
    await using other = await redirecting(() => undefined)
    await using server = await redirecting(to(other.url, 307))
    const fault = faultIn(await call({ method: "POST", url: `${server.url}/start`, json: { key: "k" } }))
    expect(fault).toMatchObject({ code: "E411", retryable: false })
    expect(other.asked).toHaveLength(0)
  })

  it("end after five, or after follow_redirects, or are the answer if they are off", async () => {
    await using server = await redirecting(path => ({ location: `${path}x`, status: 302 }))
    expect(faultIn(await call({ url: server.url })).message).toContain("redirected more than 5 times")
    expect(server.asked).toHaveLength(6)
    expect(faultIn(await call({ url: server.url, follow_redirects: 1 })).message).toContain(
      "more than 1 times",
    )
    const off = await call({ url: server.url, follow_redirects: false, expected_status: 302 })
    expect(outputIn(off)).toMatchObject({ status: 302 })
  })

  it("are checked like the first address", async () => {
    await using server = await redirecting(to("http://127.0.0.2:1/"))
    const guarded = worker(builtinHandlers({ allowPrivateAddresses: ["127.0.0.1"] }))
    const outcome = await guarded.run(
      task("call_external_service", { config: { url: `${server.url}/start` } }),
    )
    expect(faultIn(outcome)).toMatchObject({ code: "E412", retryable: false })
  })

  it("to something else than http are refused", async () => {
    await using server = await redirecting(to("file:///etc/passwd"))
    expect(faultIn(await call({ url: `${server.url}/start` })).code).toBe("E411")
  })
})

describe("private addresses", () => {
  it("are refused by default, and the fault says who can allow them", async () => {
    await using server = await serve((_, response) => json(response, 1))
    const guarded = worker(builtinHandlers({ allowPrivateAddresses: false }))
    for (const url of [server.url, `http://localhost:${server.port}`]) {
      const fault = faultIn(await guarded.run(task("call_external_service", { config: { url } })))
      expect(fault).toMatchObject({ code: "E412", retryable: false })
      expect(fault.message).toContain("UMBRA_ALLOW_PRIVATE_ADDRESSES")
    }
    expect(server.asked).toHaveLength(0)
  })
})
