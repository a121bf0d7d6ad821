/** When an engine may say that a task is lost, and what it must not forget meanwhile. */
import { randomUUID } from "node:crypto"
import { expect, it, onTestFinished } from "vitest"
import { attemptName, type BrokerHost, type StartReport, type TaskName } from "../../src/broker/port.ts"
import { RedisBroker } from "../../src/broker/redis/broker.ts"
import type { Link } from "../../src/broker/redis/client/link.ts"
import { Keys, OWNERS } from "../../src/broker/redis/keys.ts"
import { Results } from "../../src/broker/redis/results.ts"
import { redisSettings } from "../../src/broker/redis/settings.ts"
import { encodeReport } from "../../src/broker/redis/wire.ts"
import { jobPartition, newJobId } from "../../src/engine/ids.ts"
import { logTo, silentLog } from "../../src/log.ts"
import { flow, gate, handler, until } from "../engine/stage.ts"
import { storeId } from "../support/store-tables.ts"
import { task } from "../worker/support.ts"
import { PrivateRedis } from "./private-redis.ts"
import { bareConnection, FleetStage } from "./stage.ts"

/** A broker for an engine that owns every partition, and writes down what it is told. */
function bareBroker(stage: FleetStage, given = {}, durable = () => Promise.resolve()) {
  const lost: string[] = []
  const finished: string[] = []
  const started: StartReport[] = []
  const host: BrokerHost = {
    id: `engine-${randomUUID()}`,
    events: {
      started: async task => void started.push(task),
      progress: () => {},
      preview: () => {},
      finished: task => finished.push(attemptName(task)),
      lost: tasks => lost.push(...tasks.map(attemptName)),
      returned: () => {},
      aborted: () => {},
    },
    isSure: () => true,
    epoch: () => 1,
    durable,
    served: () => {},
  }
  const settings = redisSettings({ ...stage.redis, ...given })
  const broker = new RedisBroker({
    ...{ url: stage.url, settings, host, jobPartition, log: silentLog },
    storeLogs: async () => {},
    store: stage.announced,
  })
  onTestFinished(() => broker.close())
  return { broker, lost, finished, started }
}

function gateOf() {
  let open = () => {}
  const opened = new Promise<void>(resolve => {
    open = resolve
  })
  return { opened, open }
}

function taskOf(partition: number): TaskName {
  return { jobId: newJobId(partition, Date.now()), node: 0, attempt: 1 }
}

it("S7 a task is not lost before the results of its partition have been read", async () => {
  const { broker, lost } = bareBroker(new FleetStage())
  const [early, late] = [taskOf(1), taskOf(2)]
  for (const task of [early, late]) broker.adopt(task, "gate")
  broker.partitionsTaken([1])
  await until("one is found to be nowhere", () => lost.length > 0)
  expect(lost).toEqual([attemptName(early)])
  broker.partitionsTaken([2])
  await until("and then the other", () => lost.length > 1)
  expect(lost).toEqual([attemptName(early), attemptName(late)])
})

it("S6 all stored entries are delivered, even if more arrive with every read", async () => {
  const keys = new Keys({ prefix: "test", store: "3f9a0c12de45", runId: "0123456789ab" })
  let reads = 0
  // A Redis that is written to faster than it is read.
  const link = {
    keys,
    wait: async () => {
      await new Promise(setImmediate)
      reads += 1
      return [[keys.results(3), [[`${reads}-0`, report]]]]
    },
    send: async () => 1,
    unblock: () => {},
  } as unknown as Link
  const from = { worker: "w", handler: "gate", entry: "1-1", name: attemptName(taskOf(3)) }
  const report = encodeReport({ kind: "progress", progress: { percent: 1, message: null } }, from)
  const settings = { blockMs: 10, maxUnsettled: 100 }
  const parts = { engine: "e", ...settings, deliver: () => {}, durable: async () => {}, log: silentLog }
  const results = new Results({ link, ...parts })
  onTestFinished(() => results.stop())
  results.partitionsTaken([3])
  await results.delivered()
})

it("S6 reports that the journal does not take are in memory once, however long that lasts", async () => {
  const stage = new FleetStage()
  const { connection, keys } = await bareConnection(stage)
  const isDurable = gateOf()
  const settings = { claimEverySeconds: 0.01, claimAfterSeconds: 0.01 }
  const { broker, finished } = bareBroker(stage, settings, () => isDurable.opened)
  const from = { worker: "w", handler: "gate", entry: "1-1", name: attemptName(taskOf(3)) }
  const times = { heldMs: 0, ranMs: 0 }
  const report = encodeReport(
    { kind: "finished", outcome: { type: "submitted", externalId: "x" }, times },
    from,
  )
  broker.partitionsTaken([3])
  await connection.send(["XADD", keys.results(3), "*", ...report])
  const pending = ["XPENDING", keys.results(3), OWNERS, "-", "+", "1"]
  await until("it was claimed often", async () => {
    const rows = (await connection.send(pending).catch(() => [])) as [string, string, number, number][]
    return (rows[0]?.[3] ?? 0) > 5
  })
  expect(finished).toHaveLength(1)
  isDurable.open()
  await until("it is gone", async () => (await connection.send(["XLEN", keys.results(3)])) === 0)
})

it("S5 live workers are still checked while the journal accepts nothing and no more reports can be read", async () => {
  const stage = new FleetStage()
  const { connection, keys } = await bareConnection(stage)
  const isDurable = gateOf()
  const { broker, lost } = bareBroker(stage, { maxUnsettledReports: 1 }, () => isDurable.opened)
  const from = { worker: "w", handler: "gate", entry: "1-1", name: attemptName(taskOf(3)) }
  const report = encodeReport({ kind: "progress", progress: { percent: 1, message: null } }, from)
  broker.partitionsTaken([3])
  await connection.send(["XADD", keys.results(3), "*", ...report])
  const read = ["XPENDING", keys.results(3), OWNERS, "-", "+", "1"]
  await until(
    "it is read",
    async () => ((await connection.send(read).catch(() => [])) as unknown[]).length > 0,
  )
  broker.adopt(taskOf(3), "gate")
  broker.partitionsTaken([4])
  const worker = stage.worker({ handlers: [gate().handler] })
  await until("the worker is seen to come", () => broker.runs("gate"))
  await worker.close()
  await until("and to go", () => !broker.runs("gate"))
  expect(lost).toEqual([])
  isDurable.open()
  await until("what is nowhere is found out then", () => lost.length === 1)
})

it("S6 a handler that is served again is not lost because Redis refused another command", async () => {
  const stage = new FleetStage()
  let failures = 0
  const log = logTo((_, __, message) => {
    if (message?.startsWith("could not reconcile")) failures += 1
  })
  const umbra = await stage.engine({ log, redis: { ...stage.redis, claimEverySeconds: 0.01 } })
  const slow = gate()
  const quick = handler("quick", () => "done")
  stage.worker({ handlers: [slow.handler] })
  const leaving = stage.worker({ handlers: [quick] })
  await stage.served(umbra, "gate")
  await stage.served(umbra, "quick")
  const after = { id: "b", handler: "quick", dependencies: ["a"] }
  const job = await umbra.submit(flow([{ id: "a", handler: "gate" }, after]))
  await slow.came()
  await leaving.close()
  const isServed = () =>
    umbra.workers().some(({ state, handlers }) => state === "live" && handlers.includes("quick"))
  await until("nobody serves it", () => !isServed())
  slow.open("done")
  await until("it waits for somebody", () => umbra.activity(job.id).unserved.length === 1)
  const { connection, keys } = await bareConnection(stage)
  await connection.send(["DEL", keys.tasks("gate")])
  await connection.send(["SET", keys.tasks("gate"), "in the way"])
  stage.worker({ handlers: [quick] })
  await until("somebody serves it", isServed)
  const before = failures
  await until("the rest of the look has failed", () => failures > before)
  await connection.send(["DEL", keys.tasks("gate")])
  expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED" })
})

it("S6 a caller of a remote query does not wait until Redis is back", async () => {
  const redis = await PrivateRedis.start()
  const { broker } = bareBroker(new FleetStage(redis.url))
  await until("it is connected", () => broker.isUp)
  const call = {
    jobId: taskOf(3).jobId,
    nodeId: "a",
    handler: "poll:x",
    owner: "",
    workflow: "",
    config: null,
  }
  const outcome = broker.call(call, { signal: new AbortController().signal })
  await redis.kill()
  expect(await outcome).toBeNull()
  expect(broker.queued).toBe(0)
})

it("an isolated task that has run alone for its time is joined by the next, once the engine has stored that", async () => {
  const stage = new FleetStage()
  const { broker, started, finished } = bareBroker(stage)
  const held = gate("held")
  stage.worker({ handlers: [held.handler], store: storeId(stage.store) })
  broker.partitionsTaken([1])
  await until("the worker is known", () => broker.runs("held"))
  const isolation = { diedAt: 0, deaths: 0, seconds: 0.1 }
  const [long, next] = [taskOf(1), taskOf(1)]
  for (const name of [long, next]) broker.dispatch(task("held", { ...name, announce: true, isolation }))
  await held.came(2)
  // A worker that hears nothing for a second asks again.
  expect([...new Set(started.map(({ jobId, alone }) => `${jobId} ${alone}`))]).toEqual([
    `${long.jobId} true`,
    `${long.jobId} false`,
    `${next.jobId} true`,
  ])
  held.open()
  await until("both have ended", () => finished.length === 2)
})
