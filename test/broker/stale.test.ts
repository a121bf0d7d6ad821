/** Attempts that are over, or somebody else's by now, in the hands of a worker that does not know it yet. */
import { randomUUID } from "node:crypto"
import { once } from "node:events"
import { type AddressInfo, connect, createServer } from "node:net"
import { expect, it, onTestFinished } from "vitest"
import { attemptName } from "../../src/broker/port.ts"
import { RedisBroker } from "../../src/broker/redis/broker.ts"
import { RedisConnection } from "../../src/broker/redis/client/connection.ts"
import { WORKERS } from "../../src/broker/redis/keys.ts"
import { redisSettings } from "../../src/broker/redis/settings.ts"
import { encodeReport } from "../../src/broker/redis/wire.ts"
import { jobPartition } from "../../src/engine/ids.ts"
import { silentLog } from "../../src/log.ts"
import { openWorker } from "../../src/open-worker.ts"
import { flow, gate, handler, until } from "../engine/stage.ts"
import { task } from "../worker/support.ts"
import { bareConnection, FleetStage } from "./stage.ts"

/** An engine that knows only what the test says, and a worker that writes down what it begins. */
async function sendingStage() {
  const stage = new FleetStage()
  const begun: string[] = []
  stage.worker({ handlers: [handler("write", (_, ctx) => void begun.push(ctx.jobId))] })
  const engine = { isSure: false }
  const broker = new RedisBroker({
    url: stage.url,
    settings: redisSettings(stage.redis),
    store: stage.announced,
    storeLogs: async () => {},
    jobPartition,
    log: silentLog,
    host: {
      id: "engine",
      events: {
        started: async () => {},
        ...{ progress() {}, preview() {}, finished() {}, lost() {}, returned() {}, aborted() {} },
      },
      durable: async () => {},
      served() {},
      epoch: () => 1,
      isSure: () => engine.isSure,
    },
  })
  onTestFinished(() => broker.close())
  // An engine announces its store once it owns something.
  broker.partitionsTaken([0])
  await until("the worker is known", () => broker.runs("write"))
  return { broker, engine, begun }
}

const one = flow([{ id: "a", handler: "gate" }])

it("S5 S7 a worker that was suspended past its death begins nothing that it had in flight", async () => {
  const stage = new FleetStage()
  const umbra = await stage.engine()
  const [suspended, other] = [gate(), gate()]
  const settings = { worker: { concurrency: 1 }, redis: { workerBeatSeconds: 3600, workerDeadSeconds: 2 } }
  stage.worker({ handlers: [suspended.handler], ...settings })
  await stage.served(umbra, "gate")
  const jobs = [await umbra.submit(one), await umbra.submit(one), await umbra.submit(one)]
  await suspended.came()
  const { connection, keys } = await bareConnection(stage)
  const pending = async () =>
    ((await connection.send(["XPENDING", keys.tasks("gate"), WORKERS])) as unknown[])[0]
  await until("it has all of them", async () => (await pending()) === jobs.length)
  other.open()
  stage.worker({ handlers: [other.handler] })
  for (const job of jobs) expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
  suspended.open()
  await umbra.submit(one).then(job => job.wait())
  expect(suspended.entered).toHaveLength(1)
})

/** A proxy to Redis that can hold back answers, and pass them on one connection after the other. */
async function holdingWay(target: string) {
  const held: (() => void)[][] = []
  let isHolding = false
  const server = createServer(near => {
    const own: (() => void)[] = []
    held.push(own)
    const far = connect(Number(new URL(target).port), "127.0.0.1")
    for (const socket of [near, far]) socket.on("error", () => {}).on("close", () => near.destroy())
    near.pipe(far)
    far.on("data", chunk => {
      if (isHolding) own.push(() => near.write(chunk))
      else near.write(chunk)
    })
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  onTestFinished(() => void server.close())
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    hold() {
      isHolding = true
    },
    /** Passes on the held answers of this connection, and all later answers. Those held of other connections stay held. */
    passOn(connection: number) {
      isHolding = false
      for (const pass of held[connection]!.splice(0)) pass()
    },
  }
}

it("S5 S7 a task that reaches a worker after the engines considered it dead is not begun", async () => {
  const stage = new FleetStage(undefined, {
    ...{ workerBeatSeconds: 0.1, workerDeadSeconds: 1, rosterSeconds: 0.05, answerSeconds: 60 },
  })
  const umbra = await stage.engine()
  const way = await holdingWay(stage.url)
  const begun: string[] = []
  const late = openWorker(way.url, {
    handlers: [handler("gate", (_, ctx) => void begun.push(ctx.jobId))],
    redis: stage.redis,
  })
  onTestFinished(() => late.close({ drainSeconds: 0 }))
  await stage.served(umbra, "gate")
  const { connection, keys } = await bareConnection(stage)
  const pending = async () =>
    ((await connection.send(["XPENDING", keys.tasks("gate"), WORKERS])) as unknown[])[0]
  way.hold()
  const job = await umbra.submit(one)
  await until("it is delivered", async () => (await pending()) === 1)
  await until("the worker is dead", () => umbra.workers().every(({ state }) => state === "dead"))
  const other = stage.worker({ handlers: [handler("gate", () => null)] })
  expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
  await other.close()
  // First the connection for commands: the worker registers again. Then the one that the task is on.
  const { id } = late
  way.passOn(0)
  await until("it is registered again", () => late.id !== id && late.isReady)
  way.passOn(1)
  const next = await umbra.submit(one)
  expect(await next.wait()).toMatchObject({ status: "COMPLETED" })
  expect(begun).toEqual([next.id])
})

it("S7 an engine that may have been replaced sends nothing, and continues when it knows", async () => {
  const { broker, engine, begun } = await sendingStage()
  const one = task("write", { jobId: randomUUID() })
  broker.dispatch(one)
  await new Promise(resolve => setImmediate(resolve))
  expect(broker.queued).toBe(1)
  engine.isSure = true
  broker.resume()
  await until("it is begun", () => begun.length === 1)
})

it("S5 S7 a worker that requests to begin a task that is over is refused", async () => {
  const stage = new FleetStage()
  const umbra = await stage.engine()
  stage.worker({ handlers: [handler("gate", () => "done")] })
  await stage.served(umbra, "gate")
  const job = await umbra.submit(one)
  await job.wait()
  const open = async () => {
    const connection = await RedisConnection.open({ url: stage.url, answerMs: 5000 })
    onTestFinished(() => connection.close())
    return connection
  }
  const [redis, listening] = [await open(), await open()]
  const [, runId] = /run_id:(\w+)/.exec(String(await redis.send(["INFO", "server"])))!
  const keys = stage.keys(runId!)
  const received: string[] = []
  await listening.subscribe(keys.control, message => received.push(message))
  const stream = keys.results(jobPartition(job.id))
  const from = {
    worker: "w",
    handler: "gate",
    entry: "1-1",
    name: attemptName({ jobId: job.id, node: 0, attempt: 1 }),
  }
  await redis.send(["XADD", stream, "*", ...encodeReport({ kind: "started", announce: true }, from)])
  await until("the question is dealt with", async () => (await redis.send(["XLEN", stream])) === 0)
  await redis.send(["PUBLISH", keys.control, JSON.stringify({ type: "cancel", names: ["the last word"] })])
  await until("all was heard", () => received.some(message => message.includes("the last word")))
  expect(received.filter(message => message.includes("begin"))).toEqual([])
})
