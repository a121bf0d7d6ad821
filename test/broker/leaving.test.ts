/** A worker that stops in order is gone at once; one that dies is shown as dead. */
import { once } from "node:events"
import { type AddressInfo, connect, createServer } from "node:net"
import { expect, it, onTestFinished } from "vitest"
import type { WorkerWait } from "../../src/core/view/view.ts"
import type { Umbra } from "../../src/umbra.ts"
import { collectLog, flow, gate, handler, until } from "../engine/stage.ts"
import { PrivateRedis } from "./private-redis.ts"
import { FleetStage } from "./stage.ts"

const work = handler("work", () => "done")
/** A worker says only once that it is there. */
const slowBeats = { rosterSeconds: 0.05, workerBeatSeconds: 1800, answerSeconds: 5 }

it("S5 a worker that was stopped in order is gone in every process, and never shown as dead", async () => {
  const stage = new FleetStage(undefined, {
    rosterSeconds: 0.05,
    workerBeatSeconds: 0.1,
    workerDeadSeconds: 15,
  })
  const processes = [await stage.engine(), await stage.engine(), await stage.engine({ roles: ["api"] })]
  const worker = stage.worker({ handlers: [work] })
  const states = new Set<string>()
  const note = (umbra: Umbra) => {
    for (const { state } of umbra.workers()) states.add(state)
    return umbra.workerCounts
  }
  for (const umbra of processes) {
    await stage.served(umbra, "work")
    note(umbra)
  }
  await worker.close()
  for (const umbra of processes) {
    await until("it is gone", () => note(umbra).live === 0)
    expect(note(umbra)).toEqual({ live: 0, dead: 0 })
    expect(umbra.workers()).toEqual([])
  }
  expect([...states]).toEqual(["live"])
})

it("S5 a process that reads the roster rarely is notified at once that a worker left", async () => {
  const stage = new FleetStage()
  const rare = await stage.engine({ redis: { ...stage.redis, rosterSeconds: 3600 } })
  const worker = stage.worker({ handlers: [work] })
  await until("it beats", () => worker.isReady)
  // Its first look came before the worker; the next one comes with news alone.
  const other = stage.worker({ handlers: [work] })
  await until("it beats", () => other.isReady)
  await other.close()
  await until("the one that stays is known", () => rare.workerCounts.live === 1)
  expect(rare.workers().map(({ id, state }) => [id, state])).toEqual([[worker.id, "live"]])
  await worker.close()
  await until("it is gone", () => rare.workerCounts.live === 0)
  expect(rare.workerCounts).toEqual({ live: 0, dead: 0 })
})

/** A way to Redis that holds one command back, and knows what Redis has sent. */
async function holding(url: string) {
  let held: {
    readonly bytes: string
    readonly arrived: () => void
    readonly released: Promise<void>
  } | null = null
  let sent = ""
  const server = createServer(near => {
    const far = connect(Number(new URL(url).port), "127.0.0.1")
    for (const socket of [near, far]) socket.on("error", () => {}).on("close", () => near.destroy())
    far.on("data", chunk => {
      sent += chunk
      near.write(chunk)
    })
    let order = Promise.resolve()
    const pass = async (chunk: Buffer) => {
      if (held !== null && chunk.includes(held.bytes)) {
        const { arrived, released } = held
        held = null
        arrived()
        await released
      }
      far.write(chunk)
    }
    near.on("data", chunk => {
      order = order.then(() => pass(chunk))
    })
    near.on("end", () => far.end())
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  onTestFinished(() => void server.close())
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    hold(bytes: string) {
      let release = () => {}
      const released = new Promise<void>(resolve => {
        release = resolve
      })
      const arrived = new Promise<void>(resolve => {
        held = { bytes, arrived: resolve, released }
      })
      return { arrived, release }
    },
    hasSent: (text: string) => sent.includes(text),
  }
}

it("S5 a worker that leaves while a process reads the roster is gone at once", async () => {
  const redis = await PrivateRedis.start()
  const stage = new FleetStage(redis.url, { ...slowBeats, rosterSeconds: 3600, workerDeadSeconds: 3600 })
  const way = await holding(redis.url)
  const workers = [1, 2, 3].map(() => stage.worker({ handlers: [work] }))
  const umbra = await stage.engine({ redisUrl: way.url })
  for (const worker of workers) await until("it beats", () => worker.isReady)
  const [first, second, third] = workers
  await first!.close()
  await until("the others are known", () => umbra.workerCounts.live === 2)
  // The next departure makes the process read the roster. It has read the heartbeats when this command is held.
  const { arrived, release } = way.hold(":seen")
  await second!.close()
  await arrived
  const { id } = third!
  await third!.close()
  await until("the process was notified", () => way.hasSent(`"left","worker":"${id}"`))
  release()
  await until("it is gone", () => umbra.workerCounts.live === 0)
  expect(umbra.workerCounts).toEqual({ live: 0, dead: 0 })
  expect(umbra.workers()).toEqual([])
})

it("S5 a worker that falls silent is dead, and shown as such", async () => {
  const stage = new FleetStage()
  const umbra = await stage.engine()
  const held = gate()
  const redis = { workerBeatSeconds: 3600, workerDeadSeconds: 2 }
  const silent = stage.worker({ handlers: [held.handler], redis })
  await stage.served(umbra, "gate")
  await umbra.submit(flow([{ id: "a", handler: "gate" }]))
  await until("it is dead", () => umbra.workers().some(({ state }) => state === "dead"))
  expect(umbra.workers().map(({ id, state }) => [id, state])).toEqual([[silent.id, "dead"]])
  expect(umbra.workerCounts).toEqual({ live: 0, dead: 1 })
  held.open()
})

it("S5 a worker that died is shown alike by processes that started afterwards, and named by what waits for it", async () => {
  const stage = new FleetStage()
  const first = await stage.engine()
  const redis = { workerBeatSeconds: 3600, workerDeadSeconds: 1 }
  const silent = stage.worker({ handlers: [work], redis: { ...redis, answerSeconds: 30 } })
  await stage.served(first, "work")
  const { id } = silent
  await until("it is dead", () => first.workers().some(({ state }) => state === "dead"))
  await first.close()
  const [second, api] = [await stage.engine(), await stage.engine({ roles: ["api"] })]
  // Without a look of its own each of them would know nothing: a workflow with the handler is taken at once.
  const job = await api.submit(flow([{ id: "a", handler: "work" }]))
  for (const umbra of [second, api]) {
    expect(umbra.workers()).toContainEqual(expect.objectContaining({ id, state: "dead" }))
    await until("what waits names it", async () => {
      const { live } = await umbra.graph(job.id)
      const wait = live?.nodes[0]?.waiting_on as WorkerWait | undefined
      return wait?.reason === "none" && wait.last_worker === id && wait.last_seen_at! > 0
    })
  }
})

it("a worker that is connected counts when an engine starts and while Redis has lost its data", async () => {
  const redis = await PrivateRedis.start()
  const stage = new FleetStage(redis.url, { ...slowBeats, workerDeadSeconds: 3600 })
  const worker = stage.worker({ handlers: [work] })
  await stage.served(await stage.engine(), "work")
  const { log, hasLogged } = collectLog()
  const umbra = await stage.engine({ log })
  await umbra.register(flow([{ id: "a", handler: "work" }]))
  await redis.flush()
  await until("the engine has noticed", () => hasLogged("Redis lost its data"))
  expect(umbra.workers().map(({ id, state }) => [id, state])).toEqual([[worker.id, "live"]])
  await umbra.register(flow([{ id: "b", handler: "work" }]))
})
