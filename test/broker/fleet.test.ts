import { describe, expect, it } from "vitest"
import { flow, gate, handler, until } from "../engine/stage.ts"
import { FleetStage } from "./stage.ts"

const double = handler("double", (config: { n: number }) => config.n * 2)

describe("a fleet over Redis", () => {
  it("S6 nodes run in workers that know nothing but Redis", async () => {
    const stage = new FleetStage()
    const umbra = await stage.engine()
    stage.worker({ handlers: [double] })
    await stage.served(umbra, "double")
    const job = await umbra.submit(
      flow(
        [
          { id: "a", handler: "double", config: { n: 4 } },
          { id: "b", handler: "double", dependencies: ["a"], config: { n: "{{ a }}" } },
        ],
        { output: "{{ b }}" },
      ),
    )
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: 16 })
  })

  it("a worker resolves secrets in its own process, for the owner of the task's job", async () => {
    const stage = new FleetStage()
    const umbra = await stage.engine({ secrets: () => "of-the-engine" })
    const seen: string[] = []
    const peek = handler("peek", (config: { key: string }) => void seen.push(config.key))
    const secrets = (name: string, { owner }: { owner: string }) =>
      owner === "bob" ? undefined : `${name}-of-${owner}`
    stage.worker({ handlers: [peek], secrets })
    await stage.served(umbra, "peek")
    const reads = flow([{ id: "a", handler: "peek", config: { key: "{{ secrets.KEY }}" } }])
    const run = async (owner: string) => (await umbra.submit(reads, null, { owner })).wait()
    expect((await run("alice")).status).toBe("COMPLETED")
    expect(await run("bob")).toMatchObject({ status: "FAILED", error: { code: "E407" } })
    expect(seen).toEqual(["KEY-of-alice"])
  })

  it("a worker elsewhere measures heartbeat_seconds: a missed one is retried and spends a try", async () => {
    const stage = new FleetStage()
    const umbra = await stage.engine()
    const silent = handler("silent", (_: unknown, ctx) =>
      ctx.attempt === 1 ? new Promise(() => {}) : "spoke",
    )
    stage.worker({ handlers: [silent], worker: { graceSeconds: 0.05 } })
    await stage.served(umbra, "silent")
    const retry = { max_attempts: 2, initial_seconds: 0 }
    const node = { id: "a", handler: "silent", heartbeat_seconds: 0.2, retry }
    const job = await umbra.submit(flow([node], { output: "{{ a }}" }))
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: "spoke" })
    const facts = await umbra.events(job.id)
    expect(JSON.stringify(facts)).toContain('"code":"E418"')
  })

  it("S5 a node waits for a worker, and starts when one comes", async () => {
    const stage = new FleetStage()
    const umbra = await stage.engine()
    const first = stage.worker({ handlers: [double] })
    await stage.served(umbra, "double")
    await umbra.register(flow([{ id: "a", handler: "double", config: { n: 1 } }]))
    await first.close()
    await until("it has left", async () => umbra.workers().every(({ state }) => state === "dead"))
    const job = await umbra.submit("flow")
    await until("it waits", async () => umbra.activity(job.id).unserved.length === 1)
    stage.worker({ handlers: [double] })
    expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
  })

  it("S5 tasks of a worker that is silent for too long go to another", async () => {
    const stage = new FleetStage()
    const umbra = await stage.engine()
    const slow = gate()
    const silent = stage.worker({
      handlers: [slow.handler],
      redis: { workerBeatSeconds: 3600, workerDeadSeconds: 2 },
    })
    await stage.served(umbra, "gate")
    const job = await umbra.submit(flow([{ id: "a", handler: "gate" }]))
    await slow.came()
    stage.worker({ handlers: [slow.handler] })
    await slow.came(2)
    slow.open("done")
    expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
    expect((await umbra.node(job.id, "a")).attempt).toBe(2)
    expect(silent.isReady).toBe(true)
  })
})
