/** Schedules over HTTP: answers as the OpenAPI document says, owners apart, wrong input refused. */
import { expect, it, onTestFinished } from "vitest"
import { connect } from "../../src/client/index.ts"
import { openStage } from "./stage.ts"

const flow = { name: "report", nodes: [{ id: "a", handler: "transform", config: { value: 1 } }] }
const nightly = { workflow: "report", cron: "0 2 * * *", zone: "Europe/Berlin", labels: { team: "ops" } }

async function stageWith(...owners: string[]) {
  const stage = await openStage({ withTokens: true })
  onTestFinished(() => stage.close())
  const tokens: Record<string, string> = {}
  for (const owner of owners) tokens[owner] = await stage.token(owner, "read", "submit", "manage")
  for (const token of Object.values(tokens))
    expect((await stage.ask("/workflows", { method: "POST", token, body: flow })).status).toBe(201)
  return { stage, tokens }
}

it("stores, changes, shows, lists, pauses, runs and deletes schedules", async () => {
  const { stage, tokens } = await stageWith("ada")
  const { ask } = stage
  const token = tokens.ada!
  const put = (body: unknown) => ask("/schedules/nightly", { method: "PUT", token, body })
  const post = (verb: string) => ask(`/schedules/nightly/${verb}`, { method: "POST", token })
  const created = await put(nightly)
  expect(created.status).toBe(201)
  expect(created.body).toMatchObject({ ...nightly, name: "nightly", owner: "ada", overlap: "skip" })
  expect(created.body.next_ticks).toHaveLength(20)
  expect(created.body.next_at).toBe(created.body.next_ticks[0])
  expect((await put(nightly)).body).toEqual(created.body)
  const changed = await put({ ...nightly, overlap: "allow" })
  expect([changed.status, changed.body.overlap]).toEqual([200, "allow"])
  expect((await ask("/schedules", { token })).body.schedules).toMatchObject([{ name: "nightly" }])
  expect((await post("pause")).body).toMatchObject({ next_at: null })
  expect((await post("pause")).body.paused_at).not.toBeNull()
  expect((await post("resume")).body).toMatchObject({ paused_at: null, next_at: created.body.next_at })
  const run = await post("run")
  expect(run.status).toBe(201)
  const job = await ask(`/jobs/${run.body.job_id}`, { token })
  expect(job.body).toMatchObject({ workflow: "report", owner: "ada", labels: { team: "ops" } })
  const { body: history } = await ask("/schedules/nightly/fires", { token })
  expect(history).toMatchObject({
    fires: [{ kind: "run", outcome: "started", job_id: run.body.job_id, count: 1 }],
    next: null,
  })
  expect((await ask("/schedules/nightly", { method: "DELETE", token })).status).toBe(204)
  expect((await ask("/schedules/nightly", { token })).body.code).toBe("E331")
})

it("keeps owners apart", async () => {
  const { stage, tokens } = await stageWith("ada", "bob")
  const { ask } = stage
  await ask("/schedules/nightly", { method: "PUT", token: tokens.ada!, body: nightly })
  const token = tokens.bob!
  expect((await ask("/schedules", { token })).body.schedules).toEqual([])
  for (const [method, path] of [
    ["GET", ""],
    ["GET", "/fires"],
    ["DELETE", ""],
    ["POST", "/pause"],
    ["POST", "/resume"],
    ["POST", "/run"],
  ] as const)
    expect((await ask(`/schedules/nightly${path}`, { method, token })).body.code).toBe("E331")
  expect((await ask("/schedules/nightly", { method: "PUT", token, body: nightly })).status).toBe(201)
  expect((await ask("/schedules/nightly", { token: tokens.ada! })).body.owner).toBe("ada")
})

it("refuses what is wrong, with what to change", async () => {
  const { stage, tokens } = await stageWith("ada")
  const { ask } = stage
  const token = tokens.ada!
  const reader = await stage.token("ada", "read")
  const put = (body: unknown, name = "s", as = token) =>
    ask(`/schedules/${name}`, { method: "PUT", token: as, body })
  const refused = async (body: unknown) => (await put(body)).body
  expect(await refused({ workflow: "report", cron: "0 25 * * *" })).toMatchObject({
    ...{ code: "E330", status: 422 },
    detail: expect.stringContaining("no valid hour"),
  })
  expect(await refused({ workflow: "report", cron: "0 2 * * *", zone: "Mars" })).toMatchObject({
    code: "E330",
  })
  expect(await refused({ workflow: "report" })).toMatchObject({ code: "E330" })
  expect(await refused({ workflow: "none", every: "1h" })).toMatchObject({ code: "E305" })
  expect(await refused({ workflow: "report", every: "1h", priority: 9999 })).toMatchObject({ code: "E309" })
  expect((await put({ workflow: "report", every: "1h", colour: "red" })).status).toBeGreaterThanOrEqual(400)
  const hourly = { workflow: "report", every: "1h" }
  expect(await refused({ ...hourly, catch_up_seconds: 30 })).toMatchObject({ code: "E633" })
  const [start, end] = ["2030-01-02T00:00:00Z", "2030-01-01T00:00:00Z"]
  expect(await refused({ ...hourly, start, end })).toMatchObject({ code: "E330" })
  expect(await refused({ ...hourly, input: "{{ schedule.nope }}" })).toMatchObject({
    ...{ code: "E330", detail: expect.stringContaining("schedule.nope") },
  })
  expect((await put(hourly)).status).toBe(201)
  for (const verb of ["run", "pause", "resume"])
    expect(await ask(`/schedules/s/${verb}`, { method: "POST", token, body: { input: {} } })).toMatchObject({
      status: 400,
      body: { code: "E633" },
    })
  for (const [method, path] of [
    ["GET", "/%00"],
    ["GET", "/%00/fires"],
    ["GET", "?after=%00"],
    ["DELETE", "/%00"],
    ["POST", "/%00/run"],
  ] as const)
    expect(await ask(`/schedules${path}`, { method, token })).toMatchObject({
      ...{ status: 400, body: { code: "E633" } },
    })
  expect((await put(nightly, "a%20b")).body).toMatchObject({ code: "E330" })
  expect((await put(nightly, "s", reader)).status).toBe(403)
})

it("is served by the client", async () => {
  const { stage, tokens } = await stageWith("ada")
  const client = connect({ url: stage.server.url, token: tokens.ada! })
  const { schedules } = client
  for (const name of ["b", "a", "c"]) await schedules.put(name, { workflow: "report", every: "1h" })
  expect((await schedules.get("a")).every).toBe("1h")
  const names: string[] = []
  for await (const { name } of schedules.list({ limit: 1 })) names.push(name)
  expect(names).toEqual(["a", "b", "c"])
  expect((await schedules.pause("a")).next_at).toBeNull()
  expect((await schedules.resume("a")).next_at).not.toBeNull()
  const started = [await schedules.run("a"), await schedules.run("a")].map(({ job_id }) => job_id)
  const seen: (string | null)[] = []
  for await (const { job_id } of schedules.fires("a", { limit: 1 })) seen.push(job_id)
  expect(seen).toEqual(started.reverse())
  await schedules.delete("a")
  await expect(schedules.get("a")).rejects.toMatchObject({ code: "E331" })
})
