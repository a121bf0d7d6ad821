import { expect, it } from "vitest"
import { attemptName } from "../../src/broker/port.ts"
import type { Reply } from "../../src/broker/redis/client/connection.ts"
import { OWNERS, WORKERS } from "../../src/broker/redis/keys.ts"
import { encodeReport } from "../../src/broker/redis/wire.ts"
import { jobPartition } from "../../src/engine/ids.ts"
import { flow, gate, until } from "../engine/stage.ts"
import { bareConnection, FleetStage } from "./stage.ts"

const one = flow([{ id: "a", handler: "gate" }])

it("S6 a worker that is handed a task twice runs it once, while it runs and when it is done", async () => {
  const stage = new FleetStage()
  const umbra = await stage.engine()
  const slow = gate()
  stage.worker({ handlers: [slow.handler] })
  await stage.served(umbra, "gate")
  const job = await umbra.submit(one)
  await slow.came()
  const { connection, keys } = await bareConnection(stage)
  const [[, task]] = (await connection.send(["XRANGE", keys.tasks("gate"), "-", "+"])) as [[string, string[]]]
  const again = () => connection.send(["XADD", keys.tasks("gate"), "*", ...task])
  await again()
  slow.open("done")
  expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
  await again()
  const next = await umbra.submit(one)
  await next.wait()
  expect(slow.entered).toHaveLength(2)
})

it("S6 S7 what a dead engine had read and not stored is claimed by the next owner", async () => {
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
  const { connection, keys } = await bareConnection(stage)
  const partitions = [...Array(stage.store.partitions).keys()]
  let read: Reply = null
  await until("somebody has read the report, and dies", async () => {
    for (const partition of partitions) {
      const group = ["XREADGROUP", "GROUP", OWNERS, "ghost", "STREAMS", keys.results(partition), ">"]
      read ??= await connection.send(group).catch(() => null)
    }
    return read !== null
  })
  const second = await stage.engine()
  expect(await second.wait(job.id, { timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED" })
  expect(slow.entered).toHaveLength(1)
  expect((await second.node(job.id, "a")).attempt).toBe(1)
})

it("S6 what was dealt with leaves nothing in Redis", async () => {
  const stage = new FleetStage()
  const umbra = await stage.engine()
  const slow = gate()
  stage.worker({ handlers: [slow.handler] })
  await stage.served(umbra, "gate")
  slow.open()
  const jobs = await Promise.all(Array.from({ length: 50 }, () => umbra.submit(one)))
  for (const job of jobs) await job.wait()
  const { connection, keys } = await bareConnection(stage)
  const streams = [
    keys.tasks("gate"),
    ...Array.from(Array(stage.store.partitions).keys(), partition => keys.results(partition)),
  ]
  await until("the streams are empty", async () => {
    const lengths = await Promise.all(streams.map(stream => connection.send(["XLEN", stream])))
    return lengths.every(length => length === 0)
  })
})

it("S5 S6 a task that a worker says twice to have returned continues where it is by then", async () => {
  const stage = new FleetStage()
  const umbra = await stage.engine()
  const slow = gate()
  const settings = { concurrency: 1, startedAfterSeconds: 0.01 }
  const leaving = stage.worker({ handlers: [slow.handler], worker: settings })
  await stage.served(umbra, "gate")
  const jobs = [await umbra.submit(one), await umbra.submit(one)]
  await slow.came()
  const isRunning = (jobId: string) => slow.entered.some(entered => entered.jobId === jobId)
  const { id } = jobs.find(job => !isRunning(job.id))!
  const { connection, keys } = await bareConnection(stage)
  const entries = (await connection.send(["XRANGE", keys.tasks("gate"), "-", "+"])) as [string, string[]][]
  const name = attemptName({ jobId: id, node: 0, attempt: 1 })
  const [entry] = entries.find(([, fields]) => fields.includes(name))!
  const from = { worker: leaving.id, handler: "gate", name, entry }
  stage.worker({ handlers: [slow.handler], worker: settings })
  await until("both are there", () => umbra.workers().length === 2)
  const left = leaving.close()
  await slow.came(2)
  await until("its start is stored", async () => (await umbra.graph(id)).nodes[0]!.started_at !== null)
  const stream = keys.results(jobPartition(id))
  await connection.send(["XADD", stream, "*", ...encodeReport({ kind: "returned" }, from)])
  await until("it was read", async () => (await connection.send(["XLEN", stream])) === 0)
  expect((await umbra.node(id, "a")).attempt).toBe(1)
  slow.open("done")
  await left
  for (const job of jobs) expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
  expect(slow.entered).toHaveLength(2)
})

it("S5 S6 a task with two entries in Redis belongs to the live worker; the other entry is removed", async () => {
  const stage = new FleetStage()
  const umbra = await stage.engine({ redis: { ...stage.redis, claimEverySeconds: 0.05 } })
  const slow = gate()
  const settings = { worker: { concurrency: 1 }, redis: { prefetch: 0 } }
  const worker = stage.worker({ handlers: [slow.handler], ...settings })
  await stage.served(umbra, "gate")
  const job = await umbra.submit(one)
  await slow.came()
  const { connection, keys } = await bareConnection(stage)
  const stream = keys.tasks("gate")
  const [[entry, task]] = (await connection.send(["XRANGE", stream, "-", "+"])) as [[string, string[]]]
  // One that nobody was handed, and one in the hand of somebody who is dead.
  await connection.send(["XADD", stream, "*", ...task])
  await connection.send(["XREADGROUP", "GROUP", WORKERS, "ghost", "STREAMS", stream, ">"])
  await connection.send(["XADD", stream, "*", ...task])
  await until("only its own is left", async () => {
    const entries = (await connection.send(["XRANGE", stream, "-", "+"])) as [string, string[]][]
    return entries.length === 1 && entries[0]![0] === entry
  })
  expect([(await umbra.node(job.id, "a")).attempt, worker.running]).toEqual([1, 1])
  slow.open("done")
  expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
  expect(slow.entered).toHaveLength(1)
})
