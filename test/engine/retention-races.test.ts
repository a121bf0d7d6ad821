/** What can happen to a job between the moment in which it is found to be old and the one in which it is purged. */
import { describe, expect, it } from "vitest"
import type { Journal } from "../../src/journal/port/journal.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { hasEngine, putEngine, seizePartition } from "../support/store-tables.ts"
import { holding } from "./held-answers.ts"
import { broken, flow, open, openOn, until } from "./stage.ts"

describe("retention", () => {
  const day = 24 * 3600
  const failing = flow([{ id: "a", handler: "broken" }])
  const isOld = { ttlSeconds: null, retentionSeconds: day }

  /** Retention passes over a job that the statistics have not counted. */
  async function counted(journal: Journal, clock: VirtualClock): Promise<void> {
    const partitions = Array.from({ length: journal.capabilities.partitions }, (_, partition) => partition)
    await until("the job is counted", async () => {
      clock.advance(15_000)
      const old = { partitions, before: clock.now(), unsettledBefore: 0, limit: 1 }
      return (await journal.endedJobs(old))[0]?.isFree === true
    })
  }

  it("J17 with jobs kept for ever, rows of dead engines are removed nevertheless", async () => {
    const [clock, store] = [new VirtualClock(), createMemoryStore()]
    putEngine(store, { engine: "dead", place: "elsewhere", beat: 1, follows: false })
    const engine = { ttlSeconds: null, retentionSeconds: null }
    const umbra = await openOn(store, { clock, handlers: [broken], engine })
    const job = await umbra.submit(failing)
    await job.wait()
    for (let round = 0; round < 3; round++) {
      clock.advance(601_000)
      await new Promise(resolve => setImmediate(resolve))
    }
    await until("it is forgotten", () => !hasEngine(store, "dead"))
    expect((await umbra.job(job.id)).status).toBe("FAILED")
  })

  it("J17 a job that is retried in the moment it would be purged keeps its history", async () => {
    const [clock, journal] = [new VirtualClock(), openMemory()]
    const found = holding(journal, "endedJobs")
    const umbra = await open({ at: journal, clock, handlers: [broken], engine: isOld })
    const job = await umbra.submit(failing)
    expect((await job.wait()).status).toBe("FAILED")
    await counted(journal, clock)
    found.hold()
    clock.advance((day + 601) * 1000)
    await until("the purge has found it", () => found.held.length === 1)
    await job.retry()
    found.letGo()
    await (await umbra.submit(flow([{ id: "a", handler: "input" }]))).wait()
    expect((await job.wait()).status).toBe("FAILED")
    const facts = await journal.readFacts([job.id])
    expect(facts.map(({ type }) => type).slice(0, 3)).toEqual(["job_submitted", "node_failed", "job_retried"])
  })

  it("J17 a job that is forked in the moment it would be purged goes soon after its fork", async () => {
    const [clock, journal] = [new VirtualClock(), openMemory()]
    const found = holding(journal, "endedJobs")
    const seconds = 1000
    // No walk over all old jobs meanwhile.
    const engine = { ttlSeconds: null, retentionSeconds: seconds, retentionSweepSeconds: 1000 * seconds }
    const umbra = await open({ at: journal, clock, handlers: [broken], engine })
    const job = await umbra.submit(
      flow([
        { id: "reused", handler: "input" },
        { id: "a", handler: "broken", dependencies: ["reused"] },
      ]),
    )
    expect((await job.wait()).status).toBe("FAILED")
    await counted(journal, clock)
    found.hold()
    clock.advance((seconds + 200) * 1000)
    await until("the purge has found it", () => found.held.length === 1)
    const fork = await umbra.fork(job.id, { overrides: { a: { output: 1 } } })
    expect((await fork.wait()).status).toBe("COMPLETED")
    const forkedAt = clock.now()
    found.letGo()
    const isThere = async (id: string) => (await journal.readJob(id)) !== null
    await until("the fork is removed, and then its origin", async () => {
      if (clock.now() - forkedAt < 2 * seconds * 1000) clock.advance(10_000)
      const [origin, late] = [await isThere(job.id), await isThere(fork.id)]
      expect(origin || !late).toBe(true)
      return !origin
    })
  })

  it("J17 a job that is being loaded for a retry is not purged", async () => {
    const [clock, journal] = [new VirtualClock(), openMemory()]
    const [reads, purges] = [holding(journal, "readFacts"), holding(journal, "endedJobs")]
    const umbra = await open({ at: journal, clock, handlers: [broken], engine: isOld })
    const job = await umbra.submit(failing)
    await job.wait()
    await counted(journal, clock)
    reads.hold()
    const retried = job.retry()
    await until("it is being read", () => reads.held.length === 1)
    purges.hold()
    clock.advance((day + 601) * 1000)
    await until("the purge has found it", () => purges.held.length === 1)
    purges.letGo()
    await new Promise(resolve => setImmediate(resolve))
    reads.letGo()
    await retried
    expect((await journal.readFacts([job.id]))[0]).toMatchObject({ type: "job_submitted" })
  })

  it("J17 a retry that comes while the job is being purged waits, and finds no job", async () => {
    const [clock, journal] = [new VirtualClock(), openMemory()]
    const purge = journal.purge.bind(journal)
    let begin = () => {}
    const begun = new Promise<void>(resolve => {
      begin = resolve
    })
    let isAsked = false
    journal.purge = async asked => {
      isAsked = true
      await begun
      return purge(asked)
    }
    const umbra = await open({ at: journal, clock, handlers: [broken], engine: isOld })
    const job = await umbra.submit(failing)
    await job.wait()
    await counted(journal, clock)
    clock.advance((day + 601) * 1000)
    await until("it is about to be purged", () => isAsked)
    const retried = job.retry()
    retried.catch(() => {})
    await new Promise(resolve => setImmediate(resolve))
    begin()
    await expect(retried).rejects.toMatchObject({ code: "E301" })
    expect(await journal.readFacts([job.id])).toEqual([])
  })

  it("J17 an engine that was replaced purges nothing of its former partition", async () => {
    const [clock, store] = [new VirtualClock(), createMemoryStore({ partitions: 1 })]
    const journal = openMemory(store)
    const found = holding(journal, "endedJobs")
    const first = await open({ at: journal, clock, handlers: [broken], engine: isOld })
    const job = await first.submit(failing)
    await job.wait()
    await counted(journal, clock)
    found.hold()
    clock.advance((day + 601) * 1000)
    await until("the purge has found it", () => found.held.length === 1)
    seizePartition(store, 0, "somebody else")
    found.letGo()
    await new Promise(resolve => setImmediate(resolve))
    expect((await openMemory(store).readFacts([job.id])).length).toBe(2)
  })
})
