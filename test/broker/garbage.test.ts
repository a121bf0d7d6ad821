/** What others write into Redis, or a later release, does not stop the fleet. */
import { expect, it } from "vitest"
import { storesKey } from "../../src/broker/redis/keys.ts"
import { logTo } from "../../src/log.ts"
import { flow, gate, handler, until } from "../engine/stage.ts"
import { storeId } from "../support/store-tables.ts"
import { bareConnection, FleetStage } from "./stage.ts"

const one = flow([{ id: "a", handler: "quick" }])

it("S6 a worker does not end because of what is said on the channel", async () => {
  const stage = new FleetStage()
  const umbra = await stage.engine()
  stage.worker({ handlers: [handler("quick", () => "done")] })
  await stage.served(umbra, "quick")
  const { connection, keys } = await bareConnection(stage)
  for (const message of [
    "not JSON",
    "null",
    '{"type":"cancel"}',
    '{"type":"epochs","epochs":3}',
    '{"type":"new"}',
  ])
    await connection.send(["PUBLISH", keys.control, message])
  const job = await umbra.submit(one)
  expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED" })
})

it("S6 unreadable entries are dropped, and the readable ones between them are processed", async () => {
  const stage = new FleetStage()
  const umbra = await stage.engine()
  const slow = gate()
  const quick = handler("quick", () => "done")
  stage.worker({ handlers: [slow.handler, quick], worker: { concurrency: 1 }, redis: { prefetch: 1 } })
  await stage.served(umbra, "quick")
  for (let n = 0; n < 2; n++) await umbra.submit(flow([{ id: "a", handler: "gate" }]))
  await until("it takes no more", () => umbra.workers()[0]!.queued === 1)
  const { connection, keys } = await bareConnection(stage)
  const stream = keys.tasks("quick")
  await connection.send(["XADD", stream, "*", "some", "thing"])
  await connection.send(["XADD", stream, "*", "name", "a/0/1", "epoch", "1", "task", "{"])
  const job = await umbra.submit(one)
  await until("it lies behind them", async () => (await connection.send(["XLEN", stream])) === 3)
  slow.open()
  expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED" })
  await until("nothing is left of them", async () => (await connection.send(["XLEN", stream])) === 0)
})

it("S6 S10 a worker that cannot read its tasks logs why, and joins when it can", async () => {
  const stage = new FleetStage()
  const { connection, keys } = await bareConnection(stage)
  await connection.send(["SET", keys.tasks("quick"), "in the way"])
  const announced = () => connection.send(["HLEN", storesKey(stage.redis.prefix!)])
  await stage.engine()
  await until("its store is announced", async () => (await announced()) === 1)
  const warnings: unknown[] = []
  const log = logTo((level, { error }) => level === "warn" && warnings.push(error))
  const quick = handler("quick", () => "done")
  const worker = stage.worker({ handlers: [quick], log, store: storeId(stage.store) })
  await until("it has tried again", () => warnings.length > 1)
  expect(worker.isReady).toBe(false)
  expect(warnings[0]).toContain("WRONGTYPE")
  await connection.send(["DEL", keys.tasks("quick")])
  await until("it is there", () => worker.isReady)
})

it("S5 a worker whose heartbeat cannot be read does not hide the others, and is reported once", async () => {
  const stage = new FleetStage()
  const { connection, keys } = await bareConnection(stage)
  for (const [id, text] of [
    ["broken", "{"],
    ["later", '{"id":"later","says":"something else"}'],
  ] as const) {
    await connection.send(["SADD", keys.workers, id])
    await connection.send(["SET", keys.worker(id), text])
  }
  const warnings: unknown[] = []
  const log = logTo((_, { worker }, message) => message?.includes("cannot be read") && warnings.push(worker))
  const umbra = await stage.engine({ log })
  stage.worker({ handlers: [handler("quick", () => "done")] })
  await stage.served(umbra, "quick")
  expect(await (await umbra.submit(one)).wait()).toMatchObject({ status: "COMPLETED" })
  const [first] = umbra.workers()
  await until("it has looked again", () => umbra.workers()[0]!.last_beat !== first!.last_beat)
  expect(umbra.workers()).toHaveLength(1)
  expect(warnings.sort()).toEqual(["broken", "later"])
})
