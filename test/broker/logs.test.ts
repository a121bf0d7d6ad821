/** What handlers of remote workers log travels through Redis to the owner of the job's partition, which stores it. */
import { describe, expect, it, onTestFinished } from "vitest"
import { sendLogs } from "../../src/broker/redis/log-streams.ts"
import { jobPartition } from "../../src/engine/ids.ts"
import { openWorker } from "../../src/open-worker.ts"
import type { Umbra } from "../../src/umbra.ts"
import { proxyTo } from "../engine/proxy.ts"
import { flow, handler, until } from "../engine/stage.ts"
import { PrivateRedis } from "./private-redis.ts"
import { bareConnection, FleetStage } from "./stage.ts"

const talk = handler("talk", (config: { n: number }, ctx) => {
  for (let line = 1; line <= config.n; line++) ctx.log.info({ line }, `line ${line}`)
  return null
})
function opened() {
  let open = () => {}
  const done = new Promise<void>(resolve => {
    open = resolve
  })
  return { open, done }
}
const talks = (n: number) => flow([{ id: "a", handler: "talk", config: { n } }])

async function messages(umbra: Umbra, jobId: string): Promise<string[]> {
  const { lines } = await umbra.queries.logs.page(jobId, { limit: 1000 })
  return lines.filter(({ source }) => source === "handler").map(({ message }) => message)
}

describe("log lines of a fleet", () => {
  it("are stored by the owner, and then removed from Redis", async () => {
    const stage = new FleetStage()
    const umbra = await stage.engine()
    stage.worker({ handlers: [talk] })
    await stage.served(umbra, "talk")
    const job = await umbra.submit(talks(3))
    await job.wait()
    await until("the lines are stored", async () => (await messages(umbra, job.id)).length === 3)
    expect(await messages(umbra, job.id)).toEqual(["line 1", "line 2", "line 3"])
    const { connection, keys } = await bareConnection(stage)
    const stream = keys.logs(jobPartition(job.id))
    await until("the stream is empty", async () => (await connection.send(["XLEN", stream])) === 0)
  })

  it("wait in Redis for the next owner, once each, and what is missing there is shown", async () => {
    const stage = new FleetStage()
    const first = await stage.engine()
    let open = () => {}
    const promise = new Promise<void>(resolve => {
      open = resolve
    })
    const waits = handler("waits", async (_: unknown, ctx) => {
      ctx.log.info({}, "before")
      await promise
      ctx.log.info({}, "after")
      return null
    })
    stage.worker({ handlers: [waits] })
    await stage.served(first, "waits")
    const { id } = await first.submit(flow([{ id: "a", handler: "waits" }]))
    await until("the first line is stored", async () => (await messages(first, id)).length === 1)
    const { connection, keys } = await bareConnection(stage)
    const stream = keys.logs(jobPartition(id))
    // Two entries that the first owner did not read: one that was stored already, and one after lines that Redis lost.
    const [{ runId }] = stage.store.connection.all<{ runId: number }>(
      "select run_id as runId from node_logs",
    ) as [{ runId: number }]
    const row = { jobId: id, nodeId: "a", item: -1, fence: 1, attempt: 1, runId, level: 1 }
    const [stored] = await first.queries.logs
      .page(id, { limit: 1000 })
      .then(({ lines }) => lines.filter(({ source }) => source === "handler"))
    const rows = [
      { ...row, firstLine: 1, lastLine: 1, lines: JSON.stringify([[stored!.at, 1, "before"]]) },
      { ...row, fence: 9, firstLine: 6, lastLine: 6, lines: JSON.stringify([[stored!.at, 1, "sixth"]]) },
    ]
    await connection.send(["XADD", stream, "*", "rows", JSON.stringify(rows)])
    await connection.send(["XADD", stream, "*", "rows", "not JSON"])
    await first.close()
    const second = await stage.engine()
    open()
    await until("all lines are stored", async () => (await messages(second, id)).length === 3)
    const { lines } = await second.queries.logs.page(id, { limit: 1000 })
    const found = lines
      .filter(({ source }) => source === "handler")
      .map(({ message, lost }) => [message, lost])
    expect(found.toSorted()).toEqual([
      ["after", undefined],
      ["before", undefined],
      ["sixth", 5],
    ])
    await until("the stream is empty", async () => (await connection.send(["XLEN", stream])) === 0)
  })

  it("of a task that ran in two workers under one attempt are those of two runs, each in its order", async () => {
    const redis = await PrivateRedis.start()
    const settings = { workerBeatSeconds: 0.1, workerDeadSeconds: 1, rosterSeconds: 0.05, answerSeconds: 0.5 }
    const stage = new FleetStage(redis.url, settings)
    const umbra = await stage.engine()
    const way = await proxyTo(redis.url)
    onTestFinished(() => way.close())
    const [cutOff, over] = [opened(), opened()]
    let isThird = false
    const talkIn = (worker: string, until: Promise<void>) =>
      handler("talk", async (_: unknown, ctx) => {
        ctx.log.info({}, `${worker} 1`)
        ctx.log.info({}, `${worker} 2`)
        await until
        ctx.log.info({}, `${worker} 3`)
        isThird = true
        await over.done
        return null
      })
    const first = openWorker(way.url, { handlers: [talkIn("first", cutOff.done)], redis: stage.redis })
    onTestFinished(() => first.close({ drainSeconds: 0 }))
    await stage.served(umbra, "talk")
    const { id } = await umbra.submit(flow([{ id: "a", handler: "talk" }]))
    const stored = (count: number) =>
      until(`${count} lines are stored`, async () => (await messages(umbra, id)).length === count)
    await stored(2)
    way.goSilent("everything")
    cutOff.open()
    await until("the third line is logged", () => isThird)
    // Without its entry the task is in nobody's hand once the worker is dead: it is sent again under the same attempt.
    await redis.flush()
    stage.worker({ handlers: [talkIn("second", over.done)] })
    await stored(4)
    way.heal()
    await stored(5)
    over.open()
    expect(await umbra.wait(id)).toMatchObject({ status: "COMPLETED" })
    await stored(6)
    expect((await umbra.node(id, "a")).attempt).toBe(1)
    const { lines } = await umbra.queries.logs.page(id, { limit: 1000 })
    const shown = lines.map(({ message, attempt, run = 1, line = 0, lost = 0 }) => [
      message,
      attempt,
      run,
      line,
      lost,
    ])
    expect(shown.slice(2, -1)).toEqual([
      ["first 1", 1, 1, 1, 0],
      ["first 2", 1, 1, 2, 0],
      ["started again", 1, 1, 0, 0],
      ["second 1", 1, 2, 1, 0],
      ["second 2", 1, 2, 2, 0],
      ["first 3", 1, 1, 3, 0],
      ["second 3", 1, 2, 3, 0],
    ])
    expect([lines[0]!.message, lines.at(-1)!.message]).toEqual([
      "dispatched",
      expect.stringMatching(/^completed/),
    ])
  })

  it("that are lost at the end of an attempt are counted, once none of them can be under way", async () => {
    const stage = new FleetStage()
    const umbra = await stage.engine()
    const { connection, keys } = await bareConnection(stage)
    // Redis accepts no lines: they are in the memory of the worker, and are lost with it.
    const loses = handler("loses", async (config: { items?: number }, ctx) => {
      if (config.items === undefined) await connection.send(["SET", keys.logs(jobPartition(ctx.jobId)), "x"])
      for (let line = 1; line <= 3; line++) ctx.log.info({}, `line ${line}`)
      return null
    })
    const worker = stage.worker({ handlers: [loses] })
    await stage.served(umbra, "loses")
    const job = await umbra.submit(
      flow([
        { id: "a", handler: "loses", config: {} },
        { id: "b", handler: "loses", config: { items: 2 }, for_each: [1, 2], dependencies: ["a"] },
      ]),
    )
    await job.wait()
    const endedAt = performance.now()
    const page = (query = {}) => umbra.queries.logs.page(job.id, { limit: 1000, ...query })
    const first = await page()
    if (performance.now() - endedAt < 1000) {
      expect(first).toMatchObject({ next: null, pending: true })
      expect(first.lines.some(({ lost, message }) => lost || message.startsWith("completed"))).toBe(false)
    }
    await worker.close({ drainSeconds: 0 })
    await connection.send(["DEL", keys.logs(jobPartition(job.id))])
    await until("nothing is under way", async () => (await page()).pending === undefined)
    const ends = (await page()).lines.filter(({ message }) => message.startsWith("completed"))
    expect(ends.map(({ node, item, level, lost }) => [node, item, level, lost])).toEqual([
      ...[["a", undefined, "warn", 3], ["b", 0, "warn", 3], ["b", 1, "warn", 3], ["b", undefined, "info", undefined]], // biome-ignore format: rows
    ])
    // A reader that has read up to there reads it once; a filter by level leaves it in.
    const after = first.lines.at(-1)?.id
    expect((await page({ after })).lines.filter(({ lost }) => lost === 3)).toHaveLength(3)
    expect((await page({ level: "warn" })).lines.map(({ lost }) => lost)).toEqual([3, 3, 3])
    // The number is that of the lines which are not stored now.
    const row = { jobId: job.id, nodeId: "a", item: -1, fence: 1, attempt: 1, level: 1 }
    const rows = [{ ...row, firstLine: 1, lastLine: 2, lines: '[[1,1,"line 1"],[1,1,"line 2"]]' }]
    const entry = ["XADD", keys.logs(jobPartition(job.id)), "*", "rows", JSON.stringify(rows)]
    await connection.send(entry)
    const news = { type: "logs", partitions: [jobPartition(job.id)] }
    await connection.send(["PUBLISH", keys.news, JSON.stringify(news)])
    await until("late lines are stored", async () => (await messages(umbra, job.id)).length === 2)
    expect((await page({ node: "a", level: "warn" })).lines.map(({ lost }) => lost)).toEqual([1])
  })

  it("take no more of Redis than the length of their stream", async () => {
    const { connection, keys } = await bareConnection(new FleetStage())
    const row = {
      nodeId: "a",
      item: -1,
      fence: 1,
      attempt: 1,
      firstLine: 1,
      lastLine: 1,
      level: 1,
      lines: "[]",
    }
    const rows = Array.from({ length: 2000 }, (_, n) => ({ ...row, jobId: `${n}` }))
    const sent: (readonly string[])[] = []
    const send = async (command: readonly string[]) => {
      sent.push(command)
      return connection.send(command)
    }
    for (const each of rows)
      await sendLogs({ link: { keys, send }, jobPartition: () => 5, length: 100 }, [each])
    // Redis removes whole blocks of 100 entries.
    expect(Number(await connection.send(["XLEN", keys.logs(5)]))).toBeLessThanOrEqual(200)
    expect(sent.at(-1)).toEqual(["PUBLISH", keys.news, '{"type":"logs","partitions":[5]}'])
  })
})
