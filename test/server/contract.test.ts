/** The API through real HTTP, the same on both databases. Every answer is checked against the OpenAPI document. */
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { hello, openStage, type Stage, type Store, stores } from "./stage.ts"

const approval = { name: "approval", nodes: [{ id: "ask", handler: "approval" }] }
const broken = { name: "broken", nodes: [{ id: "b", handler: "broken", retry: { max_attempts: 1 } }] }
const json = { "content-type": "application/json" }

describe.each(Object.entries(stores))("the API on %s", (_, open) => {
  let store: Store
  let stage: Stage
  const ask: Stage["ask"] = (path, asked) => stage.ask(path, asked)
  const post = (path: string, body?: unknown, headers = {}) => ask(path, { method: "POST", body, headers })
  const push = (definition: unknown) => post("/workflows", JSON.stringify(definition), json)
  const submit = async (body: object, query = "") => (await post(`/jobs${query}`, body)).body

  beforeAll(async () => {
    store = await open()
    stage = await openStage({ location: store.location })
    for (const definition of [hello, approval, broken]) await push(definition)
  })
  afterAll(async () => {
    await stage?.close()
    await store?.remove()
  })

  it("S2 stores a workflow from JSON or YAML, once per content", async () => {
    const text = "name: yaml\nnodes:\n  - id: a\n    handler: transform\n    config:\n      value: 1\n"
    const yaml = await post("/workflows", text, { "content-type": "application/yaml" })
    expect(yaml).toMatchObject({ status: 201, body: { name: "yaml", version: 1, unchanged: false } })
    const definition = { name: "yaml", nodes: [{ id: "a", handler: "transform", config: { value: 1 } }] }
    expect(await push(definition)).toMatchObject({
      status: 200,
      body: { version: 1, hash: yaml.body.hash, unchanged: true },
    })
    const changed = { ...definition, nodes: [{ ...definition.nodes[0], config: { value: 2 } }] }
    expect(await push(changed)).toMatchObject({ status: 201, body: { version: 2 } })
    expect((await ask("/workflows/yaml")).body).toMatchObject({ version: 2, definition: { name: "yaml" } })
    expect((await ask("/workflows/yaml/versions")).body.versions).toMatchObject([
      { version: 2 },
      { version: 1 },
    ])
    expect((await ask("/workflows/yaml/versions?limit=1")).body).toMatchObject({ next: 2 })
    expect((await ask("/workflows/yaml/versions/1")).body).toMatchObject({ version: 1, hash: yaml.body.hash })
    expect(await ask("/workflows/yaml/versions/3")).toMatchObject({ status: 404, body: { code: "E305" } })
  })

  it("S2 answers an invalid workflow with all its problems, each with its place, and stores nothing", async () => {
    const text = "name: wrong\nnodes:\n  - id: a\n    handler: nothing\n  - id: a\n    handler: input\n"
    for (const path of ["/workflows", "/workflows/validate"]) {
      const { status, headers, body } = await post(path, text, { "content-type": "text/yaml" })
      expect(status).toBe(422)
      expect(headers.get("content-type")).toBe("application/problem+json")
      expect(body.errors.map(({ code }: { code: string }) => code).sort()).toEqual(["E103", "E104"])
      expect(body.errors[0]).toMatchObject({ line: expect.any(Number), column: expect.any(Number) })
    }
    expect((await ask("/workflows/wrong")).status).toBe(404)
    const valid = await post("/workflows/validate", JSON.stringify({ ...hello, name: "unstored" }), json)
    expect(valid).toMatchObject({ status: 200, body: { valid: true, name: "unstored", nodes: 1 } })
    expect((await ask("/workflows/unstored")).status).toBe(404)
  })

  it("S2 lists workflows by name, page by page", async () => {
    const names: string[] = []
    for (let next: string | null = ""; next !== null; ) {
      const { body } = await ask(`/workflows?limit=2${next && `&after=${next}`}`)
      names.push(...body.workflows.map(({ name }: { name: string }) => name))
      next = body.next
    }
    expect(names).toEqual([...new Set(names)])
    expect(names).toEqual(expect.arrayContaining(["approval", "broken", "hello"]))
  })

  it("J20 compares two versions", async () => {
    const node = (id: string, value: number, more = {}) => ({
      id,
      handler: "transform",
      config: { value },
      ...more,
    })
    await push({ name: "diff", nodes: [node("same", 1), node("gone", 1), node("other", 1)] })
    await push({
      name: "diff",
      nodes: [node("same", 1), node("new", 1), node("other", 2, { timeout_seconds: 5 })],
      output: { x: "{{ nodes.same.output }}" },
    })
    expect((await ask("/workflows/diff/diff?from=1&to=2")).body).toEqual({
      name: "diff",
      from: 1,
      to: 2,
      nodes_added: ["new"],
      nodes_removed: ["gone"],
      nodes_changed: [{ id: "other", keys: ["config", "timeout_seconds"] }],
      routes_added: [],
      routes_removed: [],
      routes_changed: [],
      keys_changed: ["output"],
    })
    expect((await ask("/workflows/diff/diff?from=1&to=9")).status).toBe(404)
  })

  it("J20 a version with weight 0 is never drawn; all weights 0 are refused", async () => {
    for (const value of [1, 2])
      await push({ name: "weighed", nodes: [{ id: "a", handler: "transform", config: { value } }] })
    const move = (body: unknown) => ask("/workflows/weighed/aliases/canary", { method: "PUT", body })
    expect((await move({ 1: 0, 2: 5 })).body).toMatchObject({ weights: { 1: 0, 2: 5 } })
    for (let n = 0; n < 10; n++)
      expect(await submit({ workflow: "weighed@canary" })).toMatchObject({ workflow_version: 2 })
    expect(await move({ 1: 0, 2: 0 })).toMatchObject({ status: 422, body: { code: "E311" } })
  })

  it("J20 moves aliases and shows who moved them; jobs show the version they got", async () => {
    for (const value of [1, 2])
      await push({ name: "aliased", nodes: [{ id: "a", handler: "transform", config: { value } }] })
    const move = (alias: string, body: unknown) =>
      ask(`/workflows/aliased/aliases/${alias}`, { method: "PUT", body })
    expect(await move("stable", { version: 1 })).toMatchObject({ status: 200, body: { weights: { 1: 1 } } })
    expect(await submit({ workflow: "aliased@stable" }, "?wait=20")).toMatchObject({
      workflow_version: 1,
      output: { a: 1 },
    })
    expect((await move("stable", { weights: { 1: 1, 2: 3 } })).status).toBe(200)
    const { moves } = (await ask("/workflows/aliased/aliases/stable/history")).body
    expect(moves).toMatchObject([
      { by: "local", from: { 1: 1 }, to: { 1: 1, 2: 3 } },
      { by: "local", from: null, to: { 1: 1 } },
    ])
    expect((await ask("/workflows/aliased")).body.aliases).toMatchObject([{ alias: "stable" }])
    expect(await move("stable", { version: 7 })).toMatchObject({ status: 422, body: { code: "E311" } })
    expect(await move("latest", { version: 1 })).toMatchObject({ status: 422, body: { code: "E311" } })
    expect((await move("stable", { weights: {} })).status).toBe(400)
    expect((await move("1", { version: 1 })).status).toBe(400)
    expect((await ask("/workflows/none/aliases/stable/history")).status).toBe(404)
    const remove = (alias: string) => ask(`/workflows/aliased/aliases/${alias}`, { method: "DELETE" })
    expect((await remove("stable")).status).toBe(204)
    expect(await remove("stable")).toMatchObject({ status: 404, body: { code: "E305" } })
    expect(await remove("latest")).toMatchObject({ status: 422, body: { code: "E311" } })
    expect((await ask("/workflows/aliased")).body.aliases).toEqual([])
    expect((await ask("/workflows/aliased/aliases/stable/history")).body.moves[0]).toMatchObject({ to: null })
    expect((await post("/jobs", { workflow: "aliased@stable" })).status).toBe(404)
  })

  it("J20 deletes a workflow while its jobs continue, and continues counting", async () => {
    await push({ ...approval, name: "doomed" })
    const { job_id } = await submit({ workflow: "doomed" })
    expect((await ask("/workflows/doomed", { method: "DELETE" })).status).toBe(204)
    expect((await ask("/workflows/doomed", { method: "DELETE" })).status).toBe(404)
    expect((await ask("/workflows/doomed")).status).toBe(404)
    expect(await post("/jobs", { workflow: "doomed" })).toMatchObject({ status: 404, body: { code: "E305" } })
    expect(await post("/jobs", { workflow: "doomed@1" })).toMatchObject({ status: 404 })
    await post(`/jobs/${job_id}/signals/approved`, { by: "Ada" })
    expect((await ask(`/jobs/${job_id}?wait=20`)).body).toMatchObject({
      status: "COMPLETED",
      workflow_version: 1,
    })
    expect(await push({ ...approval, name: "doomed" })).toMatchObject({ status: 201, body: { version: 2 } })
  })

  it("S2 submits a job and answers when it has ended, with wait", async () => {
    const now = await post("/jobs", {
      workflow: "hello",
      input: { name: "Ada" },
      labels: { team: "x" },
      priority: 5,
    })
    expect(now).toMatchObject({
      status: 201,
      body: { status: "PROCESSING", labels: { team: "x" }, priority: 5 },
    })
    expect(now.headers.get("location")).toBe(`/jobs/${now.body.job_id}`)
    const later = await ask(`/jobs/${now.body.job_id}?wait=20`)
    expect(later.body).toMatchObject({
      ...now.body,
      status: "COMPLETED",
      output: { greet: "Hello Ada" },
      updated_at: later.body.finished_at,
      finished_at: expect.any(String),
    })
    expect(await submit({ workflow: "hello", input: { name: "Bob" } }, "?wait=20")).toMatchObject({
      status: "COMPLETED",
      output: { greet: "Hello Bob" },
    })
    const waiting = await submit({ workflow: "approval" }, "?wait=0.05")
    expect(waiting.finished_at).toBeNull()
  })

  it("S2 the same Idempotency-Key gives the same job, with another body 409", async () => {
    const headers = { "idempotency-key": "order 7" }
    const body = { workflow: "hello", input: { name: "Ada" } }
    const [a, b] = await Promise.all([post("/jobs", body, headers), post("/jobs", body, headers)])
    expect(a.body.job_id).toBe(b.body.job_id)
    expect([a.status, b.status].sort()).toEqual([200, 201])
    expect((await post("/jobs", body, headers)).status).toBe(200)
    expect(await post("/jobs", { ...body, input: { name: "Eve" } }, headers)).toMatchObject({
      status: 409,
      body: { code: "E306" },
    })
  })

  it("S2 submits many at once, each on its own", async () => {
    const jobs = [
      { workflow: "hello", input: { name: "A" }, idempotency_key: "bulk" },
      { workflow: "nothing" },
      { workflow: "hello", input: { name: "A" }, idempotency_key: "bulk" },
    ]
    const { body } = await post("/jobs/bulk", { jobs })
    expect(body.results[1]).toMatchObject({ problem: { code: "E305", status: 404 } })
    expect(body.results[0].job_id).toBe(body.results[2].job_id)
    const many = Array.from({ length: 1000 }, () => ({ workflow: "hello", input: { name: "B" } }))
    const { results } = (await post("/jobs/bulk", { jobs: many })).body
    expect(new Set(results.map(({ job_id }: { job_id: string }) => job_id)).size).toBe(1000)
    expect((await post("/jobs/bulk", { jobs: [...many, ...many] })).status).toBe(400)
  })

  it("J14 lists the children of a job, and jobs without a parent", async () => {
    const nested = {
      name: "nested",
      nodes: [{ id: "c", handler: "workflow", config: { workflow: "asked" } }],
    }
    const asked = { name: "asked", nodes: [{ id: "ask", handler: "approval" }] }
    for (const body of [asked, nested]) await post("/workflows", body)
    const { job_id } = await submit({ workflow: "nested" })
    let waiting: { job_id: string }[] = []
    while (waiting.length === 0) waiting = (await ask(`/jobs/${job_id}/graph`)).body.waiting_for
    expect(waiting).toMatchObject([{ node: "c", kind: "child", workflow: "asked", workflow_version: 1 }])
    const child = waiting[0]!.job_id
    expect((await ask(`/jobs/${child}`)).body).toMatchObject({ parent_id: job_id })
    expect((await ask(`/jobs?parent=${job_id}`)).body.jobs).toMatchObject([{ job_id: child }])
    const top = (await ask("/jobs?parent=none&workflow=asked")).body.jobs
    expect(top).toEqual([])
    await post(`/jobs/${child}/signals/approved`, { by: "Ada" })
    expect((await ask(`/jobs/${job_id}?wait=20`)).body).toMatchObject({
      status: "COMPLETED",
      output: { c: { ask: { by: "Ada" } } },
    })
  })

  it("J21 lists the items of a node page by page", async () => {
    const each = {
      name: "each",
      nodes: [
        { id: "each", handler: "transform", config: { value: "{{ item * 2 }}" }, for_each: "{{ range(5) }}" },
      ],
    }
    await push(each)
    const { job_id, output } = await submit({ workflow: "each" }, "?wait=20")
    expect(output).toEqual({ each: [0, 2, 4, 6, 8] })
    const path = `/jobs/${job_id}/nodes/each/items`
    const first = (await ask(`${path}?limit=3`)).body
    expect(first).toMatchObject({ items: [{ index: 0, item: 0, status: "COMPLETED" }, {}, {}], next: 2 })
    const rest = (await ask(`${path}?limit=3&after=${first.next}`)).body
    expect(rest).toMatchObject({ items: [{ index: 3 }, { index: 4 }], next: null })
    expect((await ask(`/jobs/${job_id}/nodes/each`)).body).toMatchObject({
      items: { total: 5, completed: 5 },
    })
    expect(await ask(`/jobs/${job_id}/nodes/none/items`)).toMatchObject({
      status: 404,
      body: { code: "E310" },
    })
    expect(await ask(`${path}?after=x`)).toMatchObject({ status: 400 })
  })

  it("S2 lists jobs newest first with a cursor, by status, workflow, label and time", async () => {
    const labels = { list: "yes" }
    const before = new Date().toISOString()
    const ids: string[] = []
    for (let n = 0; n < 5; n++)
      ids.unshift(
        (await submit({ workflow: n === 2 ? "broken" : "hello", input: { name: "x" }, labels }, "?wait=20"))
          .job_id,
      )
    const list = async (query: string) =>
      (await ask(`/jobs?label=list%3Dyes${query}`)).body.jobs.map(({ job_id }: { job_id: string }) => job_id)
    expect(await list("")).toEqual(ids)
    const first = (await ask("/jobs?label=list%3Dyes&limit=2")).body
    expect(first).toMatchObject({ next: ids[1] })
    expect(await list(`&limit=3&after=${first.next}`)).toEqual(ids.slice(2))
    expect(await list("&status=failed")).toEqual([ids[2]])
    expect(await list("&status=failed,completed&workflow=broken")).toEqual([ids[2]])
    expect(await list(`&created_from=${before}`)).toEqual(ids)
    expect(await list(`&created_before=${before}`)).toEqual([])
    expect(await list("&label=other%3D1")).toEqual([])
    for (const query of [
      "status=NO",
      "label=no",
      "after=no",
      "parent=no",
      "created_from=now",
      "limit=0",
      "limit=x",
    ])
      expect(await ask(`/jobs?${query}`), query).toMatchObject({ status: 400, body: { code: "E633" } })
  })

  it("J19 shows the graph with the reason why a node waits, its events and a node's output", async () => {
    const { job_id } = await submit({ workflow: "approval" })
    const graph = async () => (await ask(`/jobs/${job_id}/graph`)).body
    await expect.poll(graph).toMatchObject({
      workflow_status: "WAITING_SINGLE",
      nodes: [{ id: "ask", waiting_on: { kind: "signal", name: "approved" } }],
    })
    await post(`/jobs/${job_id}/signals/approved`, { by: "Ada" })
    await ask(`/jobs/${job_id}?wait=20`)
    expect(await graph()).toMatchObject({ status: "COMPLETED", progress_pct: 100 })
    expect((await ask(`/jobs/${job_id}/nodes/ask`)).body).toMatchObject({
      status: "COMPLETED",
      output: { by: "Ada" },
      attempt: 1,
      max_attempts: 3,
      losses: 0,
      duration_ms: expect.any(Number),
      waited_ms: expect.any(Number),
      attempts_total: 1,
      attempts: [
        {
          attempt: 1,
          outcome: "completed",
          started_at: expect.stringMatching(/^\d{4}-.*Z$/),
          worker: expect.any(String),
          waits: [{ kind: "signal", name: "approved", until: expect.stringMatching(/^\d{4}-.*Z$/) }],
        },
      ],
    })
    expect(await ask(`/jobs/${job_id}/nodes/ask?item=0`)).toMatchObject({
      status: 404,
      body: { code: "E310" },
    })
    expect(await ask(`/jobs/${job_id}/nodes/none`)).toMatchObject({ status: 404, body: { code: "E310" } })
    const { events } = (await ask(`/jobs/${job_id}/events`)).body
    expect(events.at(-1).type).toBe("job.completed")
    const isTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
    for (const { at } of events) expect(at).toMatch(isTime)
    expect(events[0].payload.expires_at).toMatch(isTime)
    const [node] = (await graph()).nodes
    for (const time of [node.queued_at, node.finished_at]) expect(time).toMatch(isTime)
    const rest = (await ask(`/jobs/${job_id}/events?after=${events[0].seq}`)).body.events
    expect(rest.length).toBeLessThan(events.length)
  })

  it("S2 cancels, retries and deletes; what comes too late or too early is 409", async () => {
    const { job_id } = await submit({ workflow: "approval" })
    expect(await ask(`/jobs/${job_id}`, { method: "DELETE" })).toMatchObject({
      status: 409,
      body: { code: "E303" },
    })
    expect(await post(`/jobs/${job_id}/retry`)).toMatchObject({ status: 409 })
    expect(await post(`/jobs/${job_id}/cancel`, { reason: "enough" })).toMatchObject({
      status: 200,
      body: { status: "CANCELLED" },
    })
    expect(await post(`/jobs/${job_id}/cancel`)).toMatchObject({ status: 409, body: { code: "E302" } })
    expect((await post(`/jobs/${job_id}/retry`)).status).toBe(200)
    await post(`/jobs/${job_id}/signals/approved`)
    expect((await ask(`/jobs/${job_id}?wait=20`)).body).toMatchObject({
      status: "COMPLETED",
      output: { ask: null },
    })
    for (const _ of ["first", "sent again"])
      expect((await ask(`/jobs/${job_id}`, { method: "DELETE" })).status).toBe(204)
    expect((await ask("/jobs?workflow=approval&limit=1000")).body.jobs).not.toContainEqual(
      expect.objectContaining({ job_id }),
    )
    expect((await ask(`/jobs?deleted=true&limit=1000`)).body.jobs).toContainEqual(
      expect.objectContaining({ job_id }),
    )
  })

  it("S2 pauses and resumes jobs and workflows, says why they wait, and changes labels and notes", async () => {
    const { job_id } = await submit({ workflow: "approval", labels: { team: "shop" } })
    await expect.poll(async () => (await ask(`/jobs/${job_id}/why`)).body.reasons[0]?.kind).toBe("signal")
    expect((await ask(`/jobs/${job_id}/why?node=ask`)).body).toMatchObject({
      job_id,
      action: expect.stringContaining(`umbra jobs signal ${job_id} approved`),
      chain: [{ node: "ask", kind: "signal" }],
    })
    expect(await ask(`/jobs/${job_id}/why?node=nobody`)).toMatchObject({
      status: 404,
      body: { code: "E310" },
    })
    expect(await ask(`/jobs/${job_id}/why?at=soon`)).toMatchObject({ status: 400 })
    expect((await ask(`/jobs/${job_id}/why?at=%231`)).body.unknown.length).toBeGreaterThan(0)
    for (const _ of ["first", "sent again"])
      expect(await post(`/jobs/${job_id}/pause`, { reason: "lunch" })).toMatchObject({
        status: 200,
        body: { paused: { reason: "lunch", by: expect.any(String) } },
      })
    expect((await ask(`/jobs/${job_id}/graph`)).body.paused).toMatchObject({ reason: "lunch" })
    const patch = (body: unknown) => ask(`/jobs/${job_id}`, { method: "PATCH", body })
    expect(await patch({ labels: { team: "ops" }, note: "after lunch" })).toMatchObject({
      status: 200,
      body: { labels: { team: "ops" }, note: { text: "after lunch" } },
    })
    expect((await patch({ labels: { team: 7 } })).status).toBe(400)
    expect((await patch({})).status).toBe(422)
    expect((await ask("/jobs?label=team%3Dops")).body.jobs).toMatchObject([{ job_id }])
    expect((await post(`/jobs/${job_id}/resume`)).body.paused).toBeNull()
    expect((await post("/workflows/approval/pause")).body.paused).toMatchObject({ reason: null })
    const held = await submit({ workflow: "approval" })
    expect((await ask(`/jobs/${held.job_id}`)).body.paused).toMatchObject({ reason: "workflow paused" })
    expect((await post("/workflows/approval/resume")).body.paused).toBeNull()
    await expect.poll(async () => (await ask(`/jobs/${held.job_id}`)).body.paused).toBeNull()
    for (const id of [job_id, held.job_id]) await post(`/jobs/${id}/cancel`)
    expect(await post(`/jobs/${job_id}/pause`)).toMatchObject({ status: 409, body: { code: "E302" } })
    expect((await post("/workflows/nobody/pause")).status).toBe(404)
  })

  it("S2 starts jobs later, moves their start, and refuses what is no time", async () => {
    const start_at = new Date(Date.now() + 3_600_000).toISOString()
    const later = await submit({ workflow: "hello", input: { name: "Ada" }, start_at })
    const { job_id } = later
    expect(later).toMatchObject({ status: "PENDING", start_at, finished_at: null })
    expect((await ask(`/jobs/${job_id}`)).body).toMatchObject({ status: "PENDING", start_at })
    expect((await ask("/jobs?status=PENDING")).body.jobs).toMatchObject([{ job_id, start_at }])
    expect((await ask(`/jobs/${job_id}/graph`)).body).toMatchObject({
      nodes: [{ status: "PENDING", waiting_on: { kind: "start_time", until: start_at } }],
    })
    expect((await ask(`/jobs/${job_id}/why`)).body.reasons).toMatchObject([
      { kind: "start_time", until: start_at },
    ])
    expect((await ask(`/jobs/${job_id}/why?at=%231`)).body.reasons).toMatchObject([{ kind: "start_time" }])
    const moved = await post(`/jobs/${job_id}/reschedule`, { delay_seconds: 7200 })
    expect(moved).toMatchObject({ status: 200, body: { status: "PENDING" } })
    expect(Date.parse(moved.body.start_at)).toBeGreaterThan(Date.parse(start_at))
    const wrong = [
      { start_at: "tomorrow" },
      { start_at: "2030-01-01T12:00:00" },
      { start_at: "+012030-01-01T00:00:00Z" },
      { start_at: 17 },
      { delay_seconds: -1 },
      { delay_seconds: 1e11 },
      { delay_seconds: "60" },
      { start_at, delay_seconds: 5 },
    ]
    for (const given of wrong) {
      const refused = await post("/jobs", { workflow: "hello", input: { name: "Ada" }, ...given })
      expect([400, 422], JSON.stringify(given)).toContain(refused.status)
      expect(refused.body.detail).toMatch(/start_at|delay_seconds/)
      expect([400, 422]).toContain((await post(`/jobs/${job_id}/reschedule`, given)).status)
    }
    expect((await post(`/jobs/${job_id}/reschedule`, {})).body).toMatchObject({ code: "E309" })
    const { results } = (
      await post("/jobs/bulk", {
        jobs: [
          { workflow: "hello", input: { name: "Ada" }, delay_seconds: 3600 },
          { workflow: "hello", input: { name: "Ada" }, start_at, delay_seconds: 1 },
        ],
      })
    ).body
    expect(results).toMatchObject([{ is_new: true }, { problem: { code: "E309" } }])
    expect((await ask(`/jobs/${results[0].job_id}`, { method: "DELETE" })).status).toBe(204)
    expect((await ask("/jobs?status=PENDING")).body.jobs).toMatchObject([{ job_id }])
    await post(`/jobs/${job_id}/reschedule`, { delay_seconds: 0 })
    expect((await ask(`/jobs/${job_id}?wait=30`)).body).toMatchObject({ status: "COMPLETED" })
    expect(await post(`/jobs/${job_id}/reschedule`, { delay_seconds: 5 })).toMatchObject({
      status: 409,
      body: { code: "E302" },
    })
    const begun = await submit({ workflow: "approval" })
    expect(await post(`/jobs/${begun.job_id}/reschedule`, { delay_seconds: 5 })).toMatchObject({
      status: 409,
      body: { code: "E319" },
    })
    await post(`/jobs/${begun.job_id}/cancel`)
  })

  it("S2 says that it lives, that it is ready, and what it measures", async () => {
    expect(await ask("/health")).toMatchObject({ status: 200, body: { status: "ok" } })
    expect((await ask("/ready")).body).toMatchObject({ ready: true, database: "reachable", partitions: 64 })
    const metrics = (await ask("/metrics")).body
    expect(metrics).toMatch(/^umbra_jobs_ended_total\{status="COMPLETED"\} [1-9]/m)
    expect(metrics).toMatch(
      /^umbra_http_request_seconds_count\{method="POST",route="\/jobs",status="201"\} [1-9]/m,
    )
    expect(metrics).toMatch(/^umbra_partitions 64$/m)
  })

  it("S2 answers an unknown page, an unknown job and a malformed id with problem documents", async () => {
    const unknown = "0198c0de-7a11-7012-9abc-0123456789ab"
    expect(await ask("/nothing")).toMatchObject({ status: 404, body: { code: "E634" } })
    for (const [path, method, allowed] of [
      ["/jobs", "PATCH", "GET, HEAD, POST"],
      ["/health?x=1", "POST", "GET, HEAD"],
      [`/jobs/${unknown}/cancel`, "DELETE", "POST"],
      ["/workflows/a/aliases/b", "POST", "DELETE, PUT"],
    ] as const) {
      const answer = await ask(path, { method })
      expect(answer, path).toMatchObject({ status: 405, body: { code: "E647" } })
      expect(answer.headers.get("allow")).toBe(allowed)
    }
    for (const path of [`/jobs/${unknown}`, `/jobs/${unknown}/graph`, "/jobs/abc", "/jobs/%00/events"])
      expect(await ask(path), path).toMatchObject({ status: 404, body: { code: "E301", status: 404 } })
    for (const command of ["cancel", "retry", "signals/x"])
      expect(await post(`/jobs/${unknown}/${command}`), command).toMatchObject({ status: 404 })
  })
})
