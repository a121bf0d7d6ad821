/** Delayed jobs: out of memory until their start time, and all that people do to them before. */
import { describe, expect, it } from "vitest"
import { jobMetrics } from "../../src/core/statistics/job-metrics.ts"
import type { WorkflowSource } from "../../src/jobs/register.ts"
import { createMemoryStore } from "../../src/journal/sqlite/memory.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import type { Umbra } from "../../src/umbra.ts"
import { numbers, route } from "../pipeline/scene.ts"
import { flow, gate, handler, open, openOn, until } from "./stage.ts"

const chain = flow([
  { id: "a", handler: "act" },
  { id: "b", handler: "act", dependencies: ["a"] },
])
const HOUR = 3600

function acting() {
  const runs: string[] = []
  return { runs, handlers: [handler("act", (_config, { nodeId }) => void runs.push(nodeId))] }
}

const iso = (clock: VirtualClock, seconds: number) => new Date(clock.now() + seconds * 1000).toISOString()

/** Moves the clock on, and lets what becomes due be stored, until the job has this status. */
async function comes(umbra: Umbra, clock: VirtualClock, id: string, status: string): Promise<void> {
  await until(`the job is ${status}`, async () => {
    clock.advance(1)
    return (await umbra.job(id)).status === status
  })
}

/** Everything that is due happens. */
async function settled(umbra: Umbra): Promise<void> {
  await until("nothing is in memory", () => umbra.health().liveJobs === 0)
}

describe("a delayed job", () => {
  it("is durable and PENDING, in no memory, and starts at its time", async () => {
    const clock = new VirtualClock()
    const { runs, handlers } = acting()
    const umbra = await open({ handlers, clock })
    const startAt = iso(clock, HOUR)
    const job = await umbra.submit(chain, {}, { startAt, labels: { team: "shop" }, priority: 3 })
    expect(umbra.health().liveJobs).toBe(0)
    const created = await job.status()
    expect(created).toMatchObject({ status: "PENDING", start_at: startAt, priority: 3, usage: {} })
    expect(created.labels).toEqual({ team: "shop" })
    const pending = await umbra.queries.jobPage({ statuses: ["PENDING"], limit: 10 })
    expect(pending.jobs.map(({ job_id }) => job_id)).toEqual([job.id])
    expect((await umbra.queries.jobPage({ statuses: ["QUEUED", "PROCESSING"], limit: 10 })).jobs).toEqual([])
    const { nodes, status, workflow_status } = await umbra.graph(job.id)
    expect([status, workflow_status]).toEqual(["PENDING", null])
    expect(nodes.map(({ status: node, waiting_on }) => [node, waiting_on])).toEqual([
      ["PENDING", { kind: "start_time", until: Date.parse(startAt) }],
      ["PENDING", { kind: "dependencies", nodes: ["a"] }],
    ])
    clock.advance(HOUR * 1000 - 1)
    await new Promise(resolve => setImmediate(resolve))
    expect([runs, (await job.status()).status]).toEqual([[], "PENDING"])
    clock.advance(1)
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", start_at: startAt })
    expect(runs).toEqual(["a", "b"])
    await settled(umbra)
    expect(await umbra.queries.verify(await umbra.queries.row(job.id))).toEqual([])
    const events = await umbra.events(job.id)
    expect(
      events.filter(({ type }) => type.startsWith("job.")).map(({ type, source }) => [type, source]),
    ).toEqual([
      ["job.pending", "command"],
      ["job.queued", "timer"],
      ["job.dispatching", "timer"],
      ["job.processing", "engine"],
      ["job.completed", "engine"],
    ])
    expect(events[0]!.payload).toMatchObject({ start_at: Date.parse(startAt), expires_at: null })
  })

  it("has a delay by the engine's clock, and a start that has passed is at once", async () => {
    const clock = new VirtualClock()
    const { handlers } = acting()
    const umbra = await open({ handlers, clock })
    const later = await umbra.submit(chain, {}, { delaySeconds: 1.5 })
    const { created_at, start_at } = await later.status()
    expect(Date.parse(start_at!) - Date.parse(created_at)).toBe(1500)
    for (const options of [
      { startAt: iso(clock, -HOUR) },
      { startAt: new Date(clock.now()) },
      { delaySeconds: 0 },
    ]) {
      const job = await umbra.submit(chain, {}, options)
      expect(await job.wait()).toMatchObject({ status: "COMPLETED", start_at: null })
    }
  })

  it.each([
    [{ startAt: "tomorrow" }, /start_at must be a time with its zone/],
    [{ startAt: "2030-01-01T12:00:00" }, /with its zone/],
    [{ startAt: "2030-02-31T12:00:00Z" }, /start_at/],
    [{ startAt: "+012030-01-01T12:00:00Z" }, /from 1970 to 9999/],
    [{ startAt: new Date(8.64e15) }, /from 1970 to 9999/],
    [{ startAt: new Date(Number.NaN) }, /start_at/],
    [{ startAt: "1969-12-31T00:00:00Z" }, /from 1970/],
    [{ startAt: null }, /start_at/],
    [{ startAt: 17 }, /start_at/],
    [{ delaySeconds: -1 }, /delay_seconds must be a number from 0/],
    [{ delaySeconds: Number.NaN }, /delay_seconds/],
    [{ delaySeconds: 1e11 }, /delay_seconds/],
    [{ delaySeconds: "60" }, /delay_seconds/],
    [{ delaySeconds: 5, startAt: "2030-01-01T12:00:00Z" }, /not both/],
  ])("is refused with %j", async (options, message) => {
    const umbra = await open({ handlers: acting().handlers })
    const given = options as object
    await expect(umbra.submit(chain, {}, given)).rejects.toMatchObject({
      code: "E309",
      message: expect.stringMatching(message),
    })
    const [one, two] = await umbra.submitMany([{ workflow: chain, options: given }, { workflow: chain }])
    expect(one).toMatchObject({ error: { code: "E309" } })
    expect(two!.job).toBeDefined()
    const job = await umbra.submit(chain, {}, { delaySeconds: HOUR })
    await expect(job.reschedule(given)).rejects.toMatchObject({ code: "E309" })
    await expect(job.reschedule({})).rejects.toMatchObject({ code: "E309" })
  })

  it("has its whole time to live from its start on, however late it starts", async () => {
    const clock = new VirtualClock()
    const work = gate("act")
    const store = createMemoryStore()
    const first = await openOn(store, { handlers: acting().handlers, clock })
    const { id } = await first.submit(chain, {}, { delaySeconds: HOUR, ttlSeconds: 60 })
    await first.close()
    clock.advance(5 * HOUR * 1000)
    const umbra = await openOn(store, { handlers: [work.handler], clock })
    const begun = work.came()
    await comes(umbra, clock, id, "PROCESSING")
    await begun
    clock.advance(50_000)
    await new Promise(resolve => setImmediate(resolve))
    expect((await umbra.job(id)).status).toBe("PROCESSING")
    clock.advance(10_000)
    await comes(umbra, clock, id, "EXPIRED")
    work.open()
  })

  it("shows why, now and at past moments", async () => {
    const clock = new VirtualClock()
    const umbra = await open({ handlers: acting().handlers, clock })
    const startAt = iso(clock, HOUR)
    const job = await umbra.submit(chain, {}, { startAt })
    const why = await job.why()
    expect(why).toMatchObject({
      status: "PENDING",
      sentence: `Node a waits for the start time of the job, ${startAt}.`,
      action: expect.stringContaining(`umbra jobs reschedule ${job.id} --delay 0s`),
    })
    expect(why.reasons[0]).toMatchObject({ kind: "start_time", nodes: ["a"], until: startAt })
    expect((await job.why({ node: "b" })).chain.map(({ kind }) => kind)).toEqual(["dependency", "start_time"])
    await job.reschedule({ delaySeconds: 0 })
    await comes(umbra, clock, job.id, "COMPLETED")
    const past = await job.why({ at: { index: 1 } })
    expect(past.reasons[0]).toMatchObject({ kind: "start_time", until: startAt })
    expect((await job.why()).reasons).toEqual([])
  })

  it("does not count its delay as waiting time", async () => {
    const clock = new VirtualClock()
    const umbra = await open({ handlers: acting().handlers, clock })
    const job = await umbra.submit(chain, {}, { delaySeconds: HOUR })
    clock.advance(HOUR * 1000)
    await job.wait()
    const { facts, state } = await umbra.queries.fold(job.id)
    expect(jobMetrics(state)).toMatchObject({ durationMs: 0, queuedMs: 0 })
    expect(facts.map(({ fact }) => fact.type)).toEqual([
      "job_submitted",
      "job_started",
      "node_completed",
      "node_completed",
    ])
    const { nodes } = await umbra.graph(job.id)
    for (const { queued_ms } of nodes) expect(queued_ms).toBe(0)
  })

  it("keeps its key: the same delay again is the same job, another is refused", async () => {
    const clock = new VirtualClock()
    const umbra = await open({ handlers: acting().handlers, clock })
    const options = { delaySeconds: HOUR, idempotencyKey: "k" }
    const job = await umbra.submit(chain, {}, options)
    clock.advance(60_000)
    expect((await umbra.submit(chain, {}, options)).id).toBe(job.id)
    for (const other of [{ delaySeconds: 5 }, {}, { startAt: iso(clock, HOUR) }])
      await expect(umbra.submit(chain, {}, { idempotencyKey: "k", ...other })).rejects.toMatchObject({
        code: "E306",
      })
  })

  it("keeps its key: the same moment in another zone is the same job, another moment is refused", async () => {
    const umbra = await open({ handlers: acting().handlers })
    const submit = (startAt: string | Date) => umbra.submit(chain, {}, { startAt, idempotencyKey: "k" })
    const { id } = await submit("2040-01-01T12:00:00+01:00")
    for (const startAt of [
      "2040-01-01T11:00:00Z",
      "2040-01-01T11:00:00.000Z",
      new Date("2040-01-01T11:00:00Z"),
    ])
      expect((await submit(startAt)).id).toBe(id)
    await expect(submit("2040-01-01T11:00:00+01:00")).rejects.toMatchObject({ code: "E306" })
  })

  it("is refused for a pipeline, whose place is claimed when it is submitted", async () => {
    const umbra = await open({ adapters: [numbers] })
    const pipeline = { name: "p", routes: [route("only", ["numbers"])] } as unknown as WorkflowSource
    const submitting = umbra.submit(pipeline, { count: 1 }, { delaySeconds: 5 })
    await expect(submitting).rejects.toMatchObject({
      code: "E309",
      message: expect.stringContaining("a pipeline cannot be delayed"),
    })
    expect((await umbra.queries.jobPage({ limit: 5 })).jobs).toEqual([])
  })
})

describe("before its start a job", () => {
  async function delayed(options: object = {}) {
    const clock = new VirtualClock()
    const { runs, handlers } = acting()
    const umbra = await open({ handlers, clock })
    const job = await umbra.submit(chain, {}, { delaySeconds: HOUR, ...options })
    return { clock, runs, umbra, job }
  }

  it("can be moved, earlier and later, and only then", async () => {
    const { clock, runs, umbra, job } = await delayed()
    const later = iso(clock, 3 * HOUR)
    await job.reschedule({ startAt: later })
    expect(await job.status()).toMatchObject({ status: "PENDING", start_at: later })
    await settled(umbra)
    clock.advance(2 * HOUR * 1000)
    await new Promise(resolve => setImmediate(resolve))
    expect((await job.status()).status).toBe("PENDING")
    const sooner = iso(clock, 10)
    await job.reschedule({ delaySeconds: 10 })
    expect((await job.status()).start_at).toBe(sooner)
    // The same time again changes nothing.
    await job.reschedule({ startAt: sooner })
    clock.advance(10_000)
    expect((await job.wait()).status).toBe("COMPLETED")
    expect(runs).toEqual(["a", "b"])
    await expect(job.reschedule({ delaySeconds: 5 })).rejects.toMatchObject({ code: "E302" })
    const events = (await umbra.events(job.id)).filter(({ type }) => type === "job.rescheduled")
    expect(events.map(({ payload }) => payload.start_at)).toEqual([later, sooner].map(Date.parse))
  })

  it("cannot be moved any more once it runs", async () => {
    const work = gate("act")
    const umbra = await open({ handlers: [work.handler] })
    const job = await umbra.submit(chain)
    await work.came()
    await expect(job.reschedule({ delaySeconds: 5 })).rejects.toMatchObject({ code: "E319" })
    work.open()
  })

  it("can be cancelled, and runs at once when it is retried", async () => {
    const { clock, runs, umbra, job } = await delayed()
    await job.cancel("not wanted")
    expect(await job.status()).toMatchObject({ status: "CANCELLED", reason: "not wanted" })
    clock.advance(2 * HOUR * 1000)
    await settled(umbra)
    expect(runs).toEqual([])
    await job.retry()
    expect((await job.wait()).status).toBe("COMPLETED")
    expect(runs).toEqual(["a", "b"])
  })

  it("starts when it is retried, if that is before its start time", async () => {
    const { clock, job } = await delayed()
    await job.cancel()
    clock.advance(60_000)
    const at = clock.now()
    await job.retry()
    expect(Date.parse((await job.wait()).start_at!)).toBe(at)
  })

  it("can be deleted, and never runs", async () => {
    const { clock, runs, umbra, job } = await delayed()
    await job.delete()
    expect(await job.status()).toMatchObject({ status: "DELETED", reason: "deleted before its start" })
    expect((await umbra.queries.jobPage({ limit: 10 })).jobs).toEqual([])
    clock.advance(2 * HOUR * 1000)
    await settled(umbra)
    expect(runs).toEqual([])
    expect(await umbra.queries.verify(await umbra.queries.row(job.id))).toEqual([])
    await expect(job.delete()).rejects.toMatchObject({ code: "E307" })
  })

  it("can be paused: it starts when it is resumed and its time has come", async () => {
    const { clock, runs, umbra, job } = await delayed()
    await job.pause({ by: "ada", reason: "prices" })
    await settled(umbra)
    clock.advance(2 * HOUR * 1000)
    await new Promise(resolve => setImmediate(resolve))
    expect(await job.status()).toMatchObject({ status: "PENDING", paused: { by: "ada" } })
    expect((await job.why()).reasons[0]!.kind).toBe("paused")
    const later = iso(clock, 60)
    await job.reschedule({ startAt: later })
    expect((await job.why()).reasons[0]!.kind).toBe("paused")
    await job.resume()
    expect((await job.why()).reasons[0]).toMatchObject({ kind: "start_time", until: later })
    expect(runs).toEqual([])
    clock.advance(60_000)
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", paused: null, start_at: later })
  })

  it("waits with its paused workflow too", async () => {
    const clock = new VirtualClock()
    const { runs, handlers } = acting()
    const umbra = await open({ handlers, clock })
    await umbra.register(chain)
    await umbra.pauseWorkflow("flow")
    const job = await umbra.submit("flow", {}, { delaySeconds: 60 })
    expect(await job.status()).toMatchObject({ status: "PENDING", start_at: iso(clock, 60) })
    expect((await job.status()).paused).not.toBeNull()
    clock.advance(120_000)
    await new Promise(resolve => setImmediate(resolve))
    expect(runs).toEqual([])
    await job.resume()
    await comes(umbra, clock, job.id, "COMPLETED")
  })

  it("is resumed with its workflow, and starts at its time", async () => {
    const clock = new VirtualClock()
    const { runs, handlers } = acting()
    const umbra = await open({ handlers, clock })
    await umbra.register(chain)
    await umbra.pauseWorkflow("flow")
    const job = await umbra.submit("flow", {}, { delaySeconds: 600 })
    const { sentence, reasons } = await job.why()
    expect(sentence).toContain("paused")
    expect(reasons[0]).toMatchObject({ kind: "paused", action: expect.stringContaining("resume flow,") })
    await umbra.resumeWorkflow("flow")
    await expect.poll(async () => (await job.status()).paused).toBeNull()
    expect((await job.why()).reasons[0]!.kind).toBe("start_time")
    expect(runs).toEqual([])
    clock.advance(600_000)
    await comes(umbra, clock, job.id, "COMPLETED")
  })

  it("refuses a start that is none, with a sentence", async () => {
    const { umbra, job } = await delayed()
    const refused = (start: unknown) =>
      expect(umbra.reschedule(job.id, start as { delaySeconds: number })).rejects
    await refused({}).toMatchObject({ code: "E309", message: expect.stringContaining("give start_at or") })
    await refused(undefined).toMatchObject({ code: "E309" })
    await refused({ startAt: "2030-01-01T00:00Z" }).toMatchObject({ code: "E309" })
    await refused({ startAt: new Date(Number.NaN) }).toMatchObject({ code: "E309" })
  })

  it("keeps signals, labels and a note", async () => {
    const clock = new VirtualClock()
    const umbra = await open({ clock })
    const waits = flow([{ id: "w", handler: "wait_for_signal", config: { signal: "go" } }])
    const job = await umbra.submit(waits, {}, { delaySeconds: 60 })
    await job.signal("go", 17)
    await job.describe({ labels: { team: "x" }, note: "for the night" })
    expect(await job.status()).toMatchObject({
      status: "PENDING",
      labels: { team: "x" },
      note: { text: "for the night" },
    })
    expect((await umbra.queries.jobPage({ labels: { team: "x" }, limit: 5 })).jobs).toHaveLength(1)
    clock.advance(60_000)
    await comes(umbra, clock, job.id, "COMPLETED")
  })

  it("can be forked: the fork starts at once", async () => {
    const { runs, job } = await delayed()
    const fork = await job.fork({ confirm: { unknown: true } })
    expect(await fork.wait()).toMatchObject({ status: "COMPLETED", start_at: null, forked_from: job.id })
    expect(runs).toEqual(["a", "b"])
    expect((await job.status()).status).toBe("PENDING")
  })
})

describe("many delayed jobs", () => {
  it("start together, run once each, and fill no more than the window of their queue", async () => {
    const clock = new VirtualClock()
    const runs = new Map<number, number>()
    const work = gate("hold")
    const count = handler("count", async (_config, { input }) => {
      const { x } = input as { x: number }
      runs.set(x, (runs.get(x) ?? 0) + 1)
      await work.left
    })
    const umbra = await open({ handlers: [count], clock, worker: { concurrency: 10 } })
    const single = flow([{ id: "a", handler: "count" }])
    const inputs = Array.from({ length: 3000 }, (_, x) => ({ x }))
    const results = await umbra.submitMany(single, inputs, { delaySeconds: 60 })
    expect(umbra.health().liveJobs).toBe(0)
    clock.advance(60_000)
    const queued = async () =>
      (await umbra.queries.jobPage({ statuses: ["QUEUED"], limit: 1000 })).jobs.length
    await until("those without a place wait as rows", async () => (await queued()) >= 1000)
    await until("the window is full", () => umbra.health().liveJobs <= 1100)
    expect((await umbra.queries.jobPage({ statuses: ["PENDING"], limit: 10 })).jobs).toEqual([])
    work.open()
    for (const { job } of results) expect((await job!.wait()).status).toBe("COMPLETED")
    expect([...runs.values()].every(times => times === 1)).toBe(true)
    expect(runs.size).toBe(3000)
  })

  it("that started and wait as rows are found by the next engine, also if their delay is longer than their time to live", async () => {
    const clock = new VirtualClock()
    const store = createMemoryStore()
    const work = gate("count")
    const first = await openOn(store, { handlers: [work.handler], clock, worker: { concurrency: 5 } })
    const single = flow([{ id: "a", handler: "count" }])
    const inputs = Array.from({ length: 1500 }, (_, x) => ({ x }))
    const results = [
      ...(await first.submitMany(single, inputs, { delaySeconds: HOUR, ttlSeconds: 60 })),
      ...(await first.submitMany(single, inputs, { delaySeconds: HOUR, ttlSeconds: null })),
    ]
    clock.advance(HOUR * 1000)
    const pending = async () =>
      (await first.queries.jobPage({ statuses: ["PENDING"], limit: 10 })).jobs.length
    await until("all have started", async () => (await pending()) === 0)
    expect((await first.queries.jobPage({ statuses: ["QUEUED"], limit: 10 })).jobs).toHaveLength(10)
    const closing = first.close()
    await until("it has closed", async () => {
      clock.advance(1000)
      return Promise.race([
        closing.then(() => true),
        new Promise(resolve => setImmediate(() => resolve(false))),
      ])
    })
    const runs = new Map<number, number>()
    const count = handler("count", (_config, { input }) => {
      const { x } = input as { x: number }
      runs.set(x, (runs.get(x) ?? 0) + 1)
    })
    const second = await openOn(store, { handlers: [count], clock })
    const ends = new Map<string, number>()
    for (const { job } of results) {
      const { status } = await second.wait(job!.id)
      ends.set(status, (ends.get(status) ?? 0) + 1)
    }
    // Those with a time to live may have expired while the first engine closed: none is lost, and none runs twice.
    expect((ends.get("COMPLETED") ?? 0) + (ends.get("EXPIRED") ?? 0)).toBe(3000)
    expect(ends.get("COMPLETED")).toBeGreaterThanOrEqual(1500)
    expect([...runs.values()].reduce((sum, times) => sum + times, 0)).toBe(ends.get("COMPLETED"))
  })

  it("move to another engine with their partitions, and start there", async () => {
    const clock = new VirtualClock()
    const store = createMemoryStore()
    const { runs, handlers } = acting()
    const first = await openOn(store, { handlers, clock })
    const jobs = await first.submitMany(
      chain,
      Array.from({ length: 50 }, () => ({})),
      { delaySeconds: HOUR },
    )
    await first.close()
    expect(runs).toEqual([])
    const second = await openOn(store, { handlers, clock })
    clock.advance(HOUR * 1000)
    for (const { job } of jobs) await comes(second, clock, job!.id, "COMPLETED")
    expect(runs).toHaveLength(100)
  })

  it("are cancelled and deleted by bulk operations", async () => {
    const clock = new VirtualClock()
    const { runs, handlers } = acting()
    const umbra = await open({ handlers, clock })
    await umbra.submitMany(
      chain,
      Array.from({ length: 20 }, () => ({})),
      { delaySeconds: HOUR },
    )
    await umbra.submitMany(
      chain,
      Array.from({ length: 20 }, () => ({})),
      {
        delaySeconds: HOUR,
        labels: { drop: "yes" },
      },
    )
    const remove = await umbra.bulk.start({
      verb: "delete",
      filter: { statuses: ["PENDING"], labels: { drop: "yes" } },
    })
    await comes(umbra, clock, remove.bulk_id, "COMPLETED")
    const cancel = await umbra.bulk.start({ verb: "cancel", filter: { workflow: "flow" } })
    await comes(umbra, clock, cancel.bulk_id, "COMPLETED")
    const counts = async (status: "PENDING" | "CANCELLED" | "DELETED") =>
      (await umbra.queries.jobPage({ statuses: [status], workflow: "flow", limit: 100, deleted: true })).jobs
        .length
    expect([await counts("PENDING"), await counts("CANCELLED"), await counts("DELETED")]).toEqual([0, 20, 20])
    clock.advance(2 * HOUR * 1000)
    await settled(umbra)
    expect(runs).toEqual([])
  })
})
