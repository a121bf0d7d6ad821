/** Bulk operations and comparisons over HTTP: answers as the OpenAPI document says, owners apart, wrong input refused. */
import { expect, it, onTestFinished } from "vitest"
import { connect } from "../../src/client/index.ts"
import { Tokens } from "../../src/server/auth/tokens.ts"
import { until } from "../engine/stage.ts"
import { openStage, type Stage } from "./stage.ts"

const fails = {
  name: "fails",
  nodes: [{ id: "a", handler: "broken", retry: { max_attempts: 1 } }],
}

async function stageWith(...owners: string[]) {
  const stage = await openStage({ withTokens: true })
  onTestFinished(() => stage.close())
  const tokens: Record<string, string> = {}
  for (const owner of owners) tokens[owner] = await stage.token(owner, "read", "submit", "manage")
  return { stage, tokens }
}

async function failed({ ask }: Stage, token: string, count: number): Promise<string[]> {
  await ask("/workflows", { method: "POST", token, body: fails })
  const ids: string[] = []
  for (let i = 0; i < count; i++) {
    const { body } = await ask("/jobs?wait=30", { method: "POST", token, body: { workflow: "fails" } })
    expect(body.status).toBe("FAILED")
    ids.push(body.job_id)
  }
  return ids
}

const post = (token: string, body: unknown, headers: Record<string, string> = {}) => {
  return { method: "POST", token, body, headers }
}

async function untilEnded({ ask }: Stage, token: string, id: string) {
  await until("the operation has ended", async () => (await ask(`/bulk/${id}`, { token })).body.finished_at)
  return (await ask(`/bulk/${id}`, { token })).body
}

it("counts, starts, shows, lists and aborts operations, and lists what was refused", async () => {
  const { stage, tokens } = await stageWith("ada")
  const { ask } = stage
  const token = tokens.ada!
  await failed(stage, token, 3)
  const body = { verb: "retry", filter: { status: ["FAILED"], workflow: "fails" }, rate: 1000 }
  const dry = await ask("/bulk", post(token, { ...body, dry_run: true }))
  expect(dry).toMatchObject({ status: 200, body: { count: 3, complete: true, by_status: { FAILED: 3 } } })
  expect((await ask("/bulk", { token })).body.operations).toEqual([])

  const key = { "idempotency-key": "k" }
  const started = await ask("/bulk", post(token, body, key))
  const id = started.body.bulk_id
  expect([started.status, started.headers.get("location")]).toEqual([201, `/bulk/${id}`])
  expect(await untilEnded(stage, token, id)).toMatchObject({ status: "COMPLETED", done: 3, refused: 0 })
  expect(await ask("/bulk", post(token, body, key))).toMatchObject({ status: 200, body: { bulk_id: id } })
  expect(await ask(`/bulk/${id}/refused`, { token })).toMatchObject({ body: { refused: [], next: null } })
  expect((await ask("/bulk", { token })).body.operations).toMatchObject([{ bulk_id: id, verb: "retry" }])
  expect((await ask(`/bulk/${id}/abort`, { method: "POST", token })).body.code).toBe("E302")
  // The operation is a job.
  expect((await ask(`/jobs/${id}`, { token })).body).toMatchObject({
    workflow: "umbra.bulk",
    output: { verb: "retry", processed: 3, done: 3, refused: 0 },
  })

  const slow = (await ask("/bulk", post(token, { ...body, verb: "delete", rate: 0.01 }))).body.bulk_id
  expect((await ask(`/bulk/${slow}/abort`, { method: "POST", token })).status).toBe(200)
  expect(await untilEnded(stage, token, slow)).toMatchObject({ status: "CANCELLED", aborting: false })
})

it("reaches the caller's own jobs only, whatever the filter says; others do not see the operation", async () => {
  const { stage, tokens } = await stageWith("ada", "bob")
  const { ask } = stage
  const [ada, bob] = [tokens.ada!, tokens.bob!]
  const admin = await stage.token("ada", "admin")
  const [mine] = await failed(stage, ada, 1)
  const theirs = await failed(stage, bob, 2)
  const body = { verb: "delete", filter: { workflow: "fails" }, rate: 1000 }
  const { bulk_id } = (await ask("/bulk", post(admin, body))).body
  expect(await untilEnded(stage, ada, bulk_id)).toMatchObject({ processed: 1, done: 1 })
  expect((await ask(`/jobs/${mine}`, { token: ada })).body.status).toBe("DELETED")
  for (const id of theirs) expect((await ask(`/jobs/${id}`, { token: bob })).body.status).toBe("FAILED")
  // A parent that another owner has gives nothing.
  const child = { ...body, filter: { parent: theirs[0], status: ["FAILED"] }, dry_run: true }
  expect((await ask("/bulk", post(ada, child))).body.count).toBe(0)
  for (const path of [`/bulk/${bulk_id}`, `/bulk/${bulk_id}/refused`])
    expect((await ask(path, { token: bob })).body.code).toBe("E301")
  const abort = await ask(`/bulk/${bulk_id}/abort`, { method: "POST", token: bob })
  expect(abort.body.code).toBe("E301")
  expect((await ask("/bulk", { token: bob })).body.operations).toEqual([])
  const compared = await ask(`/jobs/compare?a=${mine}&b=${theirs[0]}`, { token: ada })
  expect(compared.body.code).toBe("E301")
})

it("needs the scope manage, and refuses what is not a request", async () => {
  const { stage, tokens } = await stageWith("ada")
  const { ask } = stage
  const token = tokens.ada!
  const read = await stage.token("ada", "read", "submit")
  const good = { verb: "retry", filter: { workflow: "fails" } }
  expect((await ask("/bulk", post(read, good))).status).toBe(403)
  expect((await ask("/bulk", { token: read })).status).toBe(200)
  const wrongs: [unknown, string][] = [
    [{ ...good, verb: "explode" }, "E633"],
    [{ verb: "retry" }, "E633"],
    [{ ...good, filter: {} }, "E309"],
    [{ ...good, filter: { labels: {} } }, "E309"],
    [{ ...good, filter: { workflow: "fails@latest" } }, "E309"],
    [{ ...good, verb: "cancel", reason: "a\u0000b" }, "E309"],
    [{ ...good, filter: { status: ["NEVER"] } }, "E633"],
    [{ ...good, filter: { status: ["DELETED"] } }, "E633"],
    [{ ...good, filter: { owner: "bob" } }, "E633"],
    [{ ...good, filter: { version: 3 } }, "E309"],
    [{ ...good, filter: { parent: "x" } }, "E633"],
    [{ ...good, filter: { created_from: "yesterday" } }, "E633"],
    [{ ...good, filter: { error_text: "17" } }, "E633"],
    [{ ...good, rate: 0 }, "E633"],
    [{ ...good, rate: 1e9 }, "E633"],
    [{ ...good, reason: "why" }, "E309"],
  ]
  for (const [body, code] of wrongs) {
    const { body: problem } = await ask("/bulk", post(token, body))
    expect(problem.code, JSON.stringify(body)).toBe(code)
    // Fields have the names of the request, not those of the library.
    expect(problem.detail).not.toMatch(/\b[a-z]+[A-Z]|statuses/)
  }
  const [job] = await failed(stage, token, 1)
  for (const path of [`/bulk/${job}`, `/bulk/${job}/refused`])
    expect((await ask(path, { token })).body.code).toBe("E315")
  expect((await ask(`/bulk/${job}/abort`, { method: "POST", token })).body.code).toBe("E315")
  expect((await ask("/bulk/nothing", { token })).body.code).toBe("E301")
  expect((await ask("/bulk?after=x", { token })).body.code).toBe("E633")
  expect((await ask("/bulk", { token })).body.operations).toEqual([])
})

it("forks what matches, refuses effects that are not confirmed, and shows that in a dry run", async () => {
  const { stage, tokens } = await stageWith("ada", "bob")
  const { ask } = stage
  const [token, bob] = [tokens.ada!, tokens.bob!]
  const ids = await failed(stage, token, 3)
  const theirs = await failed(stage, bob, 1)
  const body = { verb: "fork", filter: { workflow: "fails" }, rate: 1000 }
  const dry = await ask("/bulk", post(token, { ...body, dry_run: true }))
  expect(dry).toMatchObject({ status: 200, body: { verb: "fork", count: 3, by_status: { FAILED: 3 } } })
  expect(dry.body.fork).toMatchObject({ previewed: 3, unconfirmed: { unsafe: [], unknown: ["a"] } })
  expect(dry.body.fork.refused).toHaveLength(3)
  expect((await ask("/bulk", { token })).body.operations).toEqual([])

  const refused = (await ask("/bulk", post(token, body))).body.bulk_id
  expect(await untilEnded(stage, token, refused)).toMatchObject({ done: 0, refused: 3, fork: {} })
  const list = (await ask(`/bulk/${refused}/refused`, { token })).body.refused
  expect(list.map((each: { code: string }) => each.code)).toEqual(["E314", "E314", "E314"])

  const fork = { from: ["a"], workflow: "fails", confirm: { unknown: true, unsafe: ["elsewhere"] } }
  const started = await ask("/bulk", post(token, { ...body, fork }))
  expect(started).toMatchObject({ status: 201, body: { fork: { ...fork, workflow: "fails@1" } } })
  expect(await untilEnded(stage, token, started.body.bulk_id)).toMatchObject({ done: 3, refused: 0 })
  for (const id of ids)
    expect((await ask(`/jobs?forked_from=${id}`, { token })).body.jobs).toMatchObject([
      { forked_from: id, owner: "ada", workflow: "fails" },
    ])
  for (const id of theirs)
    expect((await ask(`/jobs?forked_from=${id}`, { token: bob })).body.jobs).toEqual([])
  // Versions of other owners are not known.
  await ask("/workflows", { method: "POST", token: bob, body: { ...fails, name: "secret" } })
  const secret = await ask("/bulk", post(token, { ...body, fork: { workflow: "secret" } }))
  expect(secret.body.code).toBe("E305")
  const wrongs: [object, string][] = [
    [{ fork: { input: {} } }, "E633"],
    [{ fork: { from: "a" } }, "E633"],
    [{ verb: "retry", fork: {} }, "E309"],
    [{ fork: { workflow: "fails", from: ["b"] } }, "E309"],
    [{ fork: { workflow: { name: "fails", nodes: [{ id: "a" }] } } }, "E101"],
  ]
  for (const [more, code] of wrongs)
    expect((await ask("/bulk", post(token, { ...body, ...more }))).body.code, JSON.stringify(more)).toBe(code)
})

const waits = {
  name: "waits",
  nodes: [{ id: "a", handler: "wait_for_signal", config: { signal: "go" } }],
}

async function cancelled({ umbra }: Stage, owner: string, count: number): Promise<void> {
  for (let i = 0; i < count; i++) await umbra.cancel((await umbra.submit(waits, {}, { owner })).id)
}

async function running({ umbra }: Stage): Promise<string[]> {
  const { jobs } = await umbra.queries.list({ workflow: "waits", statuses: ["PROCESSING"], limit: 100 })
  return jobs.map(({ id }) => id)
}

it("forks wait while the owner's limit of unfinished jobs is reached, and hold up no other operation", async () => {
  const stage = await openStage({ settings: { maxUnfinishedJobs: 3 } })
  onTestFinished(() => stage.close())
  const { ask, umbra } = stage
  await cancelled(stage, "local", 20)
  for (let i = 0; i < 2; i++) await umbra.submit({ ...waits, name: "busy" })
  const request = { verb: "fork", filter: { workflow: "waits" }, rate: 10_000 } as const
  // The first pages of both have as many jobs as an owner may have commands in flight.
  const operations: string[] = []
  for (let i = 0; i < 2; i++) operations.push((await umbra.bulk.start(request)).bulk_id)
  const waiting = async () => {
    for (const id of operations) if ((await umbra.job(id)).status !== "PREVIEW") return false
    return true
  }
  await until("both have their first page", waiting)
  const { bulk_id } = await umbra.bulk.start({ verb: "cancel", filter: { workflow: "busy" } })
  await umbra.wait(bulk_id)
  expect((await umbra.bulk.get(bulk_id)).done).toBe(2)
  await until("one fork has room", async () => (await running(stage)).length === 1)
  for (const id of operations) {
    expect((await ask(`/bulk/${id}`)).body).toMatchObject({ refused: 0, finished_at: null })
    await ask(`/bulk/${id}/abort`, { method: "POST" })
  }
  for (const id of operations) {
    await until("it is aborted", async () => (await ask(`/bulk/${id}`)).body.finished_at)
    const { status, refused } = (await ask(`/bulk/${id}`)).body
    expect(status).toBe("CANCELLED")
    const list = (await ask(`/bulk/${id}/refused`)).body.refused
    expect(list).toHaveLength(refused)
    for (const { code } of list) expect(code).toBe("E646")
  }
})

it("forks count against the limit of the token that started the operation", async () => {
  const stage = await openStage({ withTokens: true })
  onTestFinished(() => stage.close())
  const { ask, umbra } = stage
  const limits = { rateLimit: null, maxUnfinishedJobs: 3, maxBodyBytes: null }
  const tokens = new Tokens(umbra.registry)
  const { token } = await tokens.create({ owner: "ada", scopes: ["manage", "read"], limits })
  await cancelled(stage, "ada", 5)
  const body = { verb: "fork", filter: { status: ["CANCELLED"], workflow: "waits" }, rate: 10_000 }
  const { bulk_id } = (await ask("/bulk", post(token, body))).body
  const operation = async () => (await ask(`/bulk/${bulk_id}`, { token })).body
  let most = 0
  await until("all are forked", async () => {
    const now = await running(stage)
    most = Math.max(most, now.length)
    // The operation is one of the three jobs.
    if (now.length === 2) await umbra.signal(now[0]!, "go").catch(error => expect(error.code).toBe("E302"))
    return (await operation()).finished_at
  })
  expect(most).toBe(2)
  expect(await operation()).toMatchObject({ status: "COMPLETED", done: 5, refused: 0 })
})

it("compares jobs and moments, with differences on request", async () => {
  const { stage, tokens } = await stageWith("ada")
  const { ask } = stage
  const token = tokens.ada!
  const [a, b] = await failed(stage, token, 2)
  const same = await ask(`/jobs/compare?a=${a}&b=${b}`, { token })
  expect(same).toMatchObject({ status: 200, body: { divergence: null, same_input: true, complete: true } })
  const moments = await ask(`/jobs/compare?a=${a}&b=${a}&at_a=%231&diff=input`, { token })
  expect(moments.body).toMatchObject({
    divergence: { kind: "status", node: "a" },
    moments: { a: { index: 1 } },
    diffs: [{ node: "input", changes: [], complete: true }],
  })
  const codes: [string, string][] = [
    [`a=${a}`, "E633"],
    [`a=${a}&b=nothing`, "E301"],
    [`a=${a}&b=${b}&at_b=soon`, "E633"],
    [`a=${a}&b=${b}&at_b=%2399`, "E313"],
    [`a=${a}&b=${b}&diff=zzz`, "E310"],
  ]
  for (const [query, code] of codes)
    expect((await ask(`/jobs/compare?${query}`, { token })).body.code, query).toBe(code)
})

it("the client starts, follows and aborts operations, and compares jobs", async () => {
  const { stage, tokens } = await stageWith("ada")
  const token = tokens.ada!
  const [a, b] = await failed(stage, token, 2)
  const umbra = connect({ url: stage.server.url, token })
  const { bulk } = umbra
  const request = { verb: "retry", filter: { statuses: ["FAILED"], createdFrom: 0 }, rate: 1000 } as const
  expect(await bulk.count(request)).toMatchObject({ count: 2, complete: true })
  const { bulk_id } = await bulk.start(request)
  await umbra.wait(bulk_id)
  expect(await bulk.get(bulk_id)).toMatchObject({ status: "COMPLETED", done: 2 })
  const found = []
  for await (const operation of bulk.list()) found.push(operation.bulk_id)
  expect(found).toEqual([bulk_id])
  for await (const refusal of bulk.refused(bulk_id)) expect(refusal).toBeUndefined()
  await expect(bulk.abort(bulk_id)).rejects.toMatchObject({ code: "E302" })
  const fork = { ...request, verb: "fork", fork: { workflow: fails, from: ["a"] } } as const
  expect((await bulk.count(fork)).fork).toMatchObject({ previewed: 2, unconfirmed: { unknown: ["a"] } })
  const confirmed = { ...fork, fork: { ...fork.fork, confirm: { unknown: true } } }
  const forked = await bulk.start(confirmed)
  await umbra.wait(forked.bulk_id)
  expect(await bulk.get(forked.bulk_id)).toMatchObject({ status: "COMPLETED", done: 2, refused: 0 })
  const compared = await umbra.compare(a!, b!, { atA: 1e14, diff: ["input"] })
  expect(compared).toMatchObject({ a: { job_id: a }, diffs: [{ node: "input", changes: [] }] })
})
