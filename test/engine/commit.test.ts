/** Group commit: what is durable together, in which order, and what goes on when a part of it cannot. */
import { describe, expect, it } from "vitest"
import { Committer } from "../../src/engine/commit/committer.ts"
import { StoreHealth } from "../../src/engine/commit/sender.ts"
import { jobPartition } from "../../src/engine/ids.ts"
import { JournalDataError, JournalUnavailableError } from "../../src/journal/errors.ts"
import type { Batch, Journal } from "../../src/journal/port/journal.ts"
import { openMemory } from "../../src/journal/sqlite/memory.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { collectLog, flow, gate, handler, open, until } from "./stage.ts"

const laneOf = (jobId: string, journal: Journal) => jobPartition(jobId) % journal.capabilities.appendLanes

it("the log names the reason where a driver rejects with a plain object", () => {
  const { log, lines } = collectLog()
  const store = new StoreHealth(log, 5)
  const cause = { message: "out of memory", code: "53200" }
  store.unavailable(new JournalUnavailableError("it did not answer: [object Object]", { cause }), 1)
  expect(lines[0]?.fields).toMatchObject({ tries: 1, cause: "out of memory" })
})

describe("group commit", () => {
  it("waiters of a batch are settled, also when its whole content has been dropped", async () => {
    const owned = new Map([
      [0, { epoch: 1, nextSeq: 1 }],
      [2, { epoch: 1, nextSeq: 1 }],
    ])
    const clock = new VirtualClock()
    const store = { unavailable() {}, available() {} }
    const committer = new Committer({ journal: openMemory(), clock, store, owned, slotLeaseMs: 1000 })
    const lane = committer.lane(0)
    void lane.next().then(committed => lane.release(committed!.batch))
    lane.answer({ partition: 0, jobId: "a job" }, 1, "{}")
    const other = committer.durable({ partition: 2, id: "another job" })
    const own = committer.durable({ partition: 0, id: "a job" })
    own.catch(() => {})
    owned.delete(0)
    lane.forget(0)
    await other
    await expect(own).rejects.toMatchObject({ code: "E610" })
  })

  it("facts that the database rejects fail their own jobs, and the rest of the batch is appended whole: seq order stays commit order", async () => {
    const journal = openMemory()
    const stored: Batch[] = []
    const bad = new Set<string>()
    const refuse = (batch: Batch) => {
      if (batch.facts.some(({ jobId, type }) => bad.has(jobId) && type === "node_completed"))
        throw new JournalDataError("it is refused")
    }
    const { append, tryAppend } = journal
    journal.append = async batch => {
      refuse(batch)
      stored.push(batch)
      return append.call(journal, batch)
    }
    journal.tryAppend = async batch => {
      refuse(batch)
      return tryAppend.call(journal, batch)
    }
    const held = gate()
    const umbra = await open({ at: journal, handlers: [held.handler] })
    const jobs = await Promise.all(
      Array.from({ length: 24 }, () => umbra.submit(flow([{ id: "a", handler: "gate" }]))),
    )
    await held.came(jobs.length)
    for (const index of [3, 4, 17]) bad.add(jobs[index]!.id)
    stored.length = 0
    held.open()
    const ended = await Promise.all(jobs.map(job => job.wait()))
    expect(ended.map(({ status }) => status)).toEqual(
      jobs.map(({ id }) => (bad.has(id) ? "FAILED" : "COMPLETED")),
    )
    expect(ended[3]?.error).toMatchObject({ code: "E502" })
    const completed = stored.filter(({ facts }) => facts.some(({ type }) => type === "node_completed"))
    expect(completed).toHaveLength(journal.capabilities.appendLanes)
  })

  it("an append that hangs delays its own lane only", async () => {
    const journal = openMemory()
    const { append } = journal
    let stuck = -1
    const waiting: (() => void)[] = []
    journal.append = async batch => {
      if (batch.facts.some(({ partition }) => partition % journal.capabilities.appendLanes === stuck))
        await new Promise<void>(resolve => waiting.push(resolve))
      return append.call(journal, batch)
    }
    const umbra = await open({ at: journal, handlers: [handler("quick", () => "done")] })
    stuck = 0
    const ended: string[] = []
    const lanes = [...Array(8).keys()].map(async () => {
      const job = await umbra.submit(flow([{ id: "a", handler: "quick" }]))
      ended.push(job.id)
    })
    await until("the other lane's jobs are stored", () => ended.length === 4)
    expect(ended.map(id => laneOf(id, journal))).not.toContain(0)
    stuck = -1
    for (const go of waiting) go()
    await Promise.all(lanes)
    expect(ended).toHaveLength(8)
  })

  it("an unavailable store is reported once, and every lane retries when one succeeds", async () => {
    const journal = openMemory()
    const clock = new VirtualClock()
    const { append } = journal
    let isAway = false
    journal.append = async batch => {
      if (isAway) throw new JournalUnavailableError("away")
      return append.call(journal, batch)
    }
    const { log, lines } = collectLog()
    const umbra = await open({ at: journal, clock, log, handlers: [handler("quick", () => "done")] })
    isAway = true
    const jobs = [1, 2].map(() => umbra.submit(flow([{ id: "a", handler: "quick" }])))
    const hasLogged = (text: string) => lines.filter(line => line.message.includes(text)).length
    for (let tries = 1; tries <= 4; tries++) {
      await until(
        `try ${tries}`,
        () => hasLogged("append failed") + hasLogged("database unavailable") === tries,
      )
      if (tries === 4) isAway = false
      clock.advance(30_000)
    }
    for (const job of await Promise.all(jobs)) expect((await job.wait()).status).toBe("COMPLETED")
    expect([hasLogged("database unavailable"), hasLogged("database available again")]).toEqual([1, 1])
  })
})
