import { describe, expect, it, onTestFinished } from "vitest"
import { WORKERS } from "../../src/broker/redis/keys.ts"
import { proxyTo } from "../engine/proxy.ts"
import { flow, gate, handler, until } from "../engine/stage.ts"
import { bareConnection, FleetStage } from "./stage.ts"

const one = flow([{ id: "a", handler: "gate" }])

it("S5 the time to end counts from the signal, whether Redis answers or not", async () => {
  const proxy = await proxyTo(process.env.UMBRA_TEST_REDIS_URL!)
  onTestFinished(() => proxy.close())
  const stage = new FleetStage(proxy.url, { answerSeconds: 600, workerDeadSeconds: 3600 })
  const umbra = await stage.engine()
  const stuck = gate()
  const worker = stage.worker({ handlers: [stuck.handler] })
  await stage.served(umbra, "gate")
  await umbra.submit(one)
  const { signal } = await stuck.came()
  proxy.goSilent("everything")
  const closed = worker.close({ drainSeconds: 0.1 })
  // Long before Redis has failed to answer.
  await until("it is told to stop", () => signal.aborted)
  proxy.heal()
  proxy.drop()
  stuck.open()
  await closed
})

describe("which tasks a worker takes", () => {
  it("S5 an empty list of queues is refused, with what to write instead", () => {
    const stage = new FleetStage()
    const render = handler("render", () => null)
    const opened = () => stage.worker({ handlers: [render], queues: [] })
    expect(opened).toThrow(/Name some of .*render.*, or omit the list/)
    expect(opened).toThrow(expect.objectContaining({ code: "E620" }))
  })

  it("S5 a queue that is named twice is one", async () => {
    const stage = new FleetStage()
    const worker = stage.worker({ handlers: [gate().handler], queues: ["gate", "gate"] })
    expect(worker.queues).toEqual(["gate"])
  })

  it("S5 a worker that is to take nothing along takes nothing along, however many queues it has", async () => {
    const stage = new FleetStage()
    const umbra = await stage.engine()
    const gates = ["g0", "g1", "g2", "g3"].map(name => gate(name))
    stage.worker({
      handlers: gates.map(({ handler }) => handler),
      queues: ["g0", "g1", "g2", "g3"],
      worker: { concurrency: 1 },
      redis: { prefetch: 0 },
    })
    await stage.served(umbra, "g0")
    const submit = (name: string) => umbra.submit(flow([{ id: "a", handler: name }], { name }))
    const first = await submit("g0")
    await gates[0]!.came()
    const { connection, keys } = await bareConnection(stage)
    const handed = async () => {
      const counts = ["g1", "g2", "g3"].map(name => connection.send(["XPENDING", keys.tasks(name), WORKERS]))
      return (await Promise.all(counts)).map(row => (row as [number])[0]).reduce((sum, count) => sum + count)
    }
    const jobs = await Promise.all(["g1", "g2", "g3"].map(submit))
    const lengths = () =>
      Promise.all(["g1", "g2", "g3"].map(name => connection.send(["XLEN", keys.tasks(name)])))
    await until("they lie in Redis", async () => (await lengths()).every(length => length === 1))
    gates[0]!.open()
    await first.wait()
    const [, ...rest] = gates
    await Promise.race(rest.map(({ came }) => came()))
    expect(await handed()).toBe(1)
    for (const { open } of rest) open()
    for (const job of jobs) expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
  })

  it("S5 a worker that is to take nothing along leaves the rest to others", async () => {
    const stage = new FleetStage()
    const umbra = await stage.engine()
    const [first, second] = [gate(), gate()]
    const settings = { worker: { concurrency: 1 }, redis: { prefetch: 0 } }
    stage.worker({ handlers: [first.handler], ...settings })
    await stage.served(umbra, "gate")
    const jobs = [await umbra.submit(one), await umbra.submit(one)]
    await first.came()
    stage.worker({ handlers: [second.handler], ...settings })
    await second.came()
    first.open("done")
    second.open("done")
    for (const job of jobs) expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
    expect([first.entered.length, second.entered.length]).toEqual([1, 1])
    await until("nobody has anything", () => umbra.workers().every(({ queued }) => queued === 0))
  })
})
