import { expect, it } from "vitest"
import { compileWorkflow, handlerCatalog } from "../../src/definition/index.ts"
import type { Plan } from "../../src/definition/plan.ts"
import { openMemory } from "../../src/journal/sqlite/memory.ts"
import { silentLog } from "../../src/log.ts"
import { Executions, type ExecutionsParts } from "../../src/pipeline/execution/executions.ts"
import { PipelineQueries, type PipelineQueriesParts } from "../../src/pipeline/queries.ts"
import { AdapterRegistry } from "../../src/pipeline/registry/registry.ts"
import { pipelineSettings } from "../../src/pipeline/settings.ts"
import { recorder, route } from "./scene.ts"

it("P2 begins nothing when the process stops while an execution is being opened", async () => {
  const seen = recorder()
  const adapters = new AdapterRegistry()
  adapters.add(seen)
  const document = { name: "late", routes: [route("late", ["record"])] }
  const { plan } = compileWorkflow(document, { handlers: handlerCatalog([]), adapters })
  let opened!: (plan: Plan) => void
  const memory = openMemory()
  const row = { createdAt: 0, labels: null }
  const journal = new Proxy(memory, {
    get: (target, name) => (name === "readJob" ? async () => row : Reflect.get(target, name, target)),
  })
  const jobId = "00000000-0000-7000-8000-000000000001"
  await memory.takePartitions({ engine: "e", expected: [{ partition: 0, epoch: 0 }] })
  const executions = new Executions({
    ...{ journal, adapters, log: silentLog, settings: pipelineSettings({ metricsSeconds: 0 }), lossLimit: 3 },
    plans: { get: () => new Promise<Plan>(resolve => (opened = resolve)) },
    secrets: () => undefined,
    host: {
      id: "e",
      epoch: () => 1,
      isSure: () => true,
      events: { started: async () => {}, finished: () => {} },
    },
    clock: { now: () => Date.now(), random: () => 0, after: () => () => {} },
    metrics: { begun: () => {}, ended: () => {} },
    submit: async () => "",
  } as unknown as ExecutionsParts)
  executions.dispatch({ jobId, node: 0, attempt: 1, handler: "routes", workflow: "late", input: 1 } as never)
  await new Promise(resolve => setImmediate(resolve))
  await executions.drain(10)
  opened(plan!)
  await new Promise(resolve => setTimeout(resolve, 20))
  expect(seen.seen).toEqual([])
  expect((await memory.pipelines.readExecution(jobId))?.commit ?? 0).toBe(0)
})

it("P1 however many executions other owners have, the pages of an owner reach its own", async () => {
  const jobId = "00000000-0000-7000-8000-000000000001"
  const asked: number[] = []
  const store = {
    listExecutions: async ({ before, scan }: { before: number; scan: number }) => {
      const from = Math.min(before, 50_001)
      asked.push(from)
      const next = from > scan ? from - scan : null
      const executions = next === null ? [{ execution: 1, jobId, progress: null, endedAt: null }] : []
      return { executions, next }
    },
    readExecution: async () => null,
  }
  const pipeline = { routes: [] }
  const row = {
    ...{ id: jobId, owner: "bob", workflow: "flow", workflowVersion: 1, status: "COMPLETED" },
    ...{ error: null, output: "null", labels: null, createdAt: 0, updatedAt: 0, finishedAt: 0, wakeAt: null },
  }
  const queries = new PipelineQueries({
    ...{ store, now: () => 0, live: async () => null },
    plans: { get: async () => ({ pipeline }) },
    row: async () => row,
  } as unknown as PipelineQueriesParts)
  const pages: boolean[] = []
  let found: readonly unknown[] = []
  for (let after: string | undefined; ; ) {
    const page = await queries.executions("bob", { after })
    pages.push(page.complete)
    found = page.executions
    if (page.next === null) break
    after = page.next
  }
  expect(pages).toEqual([false, false, true])
  expect(asked).toHaveLength(51)
  expect(found).toHaveLength(1)
})
