/** S1: processes with different roles on one PostgreSQL, real ones: asked, killed, told to end, started again. */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import pg from "pg"
import { describe, expect, it, onTestFinished, vi } from "vitest"
import { TickClock } from "../broker/stalls.ts"
import { umbra } from "../cli/same-process.ts"
import { folderWith } from "../cli/umbra.ts"
import { until } from "../engine/stage.ts"
import { fakeProvider, make } from "../provider/stage.ts"
import { EventStream, type StreamEvent } from "./event-stream.ts"
import { type Served, serve, storeFlags, storeOf } from "./served.ts"
import { ask, type Store } from "./stage.ts"

/** Each start of a node is a line of a file, whichever process it was in. */
const handlers = `
import { appendFileSync } from "node:fs"
import { join } from "node:path"
export const step = {
  name: "step",
  async run({ ms }, ctx) {
    appendFileSync(join(import.meta.dirname, "starts.log"), \`\${ctx.jobId} \${ctx.nodeId}\\n\`)
    await new Promise(done => setTimeout(done, ms))
    return ctx.nodeId
  },
}
`

const workflow = {
  name: "steps",
  nodes: [
    { id: "a", handler: "step", config: { ms: 20 } },
    { id: "b", handler: "step", config: { ms: 20 }, dependencies: ["a"] },
    { id: "c", handler: "step", config: { ms: 20 }, dependencies: ["b"] },
  ],
}

/** Eight clients with this pause between two requests: some ten jobs are under way whenever a process is stopped. */
const LANE_PAUSE_MS = 50

interface Fleet {
  readonly store: Store
  start(roles: string): Promise<Served>
  /** How often each node of each job was begun. */
  starts(): Map<string, number>
}

async function fleet(): Promise<Fleet> {
  const store = await storeOf("PostgreSQL")
  const files = folderWith({ "handlers.mjs": handlers, "starts.log": "" })
  onTestFinished(files.remove)
  const flags = ["--handlers", join(files.path, "handlers.mjs"), "--set", "beat_seconds=0.3"]
  return {
    store,
    start: roles => serve(store, "--roles", roles, ...flags),
    starts() {
      const counts = new Map<string, number>()
      for (const line of readFileSync(join(files.path, "starts.log"), "utf8").trim().split("\n"))
        counts.set(line, (counts.get(line) ?? 0) + 1)
      return counts
    },
  }
}

const partitions = async ({ url }: Served): Promise<number> => (await ask(url, "/ready", {})).body.partitions

/** A new job, asked for at one of these again and again under the same key, until it is taken. */
async function submitted(front: () => readonly Served[], key: string): Promise<string> {
  for (let turn = 0; ; turn++) {
    const { url } = front()[turn % front().length]!
    const headers = { "idempotency-key": key }
    const body = { workflow: "steps" }
    const answer = await ask(url, "/jobs", { method: "POST", headers, body }).catch(() => null)
    if (answer?.status === 201 || answer?.status === 200) return answer.body.job_id
    // Not there, or on its way out.
    if (answer !== null && answer.status !== 503) throw new Error(JSON.stringify(answer.body))
    await new Promise(resolve => setTimeout(resolve, 50))
  }
}

async function lastBeatOf({ process }: Served, { location }: Store): Promise<number> {
  const client = new pg.Client(location)
  await client.connect()
  try {
    const { rows } = await client.query(
      "select beat from umbra.engines where (place::json->>'pid')::int = $1",
      [process.pid],
    )
    return Number(rows[0].beat)
  } finally {
    await client.end()
  }
}

/** Told to end, it must have done so in order, and within 10 s: after 9.5 s the process itself exits with another code. */
async function stopped({ process }: Served): Promise<void> {
  process.kill("SIGTERM")
  expect(await process.ended).toMatchObject({ code: 0 })
}

async function ended(url: string, jobs: readonly string[]): Promise<void> {
  for (const id of jobs)
    expect((await ask(url, `/jobs/${id}?wait=60`, {})).body, id).toMatchObject({
      status: "COMPLETED",
      output: { c: "c" },
    })
}

const isEnd = ({ event, data }: StreamEvent) => event === "job" && data.finished_at !== null

describe("umbra serve --roles", () => {
  it("S1 an API process before two engines: all accepted jobs end although one engine is killed, and its stream has every change", async () => {
    const { start } = await fleet()
    const [front, first, second] = await Promise.all([
      start("api"),
      start("engine,worker"),
      start("engine,worker"),
    ])
    await ask(front.url, "/workflows", { method: "POST", body: workflow })
    for (const engine of [first, second]) await expect.poll(() => partitions(engine)).toBe(32)
    expect(await partitions(front)).toBe(0)
    const stream = new EventStream(front.url, "/jobs/stream")
    await stream.until(() => stream.events.length > 0)
    const jobs: string[] = []
    let next = 0
    const lane = async () => {
      while (next < 150) jobs.push(await submitted(() => [front], `job-${next++}`))
    }
    const lanes = Array.from({ length: 10 }, lane)
    await stream.until(() => stream.events.filter(isEnd).length > 30)
    first.process.kill("SIGKILL")
    await Promise.all(lanes)
    await ended(front.url, jobs)
    await stream.until(() => {
      const received = new Set(stream.events.filter(isEnd).map(({ data }) => data.job_id))
      return jobs.every(job => received.has(job))
    }, "all ends")
    for (const job of jobs) {
      const received = stream.events
        .filter(({ event, data }) => event === "job" && data.job_id === job)
        .map(({ data }) => `${data.status} ${data.updated_at}`)
      const { events } = (await ask(front.url, `/jobs/${job}/events`, {})).body
      const expected = events
        .filter(({ type }: { type: string }) => type.startsWith("job."))
        .map(({ to, at }: { to: string; at: string }) => `${to} ${at}`)
      expect(received, job).toEqual(expected)
    }
    stream.cut()
    expect((await ask(front.url, "/ready", {})).body).toMatchObject({ ready: true, engine: true })
    second.process.kill("SIGKILL")
    await second.process.ended
    await expect
      .poll(async () => {
        const begun = performance.now()
        const body = { workflow: "steps" }
        const answer = await ask(front.url, "/jobs", { method: "POST", body })
        return [answer.status, answer.headers.get("retry-after"), performance.now() - begun < 3000]
      })
      .toEqual([503, "1", true])
    // It still shows jobs, and takes webhooks.
    expect(await ask(front.url, "/ready", {})).toMatchObject({
      status: 200,
      body: { ready: true, database: "reachable", engine: false },
    })
  })

  it("S1 an API process is ready when there is an engine for its jobs, which it learns before its next heartbeat", async () => {
    const store = await storeOf("PostgreSQL")
    const slow = ["--set", "beat_seconds=600", "--set", "lease_seconds=2000"]
    const front = await serve(store, "--roles", "api", ...slow)
    expect(await ask(front.url, "/ready", {})).toMatchObject({ status: 503, body: { engine: false } })
    const body = { name: "hello", nodes: [{ id: "a", handler: "transform", config: { value: 1 } }] }
    expect((await ask(front.url, "/workflows", { method: "POST", body })).status).toBe(201)
    await serve(store, "--roles", "engine,worker", ...slow)
    await expect.poll(async () => (await ask(front.url, "/ready", {})).status).toBe(200)
    const job = await ask(front.url, "/jobs?wait=60", { method: "POST", body: { workflow: "hello" } })
    expect(job).toMatchObject({ status: 201, body: { status: "COMPLETED" } })
  })

  it("S1 every process restarted in turn under load: nothing is lost, and no node is begun twice", async () => {
    const { start, starts } = await fleet()
    const roles = ["api", "api", "engine,worker", "engine,worker"]
    const processes = await Promise.all(roles.map(start))
    const front = () => processes.slice(0, 2)
    await ask(processes[0]!.url, "/workflows", { method: "POST", body: workflow })
    const jobs = new Map<string, string>()
    let next = 0
    let isOver = false
    const lane = async () => {
      while (!isOver) {
        const key = `job-${next++}`
        jobs.set(key, await submitted(front, key))
        await delay(LANE_PAUSE_MS)
      }
    }
    const lanes = Array.from({ length: 8 }, lane)
    for (const [index, role] of roles.entries()) {
      const soFar = jobs.size
      await until("the load runs", () => jobs.size > soFar + 20, 60_000)
      const old = processes[index]!
      const replacing = role === "api" ? [] : [start(role)]
      await stopped(old)
      processes[index] = (await replacing[0]) ?? (await start(role))
    }
    const soFar = jobs.size
    await until("the load runs on", () => jobs.size > soFar + 20, 60_000)
    isOver = true
    await Promise.all(lanes)
    await ended(processes[0]!.url, [...jobs.values()])
    expect(new Set(jobs.values()).size).toBe(jobs.size)
    const listed = (await ask(processes[1]!.url, "/jobs?limit=1000", {})).body.jobs
    expect(listed.length).toBe(Math.min(jobs.size, 1000))
    const counts = starts()
    expect(counts.size).toBe(3 * jobs.size)
    expect([...counts].filter(([, count]) => count > 1)).toEqual([])
    // The same key at both API processes at once is one job, new to one of them.
    const both = await Promise.all(
      Array.from({ length: 10 }, (_, n) =>
        ask(processes[n % 2]!.url, "/jobs", {
          method: "POST",
          headers: { "idempotency-key": "shared" },
          body: { workflow: "steps" },
        }),
      ),
    )
    expect(new Set(both.map(({ body }) => body.job_id)).size).toBe(1)
    expect(both.map(({ status }) => status).sort()).toEqual([...new Array(9).fill(200), 201])
    await Promise.all(processes.map(stopped))
  })

  it("S1 what an engine releases is taken at once, not at the next heartbeat", async () => {
    const store = await storeOf("PostgreSQL")
    const slow = ["--set", "beat_seconds=600", "--set", "lease_seconds=2000", "--roles", "engine,worker"]
    const first = await serve(store, ...slow)
    await expect.poll(() => partitions(first)).toBe(64)
    const second = await serve(store, ...slow)
    expect(await partitions(second)).toBe(0)
    await stopped(first)
    await expect.poll(() => partitions(second)).toBe(64)
  })

  it("S1 an engine that is silent without being dead is replaced after its lease, and not before", async () => {
    const store = await storeOf("PostgreSQL")
    const quick = ["--set", "beat_seconds=0.2", "--set", "lease_seconds=4", "--roles", "engine,worker"]
    const [first, second] = await Promise.all([serve(store, ...quick), serve(store, ...quick)])
    for (const engine of [first, second]) await expect.poll(() => partitions(engine)).toBe(32)
    first.process.kill("SIGSTOP")
    const clock = new TickClock(() => ask(second.url, "/health", {}))
    onTestFinished(() => clock.stop())
    await expect.poll(() => partitions(second), { interval: 50 }).toBe(64)
    const took = Date.now() - (await lastBeatOf(first, store))
    console.info(`taken over ${Math.round(took)} ms after the last sign of life, with a lease of 4 s`)
    expect(took).toBeGreaterThanOrEqual(4000)
    expect(clock.ms).toBeLessThan(9000)
    first.process.kill("SIGCONT")
    await expect.poll(() => partitions(first)).toBe(32)
  })

  it("S1 X2 a process for webhooks alone takes one for a job of another, and serves nothing else", async () => {
    const store = await storeOf("PostgreSQL")
    vi.stubEnv("UMBRA_PROVIDER_SECRET_FAKE_PROVIDER_SECRET", "fake-provider-secret")
    onTestFinished(() => void vi.unstubAllEnvs())
    const fake = await fakeProvider()
    const definition = { ...fake.definition(), poll_seconds: [3600] }
    const files = folderWith({ "fake.yaml": JSON.stringify(definition) })
    onTestFinished(files.remove)
    const flags = ["--providers", join(files.path, "fake.yaml"), "--allow-private-addresses"]
    const [front, hooks, engine] = await Promise.all([
      serve(store, "--roles", "api", ...flags),
      serve(store, "--roles", "webhooks", ...flags),
      serve(store, "--roles", "engine,worker", ...flags),
    ])
    await ask(front.url, "/workflows", { method: "POST", body: make() })
    const body = { workflow: "make" }
    await expect.poll(async () => (await ask(front.url, "/workers", {})).body.workers.length).toBe(1)
    const job = await expect
      .poll(async () => (await ask(front.url, "/jobs", { method: "POST", body })).body.job_id)
      .toBeTypeOf("string")
      .then(async () => (await ask(front.url, "/jobs", {})).body.jobs[0].job_id as string)
    const kindOf = async () => {
      const { waiting_for } = (await ask(front.url, `/jobs/${job}/graph`, {})).body
      return waiting_for[0]?.kind
    }
    await expect.poll(kindOf).toBe("external")
    fake.webhookUrl = `${front.url}/webhooks/fake`
    const [id] = [...fake.operations.keys()] as [string]
    fake.complete(id)
    expect((await fake.deliver(id)).status).toBe(404)
    fake.webhookUrl = `${hooks.url}/webhooks/fake`
    expect((await fake.deliver(id)).status).toBe(202)
    expect((await ask(front.url, `/jobs/${job}?wait=60`, {})).body).toMatchObject({ status: "COMPLETED" })
    for (const { url } of [hooks, engine]) {
      for (const path of ["/health", "/ready", "/metrics"])
        expect((await ask(url, path, {})).status, path).toBe(200)
      for (const path of [
        "/jobs",
        "/jobs/stream",
        "/workflows",
        "/workers",
        "/providers",
        "/tokens",
        "/docs",
      ])
        expect(await ask(url, path, {}), path).toMatchObject({ status: 404, body: { code: "E634" } })
    }
    expect((await ask(engine.url, "/webhooks/fake", { method: "POST", body: {} })).status).toBe(404)
    await Promise.all([front, hooks, engine].map(stopped))
  })

  it("S1 roles are taken from UMBRA_ROLES and --set; an unknown role and a folder without an engine are refused", async () => {
    const store = await storeOf("PostgreSQL")
    const front = await serve(store, "--set", "roles=api,webhooks")
    expect((await ask(front.url, "/workers", {})).body).toEqual({ workers: [] })
    await stopped(front)
    const refused = async (parameters: readonly string[], env = {}) => {
      const { code, stderr } = await umbra(["serve", "--port", "0", ...parameters], { env })
      expect(code).toBe(2)
      return stderr
    }
    const folder = await storeOf("SQLite")
    const before = readdirSync(folder.location)
    expect(await refused(["--roles", "api,queen", ...storeFlags(folder)])).toMatch(
      /E620 .*some of api, webhooks, engine, worker, separated by commas, not api,queen/,
    )
    expect(await refused(storeFlags(folder), { UMBRA_ROLES: "api" })).toMatch(/E620 .*Use PostgreSQL/)
    expect(readdirSync(folder.location)).toEqual(before)
    expect(await refused(["--roles", "api,worker", ...storeFlags(store)])).toMatch(
      /E620 .*Add the role engine/,
    )
  })
})
