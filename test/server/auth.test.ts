import { request } from "node:http"
import { connect } from "node:net"
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest"
import { silentLog } from "../../src/log.ts"
import { Rate } from "../../src/server/auth/caller.ts"
import { Tokens } from "../../src/server/auth/tokens.ts"
import { isLoopback } from "../../src/server/http/limits.ts"
import { startServer } from "../../src/server/server.ts"
import { openUmbra } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { type Asked, hello, openStage, type Stage, type StageOptions } from "./stage.ts"

const approval = { name: "approval", nodes: [{ id: "ask", handler: "approval" }] }

async function stageOf(options: StageOptions): Promise<Stage> {
  const stage = await openStage(options)
  onTestFinished(() => stage.close())
  return stage
}

interface Step {
  readonly method: string
  readonly path: string
  readonly scope: string
  /** The scope that the document says it needs. */
  readonly needs?: string
}

type Described = { readonly security: readonly { readonly token: readonly string[] }[] }

/** Every operation of the published document, with the paths filled in. */
async function operations(stage: Stage, values: Readonly<Record<string, string>>): Promise<Step[]> {
  const { body } = await stage.ask("/openapi.json")
  return Object.entries(body.paths as Record<string, Record<string, Described>>).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, { security }]) => security.length > 0)
      .map(([method, { security }]) => ({
        method: method.toUpperCase(),
        path: path.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? name),
        scope: path,
        needs: security[0]!.token.join(),
      })),
  )
}

const range = { from: "2026-11-15T00:00:00Z", to: "2026-11-15T02:00:00Z" }
const bodies: Readonly<Record<string, Asked>> = {
  "POST /jobs": { body: { workflow: "secret" } },
  "POST /jobs/bulk": { body: { jobs: [{ workflow: "secret" }] } },
  "POST /bulk": { body: { verb: "cancel", filter: { workflow: "secret" } } },
  "PATCH /jobs/{job}": { body: { note: "mine" } },
  "POST /jobs/{job}/reschedule": { body: { delay_seconds: 0 } },
  "POST /workflows": { body: { ...hello, name: "mine" } },
  "POST /workflows/validate": { body: hello },
  "PUT /workflows/{name}/aliases/{alias}": { body: { version: 1 } },
  "PUT /schedules/{name}": { body: { workflow: "secret", every: "1h" } },
  "POST /schedules/preview": { body: { workflow: "secret", every: "1h" } },
  "POST /schedules/{name}/backfill": { body: range },
}

/** What a route does not do without. */
const queries: Readonly<Record<string, string>> = {
  "/workflows/{name}/diff": "?from=1&to=1",
  "/jobs/{job}/lineage": "?message=route:1",
  "/schedules/{name}/ticks": `?${new URLSearchParams(range)}`,
}

describe("owners", () => {
  let stage: Stage
  let owner: string
  let stranger: string
  let jobId: string

  beforeAll(async () => {
    stage = await openStage({ withTokens: true })
    owner = await stage.token("ada", "admin")
    stranger = await stage.token("eve", "admin")
    const body = { ...approval, name: "secret" }
    await stage.ask("/workflows", { method: "POST", token: owner, body })
    await stage.ask("/workflows/secret/aliases/stable", { method: "PUT", token: owner, body: { version: 1 } })
    const submitted = await stage.ask("/jobs", { method: "POST", token: owner, body: { workflow: "secret" } })
    jobId = submitted.body.job_id
    const schedule = { workflow: "secret", every: "1h" }
    const put = await stage.ask("/schedules/secret", { method: "PUT", token: owner, body: schedule })
    expect(put.status).toBe(201)
  })
  afterAll(() => stage?.close())

  const steps = () =>
    operations(stage, {
      job: jobId,
      name: "secret",
      version: "1",
      alias: "stable",
      node: "ask",
      signal: "approved",
      seq: "1",
      hash: `sha256:${"0".repeat(64)}`,
    })
  const askStep = ({ method, path, scope }: Step, token?: string) => {
    const query = queries[scope] ?? ""
    const asked = { method, ...bodies[`${method} ${scope}`], ...(token === undefined ? {} : { token }) }
    return stage.ask(`${path}${query}`, asked)
  }

  it("S3 another owner's things answer 404 on every route, and nothing of them shows in a list", async () => {
    const named = (await steps()).filter(({ scope }) => scope.includes("{"))
    expect(named.length).toBeGreaterThan(12)
    for (const step of named)
      expect((await askStep(step, stranger)).status, `${step.method} ${step.path}`).toBe(404)
    for (const path of ["/jobs", "/workflows", "/schedules"])
      expect(JSON.stringify((await stage.ask(path, { token: stranger })).body)).not.toContain("secret")
    expect((await askStep({ method: "POST", path: "/jobs", scope: "/jobs" }, stranger)).status).toBe(404)
    const { body } = await askStep({ method: "POST", path: "/jobs/bulk", scope: "/jobs/bulk" }, stranger)
    expect(body.results).toMatchObject([{ problem: { code: "E305" } }])
    expect((await stage.ask(`/jobs/${jobId}`, { token: owner })).body).toMatchObject({ owner: "ada" })
    expect((await stage.ask("/workflows/secret", { token: owner })).status).toBe(200)
  })

  it("S3 another owner's job and no job at all get the same response", async () => {
    const none = jobId.replace(/.$/, last => (last === "0" ? "1" : "0"))
    const [theirs, nothing] = [
      await stage.ask(`/jobs/${jobId}`, { token: stranger }),
      await stage.ask(`/jobs/${none}`, { token: stranger }),
    ]
    expect(theirs.body.detail.replace(jobId, "")).toBe(nothing.body.detail.replace(none, ""))
  })

  it("S3 every route but health, readiness and the documentation needs a token", async () => {
    for (const step of await steps()) {
      const answer = await askStep(step)
      expect(answer, `${step.method} ${step.path}`).toMatchObject({ status: 401, body: { code: "E630" } })
      expect(answer.headers.get("www-authenticate")).toContain("Bearer")
    }
    for (const path of ["/health", "/ready", "/docs", "/openapi.json"])
      expect((await stage.ask(path)).status, path).toBe(200)
    for (const method of ["HEAD", "OPTIONS", "PATCH"])
      expect((await stage.ask("/jobs", { method })).status, method).toBe(method === "HEAD" ? 401 : 405)
  })

  it("S3 a scope opens what it names and nothing else; admin opens all", async () => {
    const opened: Record<string, string[]> = { read: [], submit: [], manage: [], admin: [] }
    for (const scope of ["read", "submit", "manage", "admin"] as const) {
      const token = await stage.token("mallory", scope)
      for (const step of await steps())
        if ((await askStep(step, token)).status !== 403) opened[scope]!.push(`${step.method} ${step.scope}`)
    }
    expect(opened.submit!.sort()).toEqual([
      "POST /artifacts",
      "POST /jobs",
      "POST /jobs/bulk",
      "POST /jobs/{job}/dead-letters/replay",
      "POST /jobs/{job}/signals/{signal}",
      "POST /schedules/{name}/run",
    ])
    expect(opened.manage!.sort()).toEqual([
      "DELETE /artifacts/{hash}",
      "DELETE /jobs/{job}",
      "DELETE /schedules/{name}",
      "DELETE /workflows/{name}",
      "DELETE /workflows/{name}/aliases/{alias}",
      "PATCH /jobs/{job}",
      "POST /bulk",
      "POST /bulk/{job}/abort",
      "POST /jobs/{job}/cancel",
      "POST /jobs/{job}/fork",
      "POST /jobs/{job}/pause",
      "POST /jobs/{job}/reschedule",
      "POST /jobs/{job}/resume",
      "POST /jobs/{job}/retry",
      "POST /schedules/{name}/backfill",
      "POST /schedules/{name}/pause",
      "POST /schedules/{name}/resume",
      "POST /workflows",
      "POST /workflows/{name}/pause",
      "POST /workflows/{name}/resume",
      "PUT /schedules/{name}",
      "PUT /workflows/{name}/aliases/{alias}",
    ])
    expect(opened.read!.filter(step => !step.startsWith("GET "))).toEqual([
      "POST /workflows/validate",
      "POST /schedules/preview",
    ])
    // A sweep of artifacts is for all owners: no token opens it.
    const open = (await steps()).filter(({ scope }) => scope !== "/artifacts/sweep")
    expect(opened.admin).toEqual(open.map(({ method, scope }) => `${method} ${scope}`))
    for (const { method, scope: path, needs } of open)
      expect(opened[needs!], `${method} ${path} needs ${needs}`).toContain(`${method} ${path}`)
  })

  it.each([
    ["no scheme", "umbra_x"],
    ["another scheme", "Basic dTpw"],
    ["nothing behind the scheme", "Bearer "],
    ["a token that was never made", `Bearer umbra_${"A".repeat(43)}`],
    ["two tokens", "Bearer a b"],
  ])("S3 %s is not a token", async (_, authorization) => {
    expect(await stage.ask("/jobs", { headers: { authorization } })).toMatchObject({ status: 401 })
  })

  it("S3 a revoked token is refused from the next request on", async () => {
    const token = await stage.token("ada", "read")
    expect((await stage.ask("/jobs", { token })).status).toBe(200)
    const rows = await stage.umbra.registry.listTokens({ owner: "ada" })
    const { id } = rows.find(({ lastFour }) => token.endsWith(lastFour))!
    await stage.umbra.registry.revokeToken({ id, at: 1 })
    expect((await stage.ask("/jobs", { token })).status).toBe(401)
  })

  it("S3 what is stored of a token does not give it away", async () => {
    const token = await stage.token("ada", "read")
    const stored = JSON.stringify(await stage.umbra.registry.listTokens())
    expect(stored).not.toContain(token.slice(6, 20))
    expect(stored).toContain(token.slice(-4))
  })
})

describe("limits", () => {
  it("S3 a token with too many requests waits as long as Retry-After says; others do not", async () => {
    // The next place comes after 100 s, however slow the machine is.
    const stage = await stageOf({ withTokens: true, settings: { rateLimit: 0.01 } })
    const [busy, calm] = [await stage.token("a", "read"), await stage.token("a", "read")]
    const answers = await Promise.all(Array.from({ length: 12 }, () => stage.ask("/jobs", { token: busy })))
    const refused = answers.filter(({ status }) => status === 429)
    expect(refused).toHaveLength(11)
    expect(refused[0]!.body.code).toBe("E632")
    expect(Number(refused[0]!.headers.get("retry-after"))).toBeGreaterThan(0)
    expect((await stage.ask("/jobs", { token: calm })).status).toBe(200)
  })

  it("S3 an address that tries many wrong tokens has to wait, but not with a token that was good", async () => {
    const stage = await stageOf({ withTokens: true })
    const good = await stage.token("a", "read")
    expect((await stage.ask("/jobs", { token: good })).status).toBe(200)
    const guess = (n: number) => stage.ask("/jobs", { token: `umbra_${String(n).padStart(43, "0")}` })
    const answers: number[] = []
    // The time stands still, so that a slow machine counts as many guesses in a second as a fast one.
    const clock = vi.spyOn(performance, "now").mockReturnValue(performance.now())
    onTestFinished(() => clock.mockRestore())
    while (answers.length < 40) answers.push((await guess(answers.length)).status)
    clock.mockRestore()
    expect(answers[0]).toBe(401)
    expect(new Set(answers)).toEqual(new Set([401, 429]))
    expect((await stage.ask("/jobs", { token: good })).status).toBe(200)
  })

  it("a bucket fills again with time", () => {
    let now = 0
    const rate = new Rate(() => now)
    const take = (key: string) => rate.take(key, 10)
    expect(Array.from({ length: 20 }, () => take("a"))).toEqual(Array(20).fill(0))
    expect(take("a")).toBeCloseTo(0.1)
    now += 100
    expect(take("a")).toBe(0)
    expect(take("a")).toBeGreaterThan(0)
    expect(take("b")).toBe(0)
  })

  it("a slow rate lets one through, and the next after its time", () => {
    let now = 0
    const rate = new Rate(() => now)
    expect(rate.take("a", 0.1)).toBe(0)
    expect(rate.take("a", 0.1)).toBeCloseTo(10)
    now += 10_000
    expect(rate.take("a", 0.1)).toBe(0)
  })

  it("S3 a body over the limit is 413, one of another type 415, one that is no JSON 400", async () => {
    const stage = await stageOf({ settings: { maxBodyBytes: 1000 } })
    const post = (body: string, type = "application/json") =>
      stage.ask("/jobs", { method: "POST", body, headers: { "content-type": type } })
    expect(await post(JSON.stringify({ workflow: "x".repeat(2000) }))).toMatchObject({
      status: 413,
      body: { code: "E635" },
    })
    expect(await post("a=b", "application/x-www-form-urlencoded")).toMatchObject({
      status: 415,
      body: { code: "E636" },
    })
    expect(await post("workflow: hello", "application/yaml")).toMatchObject({ status: 415 })
    for (const body of [
      "{",
      "",
      "nul",
      '{"__proto__": {}, "workflow": "x"}',
      "[".repeat(900),
      '{"workflow": 1}',
      "null",
    ])
      expect(await post(body), body).toMatchObject({ status: 400, body: { code: "E633" } })
  })

  it("with too many jobs in memory new ones are accepted, QUEUED, and continue later", async () => {
    let release = () => {}
    const released = new Promise<void>(resolve => {
      release = resolve
    })
    const hold = defineHandler({ name: "hold", run: () => released.then(() => 1) })
    const stage = await stageOf({ umbra: { handlers: [hold], engine: { maxLiveJobs: 2 } } })
    const body = { name: "held", nodes: [{ id: "hold", handler: "hold" }] }
    await stage.ask("/workflows", { method: "POST", body })
    const submit = () => stage.ask("/jobs", { method: "POST", body: { workflow: "held" } })
    const accepted = [await submit(), await submit(), await submit()]
    expect(accepted.map(({ status, body: job }) => [status, job.status])).toEqual([
      [201, "PROCESSING"],
      [201, "PROCESSING"],
      [201, "QUEUED"],
    ])
    release()
    for (const { body: job } of accepted)
      expect((await stage.ask(`/jobs/${job.job_id}?wait=20`)).body.status).toBe("COMPLETED")
  })

  it("requests beyond those in progress are refused, and taken again afterwards", async () => {
    const stage = await stageOf({ settings: { maxRequests: 3 } })
    await stage.ask("/workflows", { method: "POST", body: approval })
    const { body } = await stage.ask("/jobs", { method: "POST", body: { workflow: "approval" } })
    const waiting = Array.from({ length: 3 }, () => stage.ask(`/jobs/${body.job_id}?wait=20`))
    await expect.poll(async () => (await stage.ask("/jobs")).status).toBe(503)
    await stage.umbra.cancel(body.job_id)
    for (const { status } of await Promise.all(waiting)) expect(status).toBe(200)
    await expect.poll(async () => (await stage.ask("/jobs")).status).toBe(200)
  })
})

/** What the server answers to these bytes. */
function rawRequest(url: string, head: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(url).port), "127.0.0.1", () =>
      socket.write(`${head}Connection: close\r\n\r\n`),
    )
    let text = ""
    socket.setEncoding("utf8").on("data", part => {
      text += part
    })
    socket.on("end", () => resolve(text)).on("error", reject)
  })
}

describe("a server without tokens", () => {
  it("S3 works on loopback for one local owner, and refuses any other address", async () => {
    const stage = await stageOf({})
    expect(stage.server.isOpen).toBe(true)
    expect((await stage.ask("/jobs")).status).toBe(200)
    expect((await stage.ask("/jobs", { token: "umbra_wrong" })).status).toBe(401)
    const { umbra } = stage
    const start = startServer({ umbra, host: "0.0.0.0", port: 0, version: "0", log: silentLog })
    await expect(start).rejects.toMatchObject({ code: "E637" })
  })

  it("S3 listens elsewhere once there is a token, and is closed then", async () => {
    const umbra = await openUmbra("memory:")
    await new Tokens(umbra.registry).create({ owner: "a", scopes: ["read"] })
    const server = await startServer({ umbra, host: "0.0.0.0", port: 0, version: "0", log: silentLog })
    expect(server.isOpen).toBe(false)
    await server.close()
    await umbra.close()
  })

  it("S3 does not answer a page from elsewhere, by another name or another origin", async () => {
    const { server } = await stageOf({})
    const status = (headers: Record<string, string>) =>
      new Promise(resolve => {
        const asked = request(`${server.url}/jobs`, { headers }, answer =>
          resolve(answer.resume().statusCode),
        )
        asked.end()
      })
    const own = server.url.replace("http://", "")
    expect(await status({ host: "rebound.example.com" })).toBe(403)
    expect(await status({ host: own, origin: "https://evil.example.com" })).toBe(403)
    expect(await status({ host: own, origin: "null" })).toBe(403)
    expect(await status({ host: own, origin: server.url })).toBe(200)
    expect(await status({ host: "localhost:1" })).toBe(200)
  })

  it("S3 does not answer a page from another site that sends no Origin, as links and images do", async () => {
    const { server } = await stageOf({})
    const status = async (site: string, path = "/jobs") =>
      (await fetch(`${server.url}${path}`, { headers: { "sec-fetch-site": site } })).status
    expect(await status("cross-site")).toBe(403)
    expect(await status("cross-site", "/health")).toBe(403)
    expect(await status("same-site")).toBe(403)
    expect(await status("same-origin")).toBe(200)
    expect(await status("none", "/docs")).toBe(200)
  })

  it("S3 a request that names two hosts, in headers or target, is refused, with tokens or without", async () => {
    for (const options of [{}, { withTokens: true }]) {
      const { server } = await stageOf(options)
      const host = server.url.replace("http://", "")
      const answer = await rawRequest(
        server.url,
        `GET /health HTTP/1.1\r\nHost: ${host}\r\nHOST: evil.example\r\n`,
      )
      expect(answer).toMatch(/^HTTP\/1.1 400 /)
      expect(answer).toContain("E633")
      expect(await rawRequest(server.url, `GET /health HTTP/1.1\r\nHost: ${host}\r\n`)).toMatch(
        /^HTTP\/1.1 200 /,
      )
      const target = (named: string) =>
        rawRequest(server.url, `GET http://${named}/health HTTP/1.1\r\nHost: ${host}\r\n`)
      for (const other of ["evil.example", `user@${host}`, "localhost"])
        expect(await target(other)).toMatch(/^HTTP\/1.1 400 .*E633/s)
      expect(await target(host)).toMatch(/^HTTP\/1.1 200 /)
    }
  })

  it("S3 says in every answer that browsers must not guess, frame or keep it", async () => {
    const stage = await stageOf({})
    for (const path of ["/health", "/jobs", "/nothing"]) {
      const { headers } = await stage.ask(path)
      expect(headers.get("x-content-type-options")).toBe("nosniff")
      expect(headers.get("cache-control")).toBe("no-store")
      expect(headers.get("content-security-policy")).toContain("default-src 'none'")
    }
  })

  it.each([
    ["127.0.0.1", true],
    ["localhost", true],
    ["::1", true],
    ["0.0.0.0", false],
    ["127.0.0.1.example.com", false],
    ["10.0.0.1", false],
  ])("takes %s for loopback: %s", (host, expected) => {
    expect(isLoopback(host)).toBe(expected)
  })
})

it("an address that is in use is reported", async () => {
  const { server, umbra } = await stageOf({})
  const port = Number(new URL(server.url).port)
  const second = startServer({ umbra, host: "127.0.0.1", port, version: "0", log: silentLog })
  await expect(second).rejects.toMatchObject({ code: "E638" })
})
