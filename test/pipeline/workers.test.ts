import { describe, expect, it } from "vitest"
import { withLive } from "../../src/core/view/live-view.ts"
import type { WorkflowSource } from "../../src/jobs/register.ts"
import { FleetStage } from "../broker/stage.ts"
import { open, openOn, until } from "../engine/stage.ts"
import { adapter, numbers, recorder, route } from "./scene.ts"

const flow = (route2: object, count = 50) =>
  ({
    name: "elsewhere",
    init: { body: { count } },
    routes: [
      route("source", ["numbers"], { outbound: "work" }),
      { ...route("work", ["double"], { outbound: "store", run_on: "workers", concurrency: 8 }), ...route2 },
      route("store", ["record"]),
    ],
  }) as unknown as WorkflowSource

const double = adapter("double", ({ body }) => body)
const retry = { retries: 2, backoff: { initial_seconds: 0.01, max_seconds: 0.01 }, circuit_breaker: false }

describe("routes that run on workers", () => {
  it("P3 P5 messages go to workers that know nothing but Redis, and what they emit comes back with its lineage", async () => {
    const stage = new FleetStage()
    const store = recorder()
    const umbra = await stage.engine({ adapters: [numbers, store] })
    let fails = 3
    const double = adapter("double", async ({ body, id }, { attempt, parent, correlationId, jobId }) => {
      if (fails-- > 0) throw new Error("not yet")
      const { n } = body as { n: number }
      return { n: n * 2, id, attempt, parent, correlation: correlationId === `${jobId}/1` }
    })
    stage.worker({ adapters: [double] })
    await stage.served(umbra, "adapter:double")
    const job = await umbra.submit(flow({ error_handling: retry }))
    const { status, output } = await job.wait()
    expect(status).toBe("COMPLETED")
    expect(output).toMatchObject({ routes: { work: { done: 50, failed_tries: 3 }, store: { done: 50 } } })
    const seen = store.seen as unknown as { n: number; id: string; parent: string; correlation: boolean }[]
    expect(seen.map(({ n }) => n).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 50 }, (_, i) => 2 * (i + 1)),
    )
    expect(new Set(seen.map(({ parent }) => parent))).toEqual(new Set(["source:1"]))
    expect(seen.every(({ correlation }) => correlation)).toBe(true)
    const { inputs } = await umbra.pipelines.lineage(job.id, "store:7")
    expect(inputs[0]!.invocations.at(-1)).toMatchObject({
      adapter: "double",
      status: "completed",
      emitted: 1,
    })
  })

  it("P5 lineage shows the calls of a message that a worker has, and the one that runs", async () => {
    const stage = new FleetStage()
    const umbra = await stage.engine({ adapters: [numbers, recorder()] })
    const inside: (() => void)[] = []
    const slow = adapter("slow", ({ body }, { emit }) => {
      emit({ extra: true })
      return new Promise(resolve => inside.push(() => resolve(body)))
    })
    stage.worker({ adapters: [double, slow] })
    await stage.served(umbra, "adapter:double")
    const routes = { adapters: [{ type: "double" }, { type: "slow" }, { type: "double" }] }
    const job = await umbra.submit(flow(routes, 1))
    await until("the worker has it", () => inside.length === 1)
    const shown = async () => (await umbra.pipelines.lineage(job.id, "work:1")).message!
    await until("its calls are reported", async () => (await shown()).invocations.length === 2)
    const { status, invocations } = await shown()
    expect({ status, invocations }).toMatchObject({
      status: "running",
      invocations: [
        { adapter: "double", attempt: 1, status: "completed", emitted: 0 },
        { adapter: "slow", attempt: 1, status: "running", emitted: 1, error: null },
      ],
    })
    const running = invocations[1]!
    expect(running.duration_ms).toBeGreaterThan(0)
    expect(Math.abs(running.at + running.duration_ms - Date.now())).toBeLessThan(60_000)
    // It goes on while no report arrives.
    await until(
      "it runs longer",
      async () => (await shown()).invocations[1]!.duration_ms > running.duration_ms,
    )
    inside[0]!()
    expect((await job.wait()).status).toBe("COMPLETED")
    const ended = (await shown()).invocations.map(call => [call.adapter, call.status, call.emitted])
    expect(ended).toEqual([
      ["double", "completed", 0],
      ["slow", "completed", 1],
      ["double", "completed", 1],
    ])
  })

  it("waits for a worker, and continues when one comes; what a worker took and was lost is delivered again", async () => {
    const stage = new FleetStage()
    const store = recorder()
    const umbra = await stage.engine({ adapters: [numbers, store] })
    let take = () => {}
    const taken = new Promise<void>(resolve => {
      take = resolve
    })
    const stuck = adapter("double", () => {
      take()
      return new Promise(() => {})
    })
    const first = stage.worker({ adapters: [stuck] })
    await stage.served(umbra, "adapter:double")
    const job = await umbra.submit(flow({}, 5))
    await taken
    await first.close({ drainSeconds: 0 })
    stage.worker({ adapters: [adapter("double", ({ body }) => body)] })
    expect((await job.wait()).status).toBe("COMPLETED")
    expect(store.seen.length).toBe(5)
  })

  it("a chain of built-in adapters needs nothing of the worker's own", async () => {
    const stage = new FleetStage()
    const store = recorder()
    const umbra = await stage.engine({ adapters: [numbers, store] })
    stage.worker()
    await stage.served(umbra, "adapters")
    const value = { type: "transform", config: { value: { twice: "{{ message.n * 2 }}" } } }
    const job = await umbra.submit(flow({ adapters: [value] }, 3))
    expect((await job.wait()).status).toBe("COMPLETED")
    expect(store.seen).toEqual(expect.arrayContaining([{ twice: 2 }, { twice: 4 }, { twice: 6 }]))
  })

  it("an engine without Redis leaves a job that it takes over as it is, and one that has it continues", async () => {
    const stage = new FleetStage()
    const adapters = [numbers, recorder(), double]
    const first = await stage.engine({ adapters })
    const job = await first.submit(flow({}, 5))
    await until("it has begun", async () => withLive(await job.graph()).nodes[0]?.status === "RUNNING")
    await first.close()
    const second = await openOn(stage.store, { adapters })
    await until("it knows that it cannot run it", () => second.activity(job.id).unserved.length === 1)
    const { status, nodes } = withLive(await second.graph(job.id))
    expect(status).toBe("PROCESSING")
    expect(nodes[0]).toMatchObject({
      status: "QUEUED",
      waiting_on: { kind: "worker", handler: "routes", redis: true },
    })
    await second.close()
    const third = await stage.engine({ adapters })
    stage.worker({ adapters: [double] })
    expect((await third.wait(job.id, { timeoutMs: 60_000 })).status).toBe("COMPLETED")
  })

  it("are refused where no worker with Redis can ever connect", async () => {
    const umbra = await open({ adapters: [numbers, recorder(), double] })
    await expect(umbra.submit(flow({}, 5))).rejects.toMatchObject({ code: "E711" })
    expect(await umbra.jobs()).toEqual([])
  })

  it("P7 a node that runs them there fails at once, and no child job is left waiting", async () => {
    const umbra = await open({ adapters: [numbers, recorder(), double] })
    await umbra.register(flow({}, 5) as never)
    const parent = {
      name: "parent",
      nodes: [{ id: "load", handler: "pipeline", config: { pipeline: "elsewhere" } }],
    }
    const job = await umbra.submit(parent)
    const { status, error } = await job.wait({ timeoutMs: 60_000 })
    expect(status).toBe("FAILED")
    expect(error).toMatchObject({ code: "E711", node: "load" })
    expect((await umbra.jobs()).map(({ workflow }) => workflow)).toEqual(["parent"])
  })

  it("says what only works where the execution runs", async () => {
    const stage = new FleetStage()
    const umbra = await stage.engine({ adapters: [numbers, recorder()] })
    const claims = adapter("double", async ({ body }, { storage }) =>
      (await storage.claim("a")) ? body : undefined,
    )
    stage.worker({ adapters: [claims] })
    await stage.served(umbra, "adapter:double")
    const job = await umbra.submit(flow({ error_handling: { ...retry, dead_letter: false } }, 1))
    const { status, error } = await job.wait()
    expect(status).toBe("FAILED")
    expect(error).toMatchObject({ code: "E711" })
  })
})
