import { request } from "node:http"
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest"
import { logTo } from "../../src/log.ts"
import { LocalToken, Tokens } from "../../src/server/auth/tokens.ts"
import { startServer } from "../../src/server/server.ts"
import { openUmbra } from "../../src/umbra.ts"
import { newKey, openIssuer, tokenOf } from "./issuer.ts"
import {
  type Answer,
  type Asked,
  ask,
  hello,
  openStage,
  type Stage,
  type StageOptions,
  stores,
} from "./stage.ts"

async function stageOf(options: StageOptions = {}): Promise<Stage> {
  const stage = await openStage({ withTokens: true, ...options })
  onTestFinished(() => stage.close())
  return stage
}

/** The headers that Chromium sends with a request of the dashboard's own page. */
const own = (url: string) => ({ origin: url, "sec-fetch-site": "same-origin", "umbra-csrf": "1" })

const logIn = (stage: Stage, token: string, headers: Record<string, string> = {}): Promise<Answer> =>
  stage.ask("/session", {
    method: "POST",
    body: { token },
    headers: { ...own(stage.server.url), ...headers },
  })

const cookieIn = ({ headers }: Answer): string => headers.get("set-cookie")!.split(";")[0]!

/** As the dashboard's page, with its cookie. */
const asPage =
  (stage: Stage, cookie: string) =>
  (path: string, asked: Asked = {}) =>
    stage.ask(path, { ...asked, headers: { ...own(stage.server.url), cookie, ...asked.headers } })

afterEach(() => vi.useRealTimers())

describe("login", () => {
  it("exchanges a token for a cookie that authenticates, until the logout", async () => {
    const stage = await stageOf()
    const token = await stage.token("ada", "read", "submit")
    const answer = await logIn(stage, token)
    expect(answer).toMatchObject({
      status: 201,
      body: { login: "session", owner: "ada", scopes: ["read", "submit"], sees_other_owners: false },
    })
    const hours = (Date.parse(answer.body.expires_at) - Date.now()) / 3_600_000
    expect(hours).toBeGreaterThan(11.9)
    expect(hours).toBeLessThanOrEqual(12)
    const port = new URL(stage.server.url).port
    expect(answer.headers.get("set-cookie")).toMatch(
      new RegExp(
        `^umbra_session_${port}=[A-Za-z0-9_-]{43}; Path=/; Max-Age=4(3200|3199); HttpOnly; SameSite=Strict$`,
      ),
    )
    const page = asPage(stage, cookieIn(answer))
    expect((await page("/session")).body).toEqual(answer.body)
    expect((await page("/jobs")).status).toBe(200)
    // A scope that the token does not have.
    expect((await page("/workflows", { method: "POST", body: hello })).status).toBe(403)
    const end = await page("/session", { method: "DELETE" })
    expect(end.status).toBe(204)
    expect(end.headers.get("set-cookie")).toMatch(new RegExp(`^umbra_session_${port}=; Path=/; Max-Age=0;`))
    expect(await page("/jobs")).toMatchObject({
      status: 401,
      body: { detail: expect.stringContaining("ended") },
    })
    expect((await page("/session")).body).toMatchObject({ login: "required", owner: null, scopes: [] })
    expect((await page("/session", { method: "DELETE" })).status).toBe(204)
  })

  it("over HTTPS the cookie is Secure and its name begins with __Host-, and one set over HTTP does not count", async () => {
    const stage = await stageOf()
    const token = await stage.token("ada", "read")
    const headers = { origin: stage.server.url.replace("http:", "https:") }
    const answer = await logIn(stage, token, headers)
    const port = new URL(stage.server.url).port
    expect(answer.headers.get("set-cookie")).toMatch(
      new RegExp(`^__Host-umbra_session_${port}=.{43}; Path=/; .*SameSite=Strict; Secure$`),
    )
    const cookie = cookieIn(answer)
    expect((await asPage(stage, cookie)("/jobs", { headers })).status).toBe(200)
    const plain = cookieIn(await logIn(stage, token))
    expect((await asPage(stage, plain)("/jobs")).status).toBe(200)
    for (const https of [headers, { "x-forwarded-proto": "https" }]) {
      const { origin: _, ...withoutOrigin } = own(stage.server.url)
      const asked = { headers: { ...withoutOrigin, cookie: plain, ...https } }
      expect((await stage.ask("/jobs", asked)).status).toBe(401)
    }
  })

  it("without a session, and on an open server, it says who the caller is", async () => {
    const stage = await stageOf()
    expect((await stage.ask("/session")).body).toMatchObject({ login: "required", owner: null })
    const token = await stage.token("ada", "admin")
    expect((await stage.ask("/session", { token })).body).toMatchObject({
      login: "token",
      owner: "ada",
      scopes: ["admin"],
      expires_at: null,
    })
    expect((await stage.ask("/session", { token: "umbra_x" })).status).toBe(401)
    const open = await stageOf({ withTokens: false })
    expect((await open.ask("/session")).body).toMatchObject({
      login: "open",
      owner: "local",
      scopes: ["admin"],
      sees_other_owners: true,
    })
  })

  it("a wrong token, a body that is not JSON, and the local token are refused", async () => {
    const localToken = new LocalToken()
    const stage = await stageOf({ localToken })
    expect(await logIn(stage, `umbra_${"A".repeat(43)}`)).toMatchObject({
      status: 401,
      body: { code: "E630" },
    })
    expect(await logIn(stage, localToken.text)).toMatchObject({ status: 401, body: { code: "E630" } })
    const form = await stage.ask("/session", {
      method: "POST",
      body: "token=umbra_x",
      headers: { ...own(stage.server.url), "content-type": "application/x-www-form-urlencoded" },
    })
    expect(form.status).toBe(415)
    expect(
      (await stage.ask("/session", { method: "POST", body: {}, headers: own(stage.server.url) })).status,
    ).toBe(400)
  })

  it("is limited per address, also with a right token", async () => {
    const stage = await stageOf()
    const token = await stage.token("ada", "read")
    const clock = vi.spyOn(performance, "now").mockReturnValue(performance.now())
    onTestFinished(() => clock.mockRestore())
    const statuses: number[] = []
    for (let i = 0; i < 12; i++) statuses.push((await logIn(stage, token)).status)
    clock.mockRestore()
    expect(statuses).toEqual([...Array(10).fill(201), 429, 429])
  })

  it("a JWT is exchanged too, and the session does not outlive it", async () => {
    const issuer = await openIssuer()
    onTestFinished(() => issuer.close())
    const key = await newKey("one")
    issuer.publish(key)
    const stage = await stageOf({ settings: issuer.settings })
    const exp = Math.floor(Date.now() / 1000) + 600
    const answer = await logIn(stage, await tokenOf(key, { claims: { scope: "read", exp } }))
    expect(answer).toMatchObject({ status: 201, body: { owner: "ada", scopes: ["read"], name: "jwt ada" } })
    expect(Date.parse(answer.body.expires_at)).toBeLessThanOrEqual((exp + 31) * 1000)
    expect((await asPage(stage, cookieIn(answer))("/jobs")).status).toBe(200)
  })
})

describe("the end of a session", () => {
  it("comes after 12 hours", async () => {
    const stage = await stageOf()
    const page = asPage(stage, cookieIn(await logIn(stage, await stage.token("ada", "read"))))
    const now = Date.now()
    vi.useFakeTimers({ toFake: ["Date"], now: now + 12 * 3_600_000 - 5000 })
    expect((await page("/jobs")).status).toBe(200)
    vi.setSystemTime(now + 12 * 3_600_000 + 1000)
    expect((await page("/jobs")).status).toBe(401)
  })

  it("comes with the revocation of its token, for streams too", async () => {
    const stage = await stageOf({ settings: { streamHeartbeatSeconds: 0.05 } })
    const token = await stage.token("ada", "read")
    const login = await logIn(stage, token)
    const page = asPage(stage, cookieIn(login))
    expect((await page("/jobs")).status).toBe(200)
    const stream = await fetch(`${stage.server.url}/jobs/stream`, {
      headers: { ...own(stage.server.url), cookie: cookieIn(login) },
    })
    expect(stream.status).toBe(200)
    const id = login.body.name.replace("token ", "")
    await stage.umbra.registry.revokeToken({ id, at: Date.now() })
    expect((await page("/jobs")).status).toBe(401)
    // The stream ends by itself: it is read to its end.
    for await (const _ of stream.body!);
  })

  it("comes with the next login of the same browser, which always has a new id", async () => {
    const stage = await stageOf()
    const [ada, eve] = [await stage.token("ada", "read"), await stage.token("eve", "read")]
    // An attacker gives the user's browser the id of the attacker's own session before the user logs in.
    const planted = cookieIn(await logIn(stage, eve))
    const login = await logIn(stage, ada, { cookie: planted })
    expect(cookieIn(login)).not.toBe(planted)
    expect((await asPage(stage, planted)("/jobs")).status).toBe(401)
    expect((await asPage(stage, cookieIn(login))("/session")).body.owner).toBe("ada")
    const invented = `umbra_session_${new URL(stage.server.url).port}=${"x".repeat(43)}`
    const fresh = await logIn(stage, ada, { cookie: invented })
    expect(cookieIn(fresh)).not.toBe(invented)
    expect((await asPage(stage, invented)("/jobs")).status).toBe(401)
    // Two cookies of one name: another host below the same domain may have set one of them.
    expect((await asPage(stage, `${cookieIn(login)}; ${invented}`)("/jobs")).status).toBe(401)
  })

  it("is seen by every process", async () => {
    const store = await stores.PostgreSQL!()
    onTestFinished(() => store.remove())
    const [one, other] = [
      await stageOf({ location: store.location }),
      await stageOf({ location: store.location }),
    ]
    const port = new URL(one.server.url).port
    const login = await logIn(one, await one.token("ada", "read"))
    // Behind a proxy both have the same host name.
    const viaProxy = async (stage: Stage, method: string, path: string) =>
      statusOf(stage.server.url, path, method, {
        ...own(one.server.url),
        host: `127.0.0.1:${port}`,
        cookie: cookieIn(login),
      })
    expect(await viaProxy(other, "GET", "/jobs")).toBe(200)
    expect(await viaProxy(other, "DELETE", "/session")).toBe(204)
    expect(await viaProxy(one, "GET", "/jobs")).toBe(401)
  })
})

describe("a cookie from elsewhere", () => {
  const foreign: readonly (readonly [string, Record<string, string | undefined>])[] = [
    ["a page on another port", { origin: "http://127.0.0.1:1", "sec-fetch-site": "same-site" }],
    [
      "a page on another port whose browser sends no Sec-Fetch-Site",
      { origin: "http://127.0.0.1:1", "sec-fetch-site": undefined },
    ],
    ["a link or an image on another port", { origin: undefined, "sec-fetch-site": "same-site" }],
    ["a page on another site", { origin: "http://evil.example", "sec-fetch-site": "cross-site" }],
    ["a sandboxed frame", { origin: "null", "sec-fetch-site": "cross-site" }],
    ["an address that was typed", { origin: undefined, "sec-fetch-site": "none" }],
    [
      "a browser that says nothing",
      { origin: undefined, "sec-fetch-site": undefined, "umbra-csrf": undefined },
    ],
  ]

  it.each(foreign)("%s is refused on every kind of route", async (_, given) => {
    const stage = await stageOf()
    const login = await logIn(stage, await stage.token("ada", "admin"))
    const headers = { ...own(stage.server.url), cookie: cookieIn(login), ...given }
    const sent = Object.fromEntries(
      Object.entries(headers).filter(([, value]) => value !== undefined),
    ) as Record<string, string>
    for (const [method, path, body] of [
      ["GET", "/jobs"],
      ["GET", "/session"],
      ["GET", "/jobs/stream"],
      ["HEAD", "/jobs"],
      ["POST", "/workflows", hello],
      ["DELETE", "/session"],
      ["POST", "/session", { token: "umbra_x" }],
    ] as const)
      expect(
        (await ask(stage.server.url, path, { method, body, headers: sent })).status,
        `${method} ${path}`,
      ).toBe(403)
    expect((await asPage(stage, cookieIn(login))("/jobs")).status).toBe(200)
  })

  it("unsafe methods need Umbra-Csrf and JSON, or YAML of a workflow", async () => {
    const stage = await stageOf()
    const cookie = cookieIn(await logIn(stage, await stage.token("ada", "admin")))
    const push = (headers: Record<string, string>, body: unknown = hello) =>
      stage.ask("/workflows", {
        method: "POST",
        body,
        headers: { ...own(stage.server.url), cookie, ...headers },
      })
    expect(await push({ "umbra-csrf": "0" })).toMatchObject({ status: 403, body: { code: "E631" } })
    expect((await push({ "content-type": "text/plain" }, JSON.stringify(hello))).status).toBe(403)
    // Browsers send neither to another origin without asking first.
    expect((await push({ "content-type": "application/yaml" }, "name: x")).status).toBe(422)
    expect((await push({})).status).toBe(201)
  })

  it("over plain HTTP, where browsers say nothing with a GET, Umbra-Csrf is the proof", async () => {
    const stage = await stageOf()
    const cookie = cookieIn(await logIn(stage, await stage.token("ada", "read")))
    expect((await stage.ask("/jobs", { headers: { cookie, "umbra-csrf": "1" } })).status).toBe(200)
    expect((await stage.ask("/jobs", { headers: { cookie } })).status).toBe(403)
  })

  it("a token in the header counts, whatever the cookie says", async () => {
    const stage = await stageOf()
    const [ada, eve] = [await stage.token("ada", "read"), await stage.token("eve", "read")]
    const cookie = cookieIn(await logIn(stage, ada))
    const both = { cookie, origin: "http://127.0.0.1:1", "sec-fetch-site": "same-site" }
    expect((await stage.ask("/session", { token: eve, headers: both })).body).toMatchObject({
      login: "token",
      owner: "eve",
    })
    const wrong = { token: "umbra_x", headers: { ...own(stage.server.url), cookie } }
    expect((await stage.ask("/jobs", wrong)).status).toBe(401)
  })

  it("the session of one owner does not see another's job, and only the operator may read it", async () => {
    const stage = await stageOf()
    const admin = await stage.token("ada", "admin")
    const operator = await stage.token("local", "admin")
    await stage.ask("/workflows", { method: "POST", body: hello, token: admin })
    const { body: job } = await stage.ask("/jobs", {
      method: "POST",
      body: { workflow: "hello" },
      token: admin,
    })
    const eve = asPage(stage, cookieIn(await logIn(stage, await stage.token("eve", "admin"))))
    const owner = { "umbra-owner": "ada" }
    expect((await eve(`/jobs/${job.job_id}`)).status).toBe(404)
    expect(await eve(`/jobs/${job.job_id}`, { headers: owner })).toMatchObject({
      status: 403,
      body: { code: "E631" },
    })
    const page = asPage(stage, cookieIn(await logIn(stage, operator)))
    expect((await page("/session")).body.sees_other_owners).toBe(true)
    expect((await page(`/jobs/${job.job_id}`)).status).toBe(404)
    expect((await page(`/jobs/${job.job_id}`, { headers: owner })).body.owner).toBe("ada")
    expect((await page("/jobs", { headers: owner })).body.jobs).toHaveLength(1)
    expect((await page("/workflows/hello", { headers: owner })).status).toBe(200)
    for (const [method, path] of [
      ["POST", `/jobs/${job.job_id}/cancel`],
      ["DELETE", `/jobs/${job.job_id}`],
      ["DELETE", "/workflows/hello"],
    ] as const)
      expect((await page(path, { method, headers: owner })).status, path).toBe(403)
    expect((await page("/jobs", { headers: { "umbra-owner": "%zz" } })).status).toBe(400)
  })
})

it("neither the store nor the log has the cookie", async () => {
  const lines: string[] = []
  const note = (...parts: unknown[]) => void lines.push(JSON.stringify(parts))
  const umbra = await openUmbra("memory:")
  onTestFinished(() => umbra.close())
  const { token } = await new Tokens(umbra.registry).create({ owner: "ada", scopes: ["admin"] })
  const log = logTo(note)
  const server = await startServer({ umbra, host: "127.0.0.1", port: 0, version: "0", log })
  onTestFinished(() => server.close())
  const put = vi.spyOn(umbra.registry, "putSession")
  const login = await ask(server.url, "/session", {
    method: "POST",
    body: { token },
    headers: own(server.url),
  })
  const cookie = cookieIn(login)
  // An internal error is logged with all that is known of the request.
  vi.spyOn(umbra.queries, "jobPage").mockRejectedValue(new Error("broken on purpose"))
  vi.spyOn(umbra.registry, "readSession").mockRejectedValueOnce(new Error("broken on purpose"))
  for (let i = 0; i < 2; i++) await ask(server.url, "/jobs", { headers: { ...own(server.url), cookie } })
  const id = cookie.split("=")[1]!
  expect(lines.length).toBeGreaterThan(0)
  expect(lines.join("\n")).not.toContain(id)
  expect(lines.join("\n")).not.toContain(token)
  expect(put).toHaveBeenCalledOnce()
  expect(JSON.stringify(put.mock.calls)).not.toContain(id)
})

/** fetch does not send a header Host of its own choice. */
async function statusOf(
  url: string,
  path: string,
  method: string,
  headers: Record<string, string>,
): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request(`${url}${path}`, { method, headers }, answer => {
      answer.resume()
      resolve(answer.statusCode!)
    })
    sent.on("error", reject).end()
  })
}
