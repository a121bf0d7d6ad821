import { request } from "node:http"
import { describe, expect, it, onTestFinished } from "vitest"
import { withLive } from "../../src/core/view/live-view.ts"
import { defineProvider } from "../../src/provider/provider.ts"
import { until } from "../engine/stage.ts"
import { fakeProvider, make, optionsFor, output, waiting } from "../provider/stage.ts"
import { openStage } from "./stage.ts"

async function stageWithProvider(over: object = {}) {
  const fake = await fakeProvider()
  const umbra = optionsFor(fake, {
    over: { poll_seconds: [3600] },
    provider: { webhookMaxBytes: 2000 },
    ...over,
  })
  const stage = await openStage({ withTokens: true, umbra })
  onTestFinished(() => stage.close())
  fake.webhookUrl = `${stage.server.url}/webhooks/fake`
  return { fake, stage, admin: await stage.token("boss", "admin") }
}

describe("POST /webhooks/{provider}", () => {
  it("X2 needs no token, answers once all is durable, and completes the node", async () => {
    const { fake, stage } = await stageWithProvider()
    const job = await stage.umbra.submit(make())
    const id = await waiting(stage.umbra, fake, job.id)
    fake.complete(id)
    const answer = await fake.deliver(id, { eventId: "e1" })
    expect([answer.status, await answer.json()]).toEqual([202, { received: true, duplicate: false }])
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED", output: output(id) })
    expect(await (await fake.deliver(id, { eventId: "e1" })).json()).toEqual({
      received: true,
      duplicate: true,
    })
  })

  it("X2 comes through a tunnel to a server without tokens: by any host name, but not without its signature", async () => {
    const fake = await fakeProvider()
    const umbra = optionsFor(fake, { over: { poll_seconds: [3600] } })
    const stage = await openStage({ umbra })
    onTestFinished(() => stage.close())
    expect(stage.server.isOpen).toBe(true)
    const job = await stage.umbra.submit(make())
    const id = await waiting(stage.umbra, fake, job.id)
    fake.complete(id)
    const send = (path: string, body: string, headers: Record<string, string>) =>
      new Promise<number>((resolve, reject) => {
        const tunnel = { host: "clever-name.tunnel.example", "sec-fetch-site": "cross-site" }
        const asked = request(
          `${stage.server.url}${path}`,
          { method: "POST", headers: { ...headers, ...tunnel } },
          answer => resolve(answer.resume().statusCode!),
        )
        asked.on("error", reject).end(body)
      })
    const body = fake.webhookBody(id)
    expect(await send("/webhooks/fake", body, fake.signed(body, "a guess"))).toBe(401)
    expect(await send("/jobs", "{}", {})).toBe(403)
    expect(await send("/webhooks/fake", body, fake.signed(body))).toBe(202)
    expect((await job.wait({ timeoutMs: 60_000 })).status).toBe("COMPLETED")
  })

  it("X2 refuses forged, malformed, too large and unaddressed webhooks: with the right status, recorded, never acted on", async () => {
    const { fake, stage, admin } = await stageWithProvider()
    const job = await stage.umbra.submit(make())
    const id = await waiting(stage.umbra, fake, job.id)
    fake.complete(id)
    const post = (
      body: string,
      headers: Record<string, string> = fake.signed(body),
      path = "/webhooks/fake",
    ) => stage.ask(path, { method: "POST", body, headers })
    const genuine = fake.webhookBody(id)
    const cases = [
      [401, "E661", await post(genuine, fake.signed(genuine, "not the secret"))],
      [401, "E661", await post(genuine, { "content-type": "application/json" })],
      [401, "E661", await post(`${genuine} `, fake.signed(genuine))],
      [401, "E661", await stage.ask("/webhooks/fake", { method: "POST" })],
      [422, "E662", await post("")],
      [422, "E662", await post("{not json")],
      [422, "E662", await post('"\ud800"')],
      [422, "E662", await post("{}")],
      [422, "E662", await post(JSON.stringify({ id: "", status: "done" }))],
      [413, "E635", await post(JSON.stringify({ id, pad: "x".repeat(3000) }))],
      [404, "E660", await post(genuine, fake.signed(genuine), "/webhooks/nobody")],
    ] as const
    for (const [status, code, answer] of cases) {
      expect(answer.status, JSON.stringify(answer.body)).toBe(status)
      expect(answer.body.code).toBe(code)
    }
    expect((await stage.umbra.graph(job.id)).status).toBe("PROCESSING")
    const { body } = await stage.ask("/providers/fake/webhooks", { token: admin })
    const verdicts = body.webhooks.map(({ verdict }: { verdict: string }) => verdict)
    expect(verdicts).toEqual(Array(10).fill("refused"))
    expect(JSON.stringify(body)).not.toContain("not the secret")
  })

  it("X2 takes a result that is too large, which ends the node, and refuses it first if it is forged", async () => {
    const { fake, stage } = await stageWithProvider({ worker: { maxOutputBytes: 300 } })
    const job = await stage.umbra.submit(make())
    const id = await waiting(stage.umbra, fake, job.id)
    fake.complete(id, { frames: "x".repeat(400) })
    expect((await fake.deliver(id, { secret: "a guess" })).status).toBe(401)
    expect((await stage.umbra.graph(job.id)).status).toBe("PROCESSING")
    expect((await fake.deliver(id)).status).toBe(202)
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ status: "FAILED", error: { code: "E405" } })
  })

  it("X2 shows admins alone which secret is not set", async () => {
    const { fake, stage, admin } = await stageWithProvider({ providerSecrets: () => undefined })
    const body = JSON.stringify({ id: "x", status: "done" })
    const answer = await stage.ask("/webhooks/fake", { method: "POST", body, headers: fake.signed(body) })
    expect([answer.status, answer.body.code]).toEqual([401, "E661"])
    expect(JSON.stringify(answer.body)).not.toContain("FAKE_PROVIDER_SECRET")
    const { webhooks } = (await stage.ask("/providers/fake/webhooks", { token: admin })).body
    expect(webhooks).toMatchObject([
      { verdict: "refused", reason: expect.stringContaining("FAKE_PROVIDER_SECRET is not set") },
    ])
  })

  it("X2 what a verify of one's own throws is shown to admins, without its secrets, and never to the sender", async () => {
    const strict = defineProvider({
      name: "strict",
      verify: (_, { secret }) => {
        throw new Error(`cannot compare with ${secret("SIGNING")} in /srv/keys`)
      },
      webhook: () => null,
    })
    const { stage, admin } = await stageWithProvider({
      providers: [strict],
      providerSecrets: (name: string) => (name === "SIGNING" ? "the-signing-key" : undefined),
    })
    const answer = await stage.ask("/webhooks/strict", { method: "POST", body: "{}" })
    expect([answer.status, answer.body.code]).toEqual([401, "E661"])
    expect(answer.body.detail).toBe("The webhook is rejected: the signature could not be checked.")
    const { webhooks } = (await stage.ask("/providers/strict/webhooks", { token: admin })).body
    expect(webhooks[0].reason).toContain("cannot compare with [secret SIGNING] in /srv/keys")
  })

  it("X2 a webhook that echoes secrets, the provider's or its own, leaves none of them anywhere", async () => {
    const [key, signing] = ["key of the provider", "fake-provider-secret"]
    const known: Record<string, string> = { ACME_KEY: key, FAKE_PROVIDER_SECRET: signing }
    const echoing = defineProvider({
      ...{ name: "echo", secrets: ["ACME_KEY", "NOT_SET"], submit: () => ({ externalId: "op-1" }) },
      verify: {
        scheme: "hmac-sha256",
        header: "x-fake-signature",
        prefix: "sha256=",
        secrets: ["FAKE_PROVIDER_SECRET"],
      },
      webhook: ({ body }) => {
        const { broken } = body as { broken?: boolean }
        if (broken) throw new Error(`no such key: ${key}`)
        return { externalId: "op-1", news: { status: "completed", output: body } }
      },
    })
    const { fake, stage, admin } = await stageWithProvider({
      providerSecrets: (name: string) => known[name],
      providers: [echoing],
    })
    const nodes = [{ id: "a", handler: "external", provider: "echo" }]
    const job = await stage.umbra.submit({ name: "echo", nodes })
    await until("it waits", async () => (await stage.umbra.graph(job.id)).waiting_for.length > 0)
    const post = (sent: object) => {
      const body = JSON.stringify(sent)
      return stage.ask("/webhooks/echo", { method: "POST", body, headers: fake.signed(body) })
    }
    expect((await post({ broken: true })).body.detail).toBe(
      "The webhook cannot be read: no such key: [secret ACME_KEY]",
    )
    expect((await post({ sent: { authorization: `Bearer ${key}` }, signed_with: signing })).status).toBe(202)
    expect((await job.wait({ timeoutMs: 60_000 })).output).toEqual({
      a: {
        sent: { authorization: "Bearer [secret ACME_KEY]" },
        signed_with: "[secret FAKE_PROVIDER_SECRET]",
      },
    })
    const shown = [
      await stage.umbra.events(job.id),
      (await stage.ask("/providers/echo/webhooks", { token: admin })).body,
    ]
    expect(JSON.stringify(shown)).not.toMatch(new RegExp(`${key}|${signing}`))
  })

  it("X2 takes whatever a provider names its event with: nothing, a text or a number", async () => {
    const untyped = defineProvider({
      ...{ name: "untyped", verify: () => true },
      webhook: ({ body }) => body as never,
    })
    const { stage } = await stageWithProvider({ providers: [untyped] })
    const post = async (eventId: unknown, n = 0) => {
      const body = JSON.stringify({ externalId: "op-1", eventId, news: { status: "running", progress: n } })
      const { status, body: answer } = await stage.ask("/webhooks/untyped", { method: "POST", body })
      return status === 202 ? !answer.duplicate : [status, answer.code]
    }
    // Without a name the same body is the same event.
    for (const none of [null, undefined, ""])
      expect([await post(none, 1), await post(none, 1), await post(none, 2)]).toEqual([true, false, true])
    const named = [await post(7), await post(7, 1), await post("7", 2), await post(8)]
    expect(named).toEqual([true, false, false, true])
    expect(await post({ id: 1 })).toEqual([422, "E662"])
  })

  it("X2 parks a webhook of an unknown operation", async () => {
    const { fake, stage } = await stageWithProvider()
    const body = JSON.stringify({ id: "somebody else's", status: "done", event_id: "1", output: 1 })
    const answer = await fetch(`${stage.server.url}/webhooks/fake`, {
      method: "POST",
      body,
      headers: fake.signed(body),
    })
    expect(answer.status).toBe(202)
    expect(await stage.umbra.webhookEvents("fake")).toMatchObject([{ verdict: "parked" }])
  })

  it("records at most ten refusals a second, so that forgeries do not fill the store", async () => {
    const { fake, stage } = await stageWithProvider()
    const begun = performance.now()
    await Promise.all(
      Array.from({ length: 60 }, () =>
        stage.ask("/webhooks/fake", { method: "POST", body: "{}", headers: {} }),
      ),
    )
    const { length } = await stage.umbra.webhookEvents("fake", 1000)
    const seconds = Math.ceil((performance.now() - begun) / 1000)
    expect(length).toBeGreaterThanOrEqual(10)
    // The requests may fall into one second more than they take.
    expect(length).toBeLessThanOrEqual(10 * (seconds + 1))
    expect(fake.operations.size).toBe(0)
  })
})

describe("an operation over HTTP", () => {
  it("X1 its times are ISO text, in the graph and in events", async () => {
    const { fake, stage } = await stageWithProvider({ over: { poll_seconds: [3600], ttl_seconds: 7200 } })
    const token = await stage.token("ada", "read")
    const job = await stage.umbra.submit(make(), {}, { owner: "ada" })
    const id = await waiting(stage.umbra, fake, job.id)
    const iso = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
    const times = { next_poll_at: iso, until: iso }
    const wait = { kind: "external", provider: "fake", external_id: id, ...times }
    const graph = await stage.ask(`/jobs/${job.id}/graph`, { token })
    expect(graph.body.nodes[0].waiting_on).toEqual({
      ...wait,
      polls: 0,
      last_poll_at: null,
      poll_error: null,
    })
    expect(graph.body.waiting_for).toMatchObject([wait])
    const { events } = (await stage.ask(`/jobs/${job.id}/events`, { token })).body
    const began = events.find(({ type }: { type: string }) => type === "node.waiting")
    expect(began.payload.waiting).toEqual(wait)
  })
})

describe("GET /providers", () => {
  it("X5 shows slots, who holds them, who waits, the pace and recent errors, to admins only", async () => {
    const { fake, stage, admin } = await stageWithProvider()
    const held = await stage.umbra.submit(make(), {}, { owner: "ada" })
    await waiting(stage.umbra, fake, held.id)
    const second = await stage.umbra.submit(make(["a", "b"]), {}, { owner: "bob" })
    await until("both wait", async () => (await stage.umbra.graph(second.id)).waiting_for.length === 2)
    const { body } = await stage.ask("/providers", { token: admin })
    expect(body.providers).toMatchObject([
      {
        name: "fake",
        slots: { limit: 1, held: [{ job_id: held.id, owner: "ada" }], waiting: 2 },
        rate: { limit: null, pace: 1 },
        operations: 1,
      },
    ])
    const reader = await stage.token("bob", "read")
    expect((await stage.ask("/providers", { token: reader })).status).toBe(403)
    const graph = await stage.ask(`/jobs/${second.id}/graph`, { token: reader })
    expect(graph.body.workflow_status).toBe("WAITING_PARALLEL")
    expect(withLive(graph.body).waiting_for).toEqual([
      { node: "a", kind: "slot", provider: "fake", position: 1 },
      { node: "b", kind: "slot", provider: "fake", position: 2 },
    ])
    // The job has left memory: what it waits for is read from the store.
    const node = await stage.ask(`/jobs/${second.id}/nodes/b`, { token: reader })
    expect(node.body.waiting_on).toEqual({ kind: "slot", provider: "fake", position: null })
    expect(node.body.live.nodes[0].waiting_on).toEqual({ kind: "slot", provider: "fake", position: 2 })
  })

  it("X1 refuses a signal with a stale resume token", async () => {
    const { stage, fake } = await stageWithProvider()
    const token = await stage.token("ada", "read", "submit")
    const nodes = [...make().nodes, { id: "ask", handler: "approval" }]
    const job = await stage.umbra.submit({ name: "both", nodes }, {}, { owner: "ada" })
    const id = await waiting(stage.umbra, fake, job.id)
    const { resume_token: stale } = (await stage.ask(`/jobs/${job.id}/graph`, { token })).body
    fake.complete(id)
    await fake.deliver(id)
    await until("it was resumed", async () => (await stage.umbra.graph(job.id)).completed_operations === 1)
    const signal = (resume: string) =>
      stage.ask(`/jobs/${job.id}/signals/approved?resume_token=${resume}`, { method: "POST", token })
    expect(await signal(stale)).toMatchObject({ status: 409, body: { code: "E312" } })
    const { resume_token: fresh } = (await stage.ask(`/jobs/${job.id}/graph`, { token })).body
    expect((await signal(fresh)).status).toBe(200)
  })
})
