/** API tokens over HTTP, and the token that commands on the same machine have. */
import { networkInterfaces } from "node:os"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { connect } from "../../src/client/index.ts"
import { LocalToken } from "../../src/server/auth/tokens.ts"
import { ask, hello, openStage, type Stage } from "./stage.ts"

it("S3 tokens are listed in pages, and the client puts them together", async () => {
  const stage = await openStage({ withTokens: true })
  onTestFinished(() => stage.close())
  const mine = await stage.token("ada", "admin")
  for (let i = 0; i < 4; i++) await stage.token("ada", "read")
  const { body: all } = await stage.ask("/tokens", { token: mine })
  const ids = all.tokens.map(({ id }: { id: string }) => id)
  expect(ids).toHaveLength(5)
  const paged: string[] = []
  for (let next: string | null = ""; next !== null; ) {
    const { body } = await stage.ask(`/tokens?limit=2${next && `&after=${next}`}`, { token: mine })
    expect(body.tokens.length).toBeLessThanOrEqual(2)
    paged.push(...body.tokens.map(({ id }: { id: string }) => id))
    next = body.next
  }
  expect(paged).toEqual(ids)
  expect((await stage.ask("/tokens?after=x", { token: mine })).status).toBe(400)
  const client = connect({ url: stage.server.url, token: mine })
  expect((await client.tokens.list()).map(({ id }) => id)).toEqual(ids)
})

describe("tokens over HTTP", () => {
  let stage: Stage
  const local = new LocalToken()
  let admin: string
  beforeAll(async () => {
    stage = await openStage({ withTokens: true, localToken: local })
    admin = await stage.token("ada", "admin")
  })
  afterAll(() => stage?.close())

  const make = (body: object, token: string) => stage.ask("/tokens", { method: "POST", body, token })
  const list = async (
    token: string,
    query = "",
  ): Promise<{ id: string; owner: string; revoked_at: unknown }[]> =>
    (await stage.ask(`/tokens${query}`, { token })).body.tokens

  it("S3 an admin creates, lists and revokes those of its own owner; the text is returned once", async () => {
    const made = await make({ scopes: ["submit", "read"] }, admin)
    expect(made).toMatchObject({
      status: 201,
      body: { owner: "ada", scopes: ["read", "submit"], revoked_at: null, server_is_open: false },
    })
    const { token, id, last_four } = made.body
    expect(token.endsWith(last_four)).toBe(true)
    expect((await stage.ask("/jobs", { token })).status).toBe(200)
    const listed = await stage.ask("/tokens", { token: admin })
    expect(JSON.stringify(listed.body)).not.toContain(token)
    expect(listed.body.tokens.map((row: { owner: string }) => row.owner)).toEqual(["ada", "ada"])
    expect((await stage.ask(`/tokens/${id}`, { method: "DELETE", token: admin })).status).toBe(204)
    expect((await stage.ask("/jobs", { token })).status).toBe(401)
    expect((await list(admin)).find(row => row.id === id)?.revoked_at).not.toBeNull()
  })

  it("S3 an admin has no hand on another owner's: they are not there", async () => {
    const other = (await make({ owner: "eve", scopes: ["read"] }, local.text)).body
    expect(await make({ owner: "eve", scopes: ["read"] }, admin)).toMatchObject({
      status: 403,
      body: { code: "E631" },
    })
    expect(await list(admin, "?owner=eve")).toEqual([])
    const revoked = await stage.ask(`/tokens/${other.id}`, { method: "DELETE", token: admin })
    expect(revoked).toMatchObject({ status: 404, body: { code: "E320" } })
    expect((await stage.ask("/jobs", { token: other.token })).status).toBe(200)
  })

  it("S3 needs the scope admin, a known scope and a name that can be one", async () => {
    const weak = await stage.token("ada", "read", "submit", "manage")
    expect((await make({ scopes: ["read"] }, weak)).status).toBe(403)
    expect((await stage.ask("/tokens", { token: weak })).status).toBe(403)
    for (const body of [{}, { scopes: [] }, { scopes: ["root"] }, { scopes: ["read"], owner: "a\u0000b" }])
      expect((await make(body, admin)).status).toBe(400)
    expect((await stage.ask("/tokens/nonsense", { method: "DELETE", token: admin })).status).toBe(404)
  })

  it("S3 the local token has the tokens and sees the jobs of every owner", async () => {
    expect(new Set((await list(local.text)).map(row => row.owner))).toEqual(new Set(["nobody", "ada", "eve"]))
    expect((await list(local.text, "?owner=eve")).map(row => row.owner)).toEqual(["eve"])
    await stage.ask("/workflows", { method: "POST", body: hello, token: admin })
    const submitted = await stage.ask("/jobs", {
      method: "POST",
      body: { workflow: "hello", input: { name: "x" } },
      token: admin,
    })
    const { job_id } = submitted.body
    expect((await stage.ask(`/jobs/${job_id}?wait=10`, { token: local.text })).body).toMatchObject({
      owner: "ada",
    })
    const listed = (await stage.ask("/jobs", { token: local.text })).body.jobs
    expect(listed.map((job: { job_id: string }) => job.job_id)).toContain(job_id)
  })

  it("S3 with Umbra-Owner the local token acts for that owner alone", async () => {
    const as = (owner: string) => ({ token: local.text, headers: { "umbra-owner": owner } })
    expect((await stage.ask("/workflows/hello", as("ada"))).status).toBe(200)
    expect((await stage.ask("/workflows/hello", { token: local.text })).status).toBe(404)
    expect((await stage.ask("/jobs", as("eve"))).body.jobs).toEqual([])
    expect((await stage.ask("/jobs", as(encodeURIComponent("Zoë 日")))).body.jobs).toEqual([])
    for (const wrong of ["%", "%00", ""]) expect((await stage.ask("/jobs", as(wrong))).status).toBe(400)
    // Nobody else may take another's part.
    const headers = { "umbra-owner": "eve" }
    expect((await stage.ask("/workflows/hello", { token: admin, headers })).status).toBe(403)
  })

  it("S3 one that is like the local token, or another process's, is a wrong token", async () => {
    const last = local.text.endsWith("A") ? "B" : "A"
    for (const token of [`${local.text.slice(0, -1)}${last}`, new LocalToken().text, `${local.text} x`])
      expect((await stage.ask("/jobs", { token })).status).toBe(401)
  })
})

const outside = Object.values(networkInterfaces())
  .flat()
  .find(found => found?.family === "IPv4" && !found.internal)?.address

describe("the local token", () => {
  it.runIf(outside !== undefined)(
    "counts on every address of this machine, since such a connection does not leave it",
    async () => {
      const local = new LocalToken()
      const stage = await openStage({ withTokens: true, localToken: local, host: "0.0.0.0" })
      onTestFinished(() => stage.close())
      const url = stage.server.url.replace("0.0.0.0", outside!)
      expect((await ask(url, "/tokens", { token: local.text })).status).toBe(200)
    },
  )

  it("S3 does not count for a server that was started without one", async () => {
    const stage = await openStage({ withTokens: true })
    onTestFinished(() => stage.close())
    expect((await stage.ask("/tokens", { token: new LocalToken().text })).status).toBe(401)
  })

  it("says when the server stays open until it is started again", async () => {
    const stage = await openStage({ localToken: new LocalToken() })
    onTestFinished(() => stage.close())
    const made = await stage.ask("/tokens", { method: "POST", body: { scopes: ["read"] } })
    expect(made.body).toMatchObject({ owner: "local", server_is_open: true })
  })
})
