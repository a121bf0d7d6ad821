/** P7: a node that runs a pipeline and waits until it has drained. */
import { afterEach, describe, expect, it } from "vitest"
import { pipeline as definePipeline, workflow } from "../../src/definition/typed/builder.ts"
import type { WorkflowSource } from "../../src/jobs/register.ts"
import type { Adapter } from "../../src/pipeline/adapter.ts"
import { openUmbra, type Umbra, type UmbraOptions } from "../../src/umbra.ts"
import { until } from "../engine/stage.ts"
import { adapter, numbers, recorder, route } from "./scene.ts"

let umbra: Umbra
afterEach(() => umbra?.close())

async function open(adapters: readonly Adapter[], options: UmbraOptions = {}): Promise<void> {
  umbra = await openUmbra("memory:", { ...options, adapters })
}

const node = (config: object, more: object = {}) => ({ id: "load", handler: "pipeline", config, ...more })
const dag = (name: string, nodes: readonly object[]) => ({ name, nodes }) as WorkflowSource
const quick = { max_attempts: 3, initial_seconds: 0.05, jitter: 0 }

const counted = {
  name: "counted",
  input: { type: "object", required: ["count"], properties: { count: { type: "integer" } } },
  routes: [route("source", ["numbers"], { outbound: "work" }), route("work", ["record"])],
}

describe("a node with handler pipeline", () => {
  it("waits for the drain, and its output is the totals of the routes", async () => {
    const seen = recorder()
    await open([numbers, seen])
    await umbra.register(counted as never)
    const parent = dag("parent", [
      node({ pipeline: "counted@1", input: { count: "{{ input.count }}" } }),
      {
        id: "after",
        handler: "transform",
        config: { value: "{{ nodes.load.output.routes.work.done }}" },
      },
    ])
    const job = await umbra.submit(parent, { count: 12 })
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: { after: 12 } })
    expect(seen.seen).toHaveLength(12)
    const { nodes } = await umbra.graph(job.id)
    const child = (nodes[0] as { child_job_id?: string }).child_job_id!
    expect(await umbra.job(child)).toMatchObject({ workflow: "counted", parent_id: job.id })
    expect((await umbra.graph(child)).routes).toMatchObject([{ done: 1 }, { done: 12 }])
  })

  it("E710 refuses a workflow with nodes, and `workflow` refuses a pipeline: each says what to use", async () => {
    await open([numbers, recorder()])
    await umbra.register(counted as never)
    await umbra.register(dag("plain", [{ id: "a", handler: "input" }]) as never)
    const wrong = await (await umbra.submit(dag("wrong", [node({ pipeline: "plain" })]))).wait()
    expect(wrong).toMatchObject({ status: "FAILED", error: { code: "E710", node: "load" } })
    expect(wrong.error!.message).toContain("handler: workflow")
    const other = { id: "load", handler: "workflow", config: { workflow: "counted", input: { count: 1 } } }
    const refused = await (await umbra.submit(dag("other", [other]))).wait()
    expect(refused).toMatchObject({ status: "FAILED", error: { code: "E710" } })
    expect(refused.error!.message).toContain("handler: pipeline")
    const none = await (await umbra.submit(dag("none", [node({ pipeline: "nothing" })]))).wait()
    expect(none.error).toMatchObject({ code: "E305" })
    const input = await (await umbra.submit(dag("input", [node({ pipeline: "counted" })]))).wait()
    expect(input.error).toMatchObject({ code: "E304" })
  })

  it("P1 waits while there is no place for another execution", async () => {
    let letGo = () => {}
    const patient = adapter("patient", () => new Promise<void>(resolve => (letGo = resolve)))
    const seen = recorder()
    await open([numbers, seen, patient], { pipeline: { maxExecutions: 1 } })
    await umbra.register(counted as never)
    const busy = await umbra.submit({ name: "busy", routes: [route("only", ["patient"])] } as WorkflowSource)
    const parent = dag("parent", [
      node({ pipeline: "counted", input: { count: 3 } }, { retry: { ...quick, max_attempts: 50 } }),
    ])
    const job = await umbra.submit(parent)
    await until("it waits for a place", async () => {
      const events = await umbra.events(job.id)
      return events.some(({ type, payload }) => type === "node.queued" && payload.reason === "executions")
    })
    expect(seen.seen).toEqual([])
    letGo()
    await busy.wait()
    expect(await umbra.wait(job.id, { timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED" })
    expect(seen.seen).toHaveLength(3)
    expect(await umbra.jobs({ parentId: job.id })).toHaveLength(1)
  })

  it("a child that fails fails the node; cancelling the parent cancels the execution", async () => {
    const broken = adapter("broken", () => {
      throw Object.assign(new Error("no"), { retryable: false })
    })
    const stuck = adapter(
      "stuck",
      (_, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener("abort", () => reject(new Error("stopped")))
        }),
    )
    await open([broken, stuck])
    const handling = { error_handling: { retries: 0, dead_letter: false, circuit_breaker: false } }
    await umbra.register({ name: "failing", routes: [route("only", ["broken"], handling)] } as never)
    await umbra.register({ name: "stuck", routes: [route("only", ["stuck"])] } as never)
    const failed = await (
      await umbra.submit(dag("a", [node({ pipeline: "failing" }, { retry: quick })]))
    ).wait()
    expect(failed).toMatchObject({ status: "FAILED", error: { node: "load" } })
    const job = await umbra.submit(dag("b", [node({ pipeline: "stuck" })]))
    await until("it has a child", async () => (await umbra.jobs({ parentId: job.id })).length > 0)
    const [child] = await umbra.jobs({ parentId: job.id })
    await until(
      "a message is in hand",
      async () => (await umbra.graph(child!.job_id)).routes?.[0]?.in_flight === 1,
    )
    await umbra.cancel(job.id)
    await until("the child is cancelled", async () => (await umbra.job(child!.job_id)).status === "CANCELLED")
    expect(umbra.metrics().pipelines.executions).toBe(0)
  })

  it("is what the builder's flow.run makes of a pipeline", async () => {
    await open([])
    const load = definePipeline("load", flow => {
      flow.route("only", { inbound: "start" }).adapter({ type: "log" })
    })
    const parent = workflow("built", flow => {
      const loaded = flow.run("load", load)
      return { routes: loaded.output.routes }
    })
    expect(parent.definition.nodes).toEqual([
      { id: "load", handler: "pipeline", config: { pipeline: "load" } },
    ])
  })
})
