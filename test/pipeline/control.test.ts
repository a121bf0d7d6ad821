/** Executions that are cancelled, expire, are retried at once, and move between processes of one database. */
import { afterEach, expect, it, onTestFinished } from "vitest"
import type { WorkflowSource } from "../../src/engine/submissions.ts"
import { openJournal } from "../../src/journal/open.ts"
import type { Adapter } from "../../src/pipeline/adapter.ts"
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

/** Takes its time whatever happens, as adapters do that know nothing of signals. */
function worker(calls: { last: number }) {
  return adapter("work", async ({ body }) => {
    calls.last = Date.now()
    await new Promise(resolve => setTimeout(resolve, 2))
    return body
  })
}

const pipeline = (more: object = {}) =>
  ({
    name: "control",
    init: { body: { count: COUNT, step: 50 } },
    ...more,
    routes: [
      route("source", ["numbers"], { outbound: "work" }),
      route("work", ["work", "work"], { outbound: "store", concurrency: 8, prefetch: 16 }),
      route("store", ["work"], { concurrency: 8 }),
    ],
  }) as unknown as WorkflowSource

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
  const umbra = await open(database.url, [numbers, worker({ last: 0 })])
  const { id } = await umbra.submit(pipeline())
  for (let times = 1; times <= 8; times++) {
    await new Promise(resolve => setTimeout(resolve, times * 7))
    if ((await umbra.job(id)).status === "COMPLETED") break
    await umbra.cancel(id)
    await umbra.retry(id)
  }
  expect((await umbra.wait(id, { timeoutMs: 20_000 })).status).toBe("COMPLETED")
  await umbra.close()
  await mustBeWhole(database.url, id)
})

it("P2 calls no adapter any more when its time is up or it is cancelled, not even the next of a chain", async () => {
  const calls = { last: 0 }
  const umbra = await open("memory:", [numbers, worker(calls)])
  const expired = await umbra.submit(pipeline({ ttl_seconds: 1, init: { body: { count: 100_000 } } }))
  const { status } = await umbra.wait(expired.id, { timeoutMs: 20_000 })
  expect(status).not.toBe("COMPLETED")
  const ended = Date.now()
  await new Promise(resolve => setTimeout(resolve, 50))
  expect(calls.last).toBeLessThanOrEqual(ended)
  const cancelled = await umbra.submit(pipeline({ init: { body: { count: 100_000 } } }))
  await until("it is under way", async () => calls.last > ended)
  await umbra.cancel(cancelled.id)
  const at = Date.now()
  await new Promise(resolve => setTimeout(resolve, 50))
  expect(calls.last).toBeLessThanOrEqual(at)
})

it("P2 moves to another process and back with its partition, and goes on where it was", async () => {
  const database = await freshDatabase()
  onTestFinished(database.drop)
  const adapters = [numbers, worker({ last: 0 })]
  let owner = await open(database.url, adapters)
  const { id } = await owner.submit(pipeline())
  for (let moves = 0; moves < 3; moves++) {
    const next = await open(database.url, adapters)
    await until("it has begun", async () => (await owner.graph(id)).routes![1]!.done > moves * 40, 10_000)
    await owner.close()
    owner = next
  }
  expect((await owner.wait(id, { timeoutMs: 20_000 })).status).toBe("COMPLETED")
  await owner.close()
  await mustBeWhole(database.url, id)
})
