import { expect, it } from "vitest"
import { flow, gate, handler, soon, until } from "../engine/stage.ts"
import { FleetStage } from "./stage.ts"

it("a worker elsewhere reports times, its name and the usage of failed attempts", async () => {
  const stage = new FleetStage()
  let calls = 0
  const flaky = handler("flaky", (_, ctx) => {
    ctx.usage({ tokens: 4 })
    const end = performance.now() + 20
    while (performance.now() < end);
    if (++calls === 1) throw new Error("not yet")
    return [ctx.attempt, ctx.fence]
  })
  const umbra = await stage.engine()
  const worker = stage.worker({ handlers: [flaky] })
  await stage.served(umbra, "flaky")
  const job = await umbra.submit(flow([{ id: "a", handler: "flaky", retry: soon }]))
  expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: { a: [2, 2] } })
  const { attempts, usage } = await umbra.node(job.id, "a")
  expect(usage).toEqual({ tokens: 8 })
  expect(attempts).toMatchObject([
    { attempt: 1, outcome: "failed", worker: worker.id, usage: { tokens: 4 } },
    { attempt: 2, outcome: "completed", worker: worker.id, usage: { tokens: 4 } },
  ])
  for (const { duration_ms } of attempts) expect(duration_ms).toBeGreaterThanOrEqual(19)
})

it("what an aborted attempt used on a worker elsewhere counts", async () => {
  const stage = new FleetStage()
  const costly = handler("costly", (_, ctx) => {
    ctx.usage({ tokens: 4 })
    return new Promise(() => {})
  })
  const umbra = await stage.engine()
  stage.worker({ handlers: [costly], worker: { graceSeconds: 0.02 } })
  await stage.served(umbra, "costly")
  const job = await umbra.submit(flow([{ id: "a", handler: "costly" }]))
  // The message that says that it has begun says what it has used.
  await expect.poll(async () => (await job.graph()).live?.nodes[0]?.status).toBe("RUNNING")
  await job.cancel()
  expect(await job.status()).toMatchObject({ status: "CANCELLED", usage: { tokens: 4 } })
})

it("a worker elsewhere is told why its attempt is aborted", async () => {
  const stage = new FleetStage()
  const held = gate()
  const umbra = await stage.engine()
  stage.worker({ handlers: [held.handler], worker: { graceSeconds: 0.02 } })
  await stage.served(umbra, "gate")
  const job = await umbra.submit(flow([{ id: "a", handler: "gate" }]))
  const { signal } = await held.came()
  await job.cancel("changed my mind")
  await until("the handler is told", () => signal.aborted)
  expect(signal.reason).toMatchObject({
    name: "AbortError",
    message: "The job was cancelled: changed my mind",
  })
})
