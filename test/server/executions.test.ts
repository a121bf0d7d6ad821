/** P1 P4 P5: executions of pipelines through real HTTP. Every answer is checked against the OpenAPI document. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { until } from "../engine/stage.ts"
import { adapter, numbers, route } from "../pipeline/scene.ts"
import { openStage, type Stage, type Store, stores } from "./stage.ts"

let isMended = false
let letGo: () => void = () => {}
const picky = adapter("picky", ({ body }) => {
  const { n } = body as { n: number }
  if (n % 2 === 0 && !isMended) throw Object.assign(new Error(`${n} is even`), { retryable: false })
  return body
})
const patient = adapter("patient", () => new Promise<void>(resolve => (letGo = resolve)))
/** Fails as a service does that may be better soon: what a breaker counts. */
const shaky = adapter("shaky", ({ body }) => {
  if ((body as { n: number }).n % 2 === 0) throw new Error("not now")
  return body
})
const adapters = [numbers, picky, patient, shaky]

const flow = {
  name: "flow",
  input: { type: "object", properties: { count: { type: "integer", default: 6 } } },
  init: { body: { count: "{{ input.count }}" } },
  routes: [
    route("source", ["numbers"], { outbound: "work" }),
    route("work", ["picky"], { outbound: "store", error_handling: { retries: 0, circuit_breaker: false } }),
    route("store", ["log"]),
  ],
}
const [source, work, store] = flow.routes
const changed = { ...flow, routes: [source, { ...work, concurrency: 3 }, store] }
const others = { ...flow, name: "others", routes: [{ ...source, name: "first" }, work, store] }
const waits = { name: "waits", routes: [route("only", ["patient"])] }
const hello = { name: "hello", nodes: [{ id: "a", handler: "transform", config: { value: 1 } }] }

const post = (stage: Stage, path: string, body?: unknown, token?: string) =>
  stage.ask(path, { method: "POST", body, ...(token === undefined ? {} : { token }) })

const idsOf = (letters: readonly { readonly id: string }[]) => letters.map(({ id }) => id)

describe.each(Object.entries(stores))("executions over HTTP on %s", (name, open) => {
  let place: Store
  let stage: Stage
  const ask: Stage["ask"] = (path, asked) => stage.ask(path, asked)
  const run = async (workflow: string, input = {}) =>
    (await post(stage, "/jobs?wait=30", { workflow, input })).body

  beforeAll(async () => {
    place = await open()
    stage = await openStage({ location: place.location, umbra: { adapters } })
    for (const definition of [flow, others, waits, hello]) await post(stage, "/workflows", definition)
  })
  afterAll(async () => {
    await stage?.close()
    await place?.remove()
  })

  it("P1 shows the routes of a job in its graph", async () => {
    isMended = false
    const { job_id, status, output } = await run("flow")
    expect(status).toBe("COMPLETED")
    expect(output.routes.work).toEqual({ messages: 6, done: 3, failed: 3, failed_tries: 3, dead_lettered: 3 })
    const { routes } = (await ask(`/jobs/${job_id}/graph`)).body
    expect(routes).toMatchObject([
      { name: "source", done: 1, outbound: { default: "work" }, queued: 0, concurrency: null },
      {
        name: "work",
        done: 3,
        failed: 3,
        failed_tries: 3,
        dead_lettered: 3,
        adapters: [{ type: "picky", breaker: null }],
      },
      { name: "store", done: 3, in_flight: 0 },
    ])
    const plain = await run("hello")
    expect((await ask(`/jobs/${plain.job_id}/graph`)).body.routes).toBeUndefined()
  })

  it("P1 computes the routes at a past moment from messages and lineage, with null for what was not recorded", async () => {
    isMended = false
    const { job_id, created_at, finished_at } = await run("flow")
    const counts = [
      "name",
      "inbound",
      "outbound",
      "queued",
      "waiting",
      "done",
      "failed",
      "failed_tries",
      "dead_lettered",
    ]
    const shown = (routes: Record<string, unknown>[]) =>
      routes.map(each => Object.fromEntries(counts.map(name => [name, each[name]])))
    const now = (await ask(`/jobs/${job_id}/graph`)).body
    const at = async (moment: string) => (await ask(`/jobs/${job_id}/graph?at=${moment}`)).body
    const end = await at(finished_at)
    expect(shown(end.routes)).toEqual(shown(now.routes))
    expect(end.routes[1]).toMatchObject({ in_flight: null, rate: null, latency_ms: null, concurrency: null })
    const { at: stored } = (await ask(`/jobs/${job_id}/lineage?message=store:1`)).body.message
    const before = await at(new Date(Date.parse(stored) - 1).toISOString())
    expect(before.status).toBe("PROCESSING")
    expect(before.routes[2]).toMatchObject({ name: "store", queued: 0, done: 0 })
    expect((await at(new Date(Date.parse(created_at) - 1).toISOString())).code).toBe("E313")
  })

  it("P5 walks from an output to its inputs and back", async () => {
    const { job_id } = await run("flow")
    const { status, body } = await ask(`/jobs/${job_id}/lineage?message=work:3`)
    expect(status).toBe(200)
    expect(body).toMatchObject({
      message: { id: "work:3", status: "completed", body: { n: 3 }, at: expect.stringMatching(/Z$/) },
      inputs: [{ id: "source:1", parent: null }],
      outputs: [{ id: expect.stringMatching(/^store:/), parent: "work:3", body: { n: 3 } }],
      is_cut: false,
    })
    const dead = (await ask(`/jobs/${job_id}/lineage?message=work:2`)).body.message
    expect(dead).toMatchObject({
      status: "failed",
      invocations: [{ adapter: "picky", status: "failed", error: { message: "2 is even" } }],
    })
    expect(body.message.body_left_out).toBeUndefined()
    const cut = (await ask(`/jobs/${job_id}/lineage?message=source:1&limit=2`)).body
    expect(cut.outputs).toHaveLength(2)
    expect(cut.is_cut).toBe(true)
    // Right after the submission the answer has what is there, which may be nothing.
    const fresh = (await post(stage, "/jobs", { workflow: "flow", input: {} })).body
    const early = await ask(`/jobs/${fresh.job_id}/lineage?message=source:1`)
    expect([early.status, early.body.message?.id ?? "source:1"]).toEqual([200, "source:1"])
    expect((await ask(`/jobs/${fresh.job_id}/dead-letters`)).status).toBe(200)
  })

  it("says what is wrong with a question", async () => {
    const [{ job_id }, plain] = [await run("flow"), await run("hello")]
    const asked = async (path: string) => {
      const { status, body } = await ask(path)
      return [status, body.code]
    }
    expect(await asked(`/jobs/${job_id}/lineage`)).toEqual([400, "E633"])
    expect(await asked(`/jobs/${job_id}/lineage?message=work:2&limit=0`)).toEqual([400, "E633"])
    for (const message of ["nothing:1", "work:0", "work:999", "work:x", "work", "work:1e3", ":::"])
      expect(await asked(`/jobs/${job_id}/lineage?message=${message}`), message).toEqual([404, "E706"])
    expect(await asked(`/jobs/${job_id}/dead-letters?route=none`)).toEqual([404, "E706"])
    expect(await asked(`/jobs/${job_id}/dead-letters?after=work`)).toEqual([404, "E706"])
    expect(await asked(`/jobs/${job_id}/dead-letters?limit=101`)).toEqual([400, "E633"])
    expect(await asked(`/jobs/${plain.job_id}/lineage?message=work:1`)).toEqual([422, "E707"])
    expect(await asked(`/jobs/${plain.job_id}/dead-letters`)).toEqual([422, "E707"])
    expect(await asked("/jobs/nothing/dead-letters")).toEqual([404, "E301"])
    const replayed = async (body: unknown, id = job_id) => {
      const answer = await post(stage, `/jobs/${id}/dead-letters/replay`, body)
      return [answer.status, answer.body.code]
    }
    expect(await replayed(undefined, plain.job_id)).toEqual([422, "E707"])
    expect(await replayed({ messages: [] })).toEqual([400, "E633"])
    expect(await replayed({ all: true })).toEqual([400, "E633"])
    expect(await replayed({ messages: ["work"] })).toEqual([404, "E706"])
    expect(await replayed({ messages: ["work:1"] })).toEqual([409, "E708"])
    expect(await replayed({ workflow: "none" })).toEqual([404, "E305"])
    expect(await replayed({ workflow: "hello" })).toEqual([422, "E710"])
    expect(await replayed({ workflow: "others" })).toEqual([422, "E710"])
  })

  it("P4 lists dead letters page by page, and replays them singly, in bulk, and by another version", async () => {
    const { job_id } = await run("flow", { count: 8 })
    const page = (await ask(`/jobs/${job_id}/dead-letters?limit=3`)).body
    expect(page.dead_letters[0]).toMatchObject({
      id: "work:2",
      route: "work",
      attempts: 1,
      failed_at: expect.stringMatching(/Z$/),
      error: { message: "2 is even" },
      replayed_by: null,
      body: { n: 2 },
    })
    expect(page.next).toBe("work:6")
    const rest = (await ask(`/jobs/${job_id}/dead-letters?after=${page.next}&route=work`)).body
    expect([idsOf(rest.dead_letters), rest.next]).toEqual([["work:8"], null])
    expect((await ask(`/jobs/${job_id}/dead-letters?route=store`)).body.dead_letters).toEqual([])
    isMended = true
    const one = await post(stage, `/jobs/${job_id}/dead-letters/replay`, { messages: ["work:2", "work:3"] })
    expect(one).toMatchObject({
      status: 201,
      body: { replayed: 1, workflow: "flow", workflow_version: 1, labels: { replay_of: job_id } },
    })
    expect(one.headers.get("location")).toBe(`/jobs/${one.body.job_id}`)
    expect((await ask(`/jobs/${one.body.job_id}?wait=30`)).body).toMatchObject({
      status: "COMPLETED",
      output: { routes: { source: { messages: 0 }, work: { messages: 1, done: 1 }, store: { done: 1 } } },
    })
    await post(stage, "/workflows", changed)
    const all = await post(stage, `/jobs/${job_id}/dead-letters/replay`, { workflow: "flow" })
    expect(all.body).toMatchObject({ replayed: 3, workflow_version: 2 })
    expect((await ask(`/jobs/${all.body.job_id}?wait=30`)).body.output.routes.work.done).toBe(3)
    expect(await post(stage, `/jobs/${job_id}/dead-letters/replay`)).toMatchObject({ status: 409 })
    const { dead_letters } = (await ask(`/jobs/${job_id}/dead-letters`)).body
    const by = dead_letters.map((letter: { replayed_by: string }) => letter.replayed_by)
    expect(by).toEqual([one.body.job_id, all.body.job_id, all.body.job_id, all.body.job_id])
    isMended = false
  })

  it("P4 replays dead letters with other bodies, alone or with others", async () => {
    const { job_id } = await run("flow", { count: 8 })
    const replay = (body: unknown) => post(stage, `/jobs/${job_id}/dead-letters/replay`, body)
    expect((await replay({ bodies: { "work:99": 1 } })).body.code).toBe("E708")
    expect((await replay({ bodies: { "none:1": 1 } })).body.code).toBe("E706")
    expect((await replay({ bodies: { work: 1 } })).body.code).toBe("E706")
    expect((await replay({ bodies: { "work:2": "x".repeat(1_048_576) } })).body.code).toBe("E309")
    const odd = { n: 1, text: "\u001e\u0000" }
    const one = await replay({ bodies: { "work:2": odd } })
    expect(one).toMatchObject({ status: 201, body: { replayed: 1 } })
    expect((await ask(`/jobs/${one.body.job_id}?wait=30`)).body.output.routes.work).toMatchObject({ done: 1 })
    const message = (await ask(`/jobs/${one.body.job_id}/lineage?message=work:1`)).body
    expect(message.message).toMatchObject({ body: odd, replay_of: { job_id, message: "work:2" } })
    expect(message.inputs[0].body).toEqual({ n: 2 })
    const rest = await replay({ messages: ["work:4", "work:6"], bodies: { "work:6": { n: 7 } } })
    expect(rest.body.replayed).toBe(2)
    const { routes } = (await ask(`/jobs/${rest.body.job_id}?wait=30`)).body.output
    expect(routes.work).toMatchObject({ done: 1, dead_lettered: 1 })
    const { dead_letters } = (await ask(`/jobs/${job_id}/dead-letters`)).body
    expect(dead_letters.map((letter: { edited: boolean }) => letter.edited)).toEqual([
      true,
      false,
      true,
      false,
    ])
    expect(dead_letters[0].body).toEqual({ n: 2 })
  })

  it("P5 goes step by step through the messages next to one", async () => {
    const { job_id } = await run("flow", { count: 9 })
    const walk = async (query: string) => {
      const { inputs, outputs, is_cut } = (await ask(`/jobs/${job_id}/lineage?${query}`)).body
      return { inputs: idsOf(inputs), outputs: idsOf(outputs), is_cut }
    }
    const works = (...seqs: number[]) => seqs.map(seq => `work:${seq}`)
    expect(await walk("message=source:1&depth=1&limit=4")).toEqual({
      ...{ inputs: [], outputs: works(1, 2, 3, 4), is_cut: true },
    })
    expect((await walk("message=source:1&depth=1&limit=4&from=4")).outputs).toEqual(works(5, 6, 7, 8))
    expect(await walk("message=source:1&depth=1&limit=4&from=8")).toMatchObject({
      ...{ outputs: works(9), is_cut: false },
    })
    expect((await walk("message=source:1&depth=1&limit=4&from=9")).outputs).toEqual([])
    const { outputs, is_cut } = await walk("message=source:1&width=3")
    expect(outputs.slice(0, 3)).toEqual(works(1, 2, 3))
    expect(outputs.slice(3).every(id => id.startsWith("store:"))).toBe(true)
    expect([outputs.length, is_cut]).toEqual([5, true])
    const middle = await walk("message=work:3&direction=inputs")
    expect(middle).toEqual({ inputs: ["source:1"], outputs: [], is_cut: false })
    expect((await walk("message=work:3&direction=outputs")).outputs).toHaveLength(1)
    expect((await ask(`/jobs/${job_id}/lineage?message=work:3&direction=up`)).body.code).toBe("E633")
  })

  it("P1 lists executions with the sums of their routes, and those with dead letters", async () => {
    const { job_id } = await run("flow", { count: 4 })
    const { job_id: newer } = await run("flow", { count: 1 })
    await run("hello")
    const list = async (query = "") => (await ask(`/executions${query}`)).body
    const all = await list("?limit=2")
    expect(all.executions.map((each: { job_id: string }) => each.job_id)).toEqual([newer, job_id])
    expect(all.executions[1]).toMatchObject({
      ...{ workflow: "flow", status: "COMPLETED" },
      messages: { queued: 0, waiting: 0, done: 5, failed: 2 },
      dead_letters: { count: 2, first: { message: "work:2", error: { message: "2 is even" } } },
    })
    expect((await list(`?limit=1&after=${newer}`)).executions[0].job_id).toBe(job_id)
    const dead = await list("?dead_letters=true")
    expect(dead.executions[0].job_id).toBe(job_id)
    expect(dead.complete).toBe(true)
    isMended = true
    const { body } = await post(stage, `/jobs/${job_id}/dead-letters/replay`)
    await ask(`/jobs/${body.job_id}?wait=30`)
    isMended = false
    const left = (await list("?dead_letters=true")).executions
    expect(left.map((each: { job_id: string }) => each.job_id)).not.toContain(job_id)
    expect((await ask("/executions?after=0198c0de-7a11-7012-9abc-0123456789ab")).body.code).toBe("E301")
  })

  if (name === "PostgreSQL")
    it("S1 a process without an engine answers all of it", async () => {
      const { job_id } = await run("flow")
      const front = await openStage({ location: place.location, umbra: { adapters, roles: ["api"] } })
      onTestFinished(() => front.close())
      expect((await front.ask(`/jobs/${job_id}/graph`)).body.routes).toHaveLength(3)
      expect((await front.ask(`/jobs/${job_id}/lineage?message=work:1`)).body.inputs).toHaveLength(1)
      expect((await front.ask(`/jobs/${job_id}/dead-letters`)).body.dead_letters).toHaveLength(3)
      const replay = await post(front, `/jobs/${job_id}/dead-letters/replay`)
      expect(replay).toMatchObject({ status: 201, body: { replayed: 3 } })
      expect((await front.ask(`/jobs/${replay.body.job_id}?wait=30`)).body.status).toBe("COMPLETED")
    })
})

describe("metrics of pipelines", () => {
  it("P6 count messages, failures, dead letters and breakers by pipeline and route, over all executions", async () => {
    isMended = false
    const stage = await openStage({ umbra: { adapters } })
    onTestFinished(() => stage.close())
    const handling = { retries: 0, circuit_breaker: { min_calls: 1, failure_rate: 0.1, open_seconds: 0.01 } }
    const shakyWork = { ...work, adapters: [{ type: "shaky" }], error_handling: handling }
    const definition = { ...flow, routes: [source, shakyWork, store] }
    await post(stage, "/workflows", definition)
    await post(stage, "/workflows", waits)
    for (let i = 0; i < 2; i++)
      expect((await post(stage, "/jobs?wait=30", { workflow: "flow" })).body.status).toBe("COMPLETED")
    await post(stage, "/jobs", { workflow: "waits" })
    const metrics = async (name: string, labels: string) => {
      const text: string = (await stage.ask("/metrics")).body
      const line = text.split("\n").find(each => each.startsWith(`${name}${labels}`))
      return Number(line?.slice(name.length + labels.length))
    }
    const messages = (labels: string) => metrics("umbra_pipeline_messages_total", labels)
    expect(await messages('{pipeline="flow",route="work",outcome="done"}')).toBe(6)
    expect(await messages('{pipeline="flow",route="work",outcome="failed"}')).toBe(6)
    const tries = "umbra_pipeline_failed_tries_total"
    expect(await metrics(tries, '{pipeline="flow",route="work"}')).toBe(6)
    const changes = "umbra_pipeline_breaker_changes_total"
    expect(await metrics(changes, '{pipeline="flow",route="work",state="open"}')).toBeGreaterThan(0)
    const only = '{pipeline="waits",route="only"}'
    await until("it is in hand", async () => (await metrics("umbra_pipeline_in_flight", only)) === 1)
    expect(await metrics("umbra_pipeline_executions", "")).toBe(1)
    expect(await metrics("umbra_pipeline_queued", only)).toBe(0)
    letGo()
    await until("it is over", async () => (await metrics("umbra_pipeline_executions", "")) === 0)
    expect(await messages('{pipeline="waits",route="only",outcome="done"}')).toBe(1)
    expect(await metrics("umbra_pipeline_in_flight", only)).toBe(0)
  })
})

describe("who may do what with executions", () => {
  it("S3 another owner's execution is no job; a replay needs the scope submit and counts as a job", async () => {
    isMended = false
    const stage = await openStage({ withTokens: true, umbra: { adapters } })
    onTestFinished(() => stage.close())
    const all = ["read", "submit", "manage"] as const
    const [ada, bob] = [await stage.token("ada", ...all), await stage.token("bob", ...all)]
    const reader = await stage.token("ada", "read")
    await post(stage, "/workflows", flow, ada)
    const { job_id } = (await post(stage, "/jobs?wait=30", { workflow: "flow" }, ada)).body
    const paths = [`/jobs/${job_id}/lineage?message=work:2`, `/jobs/${job_id}/dead-letters`]
    for (const path of paths) {
      expect((await stage.ask(path, { token: reader })).status).toBe(200)
      expect(await stage.ask(path, { token: bob })).toMatchObject({ status: 404, body: { code: "E301" } })
      expect((await stage.ask(path)).status).toBe(401)
    }
    for (const query of ["", "?dead_letters=true"]) {
      const list = (token: string) => stage.ask(`/executions${query}`, { token })
      expect((await list(reader)).body.executions).toMatchObject([{ job_id }])
      expect((await list(bob)).body).toEqual({ executions: [], next: null, complete: true })
    }
    expect((await stage.ask(`/executions?after=${job_id}`, { token: bob })).body.code).toBe("E301")
    const replay = `/jobs/${job_id}/dead-letters/replay`
    expect(await post(stage, replay, { bodies: { "work:2": { n: 1 } } }, bob)).toMatchObject({
      ...{ status: 404, body: { code: "E301" } },
    })
    expect(await post(stage, replay, undefined, bob)).toMatchObject({ status: 404, body: { code: "E301" } })
    expect((await post(stage, replay, undefined, reader)).status).toBe(403)
    expect(await post(stage, replay, undefined, ada)).toMatchObject({ status: 201, body: { owner: "ada" } })
  })

  it("P1 beyond the cap of executions a submission or replay is 429, and places come back at once", async () => {
    isMended = false
    const stage = await openStage({ umbra: { adapters, pipeline: { maxExecutions: 1 } } })
    onTestFinished(() => stage.close())
    for (const definition of [flow, waits]) await post(stage, "/workflows", definition)
    const { job_id } = (await post(stage, "/jobs?wait=30", { workflow: "flow" })).body
    const replay = `/jobs/${job_id}/dead-letters/replay`
    for (let i = 0; i < 3; i++)
      expect((await post(stage, replay, { messages: ["work:1"] })).body.code).toBe("E708")
    const busy = (await post(stage, "/jobs", { workflow: "waits" })).body
    for (const [path, body] of [["/jobs", { workflow: "flow" }], [replay]] as const) {
      const refused = await post(stage, path, body)
      expect(refused).toMatchObject({ status: 429, body: { code: "E702" } })
      expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0)
    }
    const many = await post(stage, "/jobs/bulk", { jobs: [{ workflow: "flow" }] })
    expect(many.body.results[0].problem).toMatchObject({ code: "E702", status: 429 })
    letGo()
    expect((await stage.ask(`/jobs/${busy.job_id}?wait=30`)).body.status).toBe("COMPLETED")
    expect((await post(stage, replay)).status).toBe(201)
  })

  it("P1 beyond the cap of executions a retry is 429, too", async () => {
    const stage = await openStage({ umbra: { adapters, pipeline: { maxExecutions: 1 } } })
    onTestFinished(() => stage.close())
    await post(stage, "/workflows", waits)
    const cancelled = (await post(stage, "/jobs", { workflow: "waits" })).body.job_id
    expect((await post(stage, `/jobs/${cancelled}/cancel`)).body.status).toBe("CANCELLED")
    expect((await post(stage, "/jobs", { workflow: "waits" })).status).toBe(201)
    const refused = await post(stage, `/jobs/${cancelled}/retry`)
    expect(refused).toMatchObject({ status: 429, body: { code: "E702" } })
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0)
    letGo()
  })

  it("E646 a replay is refused beyond the limit of unfinished jobs, and its dead letters stay free", async () => {
    isMended = false
    const stage = await openStage({ umbra: { adapters }, settings: { maxUnfinishedJobs: 1 } })
    onTestFinished(() => stage.close())
    for (const definition of [flow, waits]) await post(stage, "/workflows", definition)
    const { job_id } = (await post(stage, "/jobs?wait=30", { workflow: "flow" })).body
    const busy = (await post(stage, "/jobs", { workflow: "waits" })).body
    const replay = `/jobs/${job_id}/dead-letters/replay`
    expect(await post(stage, replay)).toMatchObject({ status: 429, body: { code: "E646" } })
    letGo()
    await stage.ask(`/jobs/${busy.job_id}?wait=30`)
    expect(await post(stage, replay)).toMatchObject({ status: 201, body: { replayed: 3 } })
  })
})

describe("E711 over HTTP, where no worker with Redis can ever connect", () => {
  it("is what a submission, one of many, and a replay are answered, and the document says so", async () => {
    const stage = await openStage({ umbra: { adapters } })
    onTestFinished(() => stage.close())
    for (const definition of [flow, { ...flow, routes: [source, { ...work, run_on: "workers" }, store] }])
      await post(stage, "/workflows", definition)
    const { job_id } = (await post(stage, "/jobs?wait=30", { workflow: "flow@1" })).body
    const refused = { status: 422, body: { code: "E711" } }
    expect(await post(stage, "/jobs", { workflow: "flow@2" })).toMatchObject(refused)
    const many = await post(stage, "/jobs/bulk", { jobs: [{ workflow: "flow@2" }] })
    expect(many).toMatchObject({ status: 200, body: { results: [{ problem: { code: "E711" } }] } })
    const replay = `/jobs/${job_id}/dead-letters/replay`
    expect(await post(stage, replay, { workflow: "flow@2" })).toMatchObject(refused)
    const { paths } = (await stage.ask("/openapi.json")).body
    for (const path of ["/jobs", "/jobs/bulk", "/jobs/{job}/dead-letters/replay"])
      expect(paths[path].post.responses[422].description, path).toContain("E711")
  })
})
