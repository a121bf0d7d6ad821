import { describe, expect, it } from "vitest"
import { createMemoryStore, type MemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { factsOf, jobOf, jobsOf, partitionAt, storedPartitions } from "../support/store-tables.ts"
import { collectLog, flow, gate, handler, open, openOn, states, until } from "./stage.ts"

describe("cancellation", () => {
  it("J16 running handlers get the abort signal within a second, queued nodes never start, late results are dropped", async () => {
    const busy = gate()
    // The clock stands still: what waits for a timer never comes.
    const clock = new VirtualClock()
    const umbra = await open({ clock, handlers: [busy.handler], worker: { concurrency: 1 } })
    const job = await umbra.submit(
      flow([
        { id: "running", handler: "gate" },
        { id: "queued", handler: "gate" },
        { id: "pending", handler: "gate", dependencies: ["running"] },
      ]),
    )
    const { signal } = await busy.came()
    await job.cancel("not needed")
    await until("its signal fires", () => signal.aborted)
    busy.open("too late")
    const { status } = await job.wait()
    expect(status).toBe("CANCELLED")
    await new Promise(resolve => setImmediate(resolve))
    expect(busy.entered).toHaveLength(1)
    expect(await states(umbra, job.id)).toEqual({
      running: "CANCELLED",
      queued: "CANCELLED",
      pending: "CANCELLED",
    })
    await expect(job.cancel()).rejects.toMatchObject({ code: "E302" })
  })

  it("J16 a job that waits out of memory can be cancelled", async () => {
    const umbra = await open({ engine: { parkAfterMs: 100 } })
    const job = await umbra.submit(flow([{ id: "nap", handler: "sleep", config: { seconds: 3600 } }]))
    await until("it has left memory", () => !umbra.activity(job.id).isHere)
    await job.cancel()
    expect((await job.wait()).status).toBe("CANCELLED")
  })

  it("commands for a job that does not exist are rejected", async () => {
    const umbra = await open()
    const unknown = "01a1deea-cb7a-7005-99af-1ee1cda6255e"
    await expect(umbra.cancel(unknown)).rejects.toMatchObject({ code: "E301" })
    await expect(umbra.job(unknown)).rejects.toMatchObject({ code: "E301" })
    expect(() => umbra.handle("nonsense")).toThrow(/not a job id/)
  })
})

describe("time to live", () => {
  it("J17 a job past its TTL is EXPIRED and its handlers are aborted", async () => {
    const busy = gate()
    const clock = new VirtualClock()
    const umbra = await open({ handlers: [busy.handler], clock })
    const job = await umbra.submit(flow([{ id: "a", handler: "gate" }]), null, { ttlSeconds: 60 })
    const { signal } = await busy.came()
    clock.advance(60_000)
    expect((await job.wait()).status).toBe("EXPIRED")
    expect(signal.aborted).toBe(true)
    busy.open()
  })

  it("J17 a job that has left memory expires too, before the time it waits for", async () => {
    const clock = new VirtualClock()
    const umbra = await open({ clock })
    const job = await umbra.submit(
      flow([{ id: "nap", handler: "sleep", config: { seconds: 3600 } }], { ttl_seconds: 60 }),
    )
    await until("it has left memory", () => !umbra.activity(job.id).isHere)
    clock.advance(59_000)
    await new Promise(resolve => setImmediate(resolve))
    expect((await job.status()).status).toBe("PROCESSING")
    clock.advance(1_000)
    expect((await job.wait()).status).toBe("EXPIRED")
    await job.retry()
    expect((await job.status()).status).not.toBe("EXPIRED")
  })

  it("J17 finished jobs are removed after the retention, running ones are not", async () => {
    const store = createMemoryStore()
    const busy = gate()
    const first = await openOn(store, { handlers: [busy.handler], engine: { drainSeconds: 0 } })
    const done = await first.submit(flow([{ id: "a", handler: "input" }]))
    const running = await first.submit(flow([{ id: "a", handler: "gate" }]))
    await done.wait()
    await busy.came()
    const second = await openOn(store, { handlers: [busy.handler], engine: { retentionSeconds: 0.001 } })
    await first.close()
    await until("the purge", async () => (await openMemory(store).readJob(done.id)) === null)
    expect(factsOf(store, done.id)).toEqual([])
    expect((await second.job(running.id)).status).not.toBe("COMPLETED")
    busy.open()
  })

  it("J14 J17 children are removed with their parent, and the key of a job that still runs is kept", async () => {
    const store = createMemoryStore()
    const first = await openOn(store)
    const kid = flow([{ id: "a", handler: "input" }], { name: "kid" })
    await first.register(kid)
    const config = { workflow: "kid" }
    const done = await first.submit(flow([{ id: "c", handler: "workflow", config }]))
    await done.wait()
    const waits = flow([
      { id: "c", handler: "workflow", config },
      { id: "w", handler: "wait_for_signal", config: { signal: "go" } },
    ])
    const running = await first.submit(waits, {}, { idempotencyKey: "one" })
    await until("its child has ended", async () => (await states(first, running.id)).c === "COMPLETED")
    const of = (parent: string) => jobsOf(store).filter(({ parentId }) => parentId === parent)
    expect([of(done.id).length, of(running.id).length]).toEqual([1, 1])
    await first.close()
    const second = await openOn(store, { engine: { retentionSeconds: 0.001 } })
    await until("the purge", () => jobOf(store, done.id) === null && of(done.id).length === 0)
    expect(of(running.id).length).toBe(1)
    expect((await second.submit(waits, {}, { idempotencyKey: "one" })).id).toBe(running.id)
  })

  it("P5 what was done to a pipeline's messages is removed after a time of its own, the rest with the job", async () => {
    const [clock, store] = [new VirtualClock(), createMemoryStore()]
    const engine = { retentionSeconds: 7200, lineageRetentionSeconds: 3600 }
    const umbra = await openOn(store, { clock, engine })
    const job = await umbra.submit(flow([{ id: "a", handler: "input" }]))
    await job.wait()
    const { pipelines } = openMemory(store)
    const execution = await processOne(store, job.id, clock.now())
    const lineage = () => pipelines.readLineage({ execution, keys: [{ route: 0, seq: 1 }], limit: 9 })
    clock.advance(3_000_000)
    await new Promise(resolve => setImmediate(resolve))
    expect(await lineage()).toHaveLength(1)
    clock.advance(1_200_001)
    await until("lineage is gone", async () => (await lineage()).length === 0)
    expect(await pipelines.findMessages(execution, [{ route: 0, seq: 1 }])).toEqual([])
    expect(await pipelines.readExecution(job.id)).not.toBeNull()
    clock.advance(3_600_000)
    await until("all is gone", async () => (await pipelines.readExecution(job.id)) === null)
  })
})

/** An execution of this job that has ended, with one message that was acknowledged. */
async function processOne(store: MemoryStore, jobId: string, at: number): Promise<number> {
  const { pipelines } = openMemory(store)
  const execution = (await pipelines.claimExecution({ jobId, at, limit: 1, claimMs: 1000 }))!
  const key = { route: 0, seq: 1 }
  await pipelines.commit({
    fence: { partition: 0, epoch: partitionAt(store, 0).epoch },
    ...{ execution, commit: 1, progress: "{}", parked: [], unparked: [], stored: [] },
    messages: [{ ...key, parent: null, root: 1, hops: 0, at, body: "1" }],
    lineage: [
      {
        ...{ ...key, attempt: 1, emitted: null },
        invocations: [{ adapter: 0, at, durationUs: 1, status: "completed", into: null, error: null }],
      },
    ],
  })
  await pipelines.endExecution({ jobId, at })
  return execution
}

describe("close", () => {
  it("S5 lets running handlers end and makes their results durable", async () => {
    const store = createMemoryStore()
    const busy = gate()
    const umbra = await openOn(store, { handlers: [busy.handler] })
    const job = await umbra.submit(flow([{ id: "a", handler: "gate" }]))
    await busy.came()
    const closed = umbra.close()
    busy.open("done in time")
    await closed
    expect(await openMemory(store).readJob(job.id)).toMatchObject({
      status: "COMPLETED",
      output: '{"a":"done in time"}',
    })
    expect(storedPartitions(store).every(row => row.owner === null)).toBe(true)
    await expect(umbra.submit(flow([{ id: "a", handler: "input" }]))).rejects.toMatchObject({ code: "E612" })
  })

  it("S5 handlers that do not end within the drain time are aborted, and run again in the next process", async () => {
    const store = createMemoryStore()
    const stuck = gate()
    const first = await openOn(store, { handlers: [stuck.handler], engine: { drainSeconds: 0.02 } })
    const job = await first.submit(flow([{ id: "a", handler: "gate" }]))
    const { signal } = await stuck.came()
    await first.close()
    expect(signal.aborted).toBe(true)
    const runs: number[][] = []
    const again = handler("gate", (_config, ctx) => {
      runs.push([ctx.attempt, ctx.fence])
      return "second time"
    })
    const second = await openOn(store, { handlers: [again] })
    expect(await second.wait(job.id)).toMatchObject({ status: "COMPLETED", output: { a: "second time" } })
    // Handed over: the same attempt, behind the fences of the handover and of the next owner.
    expect(runs).toEqual([[1, 3]])
    expect((await second.node(job.id, "a")).attempts).toMatchObject([
      { attempt: 1, outcome: "handed_over", started_at: expect.any(Number), worker: `local-${process.pid}` },
      { attempt: 1, outcome: "completed" },
    ])
    stuck.open()
  })

  it("a store that cannot be written to does not block close for ever, and every waiter is settled", async () => {
    const { log, hasLogged } = collectLog()
    const journal = openMemory()
    const append = journal.append.bind(journal)
    let isAway = false
    journal.append = batch => (isAway ? Promise.reject(new Error("gone")) : append(batch))
    const clock = new VirtualClock()
    const umbra = await open({ at: journal, log, clock })
    isAway = true
    const submitted = umbra.submit(flow([{ id: "a", handler: "input" }]))
    const second = umbra.submit(flow([{ id: "a", handler: "input" }]))
    const answers = Promise.allSettled([submitted, second])
    await until("the engine says that it has paused", () => {
      clock.advance(1000)
      return hasLogged("engine paused")
    })
    const third = umbra.submit(flow([{ id: "a", handler: "input" }]))
    await expect(third).rejects.toMatchObject({ code: "E611" })
    const closed = umbra.close()
    await until("close has given up", () => {
      clock.advance(30_000)
      return Promise.race([closed.then(() => true), new Promise(resolve => setTimeout(resolve, 1, false))])
    })
    expect((await answers).map(answer => answer.status)).toEqual(["rejected", "rejected"])
  })
})
