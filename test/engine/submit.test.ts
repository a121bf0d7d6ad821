import { describe, expect, it } from "vitest"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { keysOf, removeJob } from "../support/store-tables.ts"
import { flow, gate, handler, open, openOn, until } from "./stage.ts"

const one = flow([{ id: "a", handler: "input" }])

describe("idempotency keys", () => {
  it("S2 the order of keys is not content: the same input written otherwise is the same submission", async () => {
    const umbra = await open()
    const key = { idempotencyKey: "order" }
    const first = await umbra.submit(one, { n: 1, deep: { a: [1, { x: 1, y: 2 }], b: null } }, key)
    const again = await umbra.submit(one, { deep: { b: null, a: [1, { y: 2, x: 1 }] }, n: 1 }, key)
    expect(again.id).toBe(first.id)
    const others = [
      { n: 1, deep: { a: [{ x: 1, y: 2 }, 1], b: null } },
      { n: 1, deep: { a: [1, { x: 1, y: 2 }] } },
    ]
    for (const other of others)
      await expect(umbra.submit(one, other, key)).rejects.toMatchObject({ code: "E306" })
  })

  it("the same key gives the same job, and other content is refused", async () => {
    const umbra = await open()
    const first = await umbra.submit(one, { n: 1 }, { idempotencyKey: "k" })
    await first.wait()
    const again = await umbra.submit(one, { n: 1 }, { idempotencyKey: "k" })
    expect(again.id).toBe(first.id)
    await expect(umbra.submit(one, { n: 2 }, { idempotencyKey: "k" })).rejects.toMatchObject({ code: "E306" })
    const other = await umbra.submit(one, { n: 2 }, { idempotencyKey: "k", owner: "somebody else" })
    expect(other.id).not.toBe(first.id)
  })

  it("submissions with one key at the same time are one job with one submission", async () => {
    let runs = 0
    const store = createMemoryStore()
    const umbra = await openOn(store, { handlers: [handler("count", () => ++runs)] })
    const counted = flow([{ id: "a", handler: "count" }])
    const jobs = await Promise.all(
      Array.from({ length: 10 }, () => umbra.submit(counted, null, { idempotencyKey: "k" })),
    )
    expect(new Set(jobs.map(job => job.id)).size).toBe(1)
    expect((await jobs[0]!.wait()).output).toEqual({ a: 1 })
    const facts = await openMemory(store).readFacts([jobs[0]!.id])
    expect(facts.filter(fact => fact.type === "job_submitted")).toHaveLength(1)
  })

  it("a process that died between claiming the key and submitting leaves nothing behind that blocks it", async () => {
    const store = createMemoryStore()
    const journal = openMemory(store)
    const claimKey = journal.claimKey.bind(journal)
    // Claims, and never comes back: as a process that is killed right there.
    journal.claimKey = async claim => {
      await claimKey(claim)
      return new Promise(() => {})
    }
    const first = await open({ at: journal, engine: { beatSeconds: 0.02, leaseSeconds: 2 } })
    void first.submit(one, { n: 1 }, { idempotencyKey: "k" })
    await until("the key is claimed", () => keysOf(store).length === 1)
    const [claim] = keysOf(store)
    await first.close()
    const second = await openOn(store)
    const job = await second.submit(one, { n: 1 }, { idempotencyKey: "k" })
    expect(job.id).toBe(claim!.jobId)
    expect((await job.wait()).status).toBe("COMPLETED")
  })

  it("a key claimed by a dead process is submitted by the engine that owns its partition now", async () => {
    const store = createMemoryStore()
    const first = await openOn(store)
    await first.submit(one, { n: 0 })
    const second = await openOn(store)
    const probe = await second.submit(one, { n: 0 })
    await until("both own partitions", () => second.owns(probe.id) && !first.owns(probe.id))
    // An id of a partition that the second engine owns, claimed but never submitted.
    const seen = await openMemory(store).claimKey({
      owner: "local",
      key: "other",
      jobId: probe.id,
      fingerprint: "x",
      createdAt: Date.now(),
    })
    expect(seen.jobId).toBe(probe.id)
    const journal = openMemory(store)
    const claimed = await second.submit(one, { n: 5 }, { idempotencyKey: "k" })
    await claimed.wait()
    const claim = keysOf(store).find(({ key }) => key === "k")!
    // Forget the job, keep the claim: what a kill between the two leaves.
    removeJob(store, claimed.id)
    expect(first.owns(claim.jobId)).toBe(false)
    const job = await first.submit(one, { n: 5 }, { idempotencyKey: "k" })
    expect(job.id).toBe(claim.jobId)
    expect((await job.wait()).status).toBe("COMPLETED")
    const facts = await journal.readFacts([job.id])
    expect(facts.filter(fact => fact.type === "job_submitted")).toHaveLength(1)
  })
})

describe("submission", () => {
  it("bad input, an unknown workflow and bad options are refused with a code, and nothing is stored", async () => {
    const umbra = await open()
    const typed = flow([{ id: "a", handler: "input" }], {
      input: { type: "object", required: ["n"], properties: { n: { type: "number" } } },
    })
    await expect(umbra.submit(typed, { n: "one" })).rejects.toMatchObject({ code: "E304" })
    await expect(umbra.submit("nobody-knows-it", {})).rejects.toMatchObject({ code: "E305" })
    await expect(umbra.submit(one, {}, { priority: 0.5 })).rejects.toMatchObject({ code: "E309" })
    await expect(umbra.submit(flow([{ id: "a", handler: "nobody" }]))).rejects.toMatchObject({
      name: "UmbraError",
    })
    expect(await umbra.jobs()).toEqual([])
  })

  it("with too many jobs in memory new ones wait in the store, and begin when there is room", async () => {
    const busy = gate()
    const umbra = await open({ handlers: [busy.handler], engine: { maxLiveJobs: 2 } })
    const held = flow([{ id: "a", handler: "gate" }])
    const jobs = [await umbra.submit(held), await umbra.submit(held)]
    const waiting = await umbra.submit(held)
    expect((await waiting.status()).status).toBe("QUEUED")
    expect(umbra.health().liveJobs).toBe(2)
    busy.open()
    for (const job of [...jobs, waiting]) expect((await job.wait()).status).toBe("COMPLETED")
  })
})

it("J1 a job is PROCESSING, in lists too, from the write of its submission, while its first handler still runs", async () => {
  const store = createMemoryStore()
  const busy = gate()
  const umbra = await openOn(store, { handlers: [busy.handler] })
  const job = await umbra.submit(flow([{ id: "a", handler: "gate" }]))
  expect((await umbra.jobs({})).map(({ status }) => status)).toEqual(["PROCESSING"])
  expect((await umbra.graph(job.id)).status).toBe("PROCESSING")
  expect(await openMemory(store).readFacts([job.id])).toHaveLength(1)
  await busy.came()
  busy.open()
  await job.wait()
})

describe("handlers that are not registered here", () => {
  it("a ready node waits for a worker with its handler, shows so, and continues when one connects", async () => {
    const store = createMemoryStore()
    const busy = gate("special")
    const first = await openOn(store, { handlers: [busy.handler], engine: { drainSeconds: 0.01 } })
    const job = await first.submit(flow([{ id: "a", handler: "special" }]))
    await busy.came()
    await first.close()
    const second = await openOn(store)
    await until("it knows that it cannot run it", () => second.activity(job.id).unserved.length === 1)
    expect(second.activity(job.id).unserved).toEqual([{ node: "a", handler: "special", provider: null }])
    const { nodes } = await second.graph(job.id)
    expect(nodes[0]).toMatchObject({ status: "QUEUED", waiting_on: { kind: "worker", handler: "special" } })
    second.addHandlers([handler("special", () => "at last")])
    expect(await second.wait(job.id)).toMatchObject({ status: "COMPLETED", output: { a: "at last" } })
    busy.open()
  })

  it("X1 a node whose provider is not known here shows which one it waits for", async () => {
    const umbra = await openOn(createMemoryStore())
    const job = await umbra.submit(flow([{ id: "a", handler: "external", provider: "acme" }]))
    await until("it knows that it cannot run it", () => umbra.activity(job.id).unserved.length === 1)
    const { nodes } = await umbra.graph(job.id)
    expect(nodes[0]!.waiting_on).toEqual({ kind: "worker", handler: "external", provider: "acme" })
  })
})
