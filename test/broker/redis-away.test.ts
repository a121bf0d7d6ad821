import { describe, expect, it, onTestFinished } from "vitest"
import { proxyTo } from "../engine/proxy.ts"
import { flow, gate, handler, until } from "../engine/stage.ts"
import { PrivateRedis } from "./private-redis.ts"
import { FleetStage } from "./stage.ts"

/** Counts how often each node of each job was run. */
function counting(ms = 0) {
  const runs = new Map<string, number>()
  const run = async (_: unknown, { idempotencyKey }: { idempotencyKey: string }) => {
    runs.set(idempotencyKey, (runs.get(idempotencyKey) ?? 0) + 1)
    await new Promise(resolve => setTimeout(resolve, ms))
    return null
  }
  return { runs, handler: handler("count", run) }
}

const chain = flow([
  { id: "a", handler: "count" },
  { id: "b", handler: "count", dependencies: ["a"] },
  { id: "c", handler: "count", dependencies: ["b"] },
])

async function fleet() {
  const redis = await PrivateRedis.start()
  const stage = new FleetStage(redis.url)
  const umbra = await stage.engine()
  return { redis, stage, umbra }
}

describe("Redis holds nothing that cannot be lost (S6)", () => {
  it("flushed under load: everything ends, and what ran in a worker continues there", async () => {
    const { redis, stage, umbra } = await fleet()
    const { runs, handler: count } = counting(20)
    for (let n = 0; n < 2; n++)
      stage.worker({ handlers: [count], worker: { concurrency: 5 }, redis: { prefetch: 5 } })
    await stage.served(umbra, "count")
    const jobs = await Promise.all(Array.from({ length: 100 }, () => umbra.submit(chain)))
    for (let n = 0; n < 3; n++) {
      await until("work goes on", () => runs.size > n * 40 + 20)
      await redis.flush()
    }
    for (const job of jobs) expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
    expect(runs.size).toBe(300)
  })

  it("flushed while one handler runs: it is not begun again", async () => {
    const redis = await PrivateRedis.start()
    // On a busy machine a beat may be late.
    const settings = { workerBeatSeconds: 0.1, workerDeadSeconds: 5, rosterSeconds: 0.05, answerSeconds: 2 }
    const stage = new FleetStage(redis.url, settings)
    const umbra = await stage.engine()
    const slow = gate()
    stage.worker({ handlers: [slow.handler] })
    await stage.served(umbra, "gate")
    const job = await umbra.submit(flow([{ id: "a", handler: "gate" }]))
    await slow.came()
    await redis.flush()
    await new Promise(resolve => setTimeout(resolve, 1500))
    slow.open("done")
    expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
    expect(slow.entered).toHaveLength(1)
  })

  it("flushed while the engine is replaced: the new one waits for workers that it does not know", async () => {
    const redis = await PrivateRedis.start()
    const settings = { workerBeatSeconds: 0.7, workerDeadSeconds: 3, rosterSeconds: 0.05, answerSeconds: 1 }
    const stage = new FleetStage(redis.url, settings)
    const first = await stage.engine()
    const slow = gate()
    // With no room it does not read, and so does not notice the flush before its next beat.
    stage.worker({ handlers: [slow.handler], worker: { concurrency: 1 }, redis: { prefetch: 1 } })
    await stage.served(first, "gate")
    const jobs = []
    for (let n = 0; n < 2; n++) jobs.push(await first.submit(flow([{ id: "a", handler: "gate" }])))
    await slow.came()
    const [shown] = first.workers()
    await until("it says that it has both", () => {
      const [now] = first.workers()
      return now!.queued === 1 && now!.last_beat !== shown!.last_beat
    })
    await first.close()
    await redis.flush()
    const second = await stage.engine()
    await until("the worker is back", () => second.workers().length > 0)
    slow.open("done")
    for (const { id } of jobs) {
      expect(await second.wait(id)).toMatchObject({ status: "COMPLETED" })
      expect((await second.node(id, "a")).attempt).toBe(1)
    }
    expect(slow.entered).toHaveLength(2)
  })

  it("killed and restarted again and again: everything ends", async () => {
    const { redis, stage, umbra } = await fleet()
    const { runs, handler: count } = counting(5)
    for (let n = 0; n < 2; n++) stage.worker({ handlers: [count], worker: { concurrency: 5 } })
    await stage.served(umbra, "count")
    const jobs = await Promise.all(Array.from({ length: 100 }, () => umbra.submit(chain)))
    for (let n = 0; n < 3; n++) {
      await until("work goes on", () => runs.size > n * 60 + 20)
      await redis.kill()
      await redis.begin()
    }
    for (const job of jobs) expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
  })

  it("set back to an old snapshot: nothing that was completed runs again", async () => {
    const { redis, stage, umbra } = await fleet()
    const slow = gate()
    const { runs, handler: count } = counting()
    const worker = stage.worker({ handlers: [slow.handler, count], worker: { concurrency: 1 } })
    await stage.served(umbra, "gate")
    const blocker = await umbra.submit(flow([{ id: "a", handler: "gate" }]))
    await slow.came()
    const jobs = await Promise.all(Array.from({ length: 20 }, () => umbra.submit(chain)))
    await until("tasks lie in Redis", () => umbra.workers().some(({ queued }) => queued === jobs.length))
    await redis.snapshot()
    slow.open()
    for (const job of [blocker, ...jobs]) await job.wait()
    const before = new Map(runs)
    await redis.restore()
    await until("the worker is back", () => worker.isReady)
    const last = await umbra.submit(chain)
    await last.wait()
    for (const [key, times] of before) expect(runs.get(key)).toBe(times)
    expect(runs.size).toBe(63)
  })

  it("away from the start: what this process can run continues, and the rest when Redis comes", async () => {
    const redis = await PrivateRedis.start()
    await redis.kill()
    const stage = new FleetStage(redis.url)
    const { handler: count } = counting()
    const slow = gate()
    const umbra = await stage.engine({ roles: ["engine", "worker"], handlers: [count] })
    const here = await umbra.submit(chain)
    expect(await here.wait()).toMatchObject({ status: "COMPLETED" })
    stage.worker({ handlers: [slow.handler] })
    await redis.begin()
    await stage.served(umbra, "gate")
    slow.open()
    expect(await (await umbra.submit(flow([{ id: "a", handler: "gate" }]))).wait()).toMatchObject({
      status: "COMPLETED",
    })
  })

  for (const way of ["drop", "everything", "answers"] as const)
    it(`its connections ${way === "drop" ? "cut" : `half open (${way} lost)`}: everything ends`, async () => {
      const redis = await PrivateRedis.start()
      const proxy = await proxyTo(redis.url)
      onTestFinished(() => proxy.close())
      const stage = new FleetStage(proxy.url)
      const umbra = await stage.engine()
      const { runs, handler: count } = counting(5)
      for (let n = 0; n < 2; n++) stage.worker({ handlers: [count], worker: { concurrency: 5 } })
      await stage.served(umbra, "count")
      const jobs = await Promise.all(Array.from({ length: 60 }, () => umbra.submit(chain)))
      for (let n = 0; n < 3; n++) {
        await until("work goes on", () => runs.size > n * 40 + 10)
        if (way === "drop") proxy.drop()
        else {
          proxy.goSilent(way)
          await new Promise(resolve => setTimeout(resolve, 300))
          proxy.heal()
        }
      }
      for (const job of jobs) expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
    })
})
