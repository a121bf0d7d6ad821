/** Redis forgets everything between two commands of which the second only makes sense with the answer to the first. */
import { once } from "node:events"
import { type AddressInfo, connect, createServer } from "node:net"
import { expect, it, onTestFinished } from "vitest"
import { collectLog, flow, gate, until } from "../engine/stage.ts"
import { PrivateRedis } from "./private-redis.ts"
import { FleetStage } from "./stage.ts"

/** A way to Redis on which it is flushed just before a command with these bytes arrives, once. */
async function flushing(redis: PrivateRedis) {
  let armed: { readonly bytes: string; readonly flushed: () => void } | null = null
  const server = createServer(near => {
    const far = connect(Number(new URL(redis.url).port), "127.0.0.1")
    for (const socket of [near, far]) socket.on("error", () => {}).on("close", () => near.destroy())
    far.pipe(near)
    let order = Promise.resolve()
    const pass = async (chunk: Buffer) => {
      if (armed !== null && chunk.includes(armed.bytes)) {
        const { flushed } = armed
        armed = null
        await redis.flush()
        flushed()
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
    flushBefore: (bytes: string) =>
      new Promise<void>(flushed => {
        armed = { bytes, flushed }
      }),
  }
}

const one = flow([{ id: "a", handler: "gate" }])
const unhurried = { workerDeadSeconds: 3600, rosterSeconds: 0.05, answerSeconds: 10 }

it("S6 while a worker beats: it is not dead for that, and what it runs goes on", async () => {
  const way = await flushing(await PrivateRedis.start())
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

it("S6 while an engine looks who lives: nobody is dead for that", async () => {
  const way = await flushing(await PrivateRedis.start())
  // Beats once, and has no room: it does not notice, and so does not say that it is there.
  const stage = new FleetStage(way.url, { ...unhurried, workerBeatSeconds: 1800 })
  const { log, said } = collectLog()
  const umbra = await stage.engine({ log })
  const slow = gate()
  stage.worker({ handlers: [slow.handler], worker: { concurrency: 1 }, redis: { prefetch: 0 } })
  await stage.served(umbra, "gate")
  const job = await umbra.submit(one)
  await slow.came()
  await way.flushBefore("SMEMBERS")
  await until("the engine has noticed", () => said("Redis lost its data"))
  expect(umbra.workers().filter(({ state }) => state === "dead")).toEqual([])
  slow.open("done")
  expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
  expect(slow.entered).toHaveLength(1)
})
