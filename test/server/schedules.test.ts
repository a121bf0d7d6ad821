/** Schedules over HTTP: answers as the OpenAPI document says, owners apart, wrong input refused. */
import { randomUUID } from "node:crypto"
import { expect, it, onTestFinished } from "vitest"
import { connect } from "../../src/client/index.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { scheduleDocument } from "../../src/schedule/document.ts"
import { openStage } from "./stage.ts"

const flow = { name: "report", nodes: [{ id: "a", handler: "transform", config: { value: 1 } }] }
const nightly = { workflow: "report", cron: "0 2 * * *", zone: "Europe/Berlin", labels: { team: "ops" } }

async function stageWith(...owners: string[]) {
  return filledStage({}, owners)
}

async function filledStage(settings: { readonly maxSchedules?: number }, owners: readonly string[]) {
  const stage = await openStage({ withTokens: true, settings })
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
  const [plain] = (await ask("/schedules", { token })).body.schedules
  expect(plain).not.toHaveProperty("fires")
  const second = await post("run")
  const [listed] = (await ask("/schedules?fires=1", { token })).body.schedules
  expect(listed.fires).toMatchObject([{ outcome: "started", job_id: second.body.job_id }])
  expect((await ask("/schedules?fires=21", { token })).status).toBe(400)
  expect((await ask("/schedules/nightly", { method: "DELETE", token })).status).toBe(204)
  expect((await ask("/schedules/nightly", { token })).body.code).toBe("E331")
})

it("lists a stored schedule that is no longer valid with its problem, and lets it be mended", async () => {
  const journal = openMemory(createMemoryStore())
  const stage = await openStage({ location: journal })
  onTestFinished(() => stage.close())
  const { ask } = stage
  await ask("/workflows", { method: "POST", body: flow })
  await ask("/schedules/good", { method: "PUT", body: nightly })
  const at = Date.parse("2026-11-15T12:00:00Z")
  const { name: _, ...written } = (await ask("/schedules/good")).body
  const document = Object.fromEntries(
    Object.entries(written).filter(([field]) => field in scheduleDocument.shape),
  )
  for (const [name, changed] of Object.entries({
    zone: { zone: "Atlantis/Capital" },
    cron: { cron: "61 * * * *" },
    policy: { overlap: "pile_up" },
  }))
    await journal.schedules.create({
      ...{ id: randomUUID(), owner: "local", name, partition: 0, createdAt: at, lastTick: at },
      ...{ document: JSON.stringify({ ...document, ...changed }), nextAt: Number.MAX_SAFE_INTEGER },
    })
  const { schedules } = (await ask("/schedules?fires=1")).body
  expect(schedules.map((one: { name: string; problem?: string }) => [one.name, one.problem])).toEqual([
    ["cron", expect.stringContaining("61")],
    ["good", undefined],
    ["policy", expect.stringContaining("overlap")],
    ["zone", expect.stringContaining("Atlantis/Capital")],
  ])
  expect((await ask("/schedules/zone")).body).toMatchObject({
    ...{ zone: "Atlantis/Capital", next_at: null, next_ticks: [], problem: expect.any(String) },
  })
  const range = "from=2026-11-15T00:00:00Z&to=2026-11-16T00:00:00Z"
  expect((await ask(`/schedules/zone/ticks?${range}`)).body).toEqual({ ticks: [], next: null })
  expect((await ask("/schedules/zone/pause", { method: "POST" })).body.paused_at).not.toBeNull()
  expect((await ask("/schedules/zone/resume", { method: "POST" })).body.code).toBe("E330")
  expect((await ask("/schedules/cron/run", { method: "POST" })).body.code).toBe("E330")
  const mended = await ask("/schedules/cron", { method: "PUT", body: nightly })
  expect(mended.body).not.toHaveProperty("problem")
  expect(mended.body.next_at).toBe((await ask("/schedules/good")).body.next_at)
  expect((await ask("/schedules/policy", { method: "DELETE" })).status).toBe(204)
})

it("refuses a new schedule beyond the limit of its owner", async () => {
  const { stage, tokens } = await filledStage({ maxSchedules: 2 }, ["ada", "bob"])
  const put = async (name: string, token: string, body: object = nightly) => {
    const answer = await stage.ask(`/schedules/${name}`, { method: "PUT", token, body })
    return [answer.status, answer.body.code]
  }
  const { ada = "", bob = "" } = tokens
  for (const name of ["a", "b"]) expect(await put(name, ada)).toEqual([201, undefined])
  expect(await put("c", ada)).toEqual([409, "E332"])
  expect(await put("b", ada, { ...nightly, overlap: "allow" })).toEqual([200, undefined])
  expect(await put("c", bob)).toEqual([201, undefined])
  await stage.ask("/schedules/a", { method: "DELETE", token: ada })
  expect(await put("c", ada)).toEqual([201, undefined])
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
    detail: expect.stringContaining("not a valid hour"),
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

it("previews, lists ticks of a range and backfills over HTTP", async () => {
  const { stage, tokens } = await stageWith("ada", "bob")
  const { ask } = stage
  const token = tokens.ada!
  const reader = await stage.token("ada", "read")
  const post = (path: string, body: unknown, by = token, headers = {}) =>
    ask(`/schedules/${path}`, { method: "POST", token: by, body, headers })
  expect(
    (await post("preview", { cron: "0 2 * * *", zone: "Europe/Berlin" }, reader)).body.next_ticks,
  ).toHaveLength(20)
  expect((await post("preview", { cron: "0 2 * *" })).body).toMatchObject({ code: "E330" })
  expect((await post("preview", { cron: "0 2 * * *", zones: "x" })).status).toBe(400)
  await ask("/schedules/nightly", { method: "PUT", token, body: nightly })
  const range = { from: "2026-03-28T00:00:00Z", to: "2026-03-31T00:00:00Z" }
  const counted = await post("nightly/backfill", { ...range, dry_run: true })
  expect(counted).toMatchObject({
    status: 200,
    // Summer time began on March 29, and left out the hour from 02:00 to 03:00.
    body: { count: 3, first_tick: "2026-03-28T01:00:00.000Z", last_tick: "2026-03-30T00:00:00.000Z" },
  })
  const key = { "idempotency-key": "march" }
  const started = await post("nightly/backfill", { ...range, rate: 100 }, token, key)
  expect(started).toMatchObject({ status: 201, body: { verb: "backfill", matched: { count: 3 } } })
  const { bulk_id } = started.body
  expect(started.headers.get("location")).toBe(`/bulk/${bulk_id}`)
  expect(await post("nightly/backfill", { ...range, rate: 100 }, token, key)).toMatchObject({
    ...{ status: 200, body: { bulk_id } },
  })
  expect((await post("nightly/backfill", { ...range, rate: 99 }, token, key)).body.code).toBe("E306")
  await expect.poll(async () => (await ask(`/bulk/${bulk_id}`, { token })).body.status).toBe("COMPLETED")
  const query = `?from=${range.from}&to=2026-04-02T00:00:00Z&limit=2`
  const first = (await ask(`/schedules/nightly/ticks${query}`, { token })).body
  expect(first.ticks).toMatchObject([
    { kind: "backfill", outcome: "started", bulk_id },
    { tick: "2026-03-29T01:00:00.000Z" },
  ])
  const second = await ask(`/schedules/nightly/ticks${query}&after=${encodeURIComponent(first.next)}`, {
    token,
  })
  expect(second.body).toMatchObject({ ticks: [{ tick: "2026-03-30T00:00:00.000Z" }], next: null })
  for (const wrong of ["", "?from=x&to=y", `?from=${range.from}&to=${range.to}&after=x`])
    expect((await ask(`/schedules/nightly/ticks${wrong}`, { token })).status).toBe(400)
  expect((await post("nightly/backfill", range, reader)).status).toBe(403)
  expect((await post("nightly/backfill", range, tokens.bob!)).body.code).toBe("E331")
  expect((await ask(`/schedules/nightly/ticks${query}`, { token: tokens.bob! })).body.code).toBe("E331")
  expect((await ask(`/bulk/${bulk_id}`, { token: tokens.bob! })).status).toBe(404)
  expect((await post("nightly/backfill", { ...range, to: "2999-01-01T00:00:00Z" })).body.code).toBe("E330")
})

it("has the limits of a submission, stored or previewed", async () => {
  const { stage, tokens } = await stageWith("ada")
  const { ask } = stage
  const token = tokens.ada!
  const nested = (depth: number): unknown => (depth === 0 ? 1 : [nested(depth - 1)])
  for (const [wrong, code] of [
    [{ labels: { "": "e" } }, "E633"],
    [{ labels: { ["n".repeat(201)]: "v" } }, "E633"],
    [{ labels: { n: "v".repeat(1001) } }, "E633"],
    [{ labels: { n: "\0" } }, "E309"],
    [{ priority: 1e9 }, "E309"],
    [{ input: nested(70) }, "E330"],
    [{ input: "ä".repeat(32_768) }, "E330"],
    [{ input: "x".repeat(65_500) }, "E330"],
  ] as const) {
    const body = { ...nightly, ...wrong }
    const what = JSON.stringify(wrong).slice(0, 40)
    for (const [method, path] of [
      ["PUT", "/schedules/nightly"],
      ["POST", "/schedules/preview"],
    ] as const)
      expect((await ask(path, { method, token, body })).body.code, `${method} ${what}`).toBe(code)
  }
  const { umbra } = stage
  const library = { ...nightly, labels: { n: "v".repeat(65_000) }, input: "x".repeat(1000) }
  await expect(umbra.schedules.put("nightly", library, { owner: "ada" })).rejects.toThrow("66")
  await expect(umbra.schedules.preview({ ...nightly, priority: 1e9 })).rejects.toMatchObject({ code: "E309" })
  expect((await ask("/schedules", { token })).body.schedules).toEqual([])
})

it("ends a page of schedules at 4 MiB", async () => {
  const { stage, tokens } = await stageWith("ada")
  const { ask } = stage
  const token = tokens.ada!
  const names = Array.from({ length: 70 }, (_, index) => `s${String(index).padStart(2, "0")}`)
  const body = { ...nightly, input: "x".repeat(65_000) }
  for (const name of names)
    expect((await ask(`/schedules/${name}`, { method: "PUT", token, body })).status).toBe(201)
  const found: string[] = []
  const sizes: number[] = []
  for (let next: string | null = ""; next !== null; ) {
    const after: string = next === "" ? "" : `&after=${next}`
    const page = (await ask(`/schedules?limit=100&fires=1${after}`, { token })).body
    found.push(...page.schedules.map(({ name }: { name: string }) => name))
    sizes.push(JSON.stringify(page).length)
    next = page.next
  }
  expect(found).toEqual(names)
  expect(sizes).toHaveLength(2)
  expect(Math.max(...sizes)).toBeLessThan(4.2 * 1024 * 1024)
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
  expect((await schedules.preview({ every: "1h" })).next_ticks).toHaveLength(20)
  const range = { from: "2026-01-01T00:00:00Z", to: "2026-01-01T05:00:00Z" }
  expect(await schedules.previewBackfill("a", range)).toMatchObject({ count: 5, workflow: "report@1" })
  const { bulk_id } = await schedules.backfill("a", { ...range, rate: 1000 })
  await client.wait(bulk_id)
  expect(await client.bulk.get(bulk_id)).toMatchObject({ verb: "backfill", done: 5 })
  const ticks: string[] = []
  for await (const { tick, kind } of schedules.ticks("a", { ...range, limit: 2 }))
    ticks.push(`${kind} ${tick}`)
  expect(ticks).toEqual([0, 1, 2, 3, 4].map(hour => `backfill 2026-01-01T0${hour}:00:00.000Z`))
  const started = [await schedules.run("a"), await schedules.run("a")].map(({ job_id }) => job_id)
  const seen: (string | null)[] = []
  for await (const { job_id, kind } of schedules.fires("a", { limit: 1 }))
    if (kind === "run") seen.push(job_id)
  expect(seen).toEqual(started.reverse())
  // An hour may begin meanwhile: its tick is a fire too.
  for await (const { name, fires } of schedules.list({ fires: 3 })) {
    const others = fires!.filter(({ kind }) => kind !== "tick").slice(0, 2)
    expect(others.map(({ job_id }) => job_id)).toEqual(name === "a" ? started : [])
  }
  await schedules.delete("a")
  await expect(schedules.get("a")).rejects.toMatchObject({ code: "E331" })
})

it("reports ticks in the stream of their owner, and in the metrics", async () => {
  const { stage, tokens } = await stageWith("ada", "bob")
  const [ada, bob] = [tokens.ada!, tokens.bob!].map(token => connect({ url: stage.server.url, token }))
  await bob!.schedules.put("other", { workflow: "report", every: "1s" })
  let [started, fired] = [false, false]
  for await (const { type, data } of ada!.stream()) {
    if (type === "snapshot") await ada!.schedules.put("s", { workflow: "report", every: "1s" })
    if (type === "job" && data.schedule?.name === "s") started = true
    if (started && fired) break
    if (type !== "fire") continue
    expect(data.schedule).toBe("s")
    // A busy machine misses a tick, or skips one because the job before it still runs.
    if (data.outcome !== "started") continue
    fired = true
    expect(data).toMatchObject({ reason: null, count: 1 })
    await expect
      .poll(async () => (await ada!.job(data.job_id!)).schedule)
      .toEqual({ name: "s", tick: data.tick })
  }
  const text: string = (await stage.ask("/metrics", { token: await stage.token("ada", "admin") })).body
  expect(text).toMatch(/umbra_schedule_fires_total\{kind="tick",outcome="started"\} [1-9]/)
  expect(text).toMatch(/umbra_schedule_lateness_seconds_count [1-9]/)
})

it("reports runs and backfills in the stream of their owner, and in the metrics", async () => {
  const { stage, tokens } = await stageWith("ada")
  const ada = connect({ url: stage.server.url, token: tokens.ada! })
  await ada.schedules.put("s", { workflow: "report", every: "1d" })
  const to = new Date(Math.floor(Date.now() / 86_400_000) * 86_400_000).toISOString()
  const from = new Date(Date.parse(to) - 2 * 86_400_000).toISOString()
  const second = new Date(Date.parse(from) + 86_400_000).toISOString()
  const started = new Set<string | null>()
  const shown = new Set<string | null>()
  const kinds = new Set<string>()
  // A stream may omit fires: it is asked for more until both kinds have come.
  const act = async () => {
    while (kinds.size < 2) {
      started.add((await ada.schedules.run("s")).job_id)
      started.add((await ada.schedules.backfill("s", { from, to })).bulk_id)
      await new Promise(resolve => setTimeout(resolve, 200))
    }
  }
  let acting: Promise<void> | null = null
  for await (const { type, data } of ada.stream()) {
    if (type === "snapshot") acting = act()
    if (type !== "fire") continue
    expect(data).toMatchObject({ schedule: "s", outcome: "started", reason: null, count: 1 })
    if (data.kind === "backfill") expect([from, second]).toContain(data.tick)
    kinds.add(data.kind)
    shown.add(data.kind === "run" ? data.job_id : data.bulk_id)
    if (kinds.size === 2) break
  }
  await acting
  expect([...kinds].sort()).toEqual(["backfill", "run"])
  expect([...shown].filter(id => !started.has(id))).toEqual([])
  const text: string = (await stage.ask("/metrics", { token: await stage.token("ada", "admin") })).body
  expect(text).toMatch(/umbra_schedule_fires_total\{kind="run",outcome="started"\} [1-9]/)
  expect(text).toMatch(/umbra_schedule_fires_total\{kind="backfill",outcome="started"\} [1-9]/)
})
