/**
 * S3: what somebody may try, recorded (abuse/). Nothing is shown that is another owner's, nothing is harmed, and no
 * answer is a 500. The target's things carry marks; every answer is searched for them (abuse/scene.ts).
 */
import { createServer } from "node:http"
import { connect } from "node:net"
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest"
import { bodies } from "./abuse/bodies.ts"
import { connections, readReplies } from "./abuse/connections.ts"
import { forged } from "./abuse/forged.ts"
import { openScene, type Scene } from "./abuse/scene.ts"
import { tokenOf } from "./issuer.ts"
import { type Answer, type Asked, ask } from "./stage.ts"

let scene: Scene
beforeAll(async () => {
  scene = await openScene({ jwksCooldownSeconds: 0 })
})
afterAll(() => scene?.close())

interface Operation {
  readonly method: string
  readonly path: string
  readonly isPublic: boolean
}

async function operations(): Promise<Operation[]> {
  const { body } = await ask(scene.url, "/openapi.json", {})
  return Object.entries(body.paths as Record<string, Record<string, { security?: unknown[] }>>).flatMap(
    ([path, methods]) =>
      Object.entries(methods).map(([method, { security }]) => ({
        method: method.toUpperCase(),
        path,
        isPublic: security?.length === 0,
      })),
  )
}

/** What comes of routes that name nobody's thing, for somebody else. A new one is entered here before it is served. */
const unnamed: Readonly<Record<string, number>> = {
  "GET /jobs": 200,
  "GET /jobs/stream": 200,
  "GET /jobs/durations": 200,
  "GET /jobs/compare": 404,
  "GET /bulk": 200,
  "POST /bulk": 201,
  "GET /failures": 200,
  "GET /waits": 200,
  "POST /jobs": 404,
  "POST /jobs/bulk": 200,
  "GET /workflows": 200,
  "POST /workflows": 201,
  "POST /workflows/validate": 200,
  "GET /tokens": 200,
  "POST /tokens": 403,
  "GET /workers": 200,
  "GET /engines": 200,
  "GET /executions": 200,
  "GET /providers": 200,
  "GET /metrics": 200,
  "GET /schedules": 200,
  "GET /artifacts": 200,
  "POST /artifacts": 201,
  "POST /artifacts/sweep": 403,
  "POST /schedules/preview": 200,
}

const range = { from: "2026-11-15T00:00:00Z", to: "2026-11-15T02:00:00Z" }

describe("another owner's things", () => {
  const bodyOf = ({ method, path }: Operation): Asked => {
    const definition = { name: "mine", nodes: [{ id: "a", handler: "input" }] }
    if (path === "/jobs") return { body: { workflow: scene.target.name } }
    if (path === "/tokens") return { body: { owner: scene.target.owner, scopes: ["admin"] } }
    if (path === "/bulk") return { body: { verb: "cancel", filter: { workflow: scene.target.name } } }
    if (path === "/jobs/bulk") return { body: { jobs: [{ workflow: scene.target.name }] } }
    if (path.startsWith("/workflows") && method === "POST" && !path.includes("{")) return { body: definition }
    if (method === "PATCH") return { body: { labels: { taken: "over" }, note: "mine" } }
    if (path.endsWith("/reschedule")) return { body: { delay_seconds: 0 } }
    if (path.endsWith("/backfill")) return { body: range }
    if (path === "/schedules/{name}" || path === "/schedules/preview")
      return { body: { workflow: scene.target.name, every: "1h" } }
    return method === "PUT" ? { body: { version: 1 } } : {}
  }
  interface Named {
    readonly name: string
    readonly job: string
    readonly tokenId: string
  }
  const pathTo = (path: string, { name, job, tokenId }: Named = scene.target) => {
    const values: Record<string, string> = {
      name,
      job,
      id: tokenId,
      version: "1",
      alias: "stable",
      node: "ask",
      seq: "1",
      field: "input",
      hash: scene.target.artifact,
    }
    const filled = path.replace(/\{(\w+)\}/g, (_, part) => values[part] ?? part)
    if (path === "/jobs/compare") return `${path}?a=${job}&b=${job}`
    if (path.endsWith("/lineage")) return `${filled}?message=route:1`
    if (path.endsWith("/ticks")) return `${filled}?${new URLSearchParams(range)}`
    return path.endsWith("/diff") ? `${filled}?from=1&to=1` : filled
  }
  const request = (operation: Operation, token?: string) => {
    const { method } = operation
    const asked = { ...(method === "GET" ? {} : bodyOf(operation)), method }
    return scene.ask(pathTo(operation.path), token === undefined ? asked : { ...asked, token })
  }
  /** As long as the target's, and nobody's. */
  const nobody = (): Named => ({
    name: `${scene.target.name.slice(0, -8)}00000000`,
    job: `${scene.target.job.slice(0, -12)}000000000000`,
    tokenId: `${scene.target.tokenId.slice(0, -12)}000000000000`,
  })
  /** An answer without what tells the two questions apart. */
  const plain = ({ status, headers, body }: Answer, ...ids: string[]) => {
    const text = JSON.stringify([status, [...headers].filter(([name]) => name !== "date"), body])
    return ids.reduce((rest, id) => rest.replaceAll(id, "ID"), text)
  }

  it("S3 every route is either public, names what it shows, or is entered in the table above", async () => {
    const known = (await operations()).filter(
      ({ method, path, isPublic }) => isPublic || path.includes("{") || `${method} ${path}` in unnamed,
    )
    expect(known).toEqual(await operations())
    expect(known.length).toBeGreaterThan(20)
  })

  it("S3 are not found on any route, with every scope, by API token and by JWT", async () => {
    const jwt = await tokenOf(scene.key, { claims: { sub: "attacker", scope: "admin" } })
    for (const token of [scene.attacker.token, jwt])
      for (const operation of await operations()) {
        if (operation.isPublic) continue
        const { method, path } = operation
        const { status, body } = await request(operation, token)
        const expected = unnamed[`${method} ${path}`] ?? 404
        const isRepeated = path === "/workflows" && method === "POST" && status === 200
        expect(isRepeated ? expected : status, `${method} ${path} ${JSON.stringify(body)}`).toBe(expected)
        if (path === "/jobs/bulk") expect(body.results).toMatchObject([{ problem: { code: "E305" } }])
      }
    await scene.isUnharmed()
  })

  it("S3 are answered as jobs that do not exist, byte for byte, whatever kind of job it is", async () => {
    const { token } = scene.attacker
    const missing = nobody()
    for (const operation of await operations()) {
      const { method, path, isPublic } = operation
      if (isPublic || !/\{(job|name|id)\}/.test(path)) continue
      // A schedule of one's own may have this name.
      if (method === "PUT" && path === "/schedules/{name}") continue
      const asked = { ...(method === "GET" ? {} : bodyOf(operation)), method, token }
      const nothing = plain(await ask(scene.url, pathTo(path, missing), asked), ...Object.values(missing))
      for (const job of path.includes("{job}") ? scene.target.jobs : [scene.target.job]) {
        const { name, tokenId } = scene.target
        const theirs = await scene.ask(pathTo(path, { name, job, tokenId }), asked)
        expect(plain(theirs, name, job, tokenId), `${method} ${path}`).toBe(nothing)
      }
    }
    await scene.isUnharmed()
  })

  const json = (value: unknown) => JSON.stringify(value)
  it.each([
    ["GET", "/jobs/compare?a=OWN&b=JOB", undefined],
    ["GET", "/jobs/compare?a=JOB&b=OWN&diff=input", undefined],
    ["GET", "/jobs?parent=JOB", undefined],
    ["GET", "/jobs?forked_from=JOB", undefined],
    ["GET", "/jobs?workflow=NAME@1", undefined],
    ["GET", "/jobs/durations?workflow=NAME", undefined],
    ["GET", "/jobs/durations?forked_from=JOB", undefined],
    ["GET", "/failures?workflow=NAME", undefined],
    ["GET", "/waits?workflow=NAME", undefined],
    ["GET", "/executions?after=JOB", undefined],
    ["GET", "/bulk?after=JOB", undefined],
    ["GET", "/schedules?after=NAME&fires=20", undefined],
    ["POST", "/jobs/OWN/fork", json({ workflow: "NAME@1" })],
    ["POST", "/jobs/OWN/fork", json({ workflow: "NAME@stable", dry_run: true })],
    ["POST", "/bulk", json({ verb: "cancel", dry_run: true, filter: { parent: "JOB" } })],
    ["POST", "/bulk", json({ verb: "fork", dry_run: true, filter: { forked_from: "JOB" } })],
    ["POST", "/bulk", json({ verb: "fork", filter: { workflow: "own" }, fork: { workflow: "NAME@1" } })],
    ["POST", "/jobs/OWN/dead-letters/replay", json({ workflow: "NAME@1" })],
    ["PUT", "/schedules/mine", json({ workflow: "NAME@stable", every: "1h" })],
    ["PUT", "/workflows/own/aliases/stable", json({ weights: { "NAME@1": 1 } })],
    ["POST", "/jobs", json({ workflow: "NAME@stable" })],
    ["DELETE", "/tokens/TOKEN", undefined],
  ])("S3 nor are they named in another way: %s %s %s", async (method, path, body) => {
    const answerTo = async ({ name, job, tokenId }: Named) => {
      const fill = (text: string) =>
        text
          .replaceAll("OWN", scene.attacker.job)
          .replaceAll("JOB", job)
          .replaceAll("NAME", name)
          .replaceAll("TOKEN", tokenId)
      const headers = { "content-type": "application/json" }
      const sent = body === undefined ? {} : { body: fill(body), headers }
      const answer = await ask(scene.url, fill(path), { method, token: scene.attacker.token, ...sent })
      // Times that are now.
      const text = plain(answer, name, job, tokenId).replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME")
      scene.mustNotLeak(text)
      return text
    }
    const nothing = await answerTo(nobody())
    for (const job of scene.target.jobs) expect(await answerTo({ ...scene.target, job })).toBe(nothing)
    await scene.isUnharmed()
  })

  it("S3 nor without a token, on any route but the public ones", async () => {
    for (const operation of await operations()) {
      const { status } = await request(operation)
      if (!operation.isPublic) expect(status, `${operation.method} ${operation.path}`).toBe(401)
    }
    await scene.isUnharmed()
  })

  it.each([
    "/jobs?owner=OWNER",
    "/jobs?workflow=NAME",
    "/jobs?after=JOB",
    "/jobs?label=label%3D",
    "/jobs?deleted=true&status=PENDING,QUEUED,PROCESSING,COMPLETED",
    "/workflows?after=",
    "/workflows?after=a",
    "/jobs/JOB/",
    "/jobs/JOB%20",
    "/jobs/JOB%00",
    "/jobs/JOB?wait=0",
    "/jobs/JOB/nodes/..%2f..",
    "/workflows/NAME@1",
    "/workflows/NAME%2fversions",
  ])("S3 nor by the way of %s", async template => {
    const path = template.replace("NAME", scene.target.name).replace("JOB", scene.target.job)
    const { status } = await scene.ask(path, { token: scene.attacker.token })
    expect(status).toBeLessThan(500)
  })

  it("S3 an idempotency key of theirs is not a way to their job", async () => {
    const post = (token: string, workflow: string) =>
      ask(scene.url, "/jobs", {
        method: "POST",
        body: { workflow },
        token,
        headers: { "idempotency-key": "shared" },
      })
    const theirs = await post(scene.target.token, scene.target.name)
    const ours = await post(scene.attacker.token, "own")
    expect([theirs.status, ours.status]).toEqual([201, 201])
    expect(ours.body.job_id).not.toBe(theirs.body.job_id)
  })
})

describe("forged tokens", () => {
  it("S3 open nothing, reveal nothing, and redirect nowhere", async () => {
    let trapped = 0
    const trap = createServer((_, response) => {
      trapped++
      response.end(JSON.stringify({ keys: [] }))
    }).listen(0, "127.0.0.1")
    await new Promise(resolve => trap.once("listening", resolve))
    onTestFinished(() => void trap.close())
    const { port } = trap.address() as { port: number }
    const tokens = await forged(scene.key, `http://127.0.0.1:${port}/`)
    expect(Object.keys(tokens).length).toBeGreaterThan(40)
    for (const [what, token] of Object.entries(tokens)) {
      const { status, body } = await scene.ask("/jobs", { token })
      expect(status, `${what}: ${JSON.stringify(body)}`).toBe(401)
      expect(body.code).toBe("E630")
      const [, payload = ""] = token.split(".")
      if (payload.length > 20) expect(JSON.stringify(body)).not.toContain(payload)
    }
    expect(trapped).toBe(0)
    const good = await scene.ask("/jobs", { token: await tokenOf(scene.key) })
    expect(good.status).toBe(200)
    await scene.isUnharmed()
  })

  it.each([
    ["no scheme", "umbra_x"],
    ["Basic", "Basic dTpw"],
    ["two schemes", "Bearer Bearer x"],
    ["a list", "Bearer a, Bearer b"],
    ["a wildcard", "Bearer *"],
    ["SQL", "Bearer ' or 1=1 --"],
    ["the hash of a token", `Bearer ${"0".repeat(64)}`],
    ["one of the right form", `Bearer umbra_${"A".repeat(43)}`],
    ["a long one", `Bearer ${"x".repeat(7000)}`],
    ["one with a null", "Bearer null"],
  ])("S3 %s is no token", async (_, authorization) => {
    expect((await scene.ask("/jobs", { headers: { authorization } })).status).toBe(401)
  })

  it("S3 a token in the address, in a cookie or in the body opens nothing", async () => {
    const { token } = scene.attacker
    expect((await scene.ask(`/jobs?token=${token}&access_token=${token}`)).status).toBe(401)
    expect((await scene.ask("/jobs", { headers: { cookie: `token=${token}` } })).status).toBe(401)
    expect((await scene.ask("/jobs", { method: "POST", body: { token } })).status).toBe(401)
  })
})

describe("bodies", () => {
  it.each(bodies)(
    "$path $what",
    async ({ method = "POST", path, type = "application/json", body, status }) => {
      const url = path.replace("JOB", scene.attacker.job)
      const answer = await scene.ask(url, {
        method,
        body: body as string,
        headers: { "content-type": type },
        token: scene.attacker.token,
      })
      expect([status].flat(), JSON.stringify(answer.body)).toContain(answer.status)
      if (answer.status >= 400) expect(answer.body).toMatchObject({ code: expect.stringMatching(/^E\d{3}$/) })
    },
  )

  it.each([
    ["r", "a".repeat(40)],
    ["t", null],
    ["p", { x: 1 }],
  ])(
    "S3 the workflow %s, if it was taken, runs within bounds and holds nobody up",
    async (workflow, input) => {
      const { token } = scene.attacker
      const stored = await scene.ask(`/workflows/${workflow}`, { token })
      if (stored.status === 404) return
      const body = { workflow, input: typeof input === "string" ? `${input}!` : input }
      const submitted = await scene.ask("/jobs?wait=20", { method: "POST", body, token })
      expect([201, 422]).toContain(submitted.status)
      if (submitted.status === 201) expect(submitted.body.status).toBe("FAILED")
      expect((await scene.ask("/health")).status).toBe(200)
    },
  )

  it("S3 E614 inputs that take long to check use up their owner's time, and no other owner's", async () => {
    const nodes = [{ id: "a", handler: "input" }]
    const slow = { name: "slow", input: { properties: { a: { format: "url" } } }, nodes }
    const quick = { name: "quick", input: { properties: { a: { pattern: "^a+$" } } }, nodes }
    const { attacker, target } = scene
    await scene.ask("/workflows", { method: "POST", body: slow, token: attacker.token })
    await scene.ask("/workflows", { method: "POST", body: quick, token: attacker.token })
    await ask(scene.url, "/workflows", { method: "POST", body: quick, token: target.token })
    const submit = (workflow: string, a: string, token: string) =>
      ask(scene.url, "/jobs", { method: "POST", body: { workflow, input: { a } }, token })
    const endless = { workflow: "slow", input: { a: `http://${"a".repeat(80)}!` } }
    const bulk = () =>
      scene.ask("/jobs/bulk", {
        method: "POST",
        body: { jobs: Array(30).fill(endless) },
        token: attacker.token,
      })
    const answered = await Promise.all([bulk(), bulk(), bulk(), bulk()])
    const codes = answered.flatMap(({ body }) =>
      body.results.map(({ problem }: { problem: { code: string } }) => problem.code),
    )
    expect(codes.filter(code => code !== "E304" && code !== "E614")).toEqual([])
    expect(codes.filter(code => code === "E304").length).toBeLessThan(10)
    for (const { body, headers } of answered) {
      const waits = body.results.map(
        ({ problem }: { problem: { code: string; retry_after?: number } }) => problem.retry_after ?? 0,
      )
      const isRefused = body.results.map(
        ({ problem }: { problem: { code: string } }) => problem.code === "E614",
      )
      expect(waits.map((wait: number) => wait >= 1)).toEqual(isRefused)
      expect(isRefused).toContain(true)
      expect(Number(headers.get("retry-after"))).toBe(Math.max(...waits))
    }
    // There is more time every moment, and a slow machine may not use it up: now there is no more. A bulk uses a second, of two.
    const stopped = performance.now()
    const clock = vi.spyOn(performance, "now").mockReturnValue(stopped)
    onTestFinished(() => clock.mockRestore())
    for (let bulks = 0; bulks < 3; bulks++) await bulk()
    const refused = await submit("quick", "a", attacker.token)
    expect([refused.status, refused.body.code]).toEqual([503, "E614"])
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0)
    expect(refused.body.retry_after).toBe(Number(refused.headers.get("retry-after")))
    expect((await submit("quick", "aa", target.token)).status).toBe(201)
    expect((await submit("quick", "b", target.token)).status).toBe(422)
  })

  it("S3 have harmed nothing, polluted nothing", async () => {
    expect(({} as { admin?: unknown; a?: unknown }).admin ?? ({} as { a?: unknown }).a).toBeUndefined()
    await scene.isUnharmed()
  })
})

describe("connections", () => {
  const statuses = (text: string) =>
    [...text.matchAll(/^HTTP\/1\.[01] (\d{3}) /gm)].map(([, status]) => Number(status))
  const fill = (text: string) =>
    text.replaceAll("HOST", scene.url.replace("http://", "")).replaceAll("TOKEN", scene.attacker.token)

  it("S3 whatever is written to one, it is answered as it should be or ended, and no request is smuggled in", async () => {
    const port = Number(new URL(scene.url).port)
    const answered = await Promise.all(
      connections.map(async attack => ({
        ...attack,
        received: await readReplies(
          port,
          fill(attack.text),
          attack.answers.length > 0 && !attack.answers[0]!.includes(100) ? 60_000 : 2000,
        ),
      })),
    )
    for (const { what, answers, received } of answered) {
      const found = statuses(received)
      expect(found.length, `${what}: ${found} ${received.slice(0, 300)}`).toBeLessThanOrEqual(answers.length)
      for (const [n, status] of found.entries())
        expect(answers[n], `${what}: ${found} ${received.slice(0, 500)}`).toContain(status)
      if (answers.length > 0 && !answers[0]!.includes(100))
        expect(found.length, `${what}: no answer`).toBeGreaterThan(0)
      scene.mustNotLeak(received)
    }
    await scene.isUnharmed()
  })

  it("S3 those that never finish a request delay no other, and are closed in time", async () => {
    const slow = await openScene({ requestTimeoutSeconds: 2 })
    onTestFinished(() => slow.close())
    const port = Number(new URL(slow.url).port)
    const starts = [
      "GET /health HTTP/1.1\r\nHost: x\r\nX-A: ",
      `POST /jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${slow.attacker.token}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{`,
    ]
    const sockets = Array.from({ length: 200 }, (_, n) => {
      const socket = connect(port, "127.0.0.1")
      socket.on("error", () => {})
      socket.resume()
      socket.write(starts[n % starts.length]!)
      return { socket, ended: new Promise<void>(resolve => socket.once("close", () => resolve())) }
    })
    const drip = setInterval(() => {
      for (const { socket } of sockets) if (socket.writable) socket.write("a")
    }, 50)
    onTestFinished(() => clearInterval(drip))
    for (let n = 0; n < 20; n++) expect((await slow.ask("/health")).status).toBe(200)
    await Promise.all(sockets.map(({ ended }) => ended))
    await slow.isUnharmed()
  })
})
