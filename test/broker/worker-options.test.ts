import { describe, expect, it } from "vitest"
import { flow, gate, handler, until } from "../engine/stage.ts"
import { FleetStage } from "./stage.ts"

const one = flow([{ id: "a", handler: "gate" }])

describe("what a worker is told to take", () => {
  it("S5 an empty list of queues is refused, with what to write instead", () => {
    const stage = new FleetStage()
    const render = handler("render", () => null)
    const opened = () => stage.worker({ handlers: [render], queues: [] })
    expect(opened).toThrow(/Name some of .*render.*, or leave the list out/)
    expect(opened).toThrow(expect.objectContaining({ code: "E620" }))
  })

  it("S5 a queue that is named twice is one", async () => {
    const stage = new FleetStage()
    const worker = stage.worker({ handlers: [gate().handler], queues: ["gate", "gate"] })
    expect(worker.queues).toEqual(["gate"])
  })

  it("S5 a worker that is to take nothing along leaves the rest to others", async () => {
    const stage = new FleetStage()
    const umbra = await stage.engine()
    const [first, second] = [gate(), gate()]
    const figures = { worker: { concurrency: 1 }, redis: { prefetch: 0 } }
    stage.worker({ handlers: [first.handler], ...figures })
    await stage.served(umbra, "gate")
    const jobs = [await umbra.submit(one), await umbra.submit(one)]
    await first.came()
    stage.worker({ handlers: [second.handler], ...figures })
    await second.came()
    first.open("done")
    second.open("done")
    for (const job of jobs) expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
    expect([first.entered.length, second.entered.length]).toEqual([1, 1])
    await until("nobody has anything", () => umbra.workers().every(({ queued }) => queued === 0))
  })
})
