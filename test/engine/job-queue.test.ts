/** Jobs that wait as rows: bounded memory, order, fairness, commands, expiry, take-over. */
import { describe, expect, it, vi } from "vitest"
import { withLive } from "../../src/core/view/live-view.ts"
import { newJobId } from "../../src/engine/ids.ts"
import { JobQueue } from "../../src/engine/owner/job-queue.ts"
import { QueuedFacts } from "../../src/engine/owner/queued-facts.ts"
import type { Journal } from "../../src/journal/port/journal.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { silentLog } from "../../src/log.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import type { Umbra } from "../../src/umbra.ts"
import { flow, gate, handler, open, openOn, until } from "./stage.ts"

/** With few workers a window has 1,000 places. */
const WINDOW = 1000

const inputs = (count: number) => Array.from({ length: count }, (_, x) => ({ x }))

function counted() {
  const runs = new Map<number, number>()
  return {
    runs,
    handler: handler("count", (_config, { input }) => {
      const { x } = input as { x: number }
      runs.set(x, (runs.get(x) ?? 0) + 1)
      return x
    }),
  }
}

const single = flow([{ id: "a", handler: "count" }], { output: "{{ a }}" })
const held = flow([{ id: "a", handler: "gate" }], { name: "held" })

async function idsOf(umbra: Umbra, workflow: typeof single, count: number, options = {}): Promise<string[]> {
  const results = await umbra.submitMany(workflow, inputs(count), options)
  return results.map(({ job, error }) => {
    if (job === undefined) throw error
    return job.id
  })
}

describe("submitMany", () => {
  it("resolves a name once for entries with options of their own, and checks the options of each", async () => {
    const umbra = await open({ handlers: [counted().handler] })
    await umbra.register(single)
    const read = vi.spyOn(umbra.registry, "readLatest")
    const results = await umbra.submitMany(
      inputs(100).map((input, i) => ({
        workflow: single.name,
        input,
        options: { priority: i === 50 ? 0.5 : i },
      })),
    )
    expect(read).toHaveBeenCalledTimes(1)
    expect(results[50]).toMatchObject({ error: { code: "E309" } })
    expect(results.filter(({ job }) => job !== undefined)).toHaveLength(99)
  })

  it("accepts or refuses each submission for itself, in the order given, and honours keys", async () => {
    const { handler: count } = counted()
    const umbra = await open({ handlers: [count] })
    const typed = flow([{ id: "a", handler: "count" }], {
      name: "typed",
      input: { type: "object", required: ["x"], properties: { x: { type: "number" } } },
    })
    await umbra.register(typed)
    const results = await umbra.submitMany([
      { workflow: single, input: { x: 1 } },
      { workflow: "typed", input: { x: "one" } },
      { workflow: "nobody-knows-it" },
      { workflow: "typed", input: { x: 2 }, options: { idempotencyKey: "k" } },
      { workflow: "typed", input: { x: 2 }, options: { idempotencyKey: "k" } },
      { workflow: "typed", input: { x: 3 }, options: { idempotencyKey: "k" } },
      { workflow: single, input: { x: 4 }, options: { priority: 0.5 } },
    ])
    const codes = results.map(({ error }) => (error as { code?: string } | undefined)?.code ?? null)
    expect(codes).toEqual([null, "E304", "E305", null, null, "E306", "E309"])
    expect(results.map(({ isNew }) => isNew)).toEqual([
      true,
      undefined,
      undefined,
      true,
      false,
      undefined,
      undefined,
    ])
    expect(results[4]!.job!.id).toBe(results[3]!.job!.id)
    expect((await results[0]!.job!.wait()).output).toBe(1)
    expect((await results[3]!.job!.wait()).status).toBe("COMPLETED")
  })

  it("rejects a list that is not one of submissions, and accepts nothing of it", async () => {
    const { handler: count } = counted()
    const umbra = await open({ handlers: [count] })
    const entry = { workflow: single, input: { x: 1 } }
    for (const list of [
      [entry, null],
      [entry, 7],
    ])
      await expect(umbra.submitMany(list as never)).rejects.toMatchObject({ code: "E309" })
    await expect(umbra.submitMany(single as never)).rejects.toMatchObject({ code: "E309" })
    expect(await umbra.jobs()).toEqual([])
  })

  it("completes every job of a bulk once, with at most a window of them in memory", async () => {
    const { runs, handler: count } = counted()
    const umbra = await open({ handlers: [count] })
    let most = 0
    const watch = setInterval(() => {
      most = Math.max(most, umbra.health().liveJobs)
    }, 1)
    const results = await umbra.submitMany(single, inputs(10_000))
    most = Math.max(most, umbra.health().liveJobs)
    const ended = await Promise.all(results.map(({ job }) => job!.wait()))
    clearInterval(watch)
    expect(ended.every(({ status, output }, x) => status === "COMPLETED" && output === x)).toBe(true)
    expect(runs.size).toBe(10_000)
    expect([...runs.values()].every(times => times === 1)).toBe(true)
    // Those of the window, and those that have ended and are being stored.
    expect(most).toBeLessThanOrEqual(3 * WINDOW)
  })
})

describe("the facts of jobs that wait as rows", () => {
  it("are not read again, and no query finds out whether such a job has ended", async () => {
    const store = createMemoryStore()
    const { journal, most } = counting(openMemory(store))
    const ended = vi.spyOn(journal, "finishedJobs")
    const { runs, handler: count } = counted()
    const start = gate()
    const umbra = await open({ at: journal, handlers: [count, start.handler], worker: { concurrency: 1 } })
    const blocker = await umbra.submit(held)
    const ids = await idsOf(umbra, single, 3 * WINDOW)
    const results = Promise.all(ids.slice(WINDOW).map(id => umbra.wait(id)))
    start.open()
    expect((await results).map(({ output }) => output)).toEqual(ids.slice(WINDOW).map((_, x) => x + WINDOW))
    expect(most()).toBe(0)
    expect(ended).not.toHaveBeenCalled()
    expect((await umbra.wait(blocker.id)).status).toBe("COMPLETED")
    expect(runs.size).toBe(3 * WINDOW)
  })

  it("are read from the store by the next owner of a partition, and after another fact of the job", async () => {
    const facts = new QueuedFacts()
    const [kept, early, refused, moved] = [1, 1, 1, 2].map(partition => newJobId(partition, 10)) as string[]
    const fact = (jobId: string) => {
      return { jobId, partition: 1, seq: 7, at: 10, type: "job_submitted", data: '{"input":1}' }
    }
    for (const id of [kept!, early!, refused!, moved!]) facts.expect(id)
    expect(facts.isUnstored(early!)).toBe(true)
    // Its row was read before this process was told that it is stored.
    facts.loaded(early!)
    for (const id of [kept!, early!, moved!]) facts.settled(id, fact(id))
    facts.settled(refused!, null)
    expect([kept, early, refused, moved].map(id => facts.get(id!)?.data)).toEqual([
      ...['{"input":1}', undefined, undefined, '{"input":1}'],
    ])
    expect(facts.isUnstored(refused!)).toBe(false)
    facts.forget(2)
    expect(facts.get(moved!)).toBeUndefined()
    facts.loaded(kept!)
    expect(facts.get(kept!)).toBeUndefined()
  })

  it("are kept up to a limit of bytes", () => {
    const facts = new QueuedFacts()
    const ids = Array.from({ length: 10_000 }, () => newJobId(1, 10))
    for (const id of ids) {
      facts.expect(id)
      facts.settled(id, {
        jobId: id,
        partition: 1,
        seq: 7,
        at: 10,
        type: "job_submitted",
        data: "x".repeat(4096),
      })
    }
    const kept = ids.filter(id => facts.get(id) !== undefined)
    expect(kept.length).toBeGreaterThan(1000)
    expect(kept.length * 4096).toBeLessThanOrEqual(17 * 1024 * 1024)
    for (const id of kept) facts.loaded(id)
    facts.expect("next")
    facts.settled("next", { jobId: "next", partition: 1, seq: 7, at: 10, type: "job_submitted", data: "{}" })
    expect(facts.get("next")).toBeDefined()
  })
})

describe("a job that waits as a row", () => {
  it("is PROCESSING as soon as it is dispatched, also in lists", async () => {
    const gates = [gate(), gate()]
    const begun = new Set<number>()
    const late = handler("late", async (_config, context) => {
      const { x } = context.input as { x: number }
      begun.add(x)
      await gates[x < WINDOW ? 0 : 1]!.left
    })
    const umbra = await open({ handlers: [late], worker: { concurrency: 100 } })
    const ids = await idsOf(umbra, flow([{ id: "a", handler: "late" }], { name: "late" }), 2 * WINDOW)
    expect((await umbra.job(ids.at(-1)!)).status).toBe("QUEUED")
    gates[0]!.open()
    await until("a job that waited as a row has begun", () => [...begun].some(x => x >= WINDOW))
    const first = Math.min(...[...begun].filter(x => x >= WINDOW))
    expect((await umbra.job(ids[first]!)).status).toBe("PROCESSING")
    expect(withLive(await umbra.graph(ids[first]!)).status).toBe("PROCESSING")
    const { jobs } = await umbra.jobPage({ limit: 1000 })
    const shown = new Map(jobs.map(({ job_id, status }) => [job_id, status]))
    for (const x of begun) if (x >= WINDOW) expect(shown.get(ids[x]!)).not.toBe("QUEUED")
    const queued = await umbra.jobPage({ statuses: ["QUEUED"], limit: 1000 })
    expect(queued.jobs.every(({ status }) => status === "QUEUED")).toBe(true)
    gates[1]!.open()
    for (const id of ids) expect((await umbra.wait(id)).status).toBe("COMPLETED")
  })

  it("is QUEUED, is not in memory, and can be cancelled; its events show when it was dispatched", async () => {
    const busy = gate()
    const umbra = await open({ handlers: [busy.handler], worker: { concurrency: 1 } })
    const ids = await idsOf(umbra, held, WINDOW + 10)
    expect(umbra.health().liveJobs).toBe(WINDOW)
    const [last, other] = [ids.at(-1)!, ids.at(-2)!]
    expect((await umbra.job(last)).status).toBe("QUEUED")
    expect(await umbra.graph(last)).toMatchObject({ status: "QUEUED", nodes: [{ status: "QUEUED" }] })
    await expect(umbra.delete(last)).rejects.toMatchObject({ code: "E303" })
    await umbra.signal(other, "early", 1)
    expect((await umbra.job(other)).status).toBe("QUEUED")
    await umbra.cancel(last, "not wanted")
    expect(await umbra.job(last)).toMatchObject({ status: "CANCELLED", reason: "not wanted" })
    await umbra.delete(last)
    expect(umbra.health().liveJobs).toBe(WINDOW)
    busy.open()
    expect((await umbra.wait(other)).status).toBe("COMPLETED")
    const states = (await umbra.events(other))
      .filter(({ type }) => type.startsWith("job."))
      .map(({ to }) => to)
    expect(states).toEqual(["PENDING", "QUEUED", "DISPATCHING", "PROCESSING", "COMPLETED"])
    expect(busy.entered.some(({ jobId }) => jobId === last)).toBe(false)
  })

  it("expires in time, although its queue has no place", async () => {
    const clock = new VirtualClock()
    const busy = gate()
    const umbra = await open({ handlers: [busy.handler], worker: { concurrency: 1 }, clock })
    const ids = await idsOf(umbra, held, WINDOW + 20, { ttlSeconds: 60 })
    clock.advance(61_000)
    for (const id of ids.slice(-20)) {
      const { status } = await umbra.wait(id, { timeoutMs: 20_000 })
      expect(status).toBe("EXPIRED")
    }
    busy.open()
  })

  it("does not make the job of another owner, workflow or priority wait", async () => {
    const entered: string[] = []
    let release = () => {}
    const released = new Promise<void>(resolve => {
      release = resolve
    })
    const first = gate("first")
    const note = handler("note", async (_config, { input }) => {
      entered.push(String((input as { x: unknown }).x))
      await released
    })
    const umbra = await open({ handlers: [first.handler, note], worker: { concurrency: 1 } })
    await umbra.submit(flow([{ id: "a", handler: "first" }], { name: "blocker" }))
    await first.came()
    const many = flow([{ id: "a", handler: "note" }], { name: "many" })
    await umbra.submitMany(many, inputs(5000), { owner: "big" })
    expect(umbra.health().liveJobs).toBe(WINDOW + 1)
    await umbra.submit(many, { x: "single" }, { owner: "small" })
    await umbra.submit(
      flow([{ id: "a", handler: "note" }], { name: "rare" }),
      { x: "rare" },
      { owner: "big" },
    )
    await umbra.submit(many, { x: "urgent" }, { owner: "big", priority: 10 })
    expect(umbra.health().liveJobs).toBe(WINDOW + 4)
    release()
    first.open()
    await expect.poll(() => entered.length).toBe(5003)
    const place = (name: string) => entered.indexOf(name)
    expect(place("urgent")).toBeLessThanOrEqual(1)
    expect(place("single")).toBeLessThanOrEqual(1)
    expect(place("rare")).toBeLessThanOrEqual(4)
  })

  it("begins in the order of submission, higher priorities first", async () => {
    const order: number[] = []
    const first = gate("gate")
    // Handlers that take no time at all would end before a page can be read.
    const note = handler("note", async (_config, { input }) => {
      order.push((input as { x: number }).x)
      await new Promise(resolve => setImmediate(resolve))
    })
    const umbra = await open({ handlers: [first.handler, note], worker: { concurrency: 1 } })
    const noted = flow([{ id: "a", handler: "note" }], { name: "noted" })
    await umbra.submit(held)
    await first.came()
    const low = await umbra.submitMany(noted, inputs(3000))
    const high = await umbra.submitMany(
      noted,
      inputs(2000).map(({ x }) => ({ x: x + 10_000 })),
      { priority: 5 },
    )
    first.open()
    await Promise.all([...low, ...high].map(({ job }) => job!.wait()))
    const of = (isHigh: boolean) => order.filter(x => x >= 10_000 === isHigh)
    // Ids of one millisecond are in order within a partition only.
    const disorder = (xs: readonly number[]) => Math.max(...xs.map((x, at) => Math.abs(at - (x % 10_000))))
    expect(order.slice(0, 2000).every(x => x >= 10_000)).toBe(true)
    expect(disorder(of(true))).toBeLessThan(1000)
    expect(disorder(of(false))).toBeLessThan(1000)
  })
})

describe("another owner of the partitions", () => {
  it("reads waiting rows in pages, and every job completes", async () => {
    const store = createMemoryStore()
    const busy = gate()
    const first = await openOn(store, {
      handlers: [busy.handler],
      engine: { drainSeconds: 0 },
      worker: { concurrency: 1 },
    })
    const ids = await idsOf(first, held, 10_000)
    await first.close()
    const { journal, most } = counting(openMemory(store))
    const next = gate()
    const second = await open({ at: journal, handlers: [next.handler], worker: { concurrency: 1 } })
    await next.came()
    await expect.poll(() => second.health().liveJobs).toBeGreaterThan(WINDOW / 2)
    // Those that were in memory before, and a window.
    expect(second.health().liveJobs).toBeLessThanOrEqual(2 * WINDOW + 10)
    expect(most()).toBeLessThanOrEqual(2 * WINDOW + 10)
    next.open()
    const ended = await Promise.all(ids.map(id => second.wait(id)))
    expect(ended.every(({ status }) => status === "COMPLETED")).toBe(true)
    expect(new Set(next.entered.map(({ jobId }) => jobId)).size).toBe(10_000)
    expect(next.entered.length).toBe(10_000)
  })
})

/** A journal that counts how many jobs were read. */
function counting(journal: Journal): { readonly journal: Journal; readonly most: () => number } {
  let read = 0
  const wrapped = new Proxy(journal, {
    get(target, name) {
      if (name === "readFacts")
        return (ids: readonly string[], options?: object) => {
          read += ids.length
          return target.readFacts(ids, options)
        }
      const value = Reflect.get(target, name)
      return typeof value === "function" ? value.bind(target) : value
    },
  })
  return { journal: wrapped, most: () => read }
}

/** The parts of a queue of partition 1 that has nothing in memory. */
const idle = () => ({
  clock: new VirtualClock(),
  log: silentLog,
  partitions: { ready: new Set([1]), owns: () => true },
  capacity: () => 1,
  liveJobs: () => 0,
  maxLiveJobs: 1000,
  isBehind: () => false,
})

describe("while a bulk is accepted", () => {
  const job = { owner: "local", workflow: "single", ttlSeconds: null, priority: 0, partition: 1 }

  /** A queue whose pages are always full of new rows. */
  function endless() {
    const clock = new VirtualClock()
    const begun: number[] = []
    const queue = new JobQueue({
      ...idle(),
      clock,
      facts: new QueuedFacts(),
      journal: {
        readFacts: async () => [],
        dueJobs: async ({ after }) => {
          const jobs = [{ id: newJobId(1, clock.now()), wakeAt: after!.wakeAt }]
          return { jobs, nextWakeAt: null }
        },
      },
      begin: async () => {
        begun.push(clock.now())
        return []
      },
    })
    const store = async () => {
      queue.recorded(job)
      queue.stored({ ...job, id: newJobId(1, clock.now()) })
      for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
    }
    return { clock, begun, queue, store }
  }

  it("no page is loaded, for a second at most, and then for as long as that no bulk comes first", async () => {
    const { clock, begun, queue, store } = endless()
    const accepted = queue.bulkBegan()
    await store()
    clock.advance(900)
    await store()
    expect(begun).toEqual([])
    clock.advance(200)
    await store()
    expect(begun.length).toBeGreaterThan(0)
    accepted()
    const after = queue.bulkBegan()
    begun.length = 0
    await store()
    expect(begun.length).toBeGreaterThan(0)
    after()
    clock.advance(1000)
    await store()
    const last = queue.bulkBegan()
    begun.length = 0
    await store()
    expect(begun).toEqual([])
    last()
    await store()
    expect(begun.length).toBeGreaterThan(0)
    await queue.stop()
  })
})

describe("a page", () => {
  const job = { owner: "local", workflow: "single", ttlSeconds: null, priority: 0, partition: 1 }

  it("has each job once, although rows that were stored out of order made it begin again", async () => {
    const [early, first, last] = [10, 20, 30].map(time => newJobId(1, time)) as [string, string, string]
    const rows: string[] = []
    const begun: (readonly string[])[] = []
    let reads = 0
    const queue: JobQueue = new JobQueue({
      facts: new QueuedFacts(),
      journal: {
        readFacts: async () => [],
        dueJobs: async ({ after }) => {
          const jobs = rows.filter(id => id > after!.id).map(id => ({ id, wakeAt: after!.wakeAt }))
          await null
          reads++
          if (reads === 1) store(last)
          if (reads === 2) store(early)
          return { jobs, nextWakeAt: null }
        },
      },
      ...idle(),
      begin: async ids => {
        begun.push(ids)
        return []
      },
    })
    const store = (id: string) => {
      rows.push(id)
      rows.sort()
      queue.recorded(job)
      queue.stored({ ...job, id })
    }
    store(first)
    await until("all are read", () => begun.flat().includes(last))
    expect([...begun[0]!].sort()).toEqual([early, first, last])
    await queue.stop()
  })

  it("reads a row that was stored while a page with later rows was read", async () => {
    const [first, resumed, last] = [10, 20, 30].map(time => newJobId(1, time)) as [string, string, string]
    const rows = [first, last]
    const begun: string[] = []
    let reads = 0
    const queue: JobQueue = new JobQueue({
      facts: new QueuedFacts(),
      journal: {
        readFacts: async () => [],
        dueJobs: async ({ after }) => {
          const jobs = rows.filter(id => id > after!.id).map(id => ({ id, wakeAt: after!.wakeAt }))
          await null
          if (++reads === 1) {
            rows.splice(1, 0, resumed)
            queue.stored({ ...job, id: resumed })
          }
          return { jobs, nextWakeAt: null }
        },
      },
      ...idle(),
      begin: async ids => {
        begun.push(...ids)
        return []
      },
    })
    for (const id of [first, last]) queue.stored({ ...job, id })
    await until("all are read", () => begun.includes(last))
    await queue.stop()
    expect(new Set(begun)).toEqual(new Set([first, resumed, last]))
  })
})
