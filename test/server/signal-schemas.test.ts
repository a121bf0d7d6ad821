/** Signals whose workflow declares a schema: checked when they arrive, also before a node waits; who sent them is recorded. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { defineHandler } from "../../src/worker/handler.ts"
import { waitForSignal } from "../../src/worker/waiting.ts"
import { openStage, type Stage, stores } from "./stage.ts"

let stage: Stage
const schema = {
  type: "object",
  required: ["ok"],
  properties: { ok: { type: "boolean" }, note: { type: "string", default: "none" } },
}
const ask = (id: string, config: object, more: object = {}) => ({
  ...{ id, handler: "wait_for_signal", config: { signal: "approve", ...config } },
  ...more,
})
const flow = {
  name: "approval",
  nodes: [
    { id: "first", handler: "wait_for_signal", config: { signal: "go" } },
    ask("approve", { schema }, { dependencies: ["first"] }),
  ],
}

beforeAll(async () => {
  stage = await openStage({ withTokens: true })
  await stage.umbra.register(flow as never, "ada")
})
afterAll(() => stage?.close())

const start = async (token: string) => {
  const { body } = await stage.ask("/jobs", { method: "POST", body: { workflow: "approval" }, token })
  return (body as { job_id: string }).job_id
}

describe("a signal with a schema", () => {
  it("is rejected with every problem, and accepted with defaults, by whom is recorded", async () => {
    const token = await stage.token("ada", "submit", "read")
    const job = await start(token)
    const signal = (name: string, body: unknown) =>
      stage.ask(`/jobs/${job}/signals/${name}`, { method: "POST", body, token })
    expect((await signal("go", { any: "thing" })).status).toBe(200)
    const approve = `/jobs/${job}/nodes/approve`
    await expect
      .poll(async () => (await stage.ask(approve, { token })).body)
      .toMatchObject({ status: "WAITING", waiting_on: { kind: "signal", name: "approve", schema } })
    expect(await signal("approve", { ok: "yes", note: 1 })).toMatchObject({
      status: 422,
      body: {
        code: "E317",
        errors: [
          { path: "data.note", message: "Expected string, found number." },
          { path: "data.ok", message: "Expected boolean, found string." },
        ],
      },
    })
    expect((await signal("approve", { ok: true })).status).toBe(200)
    await expect
      .poll(async () => (await stage.ask(approve, { token })).body)
      .toMatchObject({ status: "COMPLETED", output: { ok: true, note: "none" } })
    const { attempts } = (await stage.ask(approve, { token })).body as {
      attempts: { waits: { kind: string; by?: string }[] }[]
    }
    expect(attempts[0]!.waits).toMatchObject(
      [{ kind: "signal", name: "approve", by: /^token / }].map(wait => ({
        ...wait,
        by: expect.stringMatching(wait.by),
      })),
    )
    const { events } = (await stage.ask(`/jobs/${job}/events`, { token })).body as {
      events: { type: string; payload: { by?: string } }[]
    }
    const sent = events.filter(({ type }) => type === "signal.received")
    expect(sent.map(({ payload }) => payload.by)).toEqual([expect.any(String), expect.any(String)])
  })

  it("is checked also before a node waits for it, and by the library", async () => {
    const token = await stage.token("ada", "submit", "read")
    const job = await start(token)
    await expect(stage.umbra.signal(job, "approve", { ok: 1 })).rejects.toMatchObject({ code: "E317" })
    await stage.umbra.signal(job, "approve", { ok: true })
    await stage.umbra.signal(job, "go")
    expect(await stage.umbra.wait(job)).toMatchObject({
      status: "COMPLETED",
      output: { approve: { ok: true, note: "none" } },
    })
  })

  it("is not seen by another owner", async () => {
    const job = await start(await stage.token("ada", "submit"))
    const other = await stage.token("bob", "submit")
    const answer = await stage.ask(`/jobs/${job}/signals/approve`, { method: "POST", body: {}, token: other })
    expect(answer).toMatchObject({ status: 404, body: { code: "E301" } })
  })
})

describe("a workflow that declares schemas", () => {
  const problems = async (...nodes: object[]) => {
    const token = await stage.token("ada", "read")
    const { status, body } = await stage.ask("/workflows/validate", {
      ...{ method: "POST", body: { name: "x", nodes }, token },
    })
    const { errors = [] } = body as { errors?: { code: string; path: string; message: string }[] }
    return status === 200 ? [] : errors.map(({ code, path }) => `${code} ${path}`)
  }

  it.each([
    ["a fixed schema", [ask("a", { schema })], []],
    [
      "a template in the schema",
      [ask("a", { schema: { title: "{{ input.x }}" } })],
      ["E102 nodes[0].config.schema.title"],
    ],
    [
      "a name that is a template",
      [ask("a", { signal: "go-{{ input.x }}", schema })],
      ["E102 nodes[0].config.signal"],
    ],
    ["a wrong schema", [ask("a", { schema: { type: "text" } })], ["E102 nodes[0].config.schema.type"]],
    ["a dangling reference", [ask("a", { schema: { $ref: "#/x" } })], ["E102 nodes[0].config.schema.$ref"]],
    [
      "a pattern beyond linear time",
      [ask("a", { schema: { pattern: "(a)\\1" } })],
      ["E102 nodes[0].config.schema.pattern"],
    ],
    ["the same schema twice", [ask("a", { schema }), ask("b", { schema })], []],
    [
      "two schemas for one name",
      [ask("a", { schema }), ask("b", { schema: {} })],
      ["E102 nodes[1].config.schema"],
    ],
  ])("with %s", async (_, nodes, expected) => {
    expect(await problems(...nodes)).toEqual(expected)
  })

  it("has it in the compiled graph", async () => {
    const token = await stage.token("ada", "read")
    const { body } = await stage.ask("/workflows/approval/versions/1/graph", { token })
    const { nodes } = body as { nodes: { id: string; signal?: object }[] }
    expect(nodes.map(({ signal }) => signal)).toEqual([undefined, { name: "approve", schema }])
  })
})

describe.each(Object.entries(stores))("a schema of a handler's own wait, on %s", (_, open) => {
  const handlers = [
    defineHandler({
      name: "ask",
      run: config => {
        const { most = 100, wrong } = config as { most?: number; wrong?: boolean }
        return waitForSignal("approve", {
          schema: wrong
            ? { properties: { ok: { type: "yes or no" } } }
            : {
                ...schema,
                properties: { ...schema.properties, amount: { type: "integer", maximum: most } },
              },
        })
      },
    }),
  ]
  const openOwn = async () => {
    const store = await open()
    // Jobs stay in memory, also those of a test that stands still for seconds.
    const engine = { parkAfterMs: 3600_000 }
    const own = await openStage({ location: store.location, umbra: { handlers, engine } })
    onTestFinished(async () => {
      await own.close()
      await store.remove()
    })
    const begin = async (...nodes: object[]) =>
      (await own.umbra.submit({ name: "own", nodes } as never, {})).id
    return { own, begin }
  }
  const waits = (own: Stage, job: string, path: string) =>
    expect.poll(async () => (await own.ask(`/jobs/${job}/nodes/${path}`)).body)

  it("rejects other data while the node waits, and is not the rule for a signal that came before", async () => {
    const { own, begin } = await openOwn()
    const job = await begin({ id: "a", handler: "ask" })
    await waits(own, job, "a").toMatchObject({
      status: "WAITING",
      waiting_on: { kind: "signal", name: "approve", schema: { properties: { amount: { maximum: 100 } } } },
    })
    const send = (body: unknown) => own.ask(`/jobs/${job}/signals/approve`, { method: "POST", body })
    expect(await send({ ok: true, amount: 101 })).toMatchObject({
      status: 422,
      body: { code: "E317", errors: [{ path: "data.amount" }] },
    })
    await expect(own.umbra.signal(job, "approve", {})).rejects.toMatchObject({ code: "E317" })
    // Nobody waits for this one: it has no schema.
    expect((await own.ask(`/jobs/${job}/signals/other`, { method: "POST", body: 1 })).status).toBe(200)
    expect((await send({ ok: true, amount: 100 })).status).toBe(200)
    expect(await own.umbra.wait(job)).toMatchObject({
      output: { a: { ok: true, amount: 100, note: "none" } },
    })

    const early = await begin(
      { id: "gate", handler: "wait_for_signal", config: { signal: "go" } },
      { id: "a", handler: "ask", dependencies: ["gate"] },
    )
    await own.umbra.signal(early, "approve", "as it is")
    await own.umbra.signal(early, "go")
    expect(await own.umbra.wait(early)).toMatchObject({ output: { a: "as it is" } })
  })

  it("is that of the node, or of the item, that takes the signal", async () => {
    const { own, begin } = await openOwn()
    const job = await begin(
      { id: "list", handler: "ask", for_each: "{{ [5, 7] }}", config: { most: "{{ item }}" } },
      { id: "gate", handler: "wait_for_signal", config: { signal: "go" } },
      { id: "node", handler: "ask", dependencies: ["gate"], config: { most: 3 } },
    )
    const send = (amount: number) =>
      own.ask(`/jobs/${job}/signals/approve`, { method: "POST", body: { ok: true, amount } })
    for (const item of [0, 1])
      await waits(own, job, `list?item=${item}`).toMatchObject({
        waiting_on: { schema: { properties: { amount: { maximum: [5, 7][item] } } } },
      })
    expect((await send(6)).body).toMatchObject({ code: "E317" })
    expect((await send(5)).status).toBe(200)
    await waits(own, job, "list?item=0").toMatchObject({ status: "COMPLETED" })
    await own.umbra.signal(job, "go")
    await waits(own, job, "node").toMatchObject({ status: "WAITING" })
    // The node comes before the item.
    expect((await send(4)).body).toMatchObject({ code: "E317" })
    expect((await send(3)).status).toBe(200)
    await waits(own, job, "node").toMatchObject({ status: "COMPLETED" })
    expect((await send(7)).status).toBe(200)
    expect(await own.umbra.wait(job)).toMatchObject({
      status: "COMPLETED",
      output: { list: [{ amount: 5 }, { amount: 7 }], node: { amount: 3 } },
    })
  })

  it("is checked for the wait that takes the data, also if another has taken a signal since", async () => {
    const { own, begin } = await openOwn()
    const job = await begin({
      ...{ id: "list", handler: "ask", for_each: "{{ [7, 5] }}", config: { most: "{{ item }}" } },
    })
    for (const item of [0, 1])
      await waits(own, job, `list?item=${item}`).toMatchObject({ waiting_on: { kind: "signal" } })
    // Both fit the schema of the first wait, which takes only one of them.
    const send = (amount: number) => own.umbra.signal(job, "approve", { ok: true, amount })
    const answers = await Promise.allSettled([send(7), send(7)])
    expect(answers.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"])
    expect(answers.find(({ status }) => status === "rejected")).toMatchObject({
      reason: { code: "E317", details: { problems: [{ path: "data.amount" }] } },
    })
    await waits(own, job, "list?item=1").toMatchObject({ status: "WAITING" })
    await send(5)
    expect(await own.umbra.wait(job)).toMatchObject({ output: { list: [{ amount: 7 }, { amount: 5 }] } })
  })

  it("does not make signals fold the facts of a job that this process has in memory", async () => {
    const { own, begin } = await openOwn()
    const job = await begin(
      { id: "a", handler: "ask" },
      { id: "gate", handler: "wait_for_signal", config: { signal: "go" } },
    )
    await waits(own, job, "a").toMatchObject({ status: "WAITING" })
    await own.umbra.signal(job, "other", 1)
    await own.umbra.signal(job, "approve", { ok: true })
    await own.umbra.signal(job, "go")
    expect(await own.umbra.wait(job)).toMatchObject({ status: "COMPLETED" })
    expect(own.umbra.queries.facts.history.bytes).toBe(0)
  })

  it("that is wrong fails the node, with its place", async () => {
    const { own, begin } = await openOwn()
    const job = await begin({ id: "a", handler: "ask", retry: { max_attempts: 1 }, config: { wrong: true } })
    expect(await own.umbra.wait(job)).toMatchObject({
      status: "FAILED",
      error: { node: "a", message: expect.stringContaining("waitForSignal: schema.properties.ok.type:") },
    })
  })
})
