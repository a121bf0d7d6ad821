/** S3: JWTs of an issuer, beside API tokens. What is forged is in abuse.test.ts. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { silentLog } from "../../src/log.ts"
import { readJwtIssuer } from "../../src/server/auth/jwt-settings.ts"
import { startServer } from "../../src/server/server.ts"
import { serverSettings } from "../../src/server/settings.ts"
import { openUmbra } from "../../src/umbra.ts"
import { type Issuer, type Key, newKey, openIssuer, tokenOf } from "./issuer.ts"
import { hello, openStage, type Stage, type StageOptions } from "./stage.ts"

async function stageWith(issuer: Issuer, options: StageOptions = {}): Promise<Stage> {
  const settings = { ...issuer.settings, ...options.settings }
  const stage = await openStage({ ...options, settings })
  onTestFinished(() => stage.close())
  return stage
}

async function issuerWith(...keys: readonly Key[]): Promise<Issuer> {
  const issuer = await openIssuer()
  onTestFinished(() => issuer.close())
  issuer.publish(...keys)
  return issuer
}

describe("JWTs", () => {
  let issuer: Issuer
  let key: Key
  let stage: Stage

  beforeAll(async () => {
    issuer = await openIssuer()
    key = await newKey("first")
    issuer.publish(key)
    stage = await openStage({ settings: issuer.settings })
  })
  afterAll(async () => {
    await stage?.close()
    await issuer?.close()
  })

  const status = async (token: string, path = "/jobs", method = "GET") =>
    (await stage.ask(path, { token, method })).status

  it("S3 none is the local owner's, whose name a user of the issuer could have chosen", async () => {
    const token = await tokenOf(key, { claims: { sub: "local", scope: "read submit" } })
    const answer = await stage.ask("/jobs", { token })
    expect([answer.status, answer.body.code]).toEqual([401, "E630"])
    expect(answer.body.detail).toContain("reserved for the operator")
  })

  it("S3 name their owner and what they may do; API tokens remain valid beside them", async () => {
    expect(stage.server).toMatchObject({ isOpen: false, issuer: issuer.settings.jwtIssuer })
    expect((await stage.ask("/jobs")).status).toBe(401)
    const manager = await tokenOf(key, { claims: { sub: "m", scope: "other manage read submit" } })
    const posted = await stage.ask("/workflows", { method: "POST", body: hello, token: manager })
    expect(posted.status).toBe(201)
    const submitted = await stage.ask("/jobs", {
      method: "POST",
      body: { workflow: "hello" },
      token: manager,
    })
    expect(submitted).toMatchObject({ status: 201, body: { owner: "m" } })
    const other = await tokenOf(key)
    expect(await status(other, `/jobs/${submitted.body.job_id}`)).toBe(404)
    expect(await status(other, "/workflows/hello", "DELETE")).toBe(403)
    const api = await stage.token("m", "read")
    expect(await status(api, `/jobs/${submitted.body.job_id}`)).toBe(200)
  })

  it("S3 who moved an alias is the token's subject", async () => {
    const token = await tokenOf(key, { claims: { sub: "mover", permissions: ["manage", "read"] } })
    await stage.ask("/workflows", { method: "POST", body: hello, token })
    await stage.ask("/workflows/hello/aliases/stable", { method: "PUT", body: { version: 1 }, token })
    const { body } = await stage.ask("/workflows/hello/aliases/stable/history", { token })
    expect(body.moves).toMatchObject([{ by: "jwt mover" }])
  })

  it("who pushed a version is the token's subject, or the API token", async () => {
    const claims = { sub: "pusher", permissions: ["manage", "read"] }
    const jwt = await tokenOf(key, { claims: { ...claims, owner: "m" } })
    const api = await stage.token("m", "manage", "read")
    const push = (value: number, token: string) =>
      stage.ask("/workflows", {
        method: "POST",
        body: { name: "pushed", nodes: [{ id: "a", handler: "transform", config: { value } }] },
        token,
      })
    expect([(await push(1, jwt)).status, (await push(2, api)).status]).toEqual([201, 201])
    const found = await Promise.all(
      [jwt, api].map(async token => (await stage.ask("/workflows/pushed/versions", { token })).body.versions),
    )
    const by = found.flat().map((version: { pushed_by: string }) => version.pushed_by)
    expect(by.sort()).toEqual(["jwt pusher", expect.stringMatching(/^token [0-9a-f-]{36}$/)])
    const latest = (await stage.ask("/workflows/pushed", { token: api })).body
    expect(latest.pushed_by).toMatch(/^token /)
    expect((await stage.ask("/workflows", { token: api })).body.workflows).toContainEqual(
      expect.objectContaining({ name: "pushed", pushed_by: latest.pushed_by }),
    )
  })

  it.each([
    [{ scope: "read" }, 200],
    [{ scope: undefined, scopes: ["read"] }, 200],
    [{ scope: undefined, permissions: ["read", 7] }, 200],
    [{ scope: undefined, permissions: "read" }, 200],
    [{ scope: "admin" }, 200],
    [{ scope: "reader umbra-read" }, 403],
    [{ scope: undefined }, 403],
    [{ scope: { read: true } }, 403],
  ])("S3 takes scopes from %j: %i", async (claims, expected) => {
    expect(await status(await tokenOf(key, { claims }))).toBe(expected)
  })

  it("S3 one that was good is not checked again until it ends", async () => {
    // With the tolerance of 5 s it is good for 8: time enough for seven requests on a slow machine.
    const token = await tokenOf(key, { expires: 3 })
    expect(await status(token)).toBe(200)
    const asked = issuer.asked()
    for (let n = 0; n < 5; n++) expect(await status(token)).toBe(200)
    expect(issuer.asked()).toBe(asked)
    await expect.poll(() => status(token)).toBe(401)
  })
})

it("S3 the owner may be another claim", async () => {
  const key = await newKey("k")
  const claim = "https://example.com/tenant"
  const stage = await stageWith(await issuerWith(key), { settings: { jwtOwnerClaim: claim } })
  const token = await tokenOf(key, { claims: { [claim]: "acme", scope: "admin" } })
  await stage.ask("/workflows", { method: "POST", body: hello, token })
  const { body } = await stage.ask("/jobs", { method: "POST", body: { workflow: "hello" }, token })
  expect(body.owner).toBe("acme")
  for (const owner of [undefined, "", 7, "a\u0000b", "x".repeat(201), ["acme"], null])
    expect(
      (await stage.ask("/jobs", { token: await tokenOf(key, { claims: { [claim]: owner } }) })).status,
    ).toBe(401)
})

it("S3 keys rotate: a new one is found, a withdrawn one is refused", async () => {
  const [first, second] = [await newKey("first"), await newKey("second", "EdDSA")]
  const issuer = await issuerWith(first)
  const stage = await stageWith(issuer, { settings: { jwksCooldownSeconds: 0, jwksMaxAgeSeconds: 0.2 } })
  const status = async (key: Key) => (await stage.ask("/jobs", { token: await tokenOf(key) })).status
  expect(await status(first)).toBe(200)
  expect(await status(second)).toBe(401)
  issuer.publish(first, second)
  expect([await status(second), await status(first)]).toEqual([200, 200])
  issuer.publish(second)
  // Nobody tells us that a key was withdrawn: it counts as long as what was fetched is fresh.
  await expect.poll(() => status(first)).toBe(401)
})

it("S3 an unknown key is fetched once, however many tokens name it", async () => {
  const [key, stranger] = [await newKey("k"), await newKey("stranger")]
  const issuer = await issuerWith(key)
  const stage = await stageWith(issuer)
  for (let n = 0; n < 5; n++)
    expect((await stage.ask("/jobs", { token: await tokenOf(stranger) })).status).toBe(401)
  expect(issuer.asked()).toBe(1)
})

it.each([
  ["an error", (issuer: Issuer) => issuer.answer(500, "no")],
  ["no JSON", (issuer: Issuer) => issuer.answer(200, "<html>")],
  ["no keys", (issuer: Issuer) => issuer.answer(200, "[]")],
  ["a redirect", (issuer: Issuer) => issuer.answer(302, "")],
  ["too much", (issuer: Issuer) => issuer.answer(200, `{"keys":[],"x":"${"x".repeat(300_000)}"}`)],
  ["nothing at all", (issuer: Issuer) => void issuer.close()],
])("S3 with %s instead of keys the answer is 503 E645, and good again later", async (what, spoil) => {
  const key = await newKey("k")
  const issuer = await issuerWith(key)
  spoil(issuer)
  const stage = await stageWith(issuer)
  const ask = async () => stage.ask("/jobs", { token: await tokenOf(key) })
  const begun = performance.now()
  const answer = await ask()
  expect(answer).toMatchObject({ status: 503, body: { code: "E645" } })
  expect(answer.headers.get("retry-after")).toBe("1")
  // Not once per request: the issuer is queried at most once a second, whoever sends tokens.
  const asked = issuer.asked()
  for (let n = 0; n < 5; n++) await ask()
  const seconds = Math.floor((performance.now() - begun) / 1000)
  expect(issuer.asked() - asked).toBeLessThanOrEqual(seconds)
  if (what === "nothing at all") return
  issuer.publish(key)
  await expect.poll(async () => (await ask()).status).toBe(200)
})

it("S3 an issuer that does not answer is given up in time", async () => {
  const key = await newKey("k")
  const { createServer } = await import("node:http")
  const silent = createServer(() => {}).listen(0, "127.0.0.1")
  await new Promise(resolve => silent.once("listening", resolve))
  onTestFinished(() => {
    silent.closeAllConnections()
    silent.close()
  })
  const { port } = silent.address() as { port: number }
  const issuer = await issuerWith(key)
  const settings = { jwksUrl: `http://localhost:${port}/`, jwksTimeoutSeconds: 0.2 }
  const stage = await stageWith(issuer, { settings })
  expect((await stage.ask("/jobs", { token: await tokenOf(key) })).status).toBe(503)
  expect((await stage.ask("/health")).status).toBe(200)
})

it("S3 a server that takes no JWTs says so", async () => {
  const stage = await openStage({ withTokens: true })
  onTestFinished(() => stage.close())
  const { status, body } = await stage.ask("/jobs", { token: await tokenOf(await newKey("k")) })
  expect(status).toBe(401)
  expect(body.detail).toContain("jwt_issuer")
})

it("S3 the limit on requests is the subject's, whichever of its tokens it uses", async () => {
  const key = await newKey("k")
  const stage = await stageWith(await issuerWith(key), { settings: { rateLimit: 2 } })
  const answers: number[] = []
  for (let n = 0; n < 8; n++) {
    const token = await tokenOf(key, { claims: { jti: String(n) } })
    answers.push((await stage.ask("/jobs", { token })).status)
  }
  expect(answers).toContain(429)
  const other = await tokenOf(key, { claims: { sub: "calm" } })
  expect((await stage.ask("/jobs", { token: other })).status).toBe(200)
})

it("S3 listens to the world with JWTs alone", async () => {
  const issuer = await issuerWith(await newKey("k"))
  const umbra = await openUmbra("memory:")
  const { settings } = issuer
  const server = await startServer({
    umbra,
    host: "0.0.0.0",
    port: 0,
    version: "0",
    log: silentLog,
    settings,
  })
  expect(server.isOpen).toBe(false)
  await server.close()
  await umbra.close()
})

describe("settings", () => {
  it.each([
    [{ jwtAlgorithms: ["HS256"] }],
    [{ jwtAlgorithms: ["none"] }],
    [{ jwtAlgorithms: [] }],
    [{ jwksUrl: "http://example.com/keys" }],
    [{ jwksUrl: "https://user:word@example.com/keys" }],
    [{ jwksUrl: "file:///etc/passwd" }],
    [{ jwksUrl: "keys" }],
  ])("S3 %j is refused", given => {
    expect(() => serverSettings(given)).toThrow(expect.objectContaining({ code: "E620" }))
  })

  it.each(["http://127.0.0.1:1/", "http://[::1]:1/", "http://localhost/", "https://example.com/keys"])(
    "S3 %s may be where keys are",
    jwksUrl => {
      expect(serverSettings({ jwksUrl }).jwksUrl).toBe(jwksUrl)
    },
  )

  it("S3 a part alone is refused: without an audience any service's token would do", () => {
    const parts = { jwtIssuer: "i", jwtAudience: "a", jwksUrl: "https://example.com/" }
    for (const missing of Object.keys(parts))
      expect(() => readJwtIssuer(serverSettings({ ...parts, [missing]: null }))).toThrow(
        expect.objectContaining({ code: "E620" }),
      )
    expect(readJwtIssuer(serverSettings(parts))).toMatchObject({ issuer: "i" })
    expect(readJwtIssuer(serverSettings())).toBeNull()
  })
})
