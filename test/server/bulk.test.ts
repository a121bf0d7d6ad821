/** Bulk operations and comparisons over HTTP: answers as the OpenAPI document says, owners apart, wrong input refused. */
import { expect, it, onTestFinished } from "vitest"
import { connect } from "../../src/client/index.ts"
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
    [{ ...good, filter: { status: ["DELETED"] } }, "E309"],
    [{ ...good, filter: { owner: "bob" } }, "E633"],
    [{ ...good, filter: { version: 3 } }, "E309"],
    [{ ...good, filter: { parent: "x" } }, "E633"],
    [{ ...good, filter: { created_from: "yesterday" } }, "E633"],
    [{ ...good, filter: { error_text: "17" } }, "E309"],
    [{ ...good, rate: 0 }, "E633"],
    [{ ...good, rate: 1e9 }, "E633"],
    [{ ...good, reason: "why" }, "E309"],
  ]
  for (const [body, code] of wrongs)
    expect((await ask("/bulk", post(token, body))).body.code, JSON.stringify(body)).toBe(code)
  const [job] = await failed(stage, token, 1)
  for (const path of [`/bulk/${job}`, `/bulk/${job}/refused`])
    expect((await ask(path, { token })).body.code).toBe("E315")
  expect((await ask(`/bulk/${job}/abort`, { method: "POST", token })).body.code).toBe("E315")
  expect((await ask("/bulk/nothing", { token })).body.code).toBe("E301")
  expect((await ask("/bulk?after=x", { token })).body.code).toBe("E633")
  expect((await ask("/bulk", { token })).body.operations).toEqual([])
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
  const compared = await umbra.compare(a!, b!, { atA: 1e14, diff: ["input"] })
  expect(compared).toMatchObject({ a: { job_id: a }, diffs: [{ node: "input", changes: [] }] })
})
