/** What a list shows, what a query may say, and who is answered when the server has its hands full. */
import { statSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { newJobId } from "../../src/engine/ids.ts"
import { openJournal } from "../../src/journal/open.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { hello, openStage, type StageOptions, stores } from "./stage.ts"

async function stageOf(options: StageOptions = {}) {
  const stage = await openStage(options)
  onTestFinished(() => stage.close())
  return stage
}

const large = defineHandler({ name: "large", run: () => Array.from({ length: 20_000 }, () => Math.random()) })

describe.each(["SQLite", "PostgreSQL"])("lists on %s", kind => {
  it("S2 leave large outputs out and say so; the job itself has them", async () => {
    const store = await stores[kind]!()
    onTestFinished(() => store.remove())
    const { ask } = await stageOf({ location: store.location, umbra: { handlers: [large] } })
    await ask("/workflows", {
      method: "POST",
      body: { name: "large", nodes: [{ id: "a", handler: "large" }] },
    })
    await ask("/workflows", { method: "POST", body: hello })
    const one = { workflow: "large" }
    const { body: job } = await ask("/jobs?wait=20", { method: "POST", body: one })
    expect(job.output.a).toHaveLength(20_000)
    await ask("/jobs?wait=20", { method: "POST", body: { workflow: "hello", input: { name: "A" } } })
    const { jobs } = (await ask("/jobs")).body
    expect(jobs[0].output).not.toBeNull()
    expect(jobs[0]).not.toHaveProperty("output_left_out")
    expect(jobs[1]).toMatchObject({ job_id: job.job_id, output: null, output_left_out: true })
    expect((await ask(`/jobs/${job.job_id}`)).body.output.a).toHaveLength(20_000)
  })

  it("S2 end at 4 MiB, and continue with the next page", async () => {
    const store = await stores[kind]!()
    onTestFinished(() => store.remove())
    const { ask } = await stageOf({ location: store.location })
    await ask("/workflows", { method: "POST", body: hello })
    const labels = Object.fromEntries(Array.from({ length: 58 }, (_, n) => [`l${n}`, "x".repeat(1000)]))
    const ids: string[] = []
    for (let n = 0; n < 80; n++) {
      const body = { workflow: "hello", input: { name: "A" }, labels }
      ids.push((await ask("/jobs", { method: "POST", body })).body.job_id)
    }
    const first = (await ask("/jobs?limit=1000")).body
    expect(first).toMatchObject({ complete: false, next: first.jobs.at(-1).job_id })
    expect(JSON.stringify(first).length).toBeLessThan(4.5 * 1024 * 1024)
    const second = (await ask(`/jobs?limit=1000&after=${first.next}`)).body
    expect(second).toMatchObject({ complete: true, next: null })
    const found = [...first.jobs, ...second.jobs].map(({ job_id }) => job_id)
    expect(found.sort()).toEqual(ids.sort())
  })
})

describe("requests", () => {
  it("S2 with a parameter that there is not are refused: a typing error must not show everything", async () => {
    const { ask } = await stageOf()
    for (const path of ["/jobs?staus=FAILED", "/workflows?name=x", "/jobs?limit[]=5", "/jobs/stream?x=1"])
      expect((await ask(path)).status, path).toBe(400)
    const signal = `/jobs/${newJobId(0, Date.now())}/signals/approved?resume_tokn=r0`
    expect((await ask(signal, { method: "POST" })).status).toBe(400)
  })

  it("S2 with a key for many jobs are refused: each has its own", async () => {
    const { ask } = await stageOf()
    await ask("/workflows", { method: "POST", body: hello })
    const body = { jobs: [{ workflow: "hello", input: { name: "A" } }] }
    const headers = { "idempotency-key": "k" }
    expect(await ask("/jobs/bulk", { method: "POST", body, headers })).toMatchObject({
      status: 400,
      body: { code: "E633", detail: expect.stringContaining("idempotency_key") },
    })
  })

  it("J20 point an alias at chances by version, as they are or under `weights`", async () => {
    const { ask } = await stageOf()
    await ask("/workflows", { method: "POST", body: hello })
    for (const body of [{ 1: 5 }, { weights: { 1: 5 } }])
      expect(await ask("/workflows/hello/aliases/stable", { method: "PUT", body })).toMatchObject({
        status: 200,
        body: { weights: { 1: 5 } },
      })
    const wrong = await ask("/workflows/hello/aliases/stable", { method: "PUT", body: { version: 1.5 } })
    expect(wrong).toMatchObject({
      status: 400,
      body: { detail: expect.stringContaining('{"weights": {"2": 90') },
    })
  })
})

it("S2 with all its requests taken the server still says that it lives", async () => {
  const { ask } = await stageOf({ settings: { maxRequests: 1 } })
  const approval = { name: "approval", nodes: [{ id: "ask", handler: "approval" }] }
  await ask("/workflows", { method: "POST", body: approval })
  const { body: job } = await ask("/jobs", { method: "POST", body: { workflow: "approval" } })
  const waiting = ask(`/jobs/${job.job_id}?wait=30`)
  await expect.poll(async () => (await ask("/jobs")).status).toBe(503)
  for (const path of ["/health", "/ready", "/metrics"]) expect((await ask(path)).status, path).toBe(200)
  await expect.poll(async () => (await ask("/jobs")).status).toBe(503)
  void waiting.catch(() => {})
})

it("S3 a folder is its owner's alone", async () => {
  const parent = await mkdtemp(join(tmpdir(), "umbra-mode-"))
  onTestFinished(() => rm(parent, { recursive: true, force: true }))
  const journal = await openJournal(join(parent, "data"))
  await journal.close()
  const modeOf = (path: string) => (statSync(join(parent, path)).mode & 0o777).toString(8)
  expect([modeOf("data"), modeOf("data/umbra.db")]).toEqual(["700", "600"])
})
