/** What is shown of jobs that wait as rows, by the process that runs them and by others. */
import { expect, it } from "vitest"
import { withLive } from "../../src/core/view/live-view.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import type { Umbra } from "../../src/umbra.ts"
import { messagesSent } from "../support/store-tables.ts"
import { flow, gate, handler, open, openOn, until } from "./stage.ts"

/** With few workers a window has 1,000 places. */
const WINDOW = 1000
const late = flow([{ id: "a", handler: "late" }], { name: "late" })

async function submit(umbra: Umbra, count: number, options = {}): Promise<string[]> {
  const inputs = Array.from({ length: count }, (_, x) => ({ x }))
  const results = await umbra.submitMany(late, inputs, options)
  return results.map(({ job }) => job!.id)
}

/** The first `free` jobs run until all are submitted (`endFirst`), so the others wait as rows; these run until the gate opens. */
function stage(free: number) {
  const [first, rest] = [gate(), gate()]
  const begun = new Set<number>()
  return {
    begun,
    endFirst: first.open,
    open: rest.open,
    handler: handler("late", async (_config, { input }) => {
      const { x } = input as { x: number }
      begun.add(x)
      await (x >= free ? rest.left : first.left)
    }),
  }
}

async function allIds(umbra: Umbra, statuses: readonly ("PROCESSING" | "QUEUED")[], limit: number) {
  const found: string[] = []
  for (let after: string | undefined; ; ) {
    const page = await umbra.jobPage({ statuses, limit, ...(after === undefined ? {} : { after }) })
    expect(page.jobs.every(({ status }) => statuses.includes(status as never))).toBe(true)
    found.push(...page.jobs.map(({ job_id }) => job_id))
    if (page.next === null) return found
    after = page.next
  }
}

it("a job that waited as a row and is dispatched is PROCESSING in every process, also in lists", async () => {
  const store = createMemoryStore()
  const { begun, endFirst, handler: run, open } = stage(WINDOW)
  const owner = await openOn(store, {
    handlers: [run],
    worker: { concurrency: 100, startedAfterSeconds: 3600 },
  })
  const api = await openOn(store, { roles: ["api"] })
  const ids = await submit(owner, 3 * WINDOW)
  endFirst()
  const isBegun = (id: string) => begun.has(ids.indexOf(id))
  await until("jobs that waited as rows run", () => [...begun].filter(x => x >= WINDOW).length === 100)
  const first = ids[Math.min(...[...begun].filter(x => x >= WINDOW))]!
  const last = ids.at(-1)!
  expect((await owner.queries.row(first)).status).toBe("QUEUED")
  const written = messagesSent(store)
  for (const umbra of [owner, api]) {
    expect((await umbra.job(first)).status).toBe("PROCESSING")
    expect(withLive(await umbra.graph(first))).toMatchObject({
      status: "PROCESSING",
      nodes: [{ status: "RUNNING" }],
    })
    expect((await umbra.job(last)).status).toBe("QUEUED")
    for (const limit of [300, 1000]) {
      const processing = await allIds(umbra, ["PROCESSING"], limit)
      expect(new Set(processing).size).toBe(processing.length)
      expect([...processing].sort().reverse()).toEqual(processing)
      for (const x of begun) if (x >= WINDOW) expect(processing).toContain(ids[x])
      expect(processing).not.toContain(last)
    }
    const queued = await allIds(umbra, ["QUEUED"], 100)
    expect(queued).toContain(last)
    expect(queued.filter(isBegun)).toEqual([])
    const { jobs } = await umbra.jobPage({ limit: 1000 })
    for (const { job_id, status } of jobs) if (isBegun(job_id)) expect(status).not.toBe("QUEUED")
    expect((await umbra.jobPage({ statuses: ["PROCESSING"], workflow: "other" })).jobs).toEqual([])
    expect((await umbra.jobPage({ statuses: ["PROCESSING"], owner: "other" })).jobs).toEqual([])
  }
  expect(messagesSent(store)).toBe(written)
  const { jobs, nodes } = owner.metrics().states()
  expect([jobs.QUEUED, nodes.RUNNING]).toEqual([undefined, 100])
  open()
  for (const id of ids) expect((await owner.wait(id)).status).toBe("COMPLETED")
})

it("a job that begins and ends while a list is read is not shown as QUEUED", async () => {
  const journal = openMemory()
  const { begun, endFirst, handler: run, open: release } = stage(WINDOW)
  const umbra = await open({
    at: journal,
    handlers: [run],
    worker: { concurrency: 100, startedAfterSeconds: 3600 },
  })
  const ids = await submit(umbra, WINDOW + 50)
  endFirst()
  const rows = ids.slice(WINDOW)
  await until("jobs that waited as rows run", () => [...begun].filter(x => x >= WINDOW).length === 50)
  const { listJobs } = journal
  journal.listJobs = async (filter, bound) => {
    const page = await listJobs(filter, bound)
    if (bound?.ids !== undefined) return page
    // The rows are QUEUED in this page.
    release()
    for (const id of rows) await umbra.wait(id)
    return page
  }
  const { jobs } = await umbra.jobPage({ limit: WINDOW + 50 })
  expect(jobs).toHaveLength(ids.length)
  // PROCESSING: it has ended and is still in memory.
  expect(jobs.filter(({ status }) => status === "QUEUED")).toEqual([])
  expect((await umbra.jobPage({ statuses: ["QUEUED"], limit: 50 })).jobs).toEqual([])
})

it("a bulk operation on QUEUED or PROCESSING jobs reaches the jobs that lists show as such", async () => {
  const { begun, endFirst, handler: run, open: release } = stage(WINDOW)
  const umbra = await open({ handlers: [run], worker: { concurrency: 50, startedAfterSeconds: 3600 } })
  const ids = await submit(umbra, 3 * WINDOW)
  endFirst()
  await until("jobs that waited as rows run", () => [...begun].filter(x => x >= WINDOW).length === 50)
  const running = [...begun].filter(x => x >= WINDOW).map(x => ids[x]!)
  for (const id of running) expect((await umbra.queries.row(id)).status).toBe("QUEUED")
  const states = ["QUEUED", "PROCESSING"] as const
  const request = (status: (typeof states)[number]) =>
    ({ verb: "cancel", filter: { statuses: [status] }, rate: 10_000 }) as const
  await until("no more jobs are loaded", async () => {
    const counts = await Promise.all(
      states.map(async status => (await umbra.bulk.count(request(status))).count),
    )
    const listed = await Promise.all(states.map(async status => (await allIds(umbra, [status], 1000)).length))
    return JSON.stringify(counts) === JSON.stringify(listed) && listed.every(count => count > 0)
  })
  await umbra.wait((await umbra.bulk.start(request("QUEUED"))).bulk_id)
  expect(await allIds(umbra, ["QUEUED"], 1000)).toEqual([])
  for (const id of running) expect((await umbra.job(id)).status).toBe("PROCESSING")
  await umbra.wait((await umbra.bulk.start(request("PROCESSING"))).bulk_id)
  for (const id of running) expect((await umbra.job(id)).status).toBe("CANCELLED")
  expect(await allIds(umbra, states, 1000)).toEqual([])
  release()
})

it("lists of one engine show what another has dispatched", async () => {
  const store = createMemoryStore()
  const { begun, handler: run, open } = stage(0)
  const options = { handlers: [run], worker: { concurrency: 5 }, engine: { rebalanceSeconds: 0.05 } }
  const one = await openOn(store, options)
  const two = await openOn(store, options)
  await until("both have partitions", async () => {
    const probe = await Promise.all([one, two].map(async umbra => umbra.health().partitions))
    return probe.every(count => count === 32)
  })
  const ids = await submit(one, 2 * WINDOW + 500)
  await until("handlers run", () => begun.size >= 5)
  const isShown = async () => {
    const [a, b] = await Promise.all([one, two].map(umbra => allIds(umbra, ["PROCESSING"], 1000)))
    return a!.length === b!.length && a!.every(id => b!.includes(id)) && a!.length > 0
  }
  await until("both show the same", isShown)
  open()
  for (const id of ids) await one.wait(id)
})

it("its nodes name the position of the job in its queue, in every process", async () => {
  const store = createMemoryStore()
  const { handler: run, open } = stage(0)
  const owner = await openOn(store, { handlers: [run], worker: { concurrency: 1 } })
  const api = await openOn(store, { roles: ["api"] })
  const ids = await submit(owner, WINDOW + 10)
  const urgent = await submit(owner, 1, { priority: 5 })
  const rows = (await allIds(owner, ["QUEUED"], 1000)).sort()
  const [waiting, last] = [rows[0]!, rows.at(-1)!]
  for (const umbra of [owner, api]) {
    const graph = await umbra.graph(last)
    expect(graph).toMatchObject({ status: "QUEUED", nodes: [{ status: "QUEUED" }] })
    const wait = { kind: "worker", handler: "late", reason: "job_queue", position: rows.length }
    expect(withLive(graph).nodes[0]!.waiting_on).toEqual(wait)
    expect((await umbra.node(last, "a")).live!.nodes[0]!.waiting_on).toEqual(wait)
    expect((await umbra.queries.live(last))!.nodes[0]!.waiting_on).toEqual(wait)
    expect((await umbra.graph(waiting)).live!.nodes[0]!.waiting_on).toMatchObject({ position: 1 })
    // In memory: the task waits in the queue of the workers, once it is dispatched.
    await expect
      .poll(async () => (await umbra.graph(urgent[0]!)).live!.nodes[0]!.waiting_on)
      .toMatchObject({ reason: "busy" })
  }
  open()
  for (const id of ids) await owner.wait(id)
})

it("a position is counted to 10,000, and says so", async () => {
  const store = createMemoryStore()
  const { handler: run } = stage(0)
  const owner = await openOn(store, {
    handlers: [run],
    worker: { concurrency: 1 },
    engine: { drainSeconds: 0 },
  })
  await submit(owner, WINDOW + 10_050)
  const rows = (await allIds(owner, ["QUEUED"], 1000)).sort()
  const waits = async (id: string) => (await owner.graph(id)).live!.nodes[0]!.waiting_on
  expect(await waits(rows.at(-1)!)).toMatchObject({ position: 10_000, position_is_minimum: true })
  const before = await waits(rows[9_000]!)
  expect(before).toMatchObject({ position: 9001 })
  expect(before).not.toHaveProperty("position_is_minimum")
})
