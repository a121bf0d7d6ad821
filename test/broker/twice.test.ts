import { expect, it } from "vitest"
import { OWNERS } from "../../src/broker/redis/keys.ts"
import type { Reply } from "../../src/broker/redis/resp.ts"
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
  const partitions = stage.store.partitions.map((_, partition) => partition)
  let read: Reply = null
  await until("somebody has read the report, and dies", async () => {
    for (const partition of partitions) {
      const group = ["XREADGROUP", "GROUP", OWNERS, "ghost", "STREAMS", keys.results(partition), ">"]
      read ??= await connection.send(group).catch(() => null)
    }
    return read !== null
  })
  const second = await stage.engine()
  expect(await second.wait(job.id, { timeoutMs: 8000 })).toMatchObject({ status: "COMPLETED" })
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
    ...stage.store.partitions.map((_, partition) => keys.results(partition)),
  ]
  await until("the streams are empty", async () => {
    const lengths = await Promise.all(streams.map(stream => connection.send(["XLEN", stream])))
    return lengths.every(length => length === 0)
  })
})
