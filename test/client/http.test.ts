import { describe, expect, it } from "vitest"
import { type ConnectOptions, connect, UmbraClientError } from "../../src/client/index.ts"
import { drop, json, problem, scripted } from "./scripted.ts"

const quick = { retryMs: 1 }
const job = { job_id: "j", status: "COMPLETED", output: 1 }

async function failure(promise: Promise<unknown>): Promise<UmbraClientError> {
  const error = await promise.then(
    () => null,
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(UmbraClientError)
  return error as UmbraClientError
}

describe("submitting", () => {
  it("is sent again with the same key when the connection was dropped, so that it cannot make two jobs", async () => {
    const server = await scripted(drop, drop, json(job, 201))
    const { id } = await connect({ url: server.url, ...quick }).submit("hello", { name: "Ada" })
    expect(id).toBe("j")
    const keys = server.requests.map(({ headers }) => headers["idempotency-key"])
    expect(keys).toHaveLength(3)
    expect(new Set(keys).size).toBe(1)
    expect(keys[0]).toMatch(/^.{20,}$/)
  })

  it("has a key of its own for each call, and the caller's if there is one", async () => {
    const server = await scripted(json(job, 201))
    const umbra = connect({ url: server.url })
    await umbra.submit("hello")
    await umbra.submit("hello")
    await umbra.submit("hello", {}, { idempotencyKey: "order-17" })
    const [first, second, third] = server.requests.map(({ headers }) => headers["idempotency-key"])
    expect(first).not.toBe(second)
    expect(third).toBe("order-17")
  })

  it("refuses a key that no header can hold, instead of failing in fetch", async () => {
    const umbra = connect({ url: "http://127.0.0.1:1" })
    expect((await failure(umbra.submit("hello", {}, { idempotencyKey: "Łódź" }))).code).toBe("E309")
  })

  it("pushes a definition once per client, again when it was changed or deleted on the server", async () => {
    const pushed = { name: "w", version: 3, hash: "h", unchanged: false }
    const server = await scripted(
      ...[json(pushed, 201), json(job, 201), json(job, 201)],
      ...[problem(404, "E305"), json({ ...pushed, version: 4 }, 201), json(job, 201)],
      ...[json({ ...pushed, version: 5 }, 201), json(job, 201)],
    )
    const umbra = connect({ url: server.url, ...quick })
    const definition = { name: "w", nodes: [{ id: "a", handler: "input" }] }
    for (let i = 0; i < 3; i++) await umbra.submit(definition)
    definition.nodes.push({ id: "b", handler: "input" })
    await umbra.submit(definition)
    const received = server.requests.map(({ path, body }) =>
      path === "/jobs" ? JSON.parse(body).workflow : path,
    )
    expect(received).toEqual(["/workflows", "w@3", "w@3", "w@3", "/workflows", "w@4", "/workflows", "w@5"])
  })
})

describe("retries", () => {
  it.each([429, 502, 503, 504])("a read is sent again after %i", async status => {
    const server = await scripted(json({}, status), json(job))
    expect(await connect({ url: server.url, ...quick }).job("j")).toEqual(job)
  })

  it("wait as long as Retry-After says", async () => {
    const server = await scripted(problem(503, "E611", { "retry-after": "1" }), json(job))
    const began = performance.now()
    await connect({ url: server.url, ...quick }).job("j")
    expect(performance.now() - began).toBeGreaterThan(990)
  })

  it("do not wait for a Retry-After beyond the longest delay", async () => {
    const server = await scripted(problem(503, "E611", { "retry-after": "60" }))
    const error = await failure(connect({ url: server.url, ...quick }).job("j"))
    expect(error).toMatchObject({ code: "E611", status: 503, retryAfterMs: 60_000 })
    expect(server.requests).toHaveLength(1)
  })

  it("of a command come only when the server says that it did nothing", async () => {
    const dropped = await scripted(drop, json(job))
    expect((await failure(connect({ url: dropped.url, ...quick }).cancel("j"))).code).toBe("E650")
    expect(dropped.requests).toHaveLength(1)
    const refused = await scripted(problem(429, "E632"), problem(503, "E611"), json(job))
    expect(await connect({ url: refused.url, ...quick }).cancel("j")).toEqual(job)
  })

  it("end after as many as are allowed, with the last error", async () => {
    const server = await scripted(problem(503, "E501"))
    const error = await failure(connect({ url: server.url, ...quick, retries: 2 }).job("j"))
    expect(error).toMatchObject({ code: "E501", status: 503 })
    expect(server.requests).toHaveLength(3)
  })

  it("end at once when the caller stops", async () => {
    const server = await scripted(problem(503, "E501", { "retry-after": "5" }))
    const stop = new AbortController()
    const asked = connect({ url: server.url }).job("j", { signal: stop.signal })
    setTimeout(() => stop.abort(new Error("enough")), 50)
    await expect(asked).rejects.toThrow("enough")
  })

  it("also follow a request that gets no answer", async () => {
    const server = await scripted(() => {}, json(job))
    expect(await connect({ url: server.url, ...quick, timeoutMs: 1000 }).job("j")).toEqual(job)
  })
})

describe("errors", () => {
  it("have code, message, status and problems of the server's document", async () => {
    const document = { detail: "The workflow has a problem.", code: "E103", errors: [{ code: "E103" }] }
    const server = await scripted(json(document, 422))
    const error = await failure(connect({ url: server.url }).workflows.push("name: x"))
    expect({ ...error, message: error.message }).toMatchObject({
      ...{ code: "E103", status: 422, message: document.detail, problems: document.errors },
    })
    expect(server.requests[0]).toMatchObject({
      body: "name: x",
      headers: { "content-type": "application/yaml" },
    })
  })

  it("describe what happened when the server does not answer", async () => {
    const server = await scripted(json(job))
    await server.stop()
    const error = await failure(connect({ url: server.url, ...quick, retries: 1 }).job("j"))
    expect(error).toMatchObject({ code: "E650", status: null })
    expect(error.message).toMatch(/ECONNREFUSED.*Is the server running/)
  })

  it.each([
    ["a page instead of JSON", 200],
    ["a page that says no", 404],
  ])("say that this is not Umbra: %s", async (_, status) => {
    const server = await scripted(response =>
      response.writeHead(status, { "content-type": "text/html" }).end("<html>"),
    )
    const error = await failure(connect({ url: server.url }).job("j"))
    expect(error).toMatchObject({ code: "E651", status })
    expect(error.message).toContain("Check the URL")
  })

  it.each(["localhost:7070", "ftp://x", "", "http://u:secret@host", "http://host/?token=secret"])(
    "refuse %j as an address, without telling what may be a secret",
    url => {
      expect(() => connect({ url })).toThrow(/is not a valid server URL/)
      expect(() => connect({ url })).not.toThrow(/secret/)
    },
  )
})

describe("requests", () => {
  it("carry the token, also one that is fetched for each, and additional headers", async () => {
    const server = await scripted(json(job))
    let made = 0
    const options: ConnectOptions = { url: `${server.url}/`, headers: { "x-team": "shop" } }
    await connect({ ...options, token: "umbra_abc" }).job("j")
    const client = connect({ ...options, token: async () => `t${++made}` })
    await client.job("j")
    await client.job("j")
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual([
      ...["Bearer umbra_abc", "Bearer t1", "Bearer t2"],
    ])
    expect(server.requests[0]).toMatchObject({ path: "/jobs/j", headers: { "x-team": "shop" } })
  })

  it("keep names that hold slashes or signs in one part of the address", async () => {
    const server = await scripted(json({}))
    await connect({ url: server.url }).workflows.get("a/b?c")
    expect(server.requests[0]?.path).toBe("/workflows/a%2Fb%3Fc")
    expect((await failure(connect({ url: server.url }).job(".."))).code).toBe("E309")
  })

  it("go through the fetch that was given", async () => {
    const asked: string[] = []
    const given: typeof fetch = async input => {
      asked.push(String(input))
      return new Response(JSON.stringify(job), { headers: { "content-type": "application/json" } })
    }
    expect(await connect({ url: "https://umbra.example.com/api", fetch: given }).job("j")).toEqual(job)
    expect(asked).toEqual(["https://umbra.example.com/api/jobs/j"])
  })
})

describe("waiting", () => {
  it("polls until the job has ended, also while the server is unavailable", async () => {
    const running = json({ ...job, status: "PROCESSING" })
    const server = await scripted(running, drop, drop, problem(503, "E612"), running, json(job))
    const umbra = connect({ url: server.url, ...quick, retries: 0 })
    expect(await umbra.wait("j")).toEqual(job)
    expect(server.requests[0]?.path).toBe("/jobs/j?wait=25")
  })

  it("answers with the job as it is when the time is up", async () => {
    const server = await scripted(json({ ...job, status: "PROCESSING" }))
    const umbra = connect({ url: server.url })
    expect((await umbra.wait("j", { timeoutMs: 50 })).status).toBe("PROCESSING")
  })

  it("ends with an error that asking again does not mend", async () => {
    const server = await scripted(json({ ...job, status: "PROCESSING" }), problem(404, "E301"))
    expect((await failure(connect({ url: server.url }).wait("j"))).code).toBe("E301")
  })

  it("gives up on a server that is away for longer than the patience", async () => {
    const server = await scripted(drop)
    const umbra = connect({ url: server.url, ...quick, retries: 0, patienceMs: 10 })
    expect((await failure(umbra.wait("j"))).code).toBe("E650")
  })
})
