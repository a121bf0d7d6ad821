import { describe, expect, it } from "vitest"
import type { Umbra } from "../../src/umbra.ts"
import type { Handler } from "../../src/worker/handler.ts"
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

it("a remote worker gets the reason why its attempt is aborted", async () => {
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

/** As `umbra jobs verify` finds them. */
const differences = async ({ queries }: Umbra, jobId: string) => queries.verify(await queries.row(jobId))

describe("an attempt that is aborted before its worker has reported that it began", () => {
  /** Uses 4 tokens when it begins, and 3 more when it is aborted. */
  const costly = (begun: () => void) =>
    handler("costly", (_, ctx) => {
      ctx.usage({ tokens: 4 })
      begun()
      return new Promise((_resolve, reject) => {
        ctx.signal.addEventListener("abort", () => {
          ctx.usage({ tokens: 3 })
          reject(ctx.signal.reason)
        })
      })
    })

  const stageOf = async (more: Handler[] = []) => {
    const stage = new FleetStage()
    let begunAt = 0
    let begin: () => void = () => {}
    const began = new Promise<void>(resolve => {
      begin = resolve
    })
    const held = costly(() => {
      begunAt = Date.now()
      begin()
    })
    const umbra = await stage.engine()
    const worker = stage.worker({ handlers: [held, ...more] })
    await stage.served(umbra, "costly")
    return { stage, umbra, worker, began, begunAt: () => begunAt }
  }

  /** What the node shows of the attempt, by history, events and graph, once its worker has reported. */
  const shown = async (umbra: Umbra, jobId: string, node: string) => {
    await expect.poll(async () => (await umbra.node(jobId, node)).usage).toEqual({ tokens: 7 })
    const { attempts, started_at, duration_ms } = await umbra.node(jobId, node)
    const events = (await umbra.events(jobId)).filter(event => event.node === node)
    const inGraph = (await umbra.graph(jobId)).nodes.find(({ id }) => id === node)
    expect(inGraph).toMatchObject({ started_at, duration_ms, usage: { tokens: 7 } })
    expect((await umbra.job(jobId))?.usage).toEqual({ tokens: 7 })
    expect(await differences(umbra, jobId)).toEqual([])
    return { attempts, events }
  }

  it("is shown with its start and its usage when the job is cancelled", async () => {
    const { umbra, worker, began, begunAt } = await stageOf()
    const job = await umbra.submit(flow([{ id: "a", handler: "costly" }]))
    await began
    await job.cancel("enough")
    const { attempts, events } = await shown(umbra, job.id, "a")
    expect(attempts).toMatchObject([
      {
        outcome: "cancelled",
        worker: worker.id,
        usage: { tokens: 7 },
        reason: expect.stringMatching("enough"),
      },
    ])
    const { started_at, ended_at, duration_ms } = attempts[0]!
    // The handler ends after its abort signal.
    expect(duration_ms).toBeGreaterThanOrEqual(ended_at! - started_at! - 1)
    // The way of the report counts as a delay of the start, which is never before the true one. Times are whole milliseconds.
    expect(started_at).toBeGreaterThanOrEqual(begunAt() - 1)
    expect(started_at).toBeLessThanOrEqual(ended_at!)
    const received = events.filter(({ type }) => type === "node.running" || type === "attempt.aborted")
    expect(received.map(({ at, payload }) => payload.started_at ?? at)).toContain(started_at)
  })

  it("is shown when a sibling fails", async () => {
    let begun: Promise<void> | undefined
    const fails = handler("fails", async () => {
      await begun
      throw Object.assign(new Error("broken"), { retryable: false })
    })
    const { umbra, began } = await stageOf([fails])
    begun = began
    const nodes = [
      { id: "fails", handler: "fails" },
      { id: "beside", handler: "costly" },
    ]
    const job = await umbra.submit(flow(nodes))
    expect((await job.wait()).status).toBe("FAILED")
    const { attempts } = await shown(umbra, job.id, "beside")
    expect(attempts).toMatchObject([{ outcome: "cancelled", started_at: expect.any(Number) }])
  })

  it("is shown for an item, and counts for the parent of a child job", async () => {
    const { umbra, began } = await stageOf()
    await umbra.register(flow([{ id: "each", handler: "costly", for_each: "{{ [1] }}" }], { name: "child" }))
    const parent = await umbra.submit(
      flow([{ id: "sub", handler: "workflow", config: { workflow: "child", input: {} } }]),
    )
    await began
    const [child] = await umbra.jobs({ workflow: "child" })
    await parent.cancel()
    await expect
      .poll(async () => (await umbra.node(child!.job_id, "each", { item: 0 })).usage)
      .toEqual({ tokens: 7 })
    const { attempts } = await umbra.node(child!.job_id, "each", { item: 0 })
    expect(attempts).toMatchObject([
      { outcome: "cancelled", started_at: expect.any(Number), usage: { tokens: 7 } },
    ])
    await expect.poll(async () => (await parent.status()).usage).toEqual({ tokens: 7 })
    expect((await umbra.node(parent.id, "sub")).usage).toEqual({ tokens: 7 })
    for (const id of [parent.id, child!.job_id]) expect(await differences(umbra, id)).toEqual([])
  })

  it("is shown as handed over when its worker stops", async () => {
    const { stage, umbra, worker, began } = await stageOf()
    const job = await umbra.submit(flow([{ id: "a", handler: "costly" }]))
    await began
    await worker.close({ drainSeconds: 0 })
    stage.worker({ handlers: [handler("costly", (_, ctx) => ctx.attempt)] })
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: { a: 1 }, usage: { tokens: 7 } })
    expect((await umbra.node(job.id, "a")).attempts).toMatchObject([
      {
        attempt: 1,
        outcome: "handed_over",
        started_at: expect.any(Number),
        worker: worker.id,
        usage: { tokens: 7 },
      },
      { attempt: 1, outcome: "completed" },
    ])
  })
})
