/** Something happens between two commands of which the second only makes sense with the answer to the first. */
import { once } from "node:events"
import { type AddressInfo, connect, createServer } from "node:net"
import { expect, it, onTestFinished } from "vitest"
import { openWorker } from "../../src/open-worker.ts"
import { collectLog, flow, gate, until } from "../engine/stage.ts"
import { PrivateRedis } from "./private-redis.ts"
import { bareConnection, FleetStage } from "./stage.ts"

/** A proxy to Redis that runs an action, once, before it passes on a command that contains given bytes. */
async function wayTo(redis: PrivateRedis) {
  let armed: { readonly bytes: string; readonly act: () => Promise<void> } | null = null
  const server = createServer(near => {
    const far = connect(Number(new URL(redis.url).port), "127.0.0.1")
    for (const socket of [near, far]) socket.on("error", () => {}).on("close", () => near.destroy())
    far.pipe(near)
    let order = Promise.resolve()
    const pass = async (chunk: Buffer) => {
      if (armed !== null && chunk.includes(armed.bytes)) {
        const { act } = armed
        armed = null
        await act()
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
  /** Resolves when the action has ended; the command is passed on then. */
  const before = (bytes: string, act: () => Promise<void>) =>
    new Promise<void>((resolve, reject) => {
      armed = { bytes, act: () => act().then(resolve, reject) }
    })
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    before,
    flushBefore: (bytes: string) => before(bytes, () => redis.flush()),
  }
}

const one = flow([{ id: "a", handler: "gate" }])
const unhurried = { workerDeadSeconds: 3600, rosterSeconds: 0.05, answerSeconds: 10 }

it("S6 while a worker sends heartbeats: it is not dead for that, and what it runs continues", async () => {
  const way = await wayTo(await PrivateRedis.start())
  const stage = new FleetStage(way.url, { ...unhurried, workerBeatSeconds: 0.1 })
  const umbra = await stage.engine()
  const slow = gate()
  const worker = stage.worker({ handlers: [slow.handler] })
  const { id } = worker
  await stage.served(umbra, "gate")
  const job = await umbra.submit(one)
  const { signal } = await slow.came()
  // A beat that counts only if the last one is still there.
  await way.flushBefore("$2\r\nXX\r\n")
  await stage.served(umbra, "gate")
  slow.open("done")
  expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
  expect([slow.entered.length, signal.aborted, worker.id]).toEqual([1, false, id])
})

it("S6 while an engine checks which workers are alive: no worker counts as dead because of it", async () => {
  const way = await wayTo(await PrivateRedis.start())
  // Beats once, and has no room: it does not notice, and so does not say that it is there.
  const stage = new FleetStage(way.url, { ...unhurried, workerBeatSeconds: 1800 })
  const { log, hasLogged } = collectLog()
  const umbra = await stage.engine({ log })
  const slow = gate()
  stage.worker({ handlers: [slow.handler], worker: { concurrency: 1 }, redis: { prefetch: 0 } })
  await stage.served(umbra, "gate")
  const job = await umbra.submit(one)
  await slow.came()
  await way.flushBefore("SMEMBERS")
  await until("the engine has noticed", () => hasLogged("Redis lost its data"))
  expect(umbra.workers().filter(({ state }) => state === "dead")).toEqual([])
  slow.open("done")
  expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
  expect(slow.entered).toHaveLength(1)
})

it("S5 S6 tasks of a worker that registers between the poll of workers and the survey of streams are not lost", async () => {
  const redis = await PrivateRedis.start()
  const way = await wayTo(redis)
  const settings = { ...unhurried, workerBeatSeconds: 0.1, claimEverySeconds: 0 }
  const stage = new FleetStage(way.url, settings)
  const umbra = await stage.engine()
  const { connection, keys } = await bareConnection(stage)
  // Known to have the handler, and takes nothing.
  const idle = { id: "worker-idle", host: "", pid: 1, version: "", handlers: ["gate"], running: 0, queued: 0 }
  const beat = JSON.stringify({ ...idle, concurrency: 1, prefetch: 0, at: Date.now(), held: [] })
  await connection.send(["SET", keys.worker(idle.id), beat])
  await connection.send(["SADD", keys.workers, idle.id])
  await stage.served(umbra, "gate")
  const job = await umbra.submit(one)
  await until("it lies in Redis", async () => (await connection.send(["XLEN", keys.tasks("gate")])) === 1)
  const slow = gate()
  await way.before("XRANGE", async () => {
    const worker = openWorker(redis.url, { handlers: [slow.handler], redis: stage.redis })
    onTestFinished(() => worker.close({ drainSeconds: 0 }))
    await slow.came()
  })
  await until("the engine knows the worker", () =>
    umbra.workers().some(({ id, state }) => id !== idle.id && state === "live"),
  )
  slow.open("done")
  expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
  expect(slow.entered).toHaveLength(1)
  expect((await umbra.graph(job.id)).nodes[0]).toMatchObject({ losses: 0 })
})
