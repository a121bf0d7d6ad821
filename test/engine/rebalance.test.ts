/** An engine that comes to others which never rest. Of two partitions both have work in hand. */
import { expect, it } from "vitest"
import { createMemoryStore } from "../../src/journal/sqlite/memory.ts"
import type { Umbra } from "../../src/umbra.ts"
import { FleetStage } from "../broker/stage.ts"
import { flow, gate, handler, openOn, until } from "./stage.ts"

/** They go to the two partitions by turns. */
const MANY = 60
const worker = { concurrency: MANY, startedAfterSeconds: 0.01 }

async function submitMany(umbra: Umbra, workflow: ReturnType<typeof flow>): Promise<string[]> {
  const jobs = await Promise.all(Array.from({ length: MANY }, () => umbra.submit(workflow)))
  return jobs.map(({ id }) => id)
}

const hasOne = (umbra: Umbra) => until("it has its share", () => umbra.health().partitions === 1)

it("S6 gets its share although handlers keep running; they start again there, and no death is counted", async () => {
  const store = createMemoryStore({ partitions: 2 })
  const [first, second] = [gate(), gate()]
  const engine = { rebalanceSeconds: 0.05, drainSeconds: 0.05, lossLimit: 1 }
  const old = await openOn(store, { handlers: [first.handler], engine, worker })
  const jobs = await submitMany(old, flow([{ id: "a", handler: "gate" }]))
  await first.came(MANY)
  await until("their starts are stored", async () => {
    const graphs = await Promise.all([jobs[0]!, jobs.at(-1)!].map(id => old.graph(id)))
    return graphs.every(({ nodes }) => nodes[0]!.started_at !== null)
  })
  const comes = await openOn(store, { handlers: [second.handler], engine, worker })
  await hasOne(comes)
  await until("some moved", () => jobs.some(id => comes.owns(id)))
  const moved = jobs.filter(id => comes.owns(id))
  await second.came(moved.length)
  expect([0, MANY]).not.toContain(moved.length)
  for (const { jobId, signal } of first.entered) expect(signal.aborted).toBe(moved.includes(jobId))
  first.open("done")
  second.open("done")
  for (const id of jobs) expect(await comes.wait(id)).toMatchObject({ status: "COMPLETED" })
  for (const id of moved) expect((await comes.graph(id)).nodes[0]).toMatchObject({ losses: 0 })
  expect(second.entered).toHaveLength(moved.length)
})

it("S6 gets its share under load; what ends within the drain time is not begun twice", async () => {
  const store = createMemoryStore({ partitions: 2 })
  const runs = new Map<string, string[]>()
  const counting = (where: string) =>
    handler("step", async (_, { idempotencyKey }) => {
      runs.set(idempotencyKey, [...(runs.get(idempotencyKey) ?? []), where])
      await new Promise(resolve => setTimeout(resolve, 10))
      return where
    })
  const chain = Array.from({ length: 20 }, (_, n) => ({
    id: `n${n}`,
    handler: "step",
    ...(n === 0 ? {} : { dependencies: [`n${n - 1}`] }),
  }))
  const engine = { rebalanceSeconds: 0.05, drainSeconds: 5 }
  const old = await openOn(store, { handlers: [counting("old")], engine, worker })
  const jobs: string[] = []
  let [nodes, hasShare] = [0, false]
  /**
   * There is always a job that has not ended, however long the other engine takes. First jobs of different length: later
   * ones do not all run their last node at the same time.
   */
  const lane = async (index: number) => {
    let length = 1 + (index % chain.length)
    do {
      const job = await old.submit(flow(chain.slice(0, length)))
      jobs.push(job.id)
      nodes += length
      length = chain.length
      expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
    } while (!hasShare)
  }
  const lanes = Array.from({ length: MANY }, (_, index) => lane(index))
  await until("all lanes have a long job", () => jobs.length >= 2 * MANY)
  const comes = await openOn(store, { handlers: [counting("new")], engine, worker })
  await hasOne(comes)
  hasShare = true
  await Promise.all(lanes)
  for (const id of jobs) expect(await comes.wait(id)).toMatchObject({ status: "COMPLETED" })
  expect(runs.size).toBe(nodes)
  expect([...runs.values()].filter(places => places.length > 1)).toEqual([])
  expect([...runs.values()].some(places => places.includes("new"))).toBe(true)
})

it("S6 does not wait for tasks that only wait for a slot of the old engine", async () => {
  const store = createMemoryStore({ partitions: 2 })
  const [first, second] = [gate(), gate()]
  const engine = { rebalanceSeconds: 0.05, drainSeconds: 3600 }
  const narrow = { concurrency: 1 }
  const old = await openOn(store, { handlers: [first.handler], engine, worker: narrow })
  // By turns: this one is done, the next runs, and the last waits, in the partition of the first.
  await (await old.submit(flow([{ id: "a", handler: "transform", config: { value: 1 } }]))).wait()
  const running = await old.submit(flow([{ id: "a", handler: "gate" }]))
  await first.came()
  const queued = await old.submit(flow([{ id: "a", handler: "gate" }]))
  const comes = await openOn(store, { handlers: [second.handler], engine, worker: narrow })
  await hasOne(comes)
  await until("the queued one moved", () => comes.owns(queued.id))
  expect(comes.owns(running.id)).toBe(false)
  first.open("done")
  second.open("done")
  for (const { id } of [running, queued]) expect(await comes.wait(id)).toMatchObject({ status: "COMPLETED" })
  expect([first.entered.length, second.entered.length]).toEqual([1, 1])
})

it("S6 adopts the tasks of remote workers, and nothing is started again", async () => {
  const stage = new FleetStage(undefined, undefined, 2)
  const engine = { rebalanceSeconds: 0.05 }
  const old = await stage.engine({ engine })
  const slow = gate()
  stage.worker({ handlers: [slow.handler], worker: { concurrency: MANY } })
  await stage.served(old, "gate")
  const jobs = await submitMany(old, flow([{ id: "a", handler: "gate" }]))
  await slow.came(MANY)
  const comes = await stage.engine({ engine })
  await hasOne(comes)
  await until("some moved", () => jobs.some(id => comes.owns(id)))
  slow.open("done")
  for (const id of jobs) expect(await comes.wait(id)).toMatchObject({ status: "COMPLETED" })
  expect(slow.entered).toHaveLength(MANY)
  for (const { signal } of slow.entered) expect(signal.aborted).toBe(false)
})

it("S6 waits for ever if configured so", async () => {
  const store = createMemoryStore({ partitions: 2 })
  const slow = gate()
  const engine = { rebalanceSeconds: null, drainSeconds: 0.05 }
  const old = await openOn(store, { handlers: [slow.handler], engine, worker })
  const jobs = await submitMany(old, flow([{ id: "a", handler: "gate" }]))
  await slow.came(MANY)
  const comes = await openOn(store, { engine, roles: ["engine"] })
  await new Promise(resolve => setTimeout(resolve, 300))
  expect(comes.health().partitions).toBe(0)
  slow.open("done")
  await hasOne(comes)
  for (const id of jobs) expect(await comes.wait(id)).toMatchObject({ status: "COMPLETED" })
  expect(slow.entered).toHaveLength(MANY)
})
