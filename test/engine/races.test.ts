/**
 * What can happen between two awaits: each of these once lost a job, doubled one, or left one lying. The store is in
 * memory and shared, so that a test can hold one answer back while another engine acts.
 */
import { describe, expect, it } from "vitest"
import { jobPartition } from "../../src/engine/ids.ts"
import { Peers } from "../../src/engine/partitions/peers.ts"
import { JournalUnavailableError } from "../../src/journal/errors.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import {
  factsOf,
  jobOf,
  partitionAt,
  putEngine,
  removeFact,
  seizePartition,
  storedPartitions,
} from "../support/store-tables.ts"
import { holding } from "./held-answers.ts"
import { collectLog, flow, gate, handler, open, openOn, until } from "./stage.ts"

const quick = { beatSeconds: 0.02, leaseSeconds: 0.1 }
/** For those who only come after another: nobody dies. */
const calm = { ...quick, leaseSeconds: 2 }

describe("loading", () => {
  it("a command that comes while the job is being woken acts on the job that is woken, not on an older one", async () => {
    const clock = new VirtualClock()
    const journal = openMemory()
    const reads = holding(journal, "readFacts")
    const umbra = await open({ at: journal, clock, engine: { ttlSeconds: null } })
    const job = await umbra.submit(
      flow([
        { id: "nap", handler: "sleep", config: { seconds: 60 } },
        { id: "second", handler: "sleep", config: { seconds: 60 }, dependencies: ["nap"] },
      ]),
    )
    await until("it has left memory", () => !umbra.activity(job.id).isHere)
    reads.hold()
    clock.advance(60_000)
    await until("it is being read", () => reads.held.length === 1)
    reads.pass()
    const cancelled = job.cancel()
    await Promise.race([cancelled, new Promise(resolve => setTimeout(resolve, 20))])
    reads.letGo()
    await cancelled
    clock.advance(120_000)
    // Whatever was decided before this one ends is durable with it.
    await (await umbra.submit(flow([{ id: "a", handler: "input" }]))).wait()
    const types = (await umbra.events(job.id)).map(event => event.type)
    expect(types.at(-1)).toBe("job.cancelled")
    expect((await job.status()).status).toBe("CANCELLED")
  })

  it("J5 a job that acted and was parked during the query for due jobs is found by the next owner", async () => {
    const [clock, journal, door] = [new VirtualClock(), openMemory(), gate()]
    const due = holding(journal, "dueJobs")
    const umbra = await open({ at: journal, clock, handlers: [door.handler], engine: { ttlSeconds: null } })
    const job = await umbra.submit(
      flow([
        { id: "nap", handler: "sleep", config: { seconds: 60 } },
        { id: "go", handler: "wait_for_signal", config: { signal: "go" } },
        { id: "after", handler: "gate", dependencies: ["go"] },
      ]),
    )
    await until("it has left memory", () => !umbra.activity(job.id).isHere)
    clock.advance(59_000)
    await job.signal("another", null)
    expect(umbra.activity(job.id).isHere).toBe(true)
    due.hold()
    clock.advance(1_000)
    await until("the store was asked", () => due.held.length === 1)
    await until("it has done what was due, and left", () => !umbra.activity(job.id).isHere)
    due.letGo()
    await until("it was woken by the old answer", () => umbra.activity(job.id).isHere)
    await job.signal("go", null)
    await door.came()
    const found = await journal.dueJobs({ partitions: [jobPartition(job.id)], at: clock.now(), limit: 10 })
    expect(found.jobs.map(({ id }) => id)).toEqual([job.id])
    door.open()
    expect((await job.wait()).status).toBe("COMPLETED")
  })

  it("a job read before its partition was lost is not adopted after", async () => {
    const store = createMemoryStore({ partitions: 1 })
    const journal = openMemory(store)
    const reads = holding(journal, "readFacts")
    const first = await open({ at: journal, engine: { ...quick, parkAfterMs: 1 } })
    const job = await first.submit(flow([{ id: "nap", handler: "sleep", config: { seconds: 3600 } }]))
    await until("it has left memory", () => !first.activity(job.id).isHere)
    reads.hold()
    const cancelled = first.cancel(job.id)
    cancelled.catch(() => {})
    await until("it is being read", () => reads.held.length === 1)
    seizePartition(store, 0, "somebody else")
    putEngine(store, { engine: "somebody else", place: "elsewhere#1", beat: 1, follows: false })
    await until("the first knows", () => !first.owns(job.id))
    reads.letGo()
    await expect(cancelled).rejects.toMatchObject({ code: "E610" })
    expect(first.activity(job.id).isHere).toBe(false)
    expect(factsOf(store, job.id).map(fact => fact.type)).toEqual(["job_submitted", "node_waiting"])
  })

  it("jobs that could not be read because the store was unavailable are woken when it is back", async () => {
    const clock = new VirtualClock()
    const journal = openMemory()
    const readFact = journal.readFact.bind(journal)
    let isAway = false
    journal.readFact = (...args) =>
      isAway ? Promise.reject(new JournalUnavailableError("away")) : readFact(...args)
    const large = handler("large", () => "x".repeat(2000))
    const umbra = await open({ at: journal, clock, handlers: [large], engine: { largeOutputBytes: 1000 } })
    const job = await umbra.submit(
      flow(
        [
          { id: "large", handler: "large" },
          { id: "nap", handler: "sleep", config: { seconds: 60 }, dependencies: ["large"] },
        ],
        { output: { size: "{{ large | length }}" } },
      ),
    )
    await until("it has left memory", () => !umbra.activity(job.id).isHere)
    isAway = true
    clock.advance(60_000)
    await new Promise(resolve => setTimeout(resolve, 10))
    expect((await job.status()).status).toBe("PROCESSING")
    isAway = false
    const ended = job.wait({ timeoutMs: 60_000 })
    await until("it is woken", async () => {
      clock.advance(500)
      return (await job.status()).status === "COMPLETED"
    })
    expect((await ended).output).toEqual({ size: 2000 })
  })
})

describe("fencing", () => {
  it("decisions made before a partition was lost are never stored, also when the partition comes back", async () => {
    const store = createMemoryStore({ partitions: 1 })
    const journal = openMemory(store)
    const appends = holding(journal, "append")
    const busy = gate()
    const umbra = await open({ at: journal, engine: quick, handlers: [busy.handler] })
    const job = await umbra.submit(flow([{ id: "a", handler: "gate" }]))
    const other = await umbra.submit(flow([{ id: "a", handler: "input" }]))
    await other.wait()
    await busy.came()
    appends.hold()
    // One append under way, answered late; the result of the gate waits for it in the next batch.
    const third = umbra.submit(flow([{ id: "a", handler: "input" }]))
    third.catch(() => {})
    await until("an append is under way", () => appends.held.length === 1)
    busy.open("decided too early")
    await new Promise(resolve => setImmediate(resolve))
    const { epoch } = partitionAt(store, 0)
    // Somebody takes the partition, cancels the job, and gives it back.
    seizePartition(store, 0, null)
    const peer = openMemory(store)
    const [taken] = await peer.takePartitions({
      engine: "peer",
      expected: [{ partition: 0, epoch: epoch + 1 }],
    })
    const seq = taken!.epoch * 2 ** 34
    const at = Date.now()
    await peer.append({
      fences: [taken!],
      facts: [{ partition: 0, seq, jobId: job.id, at, type: "job_cancelled", data: "{}" }],
      newJobs: [],
      changedJobs: [
        {
          ...(await peer.readJob(job.id))!,
          seq,
          status: "CANCELLED",
          updatedAt: at,
          finishedAt: at,
          wakeAt: null,
        },
      ],
      answers: [],
      messages: [],
    })
    await peer.releasePartitions({ engine: "peer", held: [taken!] })
    await until("it has the partition again", () => partitionAt(store, 0).epoch > taken!.epoch)
    await until("and has recovered it", () => umbra.owns(job.id))
    const after = umbra.submit(flow([{ id: "a", handler: "input" }]))
    appends.letGo()
    expect((await (await after).wait()).status).toBe("COMPLETED")
    expect((await umbra.job(job.id)).status).toBe("CANCELLED")
    const types = factsOf(store, job.id).map(fact => fact.type)
    expect(types).toEqual(["job_submitted", "job_cancelled"])
    expect(umbra.owns(job.id)).toBe(true)
  })

  it("a waiting caller learns of a job's end when the job has moved to another engine", async () => {
    const store = createMemoryStore({ partitions: 1 })
    const stuck = gate()
    const journal = openMemory(store)
    const beat = journal.beat.bind(journal)
    let isSilent = false
    journal.beat = row => (isSilent ? Promise.reject(new Error("no way")) : beat(row))
    const first = await open({ at: journal, engine: quick, handlers: [stuck.handler] })
    const job = await first.submit(flow([{ id: "a", handler: "gate" }]))
    await stuck.came()
    const ended = first.wait(job.id)
    isSilent = true
    const second = await openOn(store, {
      engine: quick,
      handlers: [handler("gate", () => "from the second")],
    })
    await second.wait(job.id)
    isSilent = false
    expect((await ended).output).toEqual({ a: "from the second" })
    stuck.open("from the first")
  })
})

describe("take-over", () => {
  it("that fails half way, because the store became unavailable, is repeated", async () => {
    const store = createMemoryStore()
    const busy = gate()
    const first = await openOn(store, { handlers: [busy.handler], engine: { drainSeconds: 0.01 } })
    const job = await first.submit(flow([{ id: "a", handler: "gate" }]))
    await busy.came()
    await first.close()
    const journal = openMemory(store)
    const readFacts = journal.readFacts.bind(journal)
    let failures = 2
    journal.readFacts = (...args) =>
      failures-- > 0 ? Promise.reject(new JournalUnavailableError("away")) : readFacts(...args)
    const { log, hasLogged } = collectLog()
    const second = await open({ at: journal, log, engine: calm, handlers: [handler("gate", () => "again")] })
    expect(await second.wait(job.id, { timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED" })
    expect(hasLogged("could not adjust partitions")).toBe(true)
    busy.open()
  })

  it("wakes waiting jobs also when the messages could not be read", async () => {
    const store = createMemoryStore()
    const clock = new VirtualClock()
    const first = await openOn(store, { clock })
    const job = await first.submit(flow([{ id: "nap", handler: "sleep", config: { seconds: 60 } }]))
    await until("it has left memory", () => !first.activity(job.id).isHere)
    await first.close()
    const journal = openMemory(store)
    const readMessages = journal.readMessages.bind(journal)
    let failures = 1
    journal.readMessages = query =>
      failures-- > 0 ? Promise.reject(new JournalUnavailableError("away")) : readMessages(query)
    const second = await open({ at: journal, clock, engine: calm })
    await until("it owns the job", () => {
      clock.advance(20)
      return second.owns(job.id) && failures <= 0
    })
    clock.advance(60_000)
    expect(await second.wait(job.id, { timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED" })
  })

  describe("by an engine whose clock is behind", () => {
    const BEHIND_MS = 10_000

    /** The row of the job has the time of its timer, which had come for the engine that ran the task behind it. */
    async function takenOver() {
      const store = createMemoryStore({ partitions: 1 })
      const [ahead, stuck] = [new VirtualClock(), gate()]
      const first = await openOn(store, {
        clock: ahead,
        handlers: [stuck.handler],
        engine: { drainSeconds: 0.01 },
      })
      const job = await first.submit(
        flow([
          { id: "nap", handler: "sleep", config: { seconds: 60 } },
          { id: "after", handler: "gate", dependencies: ["nap"] },
        ]),
      )
      await until("it has left memory", () => !first.activity(job.id).isHere)
      ahead.advance(60_000)
      await stuck.came()
      await first.close()
      const clock = new VirtualClock({ start: ahead.now() - BEHIND_MS })
      const second = await openOn(store, { clock, handlers: [handler("gate", () => "again")] })
      await until("it owns the job", () => {
        clock.advance(20)
        return second.owns(job.id)
      })
      expect(jobOf(store, job.id)!.wakeAt).toBeGreaterThan(clock.now())
      return { second, clock, id: job.id, stuck }
    }

    it("continues the tasks of a job when the time in its row has come", async () => {
      const { second, clock, id, stuck } = await takenOver()
      clock.advance(BEHIND_MS)
      expect(await second.wait(id, { timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED" })
      stuck.open()
    })

    it("continues them when a command loads the job before that time", async () => {
      const { second, id, stuck } = await takenOver()
      await second.signal(id, "any", null)
      expect(await second.wait(id, { timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED" })
      stuck.open()
    })
  })

  it("does not follow an outage of the database for all engines", () => {
    let now = 0
    const peers = new Peers({ leaseMs: 10_000, beatMs: 3_000, now: () => now })
    const peer = (beat: number) => [{ engine: "peer", place: "elsewhere#1", beat, follows: false }]
    expect(peers.alive(peer(1))).toContain("peer")
    now += 3_000
    expect(peers.alive(peer(2))).toContain("peer")
    // A minute without answers; ours comes a moment before the peer's next beat.
    now += 60_000
    expect(peers.alive(peer(2))).toContain("peer")
    for (let silence = 3_000; silence < 10_000; silence += 3_000) {
      now += 3_000
      expect(peers.alive(peer(2))).toContain("peer")
    }
    now += 3_000
    expect(peers.alive(peer(2))).not.toContain("peer")
  })
})

describe("inbox", () => {
  it("a command for a job that cannot be read is refused, and those behind it are executed", async () => {
    const store = createMemoryStore({ partitions: 2 })
    const first = await openOn(store)
    const second = await openOn(store)
    await until("both own one", async () => new Set(storedPartitions(store).map(row => row.owner)).size === 2)
    const nap = flow([{ id: "a", handler: "sleep", config: { seconds: 3600 } }])
    const [bad, good] = [await first.submit(nap), await first.submit(nap)]
    await until("they have left memory", () => [bad, good].every(job => !first.activity(job.id).isHere))
    removeFact(store, factsOf(store, bad.id)[0]!)
    const refused = second.cancel(bad.id)
    const cancelled = second.cancel(good.id)
    await expect(refused).rejects.toMatchObject({ code: "E507" })
    await cancelled
    expect((await first.job(good.id)).status).toBe("CANCELLED")
  })
})

describe("memory", () => {
  it("a job that was loaded for a refused command is parked again", async () => {
    const store = createMemoryStore()
    const first = await openOn(store)
    const second = await openOn(store)
    await until(
      "both own partitions",
      async () => new Set(storedPartitions(store).map(row => row.owner)).size === 2,
    )
    const job = await first.submit(flow([{ id: "a", handler: "input" }]))
    await job.wait()
    expect(second.owns(job.id)).toBe(false)
    await expect(second.retry(job.id)).rejects.toMatchObject({ code: "E307" })
    await until("it has left memory", () => !first.activity(job.id).isHere)
  })
})
