/** Pause and resume of jobs and of workflows, and what people write on jobs: labels and notes. */
import { describe, expect, it } from "vitest"
import { withLive } from "../../src/core/view/live-view.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import type { Umbra } from "../../src/umbra.ts"
import { inner } from "./family.ts"
import { holding } from "./held-answers.ts"
import { flow, gate, handler, open, openOn, soon, states, until } from "./stage.ts"

const noop = handler("noop", () => "done")
const chain = flow([
  { id: "a", handler: "gate" },
  { id: "b", handler: "noop", dependencies: ["a"] },
])

async function kindOf(umbra: Umbra, jobId: string, node: string): Promise<string | undefined> {
  const { nodes } = withLive(await umbra.graph(jobId))
  return nodes.find(({ id }) => id === node)?.waiting_on?.kind
}

describe("a paused job", () => {
  it("begins no other node, lets running ones end, and continues where it was", async () => {
    const work = gate()
    const umbra = await open({ handlers: [work.handler, noop] })
    const job = await umbra.submit(chain)
    await work.came()
    await job.pause({ reason: "prices", by: "ada" })
    expect((await job.status()).paused).toMatchObject({ by: "ada", reason: "prices" })
    work.open()
    await until("the running node has ended", async () => (await states(umbra, job.id)).a === "COMPLETED")
    expect(await states(umbra, job.id)).toEqual({ a: "COMPLETED", b: "QUEUED" })
    expect(await kindOf(umbra, job.id, "b")).toBe("paused")
    expect((await umbra.graph(job.id)).paused).toMatchObject({ by: "ada", reason: "prices" })
    expect(await umbra.queries.verify(await umbra.queries.row(job.id))).toEqual([])
    await until("it has left memory", () => umbra.health().liveJobs === 0)
    await job.resume()
    const ended = await job.wait()
    expect(ended).toMatchObject({ status: "COMPLETED", paused: null })
    const events = (await umbra.events(job.id)).map(({ type }) => type)
    expect(events.filter(type => type === "job.paused" || type === "job.resumed")).toEqual([
      "job.paused",
      "job.resumed",
    ])
    expect(events.indexOf("node.queued")).toBeGreaterThanOrEqual(0)
  })

  it("takes back tasks that no worker has begun", async () => {
    const work = gate()
    const runs: string[] = []
    const other = handler("other", (_config, ctx) => void runs.push(ctx.nodeId))
    const umbra = await open({ handlers: [work.handler, other], worker: { concurrency: 1 } })
    const job = await umbra.submit(
      flow([
        { id: "a", handler: "gate" },
        { id: "b", handler: "other" },
        { id: "c", handler: "other" },
      ]),
    )
    await work.came()
    await job.pause()
    work.open()
    await until("a has ended", async () => (await states(umbra, job.id)).a === "COMPLETED")
    await new Promise(resolve => setImmediate(resolve))
    expect(runs).toEqual([])
    expect(await states(umbra, job.id)).toEqual({ a: "COMPLETED", b: "QUEUED", c: "QUEUED" })
    await job.resume()
    expect((await job.wait()).status).toBe("COMPLETED")
    expect(runs.sort()).toEqual(["b", "c"])
  })

  it("does not fire retries and timers, and expires", async () => {
    const clock = new VirtualClock()
    let tries = 0
    const fails = handler("fails", () => {
      if (++tries === 1) throw Object.assign(new Error("not now"), { retryable: true })
      return "fine"
    })
    const umbra = await open({ handlers: [fails], clock })
    const job = await umbra.submit(
      flow([
        { id: "again", handler: "fails", retry: { ...soon, initial_seconds: 10, max_seconds: 10 } },
        { id: "slept", handler: "sleep", config: { seconds: 20 } },
      ]),
      {},
      { ttlSeconds: 1000 },
    )
    await until("both wait", async () => {
      const kinds = [await kindOf(umbra, job.id, "again"), await kindOf(umbra, job.id, "slept")]
      return kinds.join() === "retry,timer"
    })
    await job.pause()
    clock.advance(100_000)
    await new Promise(resolve => setImmediate(resolve))
    expect(tries).toBe(1)
    expect([await kindOf(umbra, job.id, "again"), await kindOf(umbra, job.id, "slept")]).toEqual([
      "paused",
      "paused",
    ])
    await job.resume()
    clock.advance(1)
    expect((await job.wait()).status).toBe("COMPLETED")
    expect(tries).toBe(2)

    const other = await umbra.submit(
      flow([{ id: "slept", handler: "sleep", config: { seconds: 50 } }], { name: "other" }),
      {},
      { ttlSeconds: 100 },
    )
    await until("it waits", async () => (await kindOf(umbra, other.id, "slept")) === "timer")
    await other.pause()
    clock.advance(101_000)
    await until("it has expired", async () => {
      clock.advance(1)
      return (await other.status()).status === "EXPIRED"
    })
  })

  it("can be cancelled, and runs when it is retried", async () => {
    const work = gate()
    const umbra = await open({ handlers: [work.handler, noop] })
    const job = await umbra.submit(chain)
    await work.came()
    await job.pause()
    await job.cancel("enough")
    expect(await job.wait()).toMatchObject({ status: "CANCELLED", paused: null })
    work.open()
    await job.retry()
    expect((await job.wait()).status).toBe("COMPLETED")
  })

  it("stays paused after a take-over, and its lost attempt waits too", async () => {
    const store = createMemoryStore()
    const work = gate()
    const first = await openOn(store, { handlers: [work.handler, noop], engine: { leaseSeconds: 0.3 } })
    const job = await first.submit(chain)
    await work.came()
    await job.pause({ by: "ada" })
    // Robbed of everything, as if it had died.
    const taken = openMemory(store)
    const rows = await taken.readPartitions()
    await taken.takePartitions({ engine: "thief", expected: rows })
    await taken.releasePartitions({
      engine: "thief",
      held: rows.map(({ partition, epoch }) => ({ partition, epoch: epoch + 1 })),
    })
    await first.close()
    const runs: number[] = []
    const again = handler("gate", () => void runs.push(1))
    const second = await openOn(store, { handlers: [again, noop] })
    await until("the lost attempt is known", async () => (await kindOf(second, job.id, "a")) === "paused")
    expect(runs).toEqual([])
    expect((await second.job(job.id)).paused).toMatchObject({ by: "ada" })
    await second.resume(job.id)
    expect((await second.wait(job.id)).status).toBe("COMPLETED")
    expect(runs).toEqual([1])
  })

  it("may wait as a row: it leaves its queue, and goes back to it", async () => {
    const work = gate()
    const runs: number[] = []
    const umbra = await open({
      handlers: [
        work.handler,
        handler("count", (_config, { input }) => void runs.push((input as { x: number }).x)),
      ],
      worker: { concurrency: 1 },
    })
    await umbra.submit(flow([{ id: "a", handler: "gate" }], { name: "held" }))
    await work.came()
    const single = flow([{ id: "a", handler: "count" }], { name: "single" })
    const results = await umbra.submitMany(
      single,
      Array.from({ length: 1500 }, (_, x) => ({ x })),
    )
    const [early, late] = [results[3]!.job!, results[1400]!.job!]
    expect((await late.status()).status).toBe("QUEUED")
    await late.pause()
    await early.pause()
    expect((await late.status()).paused).not.toBeNull()
    expect(await umbra.queries.verify(await umbra.queries.row(late.id))).toEqual([])
    work.open()
    await until("all others have run", () => runs.length === 1498)
    expect(runs).not.toContain(3)
    expect(runs).not.toContain(1400)
    await late.resume()
    await early.resume()
    expect((await late.wait()).status).toBe("COMPLETED")
    expect((await early.wait()).status).toBe("COMPLETED")
    expect(runs.length).toBe(1500)
  })

  it("runs once if it is described while it runs, also a job that waited as a row", async () => {
    const work = gate()
    let release = () => {}
    const released = new Promise<void>(resolve => {
      release = resolve
    })
    const runs: number[] = []
    const count = handler("count", async (_config, { input }) => {
      const { x } = input as { x: number }
      runs.push(x)
      if (x === 1400) await released
    })
    const umbra = await open({ handlers: [work.handler, count], worker: { concurrency: 1 } })
    await umbra.submit(flow([{ id: "a", handler: "gate" }], { name: "held" }))
    await work.came()
    const results = await umbra.submitMany(
      flow([{ id: "a", handler: "count" }], { name: "single" }),
      Array.from({ length: 1401 }, (_, x) => ({ x })),
    )
    const late = results[1400]!.job!
    expect((await late.status()).status).toBe("QUEUED")
    work.open()
    await until("it runs", () => runs.includes(1400))
    await late.describe({ note: "seen" })
    expect((await late.status()).status).toBe("PROCESSING")
    release()
    expect(await late.wait()).toMatchObject({ status: "COMPLETED", note: { text: "seen" } })
    expect(runs).toHaveLength(1401)
    expect((await umbra.node(late.id, "a")).attempts).toHaveLength(1)
    expect(await umbra.queries.verify(await umbra.queries.row(late.id))).toEqual([])
  })

  it("keeps the items of a list, too", async () => {
    const work = gate("item")
    const umbra = await open({ handlers: [work.handler, noop], worker: { concurrency: 2 } })
    const job = await umbra.submit(
      flow([{ id: "all", handler: "item", for_each: "{{ [1, 2, 3, 4, 5] }}" }], { name: "list" }),
    )
    await work.came(2)
    await job.pause()
    work.open()
    await until("two have ended", async () => (await umbra.graph(job.id)).nodes[0]!.items?.completed === 2)
    const { nodes } = await umbra.graph(job.id)
    expect(nodes[0]!.waiting_on).toMatchObject({ kind: "items", waits: { paused: 3 } })
    expect(work.entered.length).toBe(2)
    await job.resume()
    expect((await job.wait()).status).toBe("COMPLETED")
    expect(work.entered.length).toBe(5)
  })

  it("does not run an attempt again whose child job is being started", async () => {
    const journal = openMemory()
    const umbra = await open({ at: journal, handlers: [noop] })
    await umbra.register(inner([{ id: "a", handler: "noop" }]))
    const { registry } = journal
    const readLatest = registry.readLatest.bind(registry)
    const held: (() => void)[] = []
    const job = await umbra.submit(
      flow([
        { id: "gate", handler: "wait_for_signal", config: { signal: "go" } },
        {
          id: "run",
          handler: "workflow",
          config: { workflow: "inner" },
          for_each: [1, 2],
          dependencies: ["gate"],
        },
        { id: "after", handler: "noop", dependencies: ["run"] },
      ]),
    )
    await until("it waits", async () => (await kindOf(umbra, job.id, "gate")) === "signal")
    registry.readLatest = async key => {
      await new Promise<void>(resolve => held.push(resolve))
      return readLatest(key)
    }
    await job.signal("go")
    await until("the version of the child is read", () => held.length > 0)
    await job.pause()
    registry.readLatest = readLatest
    for (const go of held) go()
    // Held, they would be paused.
    await until("both items have ended", async () => (await states(umbra, job.id)).run === "COMPLETED")
    expect(await kindOf(umbra, job.id, "after")).toBe("paused")
    await job.resume()
    expect((await job.wait()).status).toBe("COMPLETED")
    expect(await umbra.queries.verify(await umbra.queries.row(job.id))).toEqual([])
  })

  it("does not run an attempt again whose result waits for outputs that are read", async () => {
    const journal = openMemory()
    const reads = holding(journal, "readFact")
    const work = gate()
    const large = handler("large", () => "x".repeat(2000))
    const umbra = await open({
      at: journal,
      handlers: [work.handler, large],
      engine: { largeOutputBytes: 1000 },
    })
    const job = await umbra.submit(
      flow(
        [
          { id: "large", handler: "large" },
          { id: "last", handler: "gate", dependencies: ["large"] },
        ],
        { output: "{{ large | length }}" },
      ),
    )
    await work.came()
    reads.hold()
    work.open()
    await until("the output of the job is rendered", () => reads.held.length > 0)
    await job.pause()
    reads.letGo()
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: 2000, paused: null })
    expect(work.entered.length).toBe(1)
    expect(await umbra.queries.verify(await umbra.queries.row(job.id))).toEqual([])
  })

  it("begins an attempt once that was dispatched before the pause and after it", async () => {
    const journal = openMemory()
    const reads = holding(journal, "readFact")
    const work = gate()
    const busy = gate("busy")
    const runs: string[] = []
    const large = handler("large", () => "x".repeat(2000))
    const other = handler("other", (_config, { nodeId }) => void runs.push(nodeId))
    const umbra = await open({
      at: journal,
      handlers: [work.handler, busy.handler, large, other],
      engine: { largeOutputBytes: 1000 },
    })
    const job = await umbra.submit(
      flow(
        [
          { id: "large", handler: "large" },
          // Keeps the job in memory.
          { id: "busy", handler: "busy" },
          { id: "between", handler: "gate", dependencies: ["large"] },
          { id: "last", handler: "other", dependencies: ["large", "between"] },
        ],
        { output: "{{ large | length }}" },
      ),
    )
    await work.came()
    await busy.came()
    reads.hold()
    work.open()
    await until("the inputs are read", () => reads.held.length === 1)
    await job.pause()
    await job.resume()
    await until("the inputs are read again", () => reads.held.length === 2)
    busy.open()
    await until("busy has ended", async () => (await states(umbra, job.id)).busy === "COMPLETED")
    // The first runs, and its result waits for the output of the job.
    reads.held.shift()!()
    await until("the output of the job is rendered", () => runs.length > 0 && reads.held.length === 2)
    reads.held.shift()!()
    await new Promise(resolve => setImmediate(resolve))
    reads.letGo()
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: 2000 })
    expect(runs).toEqual(["last"])
  })

  it("is refused after the end; twice it changes nothing", async () => {
    const work = gate()
    const umbra = await open({ handlers: [work.handler, noop] })
    const job = await umbra.submit(chain)
    await work.came()
    await job.pause({ reason: "one" })
    await job.pause({ reason: "two" })
    expect((await job.status()).paused?.reason).toBe("one")
    await job.resume()
    await job.resume()
    work.open()
    await job.wait()
    await expect(job.pause()).rejects.toMatchObject({ code: "E302" })
    await expect(job.pause({ reason: 7 as never })).rejects.toMatchObject({ code: "E309" })
  })
})

describe("a paused workflow", () => {
  it("keeps new jobs, child jobs too, and releases them when it is resumed", async () => {
    const umbra = await open({ handlers: [noop] })
    const inner = flow([{ id: "a", handler: "noop" }], { name: "inner", output: "{{ a }}" })
    const outer = flow([{ id: "run", handler: "workflow", config: { workflow: "inner" } }], {
      name: "outer",
    })
    await umbra.register(inner)
    await umbra.register(outer)
    await umbra.pauseWorkflow("inner", { reason: "prices", by: "ada" })
    const jobs = await Promise.all(Array.from({ length: 120 }, () => umbra.submit("inner")))
    const parent = await umbra.submit("outer")
    const [first] = jobs
    expect(await first!.status()).toMatchObject({
      status: "QUEUED",
      paused: { by: "ada", reason: "workflow paused: prices", of_workflow: true },
    })
    const helps = async (id: string) => (await umbra.why(id)).action
    expect(await helps(first!.id)).toContain("umbra workflows resume")
    await until("the parent waits", async () => (await kindOf(umbra, parent.id, "run")) === "child")
    expect(await kindOf(umbra, first!.id, "a")).toBe("paused")
    // Paused for itself: the end of the workflow's pause does not concern it any more.
    await jobs[1]!.pause({ reason: "workflow paused by mistake" })
    expect((await jobs[1]!.status()).paused).not.toHaveProperty("of_workflow")
    expect(await helps(jobs[1]!.id)).toBe(`umbra jobs resume ${jobs[1]!.id}`)
    await umbra.resumeWorkflow("inner")
    const ended = await Promise.all(jobs.filter(job => job !== jobs[1]).map(job => job.wait()))
    expect(ended.every(({ status, paused }) => status === "COMPLETED" && paused === null)).toBe(true)
    expect((await parent.wait()).status).toBe("COMPLETED")
    expect(await jobs[1]!.status()).toMatchObject({
      status: "QUEUED",
      paused: { reason: "workflow paused by mistake" },
    })
    expect((await umbra.submit("inner").then(job => job.wait())).status).toBe("COMPLETED")
    await jobs[1]!.resume()
    expect((await jobs[1]!.wait()).status).toBe("COMPLETED")
    await expect(umbra.pauseWorkflow("nobody-knows-it")).rejects.toMatchObject({ code: "E305" })
  })

  it("is per owner, and holds in every process", async () => {
    const store = createMemoryStore()
    const first = await openOn(store, { handlers: [noop] })
    const second = await openOn(store, { handlers: [noop] })
    const plain = flow([{ id: "a", handler: "noop" }], { name: "plain" })
    for (const owner of ["ada", "bob"]) await first.register(plain, owner)
    await first.pauseWorkflow("plain", { owner: "ada" })
    await until("the other process knows", async () => {
      const job = await second.submit("plain", {}, { owner: "ada" })
      return (await job.status()).paused !== null
    })
    const others = await second.submit("plain", {}, { owner: "bob" })
    expect((await others.wait()).status).toBe("COMPLETED")
  })

  it("releases its jobs although the process that resumed it died before", async () => {
    const store = createMemoryStore()
    const first = await openOn(store, { handlers: [noop] })
    const plain = flow([{ id: "a", handler: "noop" }], { name: "plain" })
    await first.register(plain)
    await first.pauseWorkflow("plain")
    const job = await first.submit("plain")
    await first.close()
    // As far as that process got: the end of the pause is stored, and no job is resumed.
    await openMemory(store).registry.resumeWorkflow({ owner: "local", name: "plain", at: Date.now() })
    const second = await openOn(store, { handlers: [noop] })
    expect((await second.wait(job.id)).status).toBe("COMPLETED")
  })

  it("lets jobs that wait expire", async () => {
    const clock = new VirtualClock()
    const umbra = await open({ handlers: [noop], clock })
    await umbra.register(flow([{ id: "a", handler: "noop" }], { name: "plain" }))
    await umbra.pauseWorkflow("plain")
    const job = await umbra.submit("plain", {}, { ttlSeconds: 60 })
    clock.advance(61_000)
    expect(await job.wait()).toMatchObject({ status: "EXPIRED", paused: null })
  })
})

describe("labels and note", () => {
  it("change with their author, during the job and after its end, and lists find the new labels", async () => {
    const work = gate()
    const umbra = await open({ handlers: [work.handler, noop] })
    const job = await umbra.submit(chain, {}, { labels: { team: "shop" } })
    await work.came()
    await job.describe({ labels: { team: "ops", urgent: "yes" }, by: "ada" })
    expect((await job.status()).labels).toEqual({ team: "ops", urgent: "yes" })
    const found = async (labels: { readonly [key: string]: string }) =>
      (await umbra.jobs({ labels })).map(({ job_id }) => job_id)
    expect(await found({ urgent: "yes" })).toEqual([job.id])
    expect(await found({ team: "shop" })).toEqual([])
    work.open()
    await job.wait()
    await job.describe({ note: "repeat with the new list", by: "bob" })
    await job.describe({ labels: { kind: "late" } })
    expect(await job.status()).toMatchObject({
      status: "COMPLETED",
      labels: { kind: "late" },
      note: { text: "repeat with the new list", by: "bob" },
    })
    expect(await found({ kind: "late" })).toEqual([job.id])
    expect((await umbra.jobs({ labels: { kind: "late" }, statuses: ["COMPLETED"] })).length).toBe(1)
    await job.describe({ note: null })
    expect((await job.status()).note).toBeNull()
    expect(await umbra.queries.verify(await umbra.queries.row(job.id))).toEqual([])
    const described = (await umbra.events(job.id)).filter(({ type }) => type === "job.described")
    expect(described.map(({ payload }) => payload.by)).toEqual(["ada", "bob", null, null])
    await expect(job.describe({})).rejects.toMatchObject({ code: "E309" })
    await expect(job.describe({ labels: { a: 1 } as never })).rejects.toMatchObject({ code: "E309" })
  })
})
