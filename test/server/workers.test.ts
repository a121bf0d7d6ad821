/** Workers, health, readiness and metrics: what a process says of itself and of the others (S2, S5). */
import { describe, expect, it, onTestFinished } from "vitest"
import { nextBeat } from "../../src/engine/partitions/heartbeat.ts"
import { JournalUnavailableError } from "../../src/journal/errors.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { openUmbra } from "../../src/umbra.ts"
import { version } from "../../src/version.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { gate } from "../engine/stage.ts"
import { putEngine, setOwner } from "../support/store-tables.ts"
import { hello, openStage, type StageOptions, stores } from "./stage.ts"

/** Nobody is taken for dead because the machine stood still for a moment. */
const quick = { beatSeconds: 0.05, leaseSeconds: 2, workerDeadSeconds: 2 }

async function stageOf(options: StageOptions = {}) {
  const stage = await openStage(options)
  onTestFinished(() => stage.close())
  return stage
}

describe("/workers and /health", () => {
  it("S5 show this process alone on a store that no other process can open", async () => {
    const busy = gate()
    const stage = await stageOf({ umbra: { handlers: [busy.handler], worker: { concurrency: 7 } } })
    await stage.ask("/workflows", {
      method: "POST",
      body: { name: "g", nodes: [{ id: "a", handler: "gate" }] },
    })
    await stage.ask("/jobs", { method: "POST", body: { workflow: "g" } })
    await busy.came()
    const { workers } = (await stage.ask("/workers")).body
    expect(workers).toHaveLength(1)
    expect(workers[0]).toMatchObject({
      state: "live",
      pid: process.pid,
      version,
      concurrency: 7,
      running: 1,
      queued: 0,
      partitions: 64,
    })
    expect(workers[0].handlers).toEqual(expect.arrayContaining(["gate", "transform"]))
    expect((await stage.ask("/health")).body).toEqual({ status: "ok", workers: { live: 1, dead: 0 } })
    const { engines, partitions, unowned } = (await stage.ask("/engines")).body
    expect(engines).toMatchObject([{ id: workers[0].id, state: "live", pid: process.pid, version }])
    expect(engines[0].partitions).toEqual(Array.from({ length: 64 }, (_, n) => n))
    expect([partitions, unowned]).toEqual([64, []])
    busy.open()
  })

  it("S3 needs admin, since it shows what works for all owners", async () => {
    const stage = await stageOf({ withTokens: true })
    const [admin, manager] = [await stage.token("a", "admin"), await stage.token("a", "manage", "read")]
    expect((await stage.ask("/workers", { token: manager })).status).toBe(403)
    expect((await stage.ask("/workers", { token: admin })).status).toBe(200)
    expect((await stage.ask("/workers")).status).toBe(401)
  })

  it("S5 processes on one PostgreSQL see each other; a killed one is dead, a stopped one is not listed", async () => {
    const store = await stores.PostgreSQL!()
    onTestFinished(() => store.remove())
    const engine = quick
    const stage = await stageOf({ location: store.location, umbra: { engine } })
    const mine = defineHandler({ name: "only_there", run: () => 1 })
    const other = await openUmbra(store.location, { handlers: [mine], engine, worker: { concurrency: 3 } })
    let isClosed = false
    onTestFinished(() => (isClosed ? undefined : other.close()))
    const workers = async () => (await stage.ask("/workers")).body.workers
    await expect.poll(async () => (await workers()).length).toBe(2)
    const found = async () => (await workers()).find((row: { id: string }) => row.id !== ownId)
    const ownId = (await workers())[0].id
    expect(await found()).toMatchObject({ state: "live", concurrency: 3, version })
    expect((await found()).handlers).toContain("only_there")
    await expect.poll(async () => (await found()).partitions).toBe(32)
    const { last_beat } = await found()
    expect(Date.parse(last_beat)).toBeLessThanOrEqual(Date.now())
    await expect.poll(async () => (await found()).last_beat > last_beat).toBe(true)
    expect((await stage.ask("/health")).body.workers).toEqual({ live: 2, dead: 0 })

    // One that died elsewhere long ago, and one that has just fallen silent.
    const pg = await import("pg")
    const client = new pg.default.Client(store.location)
    await client.connect()
    onTestFinished(() => client.end())
    const place = JSON.parse(
      (await client.query("select place from umbra.engines limit 1")).rows[0].place as string,
    )
    const elsewhere = JSON.stringify({ ...place, host: "elsewhere", boot: "other" })
    const insert = "insert into umbra.engines (id, place, beat) values ($1, $2, $3)"
    await client.query(insert, ["long-dead", elsewhere, Date.now() - 60_000])
    await client.query(insert, ["silent", elsewhere, Date.now()])
    const stateOf = async (id: string) =>
      (await workers()).find((row: { id: string }) => row.id === id)?.state
    await expect.poll(() => stateOf("long-dead")).toBe("dead")
    await expect.poll(() => stateOf("silent")).toBe("dead")
    expect((await stage.ask("/health")).body.workers).toEqual({ live: 2, dead: 2 })
    expect((await stage.ask("/metrics")).body).toContain('umbra_workers{state="dead"} 2')
    await client.query("update umbra.engines set beat = $1 where id = 'silent'", [Date.now() + 1])
    await expect.poll(() => stateOf("silent")).toBe("live")

    await other.close()
    isClosed = true
    await expect.poll(async () => (await workers()).length).toBe(3)
  })

  it("a beat is the time, and always more than the last", () => {
    expect(nextBeat(5, 1000)).toBe(1000)
    expect(nextBeat(1000, 900)).toBe(1001)
  })
})

describe("/ready", () => {
  it("S2 is 503 while the database is away, and 200 when it is back", async () => {
    const journal = openMemory()
    const readPartitions = journal.readPartitions.bind(journal)
    let isAway = false
    journal.readPartitions = () =>
      isAway ? Promise.reject(new JournalUnavailableError("away")) : readPartitions()
    const stage = await stageOf({ location: journal as never })
    expect(await stage.ask("/ready")).toMatchObject({ status: 200, body: { ready: true, partitions: 64 } })
    isAway = true
    expect(await stage.ask("/ready")).toMatchObject({ status: 503, body: { ready: false, database: "away" } })
    isAway = false
    expect((await stage.ask("/ready")).status).toBe(200)
  })

  it("S2 is 503 until a partition is taken", async () => {
    const store = createMemoryStore({ partitions: 2 })
    setOwner(store, "somebody")
    // Has beaten whenever it is looked at, as long as the test says so, and so keeps what it has.
    let [isAlive, beats] = [true, 1]
    const journal = openMemory(store)
    const beat = journal.beat
    journal.beat = engine => {
      if (isAlive) beats++
      putEngine(store, { engine: "somebody", place: "elsewhere", beat: beats, follows: false })
      return beat(engine)
    }
    const stage = await stageOf({ location: journal as never, umbra: { engine: quick } })
    expect(await stage.ask("/ready")).toMatchObject({
      status: 503,
      body: { ready: false, database: "reachable", partitions: 0 },
    })
    isAlive = false
    await expect.poll(async () => (await stage.ask("/ready")).status).toBe(200)
  })

  it("S2 of a process without an engine shows whether there was one since it started, whatever was requested meanwhile", async () => {
    const store = createMemoryStore()
    const umbra = { engine: quick, roles: ["api"] as const }
    const stage = await stageOf({ location: openMemory(store) as never, umbra })
    expect(await stage.ask("/ready")).toMatchObject({ status: 503, body: { ready: false, engine: false } })
    const engine = await openUmbra(openMemory(store), { engine: quick })
    await expect.poll(() => stage.umbra.health().hasTaker).toBe(true)
    await engine.close()
    await expect.poll(() => stage.umbra.health().hasTaker).toBe(false)
    expect(await stage.ask("/ready")).toMatchObject({ status: 200, body: { ready: true, engine: false } })
  })

  it("S2 a process that is one more than there are partitions lacks nothing", async () => {
    const store = createMemoryStore({ partitions: 1 })
    const first = await stageOf({ location: openMemory(store) as never, umbra: { engine: quick } })
    await expect.poll(async () => (await first.ask("/ready")).status).toBe(200)
    const second = await stageOf({ location: openMemory(store) as never, umbra: { engine: quick } })
    await expect
      .poll(async () => (await second.ask("/ready")).body)
      .toMatchObject({ ready: true, partitions: 0 })
  })
})

describe("/metrics", () => {
  it("S2 has jobs and nodes by state, queue, handlers, appends, retries and HTTP", async () => {
    const busy = gate()
    let tries = 0
    const flaky = defineHandler({
      name: "flaky",
      run: () => {
        if (++tries === 1) throw new Error("once")
        return 1
      },
    })
    const worker = { concurrency: 1, startedAfterSeconds: 3600 }
    const stage = await stageOf({ umbra: { handlers: [busy.handler, flaky], worker } })
    const retry = { max_attempts: 2, initial_seconds: 0.01, jitter: 0 }
    const definitions = [
      hello,
      {
        name: "held",
        nodes: [
          { id: "a", handler: "gate" },
          { id: "b", handler: "input", dependencies: ["a"] },
        ],
      },
      { name: "flaky", nodes: [{ id: "a", handler: "flaky", retry }] },
    ]
    for (const body of definitions) await stage.ask("/workflows", { method: "POST", body })
    const submit = (workflow: string, query = "") =>
      stage.ask(`/jobs${query}`, { method: "POST", body: { workflow, input: { name: "x" } } })
    await submit("hello", "?wait=20")
    await submit("flaky", "?wait=20")
    await submit("held")
    await busy.came()
    await submit("hello")
    const text = async () => (await stage.ask("/metrics")).body as string
    await expect.poll(text).toContain("umbra_queue_depth 1")
    const found = await text()
    for (const line of [
      'umbra_jobs{status="PROCESSING"} 2',
      // The handler of one of them runs, although its start is not stored.
      'umbra_nodes{status="RUNNING"} 1',
      'umbra_nodes{status="QUEUED"} 1',
      'umbra_nodes{status="PENDING"} 1',
      "umbra_running_attempts 1",
      "umbra_jobs_submitted_total 4",
      'umbra_jobs_ended_total{status="COMPLETED"} 2',
      "umbra_job_seconds_count 2",
      "umbra_queue_wait_seconds_count 4",
      'umbra_handler_seconds_count{handler="flaky"} 2',
      'umbra_attempts_total{handler="flaky",outcome="failed"} 1',
      'umbra_attempts_total{handler="flaky",outcome="completed"} 1',
      "umbra_retries_total 1",
      "umbra_partitions 64",
      'umbra_workers{state="live"} 1',
      'umbra_http_request_seconds_count{method="POST",route="/workflows",status="201"} 3',
      'umbra_http_request_seconds_bucket{method="POST",route="/workflows",status="201",le="+Inf"} 3',
    ])
      expect(found.split("\n")).toContain(line)
    expect(found).toMatch(/umbra_append_facts_bucket\{le="\+Inf"\} [1-9]/)
    expect(found).toMatch(/umbra_append_seconds_count [1-9]/)
    expect(found).toContain("process_cpu_user_seconds_total")
    busy.open()
  })
})
