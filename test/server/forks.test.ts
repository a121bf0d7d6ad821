/** Forks over HTTP: on both stores, with owners, wrong requests and the client. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { connect } from "../../src/client/index.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { countAll } from "../journal/fixture.ts"
import { openStage, type Stage, type Store, stores } from "./stage.ts"

const runs: string[] = []
const work = defineHandler({
  name: "work",
  effects: false,
  readsInput: false,
  run(config, { nodeId }) {
    const { value } = config as { value: unknown }
    runs.push(nodeId)
    if (value === "fail") throw Object.assign(new Error("fails"), { retryable: false })
    return value
  },
})
const charge = defineHandler({ name: "charge", effects: true, run: () => "charged" })

const order = {
  name: "order",
  nodes: [
    { id: "large", handler: "work", config: { value: "{{ 'x' * 3000 }}" } },
    { id: "price", handler: "work", config: { value: "{{ input.price }}" } },
    { id: "pay", handler: "charge", dependencies: ["price"] },
  ],
  output: { price: "{{ price }}", length: "{{ large | length }}" },
}

interface Repeated {
  readonly origin: string
  readonly fork: string
  readonly body: object
  readonly headers: Readonly<Record<string, string>>
  readonly alice: string
  readonly bob: string
}

/** Of an origin that was deleted: the key still answers its fork, to its owner alone, and nothing else does. */
async function expectRepeated(stage: Stage, { origin, fork, body, headers, alice, bob }: Repeated) {
  const post = (token: string, wanted: object, more = {}) =>
    stage.ask(`/jobs/${origin}/fork`, { method: "POST", token, body: wanted, headers: more })
  expect(await post(alice, body, headers)).toMatchObject({ status: 200, body: { job_id: fork } })
  expect(await post(alice, {}, headers)).toMatchObject({ status: 409, body: { code: "E306" } })
  const noJob = { status: 404, body: { code: "E301" } }
  expect(await post(bob, body, headers)).toMatchObject(noJob)
  expect(await post(alice, body)).toMatchObject(noJob)
  expect(await post(alice, { dry_run: true }, headers)).toMatchObject(noJob)
}

it("forks are found by their key after their origin was removed from the store", async () => {
  const store = createMemoryStore()
  const stage = await openStage({
    ...{ location: openMemory(store), withTokens: true },
    umbra: { handlers: [work, charge] },
  })
  onTestFinished(() => stage.close())
  const alice = await stage.token("alice", "read", "submit", "manage")
  const bob = await stage.token("bob", "read", "submit", "manage")
  const post = (path: string, body: object, headers = {}) =>
    stage.ask(path, { method: "POST", token: alice, body, headers })
  await post("/workflows", order)
  const { job_id: origin } = (await post("/jobs?wait=60", { workflow: "order", input: { price: "fail" } }))
    .body
  const headers = { "idempotency-key": "again" }
  // Nothing is taken over: the fork does not hold its origin.
  const body = { from: ["large"], overrides: { price: { output: 1 }, pay: { output: 2 } } }
  const { job_id: fork } = (await post(`/jobs/${origin}/fork`, body, headers)).body
  await stage.ask(`/jobs/${fork}?wait=60`, { token: alice })
  await stage.ask(`/jobs/${origin}`, { method: "DELETE", token: alice })
  const journal = openMemory(store)
  const fences = (await journal.readPartitions()).map(({ partition, epoch }) => ({ partition, epoch }))
  await countAll(journal, fences)
  const before = Number.MAX_SAFE_INTEGER
  expect(await journal.purge({ fences, jobIds: [origin], before, limit: 1000 })).toBeGreaterThan(0)
  expect((await stage.ask(`/jobs/${origin}`, { token: alice })).status).toBe(404)
  await expectRepeated(stage, { origin, fork, body, headers, alice, bob })
})

describe.each(Object.entries(stores))("forks on %s", (_, open) => {
  let store: Store
  let stage: Stage
  let alice: string
  let bob: string
  let origin: string

  const post = (path: string, token: string, body?: unknown, headers = {}) =>
    stage.ask(path, { method: "POST", token, headers, ...(body === undefined ? {} : { body }) })
  const fork = (body?: unknown, { token = alice, headers = {} } = {}) =>
    post(`/jobs/${origin}/fork`, token, body, headers)

  beforeAll(async () => {
    store = await open()
    stage = await openStage({
      ...{ location: store.location, withTokens: true },
      umbra: { handlers: [work, charge] },
    })
    alice = await stage.token("alice", "read", "submit", "manage")
    bob = await stage.token("bob", "read", "submit", "manage")
    await post("/workflows", alice, order)
    origin = (await post("/jobs?wait=60", alice, { workflow: "order", input: { price: "fail" } })).body.job_id
  })
  afterAll(async () => {
    await stage?.close()
    await store?.remove()
  })

  it("answer what they would do, and do it when it is confirmed", async () => {
    const input = { price: 7 }
    const preview = await fork({ input, dry_run: true })
    expect(preview).toMatchObject({
      status: 200,
      body: {
        job_id: origin,
        workflow_version: 1,
        reused: [{ node: "large", reason: { code: "unchanged" } }],
        will_run: [{ node: "price" }, { node: "pay", effects: "unsafe", duration_ms: null }],
        expected: { duration_ms: null, usage: null, critical_path: ["price", "pay"] },
        unconfirmed: { unsafe: ["pay"], unknown: [] },
      },
    })
    const refused = await fork({ input })
    expect(refused).toMatchObject({
      status: 409,
      body: { code: "E314", errors: [{ node: "pay", effects: "unsafe" }] },
    })
    runs.length = 0
    const made = await fork({ input, confirm: { unsafe: ["pay"] } })
    expect(made).toMatchObject({ status: 201, body: { forked_from: origin, definition: null } })
    const { job_id } = made.body
    expect(made.headers.get("location")).toBe(`/jobs/${job_id}`)
    const ended = await stage.ask(`/jobs/${job_id}?wait=60`, { token: alice })
    expect(ended.body).toMatchObject({ status: "COMPLETED", output: { price: 7, length: 3000 } })
    expect(runs).toEqual(["price"])
    const graph = await stage.ask(`/jobs/${job_id}/graph`, { token: alice })
    expect(graph.body).toMatchObject({
      forked_from: origin,
      nodes: [{ id: "large", reused_from: origin }, {}, {}],
    })
    const list = await stage.ask(`/jobs?forked_from=${origin}`, { token: alice })
    expect(list.body.jobs.map((job: { job_id: string }) => job.job_id)).toEqual([job_id])
    const facts = (await stage.ask(`/jobs/${job_id}/facts`, { token: alice })).body.facts
    const { seq } = facts[0].fork.nodes[0]
    const payload = await stage.ask(`/jobs/${job_id}/payloads/${seq}/output`, { token: alice })
    expect(payload.body).toBe("x".repeat(3000))
    const compiled = await stage.ask(`/jobs/${job_id}/compiled-graph`, { token: alice })
    expect(compiled.body).toMatchObject({ name: "order", version: 1, nodes: [{ id: "large" }, {}, {}] })
    const etag = compiled.headers.get("etag")!
    const again = await stage.ask(`/jobs/${job_id}/compiled-graph`, {
      token: alice,
      headers: { "if-none-match": etag },
    })
    expect(again.status).toBe(304)
  })

  it("run a changed definition that is no version", async () => {
    const nodes = [...order.nodes.slice(0, 1), { id: "price", handler: "work", config: { value: 9 } }]
    const made = await fork({ workflow: { ...order, nodes } })
    expect(made).toMatchObject({ status: 201, body: { workflow: "order", workflow_version: null } })
    const { job_id, definition } = made.body
    expect(definition).toMatch(/^[0-9a-f]{64}$/)
    const ended = await stage.ask(`/jobs/${job_id}?wait=60`, { token: alice })
    expect(ended.body).toMatchObject({ status: "COMPLETED", definition, output: { price: 9 } })
    const compiled = await stage.ask(`/jobs/${job_id}/compiled-graph`, { token: alice })
    expect(compiled.body).toMatchObject({ version: null })
    expect(compiled.body).not.toHaveProperty("definition")
    const whole = await stage.ask(`/jobs/${job_id}/compiled-graph?definition=true`, { token: alice })
    expect(whole.body).toMatchObject({ version: null, definition: { name: "order", nodes: [{}, nodes[1]] } })
    expect(whole.headers.get("etag")).not.toBe(compiled.headers.get("etag"))
    // It can be sent back as it is.
    const same = await fork({ workflow: whole.body.definition, dry_run: true })
    expect(same.body).toMatchObject({ definition })
    expect((await stage.ask("/workflows/order", { token: alice })).body.version).toBe(1)
  })

  it("return the same job for the same key", async () => {
    const headers = { "idempotency-key": `key-${origin}` }
    const body = { overrides: { price: { output: 1 }, pay: { output: 2 } } }
    const [one, two] = [await fork(body, { headers }), await fork(body, { headers })]
    expect([one.status, two.status]).toEqual([201, 200])
    expect(one.body.job_id).toBe(two.body.job_id)
    expect((await fork({}, { headers })).status).toBe(409)
  })

  it("return the same job for the same key after the origin was deleted", async () => {
    const input = { price: "fail" }
    const { job_id: gone } = (await post("/jobs?wait=60", alice, { workflow: "order", input })).body
    const headers = { "idempotency-key": `key-${gone}` }
    const body = { overrides: { price: { output: 1 }, pay: { output: 2 } } }
    const made = await post(`/jobs/${gone}/fork`, alice, body, headers)
    expect(made.status).toBe(201)
    await stage.ask(`/jobs/${gone}`, { method: "DELETE", token: alice })
    await expectRepeated(stage, { origin: gone, fork: made.body.job_id, body, headers, alice, bob })
  })

  it("of another key's request are refused before effects must be confirmed", async () => {
    const headers = { "idempotency-key": `confirmed-${origin}` }
    const body = { input: { price: 7 }, confirm: { unsafe: ["pay"] } }
    expect((await fork(body, { headers })).status).toBe(201)
    expect(await fork({ input: { price: 7 } }, { headers })).toMatchObject({
      status: 409,
      body: { code: "E306" },
    })
  })

  it("of another owner's job do not exist", async () => {
    expect(await fork({ dry_run: true }, { token: bob })).toMatchObject({
      status: 404,
      body: { code: "E301" },
    })
    expect(await fork({}, { token: bob })).toMatchObject({ status: 404, body: { code: "E301" } })
    expect((await stage.ask(`/jobs/${origin}/compiled-graph`, { token: bob })).status).toBe(404)
    const list = await stage.ask(`/jobs?forked_from=${origin}`, { token: bob })
    expect(list.body.jobs).toEqual([])
    const reader = await stage.token("alice", "read", "submit")
    expect((await fork({ dry_run: true }, { token: reader })).status).toBe(403)
  })

  it.each([
    ["from", { from: "price" }],
    ["from", { from: [7] }],
    ["from", { from: ["nobody"] }],
    ["overrides", { overrides: [] }],
    ["overrides", { overrides: { price: {} } }],
    ["overrides", { overrides: { price: { output: 1, config: {} } } }],
    ["overrides", { overrides: { price: { config: [] } } }],
    ["overrides", { overrides: { nobody: { output: 1 } } }],
    ["items", { items: { price: [-1] } }],
    ["items", { items: { price: [] } }],
    ["items", { items: { price: [0] } }],
    ["items", { items: { price: ["0"] } }],
    ["reuse", { reuse: {} }],
    ["reuse", { reuse: ["price"] }],
    ["confirm", { confirm: true }],
    ["confirm", { confirm: { unsafe: "pay" } }],
    ["confirm", { confirm: { unsafe: ["nobody"] } }],
    ["confirm", { confirm: { unknown: "yes" } }],
    ["workflow", { workflow: 3 }],
    ["workflow", { workflow: { name: "order" } }],
    ["workflow", { workflow: { ...order, name: "other" } }],
    ["dry_run", { dry_run: "yes" }],
    ["unknown", { unknown: 1 }],
  ])("refuse a wrong %s: %j", async (field, body) => {
    const { status, body: problem } = await fork(body)
    expect([400, 422]).toContain(status)
    expect(JSON.stringify(problem)).toContain(field)
  })

  it("say what an override must have", async () => {
    const detail = async (override: object) => (await fork({ overrides: { price: override } })).body.detail
    for (const wrong of [{}, { output: 1, config: {} }])
      expect(await detail(wrong)).toBe("overrides.price in the body must have either output or config.")
    expect(await detail({ config: 5 })).toBe("overrides.price.config in the body must be an object; it is 5.")
  })

  it("refuse what is no job, no version and no valid definition", async () => {
    expect((await post("/jobs/nothing/fork", alice, {})).status).toBe(404)
    expect((await fork({ workflow: "order@9" })).body.code).toBe("E305")
    const nodes = [{ id: "a", handler: "no_such_handler" }]
    const { status, body } = await fork({ workflow: { name: "order", nodes } })
    expect([status, body.errors?.[0]?.code ?? body.code]).toEqual([422, "E103"])
    expect((await stage.ask("/jobs?forked_from=nothing", { token: alice })).status).toBe(400)
  })

  it("are made by the client", async () => {
    const client = connect({ url: stage.server.url, token: alice })
    const preview = await client.handle(origin).previewFork({ overrides: { price: { output: 3 } } })
    expect(preview.pinned.map(({ node }) => node)).toEqual(["price"])
    const job = await client.handle(origin).fork({
      overrides: { price: { output: 3 } },
      confirm: { unsafe: ["pay"] },
    })
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: { price: 3 }, forked_from: origin })
    const found = []
    for await (const { job_id } of client.jobs({ forkedFrom: origin })) found.push(job_id)
    expect(found).toContain(job.id)
    expect((await client.compiledGraph(job.id)).nodes).toHaveLength(3)
    await expect(client.fork(origin, { from: ["nobody"] })).rejects.toMatchObject({ code: "E309" })
  })
})
