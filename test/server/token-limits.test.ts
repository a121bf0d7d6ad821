/** S3: limits of one token: rate, jobs that have not ended, size of a body. Stored with it; else the server's defaults. */
import { request } from "node:http"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { LocalToken, Tokens } from "../../src/server/auth/tokens.ts"
import { tokenOf as jwtOf, newKey, openIssuer } from "./issuer.ts"
import { openStage, type Stage, type StageOptions, stores } from "./stage.ts"

const approval = { name: "approval", nodes: [{ id: "ask", handler: "approval" }] }
const local = new LocalToken()

async function stageOf(options: StageOptions = {}): Promise<Stage> {
  const stage = await openStage({ withTokens: true, localToken: local, ...options })
  onTestFinished(() => stage.close())
  return stage
}

const make = (stage: Stage, body: object, token = local.text) =>
  stage.ask("/tokens", { method: "POST", body: { owner: "ada", scopes: ["admin"], ...body }, token })

async function tokenOf(stage: Stage, limits: object): Promise<string> {
  return (await make(stage, limits)).body.token
}

const push = (stage: Stage, token: string) =>
  stage.ask("/workflows", { method: "POST", body: approval, token })
const submit = (stage: Stage, token: string, headers = {}) =>
  stage.ask("/jobs", { method: "POST", body: { workflow: "approval" }, token, headers })

describe("rate_limit", () => {
  it("S3 a token's own counts, above or below the server's", async () => {
    const stage = await stageOf({ settings: { rateLimit: 2 } })
    const [slow, plain, fast] = [
      await tokenOf(stage, { rate_limit: 0.5 }),
      await tokenOf(stage, {}),
      await tokenOf(stage, { rate_limit: 500 }),
    ]
    /** Also how many it may be at most: the burst, and what came to it meanwhile. */
    const passed = async (token: string, { burst, rate }: { burst: number; rate: number }) => {
      const begun = performance.now()
      const answers = await Promise.all(Array.from({ length: 12 }, () => stage.ask("/jobs", { token })))
      const refused = answers.find(({ status }) => status === 429)
      if (refused) expect(refused.body.code).toBe("E632")
      const count = answers.filter(({ status }) => status === 200).length
      expect(count).toBeGreaterThanOrEqual(Math.min(12, burst))
      expect(count).toBeLessThanOrEqual(burst + (rate * (performance.now() - begun)) / 1000)
    }
    await passed(slow, { burst: 1, rate: 0.5 })
    await passed(plain, { burst: 4, rate: 2 })
    await passed(fast, { burst: 1000, rate: 500 })
  })

  it("S3 counts also where the server has none", async () => {
    const stage = await stageOf({ settings: { rateLimit: null } })
    const token = await tokenOf(stage, { rate_limit: 0.01 })
    expect((await stage.ask("/jobs", { token })).status).toBe(200)
    const refused = await stage.ask("/jobs", { token })
    expect(refused.status).toBe(429)
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(90)
  })
})

describe("max_unfinished_jobs", () => {
  it("S3 counts what a token has submitted, not what others of its owner have", async () => {
    const stage = await stageOf()
    const [a, b] = [
      await tokenOf(stage, { max_unfinished_jobs: 2 }),
      await tokenOf(stage, { max_unfinished_jobs: 1 }),
    ]
    const free = await tokenOf(stage, {})
    await push(stage, a)
    const first = await submit(stage, a)
    expect((await submit(stage, b)).status).toBe(201)
    for (let n = 0; n < 5; n++) expect((await submit(stage, free)).status).toBe(201)
    expect((await submit(stage, a)).status).toBe(201)
    for (const token of [a, b]) {
      const refused = await submit(stage, token)
      expect(refused).toMatchObject({ status: 429, body: { code: "E646" } })
      expect(refused.body.detail).toContain("token")
      expect(refused.headers.get("retry-after")).toBe("1")
    }
    await stage.umbra.cancel(first.body.job_id)
    expect((await submit(stage, a)).status).toBe(201)
    expect((await submit(stage, a)).status).toBe(429)
  })

  it("S3 the owner's limit counts beside it, whichever is full first", async () => {
    const stage = await stageOf({ settings: { maxUnfinishedJobs: 3 } })
    const [a, b] = [await tokenOf(stage, { max_unfinished_jobs: 2 }), await tokenOf(stage, {})]
    await push(stage, a)
    const of = async (token: string, times: number) => {
      const answers = []
      for (let n = 0; n < times; n++) answers.push((await submit(stage, token)).status)
      return answers
    }
    expect(await of(a, 3)).toEqual([201, 201, 429])
    expect(await of(b, 2)).toEqual([201, 429])
  })

  it("S3 max_unfinished_jobs_per_token is for tokens that say nothing themselves", async () => {
    const stage = await stageOf({ settings: { maxUnfinishedJobsPerToken: 1 } })
    const [plain, more] = [await tokenOf(stage, {}), await tokenOf(stage, { max_unfinished_jobs: 2 })]
    await push(stage, plain)
    expect([(await submit(stage, plain)).status, (await submit(stage, plain)).status]).toEqual([201, 429])
    const statuses = []
    for (let n = 0; n < 3; n++) statuses.push((await submit(stage, more)).status)
    expect(statuses).toEqual([201, 201, 429])
    // Whoever sits at the machine has no token that could have a limit.
    for (let n = 0; n < 3; n++)
      expect((await submit(stage, local.text, { "umbra-owner": "ada" })).status).toBe(201)
  })

  it.each(Object.keys(stores))("S3 counts again after a restart, on %s", async kind => {
    const store = await stores[kind]!()
    onTestFinished(() => store.remove())
    const first = await openStage({ location: store.location, withTokens: true, localToken: local })
    const token = await tokenOf(first, { max_unfinished_jobs: 2 })
    await push(first, token)
    const { job_id } = (await submit(first, token)).body
    await submit(first, token)
    await first.close()
    const second = await stageOf({ location: store.location })
    expect((await submit(second, token)).status).toBe(429)
    await second.umbra.cancel(job_id)
    expect((await submit(second, token)).status).toBe(201)
    expect((await submit(second, token)).status).toBe(429)
    const row = (await second.umbra.queries.list({ limit: 1 })).jobs[0]!
    expect(await second.umbra.queries.verify(row)).toEqual([])
  })

  it("S3 jobs that another process accepted count", async () => {
    const shared = createMemoryStore()
    const umbra = { engine: { beatSeconds: 0.05, leaseSeconds: 2 } }
    const at = () => ({ location: openMemory(shared) as never, umbra })
    const first = await stageOf(at())
    const token = await tokenOf(first, { max_unfinished_jobs: 2 })
    await push(first, token)
    await submit(first, token)
    const second = await stageOf(at())
    expect((await submit(second, token)).status).toBe(201)
    expect((await submit(second, token)).status).toBe(429)
    await expect.poll(async () => (await submit(first, token)).status).toBe(429)
  })

  it("S3 jobs of a JWT's subject are counted by the server's default", async () => {
    const issuer = await openIssuer()
    onTestFinished(() => issuer.close())
    const key = await newKey("k")
    issuer.publish(key)
    const stage = await stageOf({
      settings: { ...issuer.settings, jwtOwnerClaim: "org", maxUnfinishedJobsPerToken: 1 },
    })
    const of = (sub: string, jti: string) =>
      jwtOf(key, { claims: { sub, jti, org: "shop", scope: "manage submit" } })
    const [ada, again, eve] = [await of("ada", "1"), await of("ada", "2"), await of("eve", "3")]
    await push(stage, ada)
    expect((await submit(stage, ada)).status).toBe(201)
    expect((await submit(stage, again)).status).toBe(429)
    await push(stage, eve)
    expect((await submit(stage, eve)).status).toBe(201)
  })
})

describe("max_body_bytes", () => {
  let stage: Stage
  beforeAll(async () => {
    stage = await openStage({ withTokens: true, localToken: local, settings: { maxBodyBytes: 5000 } })
  })
  afterAll(() => stage?.close())

  const validate = (bytes: number, token: string, type = "application/json") =>
    stage.ask("/workflows/validate", {
      method: "POST",
      body: JSON.stringify(approval).padEnd(bytes),
      headers: { "content-type": type },
      token,
    })

  it("S3 a token's own counts, above or below the server's, for JSON and YAML", async () => {
    const [small, plain, large] = [
      await tokenOf(stage, { max_body_bytes: 1000 }),
      await tokenOf(stage, {}),
      await tokenOf(stage, { max_body_bytes: 7000 }),
    ]
    for (const type of ["application/json", "application/yaml"]) {
      expect((await validate(900, small, type)).status).toBe(200)
      const refused = await validate(2000, small, type)
      expect(refused).toMatchObject({ status: 413, body: { code: "E635" } })
      expect(refused.body.detail).toContain("1000 bytes")
      expect((await validate(4000, plain, type)).status).toBe(200)
      expect((await validate(6000, plain, type)).status).toBe(413)
      expect((await validate(6500, large, type)).status).toBe(200)
      expect((await validate(7500, large, type)).status).toBe(413)
    }
  })

  it("S3 one that says how long it is is refused before any of it came", async () => {
    const token = await tokenOf(stage, { max_body_bytes: 1000 })
    const status = await begun(stage, token, { "content-length": "1001" }, [])
    expect(status).toBe(413)
  })

  it("S3 one that does not say it is refused where it is too long, not at its end", async () => {
    const token = await tokenOf(stage, { max_body_bytes: 1000 })
    const chunks = Array.from({ length: 3 }, () => " ".repeat(400))
    expect(await begun(stage, token, { "transfer-encoding": "chunked" }, chunks)).toBe(413)
  })
})

/** The status of a request whose body never ends. */
function begun(
  stage: Stage,
  token: string,
  headers: Record<string, string>,
  chunks: readonly string[],
): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request(`${stage.server.url}/jobs`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json", ...headers },
    })
    sent.once("error", reject).once("response", response => {
      resolve(response.statusCode!)
      response.resume()
      sent.destroy()
    })
    sent.flushHeaders()
    for (const chunk of chunks) sent.write(chunk)
  })
}

describe("limits of a token", () => {
  let stage: Stage
  beforeAll(async () => {
    stage = await openStage({
      withTokens: true,
      localToken: local,
      settings: { rateLimit: 100, maxBodyBytes: 5000 },
    })
  })
  afterAll(() => stage?.close())

  it("S3 are returned when it is created and in the list; null: the server's", async () => {
    const limits = { rate_limit: 5.5, max_unfinished_jobs: 7, max_body_bytes: 900 }
    const made = await make(stage, limits)
    expect(made).toMatchObject({ status: 201, body: limits })
    const plain = await make(stage, {})
    const none = { rate_limit: null, max_unfinished_jobs: null, max_body_bytes: null }
    expect(plain.body).toMatchObject(none)
    const { tokens } = (await stage.ask("/tokens", { token: local.text })).body
    const find = (id: string) => tokens.find((row: { id: string }) => row.id === id)
    expect(find(made.body.id)).toMatchObject(limits)
    expect(find(plain.body.id)).toMatchObject(none)
  })

  it("S3 are not avoided by creating a token", async () => {
    const maker = await tokenOf(stage, { rate_limit: 10, max_unfinished_jobs: 3 })
    for (const more of [{ rate_limit: 11 }, { max_unfinished_jobs: 4 }, { max_body_bytes: 5001 }])
      expect(await make(stage, more, maker), JSON.stringify(more)).toMatchObject({
        status: 403,
        body: { code: "E631" },
      })
    expect((await make(stage, {}, maker)).body).toMatchObject({
      rate_limit: 10,
      max_unfinished_jobs: 3,
      max_body_bytes: null,
    })
    const fewer = { rate_limit: 1, max_unfinished_jobs: 1, max_body_bytes: 500 }
    expect((await make(stage, fewer, maker)).body).toMatchObject(fewer)
    const plain = await tokenOf(stage, {})
    expect((await make(stage, { rate_limit: 101 }, plain)).status).toBe(403)
  })

  it("S3 wrong ones are refused, over HTTP and where there is no HTTP", async () => {
    const names = ["rate_limit", "max_unfinished_jobs", "max_body_bytes"]
    for (const name of names)
      for (const wrong of [0, -1, "5", Number.NaN, 1e12, true])
        expect((await make(stage, { [name]: wrong })).status, `${name} ${wrong}`).toBe(400)
    for (const name of names.slice(1)) expect((await make(stage, { [name]: 1.5 })).status).toBe(400)
    const tokens = new Tokens(stage.umbra.registry)
    const limits = { rateLimit: null, maxUnfinishedJobs: null, maxBodyBytes: null }
    for (const wrong of [{ rateLimit: 0 }, { maxUnfinishedJobs: 1.5 }, { maxBodyBytes: "7" as never }])
      await expect(
        tokens.create({ owner: "ada", scopes: ["read"], limits: { ...limits, ...wrong } }),
      ).rejects.toMatchObject({ code: "E309" })
  })
})
