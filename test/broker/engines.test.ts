import { describe, expect, it, onTestFinished } from "vitest"
import type { JobHandle } from "../../src/jobs/handle.ts"
import { flow, gate, handler, until } from "../engine/stage.ts"
import { bareConnection, FleetStage } from "./stage.ts"
import { TickClock } from "./stalls.ts"

const one = flow([{ id: "a", handler: "gate" }])

describe("engines come and go, workers stay", () => {
  it("S6 S7 a task that a worker has in flight is adopted by the next owner, and not begun again", async () => {
    const stage = new FleetStage()
    const first = await stage.engine()
    const slow = gate()
    stage.worker({ handlers: [slow.handler], worker: { startedAfterSeconds: 0.01 } })
    await stage.served(first, "gate")
    const job = await first.submit(one)
    await slow.came()
    await until("its start is stored", async () => (await first.graph(job.id)).nodes[0]!.started_at !== null)
    await first.close()
    const second = await stage.engine()
    await until("it is there", () => second.owns(job.id))
    slow.open("done")
    expect(await second.wait(job.id)).toMatchObject({ status: "COMPLETED" })
    expect(slow.entered).toHaveLength(1)
    expect((await second.node(job.id, "a")).attempt).toBe(1)
  })

  it("S7 a result that arrived while no engine owned its job is read by the next owner", async () => {
    const stage = new FleetStage()
    const first = await stage.engine()
    const slow = gate()
    const worker = stage.worker({ handlers: [slow.handler] })
    await stage.served(first, "gate")
    const job = await first.submit(one)
    await slow.came()
    await first.close()
    slow.open("done")
    await until("it has reported", () => worker.running === 0)
    const second = await stage.engine()
    expect(await second.wait(job.id, { timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED" })
    expect(slow.entered).toHaveLength(1)
  })

  it("S7 tasks that no worker holds begin again under the next owner", async () => {
    const stage = new FleetStage()
    const slow = gate()
    const first = await stage.engine({
      roles: ["engine", "worker"],
      handlers: [slow.handler],
      engine: { drainSeconds: 0 },
    })
    const job = await first.submit(one)
    await slow.came()
    await first.close()
    stage.worker({ handlers: [slow.handler] })
    const second = await stage.engine()
    await slow.came(2)
    slow.open("done")
    expect(await second.wait(job.id)).toMatchObject({ status: "COMPLETED" })
  })

  it("S6 two engines share the work of one fleet", async () => {
    const stage = new FleetStage()
    const engines = [await stage.engine(), await stage.engine()]
    await until("each has partitions", () => engines.every(engine => engine.health().partitions > 0))
    stage.worker({ handlers: [handler("quick", () => "ok")] })
    for (const engine of engines) await stage.served(engine, "quick")
    const quick = flow([{ id: "a", handler: "quick" }])
    const jobs = await Promise.all(Array.from({ length: 40 }, (_, n) => engines[n % 2]!.submit(quick)))
    for (const job of jobs) expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
  })

  it("S6 glue between nodes makes no trip: the engine computes it, and workers have the rest", async () => {
    const stage = new FleetStage()
    const umbra = await stage.engine()
    stage.worker({ handlers: [handler("quick", () => 20)], queues: ["quick"] })
    await stage.served(umbra, "quick")
    const job = await umbra.submit(
      flow([
        { id: "before", handler: "transform", config: { value: 1 } },
        { id: "there", handler: "quick", dependencies: ["before"] },
        { id: "after", handler: "transform", config: { value: "{{ before + there }}" } },
        { id: "list", handler: "transform", config: { value: "{{ item * after }}" }, for_each: [1, 2] },
      ]),
    )
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: { list: [21, 42] } })
    expect(umbra.workers().map(({ handlers }) => handlers)).toEqual([["quick"]])
  })

  it("J16 a cancellation reaches the handler in well under a second", async () => {
    const stage = new FleetStage()
    const umbra = await stage.engine()
    const slow = gate()
    const worker = stage.worker({ handlers: [slow.handler] })
    await stage.served(umbra, "gate")
    const job = await umbra.submit(one)
    const { signal } = await slow.came()
    const { connection } = await bareConnection(stage)
    const clock = new TickClock(() => connection.send(["PING"]))
    onTestFinished(() => clock.stop())
    await job.cancel()
    await until("its signal fires", () => signal.aborted)
    expect(clock.ms).toBeLessThan(1000)
    slow.open()
    await until("its place is free", () => worker.running === 0)
  })

  it("J16 a task that is cancelled before it has begun never begins", async () => {
    const stage = new FleetStage()
    const umbra = await stage.engine()
    const slow = gate()
    stage.worker({ handlers: [slow.handler], worker: { concurrency: 1 }, redis: { prefetch: 1 } })
    await stage.served(umbra, "gate")
    const jobs = []
    for (let n = 0; n < 6; n++) jobs.push(await umbra.submit(one))
    await slow.came()
    for (const job of jobs.slice(1)) await job.cancel()
    const cancelledAt = Date.now()
    await until("the worker has dropped what it had not begun", () => {
      const { queued, last_beat } = umbra.workers()[0]!
      return queued === 0 && Date.parse(last_beat) > cancelledAt + 100
    })
    slow.open()
    await jobs[0]!.wait()
    await umbra.submit(one).then(job => job.wait())
    expect(slow.entered).toHaveLength(2)
  })
})

describe("workers come and go", () => {
  it("S5 one that stops returns what it has not begun, at once", async () => {
    const stage = new FleetStage()
    const umbra = await stage.engine()
    const slow = gate()
    const options = { worker: { concurrency: 1 }, redis: { prefetch: 10, workerDeadSeconds: 3600 } }
    const leaving = stage.worker({ handlers: [slow.handler], ...options })
    await stage.served(umbra, "gate")
    const jobs = await Promise.all(Array.from({ length: 8 }, () => umbra.submit(one)))
    await slow.came()
    const quick = handler("gate", () => "done elsewhere")
    const left = leaving.close()
    stage.worker({ handlers: [quick] })
    slow.open("done")
    await left
    for (const job of jobs)
      expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED" })
    const attempts = await Promise.all(jobs.map(({ id }) => umbra.node(id, "a")))
    expect(attempts.map(({ attempt }) => attempt)).toEqual(new Array(8).fill(1))
  })

  it("S6 a node that keeps killing its workers is failed with the reason", async () => {
    const stage = new FleetStage()
    const umbra = await stage.engine({ engine: { lossLimit: 3 } })
    const deadly = gate()
    const silent = { workerBeatSeconds: 3600, workerDeadSeconds: 2 }
    // So the first death comes before its start is on record.
    const worker = { startedAfterSeconds: 3600 }
    const begin = () => stage.worker({ handlers: [deadly.handler], worker, redis: silent })
    let newest = begin()
    await stage.served(umbra, "gate")
    const job = await umbra.submit(one)
    // From the first loss on its beginning is known before it begins; from the second on it runs alone.
    await until("it has begun five times", () => {
      const known = umbra.workers().find(({ id }) => id === newest.id)
      if (deadly.entered.length < 5 && known?.state === "dead") newest = begin()
      return deadly.entered.length === 5
    })
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ status: "FAILED", error: { code: "E417" } })
  })

  it("S5 progress and previews come from afar", async () => {
    const stage = new FleetStage()
    const umbra = await stage.engine()
    const slow = gate()
    stage.worker({ handlers: [slow.handler] })
    await stage.served(umbra, "gate")
    const job = await umbra.submit(one)
    const ctx = await slow.came()
    ctx.progress(40, "almost half")
    ctx.preview({ page: 1 })
    await until("progress is told", () => umbra.activity(job.id).running[0]?.progress?.percent === 40)
    await until("the preview is told", async () => (await umbra.node(job.id, "a")).preview !== null)
    slow.open()
    await job.wait()
  })

  it("S5 are shown with what they can and do", async () => {
    const stage = new FleetStage()
    const umbra = await stage.engine()
    const slow = gate()
    const worker = stage.worker({ handlers: [slow.handler], queues: ["gate"], worker: { concurrency: 3 } })
    await stage.served(umbra, "gate")
    await umbra.submit(one)
    await slow.came()
    const shown = () => umbra.workers().find(({ id }) => id === worker.id)
    await until("its task is shown", () => shown()?.running === 1)
    expect(shown()).toMatchObject({ state: "live", handlers: ["gate"], concurrency: 3, pid: process.pid })
    expect(umbra.workerCounts).toMatchObject({ live: 1 })
    slow.open()
  })

  it("S5 with only some queues leave the others alone", async () => {
    const stage = new FleetStage()
    const umbra = await stage.engine()
    const slow = gate()
    stage.worker({ handlers: [slow.handler, handler("quick", () => 1)], queues: ["quick"] })
    await stage.served(umbra, "quick")
    await expect(umbra.submit(one)).rejects.toMatchObject({ code: "E103" })
    expect(() => stage.worker({ queues: ["nothing"] })).toThrow(/no handler "nothing"/)
  })
})

it("a workflow is checked with the handlers of a worker that registered a moment ago", async () => {
  // The roster is polled once an hour: the check itself must read it again.
  const stage = new FleetStage(undefined, { workerBeatSeconds: 0.1, rosterSeconds: 3600 })
  const umbra = await stage.engine()
  await expect(umbra.submit(one)).rejects.toMatchObject({ code: "E103" })
  const slow = gate()
  const worker = stage.worker({ handlers: [slow.handler] })
  await until("the worker is registered", () => worker.notReady === null)
  const job = await umbra.submit(one)
  await slow.came()
  slow.open()
  expect((await job.wait()).status).toBe("COMPLETED")
})

describe("engines that are replaced and do not know", () => {
  it("S7 what workers have in flight continues for the successor", async () => {
    const stage = new FleetStage()
    const slow = gate()
    const first = await stage.engine()
    stage.worker({ handlers: [slow.handler] })
    await stage.served(first, "gate")
    const job = await first.submit(one)
    await slow.came()
    const second = await stage.engine()
    stage.rob()
    slow.open("done")
    expect(await second.wait(job.id, { timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED" })
    expect(slow.entered).toHaveLength(1)
  })

  it("S7 robbed again and again: everything ends, and nothing begins that was completed", async () => {
    const stage = new FleetStage()
    const begun: { key: string; at: number }[] = []
    const work = handler("work", async (_, { idempotencyKey: key }) => {
      begun.push({ key, at: Date.now() })
      await new Promise(resolve => setTimeout(resolve, 5))
      return null
    })
    const engines = [await stage.engine(), await stage.engine()]
    for (let n = 0; n < 2; n++) stage.worker({ handlers: [work], worker: { concurrency: 5 } })
    for (const engine of engines) await stage.served(engine, "work")
    const ids = Array.from({ length: 6 }, (_, n) => `n${n}`)
    const chain = flow(
      ids.map((id, n) => ({ id, handler: "work", dependencies: n === 0 ? [] : [`n${n - 1}`] })),
    )
    const jobs: JobHandle[] = []
    for (let n = 0; n < 60; n++) {
      // Whoever owns nothing at the moment says so.
      await until("it is accepted", () =>
        engines[n % 2]!.submit(chain).then(
          job => jobs.push(job),
          () => false,
        ),
      )
      if (n % 6 === 5) stage.rob()
    }
    for (const { id } of jobs)
      expect(await engines[0]!.wait(id, { timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED" })
    const completed = new Map<string, number>()
    for (const { id } of jobs)
      for (const { type, node, at } of await engines[0]!.events(id))
        if (type === "node.completed") completed.set(`${id}/${node}`, at)
    const late = begun.filter(({ key, at }) => at > (completed.get(key) ?? Number.POSITIVE_INFINITY))
    expect(late).toEqual([])
    expect(completed.size).toBe(jobs.length * 6)
  })
})
