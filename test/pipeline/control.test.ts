/** Executions that are cancelled, expire, are retried at once, and move between processes of one database. */
import { afterEach, expect, it, onTestFinished } from "vitest"
import { withLive } from "../../src/core/view/live-view.ts"
import { Reader } from "../../src/jobs/reader.ts"
import type { WorkflowSource } from "../../src/jobs/register.ts"
import { openJournal } from "../../src/journal/open.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import type { Adapter } from "../../src/pipeline/adapter.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { openUmbra, type Umbra } from "../../src/umbra.ts"
import { readContent } from "../crash/pipelines/check.ts"
import { until } from "../engine/stage.ts"
import { freshDatabase } from "../support/services.ts"
import { forestProblems } from "./forest.ts"
import { adapter, numbers, route } from "./scene.ts"

const COUNT = 400
const engine = { beatSeconds: 0.05, leaseSeconds: 1 }

const opened: Umbra[] = []
afterEach(async () => {
  for (const umbra of opened.splice(0)) await umbra.close()
})

async function open(at: string, adapters: readonly Adapter[]): Promise<Umbra> {
  const umbra = await openUmbra(at, { adapters, engine })
  opened.push(umbra)
  return umbra
}

const worker = adapter("work", async ({ body }) => {
  await new Promise(resolve => setTimeout(resolve, 2))
  return body
})

const pipeline = {
  name: "control",
  init: { body: { count: COUNT, step: 50 } },
  routes: [
    route("source", ["numbers"], { outbound: "work" }),
    route("work", ["work", "work"], { outbound: "store", concurrency: 8, prefetch: 16 }),
    route("store", ["work"], { concurrency: 8 }),
  ],
} as unknown as WorkflowSource

async function mustBeWhole(at: string, jobId: string): Promise<void> {
  const journal = await openJournal(at)
  try {
    const { progress, messages, letters, lineage } = await readContent(journal.pipelines, jobId)
    expect(forestProblems(messages, lineage, letters)).toEqual([])
    expect(progress.routes.map(({ tail, done }) => [tail, done])).toEqual([
      [COUNT / 50, COUNT / 50],
      [COUNT, COUNT],
      [COUNT, COUNT],
    ])
    const numbers = messages
      .filter(({ route }) => route === 2)
      .map(({ body }) => (JSON.parse(body) as { n: number }).n)
    expect(new Set(numbers).size).toBe(COUNT)
  } finally {
    await journal.close()
  }
}

it("P2 cancelled and retried again and again, with commits of the run before on their way: nothing lost or doubled", async () => {
  const database = await freshDatabase()
  onTestFinished(database.drop)
  const umbra = await open(database.url, [numbers, worker])
  const { id } = await umbra.submit(pipeline)
  for (let times = 1; times <= 8; times++) {
    await new Promise(resolve => setTimeout(resolve, times * 7))
    if ((await umbra.job(id)).status === "COMPLETED") break
    await umbra.cancel(id)
    await umbra.retry(id)
  }
  expect((await umbra.wait(id, { timeoutMs: 60_000 })).status).toBe("COMPLETED")
  await umbra.close()
  await mustBeWhole(database.url, id)
})

it("P2 calls no adapter any more when its time is up or it is cancelled, not even the next of a chain", async () => {
  const answers: (() => void)[] = []
  let second = 0
  // Knows nothing of signals, and answers when the execution is over.
  const patient = adapter("patient", async ({ body }) => {
    await new Promise<void>(resolve => answers.push(resolve))
    return body
  })
  const next = adapter("next", () => {
    second += 1
  })
  const clock = new VirtualClock()
  const umbra = await openUmbra("memory:", { adapters: [patient, next], engine, clock })
  opened.push(umbra)
  const chain = (more: object) =>
    ({ name: "chain", ...more, routes: [route("chain", ["patient", "next"])] }) as unknown as WorkflowSource
  const expiring = await umbra.submit(chain({ ttl_seconds: 60 }))
  await until("it is under way", () => answers.length === 1)
  await until("it has expired", async () => {
    clock.advance(1000)
    return (await umbra.job(expiring.id)).status === "EXPIRED"
  })
  const cancelled = await umbra.submit(chain({}))
  await until("the other is under way", () => answers.length === 2)
  await umbra.cancel(cancelled.id)
  for (const answer of answers) answer()
  // What is called in error is called within a few turns.
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
  expect([answers.length, second]).toEqual([2, 0])
})

it("P2 moves to another process and back with its partition, and continues where it was", async () => {
  const database = await freshDatabase()
  onTestFinished(database.drop)
  const adapters = [numbers, worker]
  let owner = await open(database.url, adapters)
  const { id } = await owner.submit(pipeline)
  for (let moves = 0; moves < 3; moves++) {
    const next = await open(database.url, adapters)
    await until("it has begun", async () => (await owner.graph(id)).routes![1]!.done > moves * 40, 60_000)
    await owner.close()
    owner = next
  }
  expect((await owner.wait(id, { timeoutMs: 60_000 })).status).toBe("COMPLETED")
  await owner.close()
  await mustBeWhole(database.url, id)
})

it("P3 an engine without its adapters leaves a job as it is, and one that has them continues", async () => {
  const store = createMemoryStore()
  const openWith = async (adapters: readonly Adapter[]) => {
    const umbra = await openUmbra(openMemory(store), { adapters, engine: { ...engine, drainSeconds: 0.01 } })
    opened.push(umbra)
    return umbra
  }
  let isHeld = false
  const held = adapter("work", (_, { signal }) => {
    isHeld = true
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)))
  })
  const first = await openWith([numbers, held])
  const { id } = await first.submit(pipeline)
  await until("it has begun", () => isHeld)
  await first.close()
  const second = await openWith([numbers])
  await until("it knows that it cannot run it", () => second.activity(id).unserved.length === 1)
  const { nodes, routes } = withLive(await second.graph(id))
  expect(nodes[0]).toMatchObject({
    status: "QUEUED",
    waiting_on: { kind: "worker", handler: "routes", adapters: ["work"] },
  })
  expect(second.activity(id).unserved).toMatchObject([{ lacks: { adapters: ["work"], redis: false } }])
  // What the one before had in hand is in nobody's hands now.
  expect(routes).toMatchObject([
    { name: "source", in_flight: 0, rate: 0, concurrency: null },
    { name: "work", in_flight: 0, rate: 0, concurrency: null },
    { name: "store", in_flight: 0 },
  ])
  await second.close()
  const third = await openWith([numbers, worker])
  expect((await third.wait(id, { timeoutMs: 60_000 })).status).toBe("COMPLETED")
})

it("P2 shows an execution of a dead process as one that no process runs", async () => {
  const journal = openMemory()
  const held = adapter("work", ({ body }, { signal }) => {
    if ((body as { n: number }).n <= 20) return body
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)))
  })
  const umbra = await openUmbra(journal, { adapters: [numbers, held], engine: { drainSeconds: 0.01 } })
  opened.push(umbra)
  const { id } = await umbra.submit(pipeline)
  await until("some are in hand", async () => ((await umbra.graph(id)).routes?.[1]?.in_flight ?? 0) > 0)
  // Whoever reads a store that one process has for itself knows that no other is at it.
  const { nodes, routes } = withLive(await new Reader(journal).graph(id))
  expect(nodes[0]).toMatchObject({ status: "QUEUED", waiting_on: { kind: "worker", handler: "routes" } })
  expect(routes?.[1]).toMatchObject({ in_flight: 0, concurrency: null })
})
