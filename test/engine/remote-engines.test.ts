/** S1: a process without an engine, beside others that have one, on a store they share. */
import { describe, expect, it } from "vitest"
import { systemClock } from "../../src/engine/clock.ts"
import { jobPartition } from "../../src/engine/ids.ts"
import { KnownEngines } from "../../src/engine/remote/known-engines.ts"
import { RemoteCommands } from "../../src/engine/remote/remote-commands.ts"
import type { Heartbeat } from "../../src/journal/port/journal.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import type { Role } from "../../src/roles.ts"
import { openUmbra, type Umbra } from "../../src/umbra.ts"
import { waitForSignal } from "../../src/worker/waiting.ts"
import { inboxOf, jobsOf, partitionAt, putEngine, setOwner } from "../support/store-tables.ts"
import { broken, flow, gate, handler, open, openOn, until } from "./stage.ts"

const api: readonly Role[] = ["api"]
const asks = handler("asks", () => waitForSignal("approved"))
const quick = flow([{ id: "a", handler: "transform", config: { value: "{{ input.n }}" } }])

async function partitionsOf(store: ReturnType<typeof createMemoryStore>): Promise<Map<string, number>> {
  const counts = new Map<string, number>()
  for (const { owner } of await openMemory(store).readPartitions())
    if (owner !== null) counts.set(owner, (counts.get(owner) ?? 0) + 1)
  return counts
}

async function pair(options: Parameters<typeof openOn>[1] = {}) {
  const store = createMemoryStore()
  const engine = await openOn(store, options)
  await until("the engine has everything", async () => [...(await partitionsOf(store)).values()][0] === 64)
  const front = await openOn(store, { roles: api, handlers: options.handlers ?? [] })
  return { store, engine, front }
}

describe("a process without an engine", () => {
  it("S1 has every command of a job answered as if the job were its own", async () => {
    const busy = gate()
    const { front, engine } = await pair({ handlers: [busy.handler, asks, broken] })
    const done = await front.submit(quick, { n: 7 })
    expect(await done.wait()).toMatchObject({ status: "COMPLETED", output: { a: 7 } })
    expect((await front.events(done.id)).at(-1)).toMatchObject({ to: "COMPLETED" })
    await expect(front.cancel(done.id)).rejects.toMatchObject({ code: "E302" })
    await front.delete(done.id)
    expect((await front.job(done.id)).status).toBe("DELETED")

    const long = await front.submit(flow([{ id: "g", handler: "gate" }]))
    const { signal } = await busy.came()
    await expect(front.delete(long.id)).rejects.toMatchObject({ code: "E303" })
    await front.cancel(long.id, "no longer wanted")
    expect(signal.aborted).toBe(true)
    expect((await front.wait(long.id)).status).toBe("CANCELLED")
    await front.retry(long.id)
    busy.open("through")
    expect(await front.wait(long.id)).toMatchObject({ status: "COMPLETED", output: { g: "through" } })

    const asked = await front.submit(flow([{ id: "q", handler: "asks" }]))
    await until("it waits", async () => (await front.graph(asked.id)).workflow_status === "WAITING_SINGLE")
    await front.signal(asked.id, "approved", { by: "Ada" })
    expect(await front.wait(asked.id)).toMatchObject({ status: "COMPLETED", output: { q: { by: "Ada" } } })

    const failed = await front.submit(flow([{ id: "b", handler: "broken" }]))
    expect((await front.wait(failed.id)).status).toBe("FAILED")
    await expect(front.cancel("01a1e030-8ba6-7000-92de-166371451ff8")).rejects.toMatchObject({ code: "E301" })
    expect(front.health()).toMatchObject({ partitions: 0, isReady: true, liveJobs: 0 })
    expect(engine.health().partitions).toBe(64)
  })

  it("S1 answers a submission with the job as it began, and the same key with the same job, new only once", async () => {
    const { store, front } = await pair()
    const other = await openOn(store, { roles: api })
    const { stored } = await front.accept(quick, { n: 1 }, { labels: { team: "a" }, priority: 3 })
    expect(stored?.began).toMatchObject({
      status: "PROCESSING",
      labels: { team: "a" },
      priority: 3,
      finished_at: null,
    })
    expect(stored!.began.created_at).toBe((await front.job(stored!.began.job_id)).created_at)
    const both = await Promise.all(
      Array.from({ length: 10 }, (_, n) =>
        (n % 2 ? front : other).accept(quick, { n: 1 }, { idempotencyKey: "k" }),
      ),
    )
    expect(new Set(both.map(({ jobId }) => jobId)).size).toBe(1)
    expect(both.filter(({ isNew }) => isNew)).toHaveLength(1)
    await expect(front.accept(quick, { n: 2 }, { idempotencyKey: "k" })).rejects.toMatchObject({
      code: "E306",
    })
  })

  it("S2 a key that comes at once to the engine and to a process beside it gives a job that is new only once", async () => {
    const store = createMemoryStore()
    const journal = openMemory(store)
    const { readFacts, readMessages } = journal
    let letLook: () => void = () => {}
    const mayLook = new Promise<void>(resolve => {
      letLook = resolve
    })
    let looks = 0
    journal.readFacts = async (...asked) => {
      looks++
      await mayLook
      return readFacts.apply(journal, asked)
    }
    let received = 0
    journal.readMessages = async (...asked) => {
      const messages = await readMessages.apply(journal, asked)
      received += messages.length
      return messages
    }
    const engine = await open({ at: journal, engine: { beatSeconds: 0.02, leaseSeconds: 2 } })
    const front = await openOn(store, { roles: api, engine: { leaseSeconds: 2 } })
    await until("the other knows the engine", () => front.health().isReady)
    const mine = engine.accept(quick, { n: 1 }, { idempotencyKey: "k" })
    await until("the engine looks whether there is such a job", () => looks > 0)
    const theirs = front.accept(quick, { n: 1 }, { idempotencyKey: "k" })
    await until("it has been asked for the same", () => received > 0)
    for (let turn = 0; turn < 5; turn++) await new Promise(resolve => setImmediate(resolve))
    letLook()
    const both = await Promise.all([mine, theirs])
    expect(both[0].jobId).toBe(both[1].jobId)
    expect(both.filter(({ isNew }) => isNew)).toHaveLength(1)
  })

  it("J5 a key whose job another process has just submitted is answered when that job is durable, not before", async () => {
    const store = createMemoryStore()
    const journal = openMemory(store)
    const { append } = journal
    let letAppend: () => void = () => {}
    let appends = 0
    const engine = await open({ at: journal, engine: { beatSeconds: 0.02, leaseSeconds: 2 } })
    const front = await openOn(store, { roles: api, engine: { leaseSeconds: 2 } })
    await engine.register(quick)
    await until("the other knows the engine", () => front.health().isReady)
    const mayAppend = new Promise<void>(resolve => {
      letAppend = resolve
    })
    journal.append = async batch => {
      appends++
      await mayAppend
      return append.call(journal, batch)
    }
    const theirs = front.accept(quick, { n: 1 }, { idempotencyKey: "k" })
    await until("the engine stores the job", () => appends > 0)
    let isAnswered = false
    const mine = engine.accept(quick, { n: 1 }, { idempotencyKey: "k" }).finally(() => {
      isAnswered = true
    })
    for (let turn = 0; turn < 20; turn++) await new Promise(resolve => setImmediate(resolve))
    expect(isAnswered).toBe(false)
    letAppend()
    const { jobId, isNew } = await mine
    expect(isNew).toBe(false)
    expect((await engine.job(jobId)).job_id).toBe((await theirs).jobId)
  })

  it("S1 owns no partition and is not counted when they are shared; new jobs go to all engines", async () => {
    const { store, front } = await pair()
    await openOn(store)
    const isHalf = ({ partitions }: { readonly partitions: number }) => partitions === 32
    await until("it knows that both engines have half", () => {
      const workers = front.workers()
      return workers.length === 2 && workers.every(isHalf)
    })
    const owners = await openMemory(store).readPartitions()
    const jobs = await Promise.all(Array.from({ length: 40 }, (_, n) => front.submit(quick, { n })))
    const taken = jobs.map(({ id }) => owners[jobPartition(id)]!.owner)
    for (const owner of new Set(owners.map(row => row.owner)))
      expect(taken.filter(other => other === owner).length).toBe(20)
    for (const job of jobs) expect((await job.wait()).status).toBe("COMPLETED")
  })

  it("S1 a job for an engine that has just died goes to another, and only there", async () => {
    const store = createMemoryStore()
    const engine = { leaseSeconds: 2, beatSeconds: 0.1 }
    // It beats once, and never again. Its host is another: nobody can see that its process is gone.
    putEngine(store, { engine: "dead", place: "{}", beat: Date.now(), follows: false })
    setOwner(store, "dead", 32)
    await openOn(store, { engine })
    const front = await openOn(store, { roles: api, engine })
    const jobs = await Promise.all(Array.from({ length: 4 }, (_, n) => front.submit(quick, { n })))
    // Nobody has taken over yet.
    expect(partitionAt(store, 63).owner).toBe("dead")
    for (const job of jobs) expect((await job.wait()).status).toBe("COMPLETED")
    expect(jobsOf(store)).toHaveLength(4)
  })

  it("S1 without any engine refuses at once, and continues when one starts", async () => {
    const store = createMemoryStore()
    const front = await openOn(store, { roles: api })
    await expect(front.submit(quick, { n: 1 })).rejects.toMatchObject({ code: "E610", status: 503 })
    // At once: it would wait for a lease if an engine lived, and this one is longer than the test may take.
    const patient = await openOn(store, { roles: api, engine: { leaseSeconds: 3600 } })
    await expect(patient.submit(quick, { n: 1 })).rejects.toMatchObject({ code: "E610", status: 503 })
    await patient.close()
    const engine = await openOn(store)
    const submitted = async () => front.submit(quick, { n: 1 }).catch(() => null)
    await until("it is taken", async () => (await submitted()) !== null)
    const job = await front.submit(flow([{ id: "q", handler: "transform", config: { value: 1 } }]))
    await job.wait()
    await engine.close()
    await until("nobody is there any more", async () => (await submitted()) === null)
    // What is asked of a job whose engine has gone is taken back, not left to happen some day.
    await expect(front.retry(job.id)).rejects.toMatchObject({ code: "E610" })
  })

  it("S1 a submission waits for a live engine that has not taken its partitions yet, and not for ever", async () => {
    const store = createMemoryStore()
    // It is starting: it beats, and owns nothing.
    putEngine(store, { engine: "starting", place: "{}", beat: Date.now() + 60_000, follows: false })
    const front = await openOn(store, { roles: api, engine: { beatSeconds: 0.05, leaseSeconds: 60 } })
    const early = front.submit(quick, { n: 1 })
    await new Promise(resolve => setTimeout(resolve, 200))
    expect(front.health().hasTaker).toBe(false)
    setOwner(store, "starting")
    await until("it is known", () => front.health().hasTaker)
    setOwner(store, null)
    store.stores.journal.leave("starting")
    await openOn(store)
    expect(await (await early).wait()).toMatchObject({ status: "COMPLETED" })

    const alone = createMemoryStore()
    putEngine(alone, { engine: "idle", place: "{}", beat: Date.now() + 60_000, follows: false })
    const impatient = await openOn(alone, { roles: api, engine: { beatSeconds: 0.05, leaseSeconds: 0.4 } })
    await expect(impatient.submit(quick, { n: 1 })).rejects.toMatchObject({ code: "E610" })
  })

  it("S1 jobs of other processes wait in the store while an engine is full", async () => {
    const busy = gate()
    const { front, engine } = await pair({ handlers: [busy.handler], engine: { maxLiveJobs: 2 } })
    const long = flow([{ id: "g", handler: "gate" }])
    const jobs = [await front.submit(long), await front.submit(long)]
    await busy.came(2)
    const waiting = await front.submit(long)
    expect((await waiting.status()).status).toBe("QUEUED")
    busy.open()
    for (const { id } of jobs) expect((await engine.wait(id)).status).toBe("COMPLETED")
    expect((await waiting.wait()).status).toBe("COMPLETED")
  })

  it("S1 accepts workflows with handlers of live workers, and no others", async () => {
    const known = handler("known", () => 1)
    const store = createMemoryStore()
    await openOn(store, { handlers: [known] })
    const front = await openOn(store, { roles: api })
    const named = (name: string) => flow([{ id: "k", handler: name }], { name })
    await until("the worker is known", () => front.workers()[0]?.partitions === 64)
    expect(await (await front.submit(named("known"))).wait()).toMatchObject({ output: { k: 1 } })
    await expect(front.submit(named("unheard_of"))).rejects.toMatchObject({ code: "E103" })
  })

  it("S1 is refused on an exclusive store", async () => {
    await expect(openUmbra("memory:", { roles: api })).rejects.toMatchObject({
      code: "E620",
      message: expect.stringContaining("Use PostgreSQL"),
    })
    await expect(openUmbra("memory:", { roles: ["queen" as Role] })).rejects.toMatchObject({
      code: "E620",
      message: expect.stringContaining("api, webhooks, engine, worker"),
    })
  })
})

describe("a process without a worker", () => {
  const say = handler("say", () => 1)

  it("S1 accepts jobs and runs none of their handlers: each node shows which one it waits for", async () => {
    const store = createMemoryStore()
    const umbra = await openOn(store, { roles: ["engine"], handlers: [say] })
    const job = await umbra.submit(flow([{ id: "a", handler: "say" }]))
    const { nodes, workflow_status } = await umbra.graph(job.id)
    expect(workflow_status).toBe("READY_TO_RESUME")
    expect(nodes[0]!.waiting_on).toEqual({ kind: "worker", handler: "say" })
    expect(umbra.workers()).toEqual([])
    await umbra.close()
    const whole = await openOn(store, { handlers: [say] })
    expect((await whole.wait(job.id)).status).toBe("COMPLETED")
  })

  it("S1 runs nodes that only compute itself, in the commit that made them ready", async () => {
    const umbra = await openOn(createMemoryStore(), { roles: ["engine"] })
    const { stored } = await umbra.accept(quick, { n: 7 })
    expect(stored!.ended).toMatchObject({ status: "COMPLETED", output: { a: 7 } })
    expect(umbra.workers()).toEqual([])
  })
})

describe("engines that share partitions", () => {
  const counts = async (store: ReturnType<typeof createMemoryStore>) =>
    [...(await partitionsOf(store)).values()].sort((a, b) => a - b)

  it("S1 never differ by more than one, however many start and stop", async () => {
    const store = createMemoryStore()
    const engines: Umbra[] = []
    const fair = (count: number) => {
      const even = Math.floor(64 / count)
      return Array.from({ length: count }, (_, n) => even + (n >= count - (64 % count) ? 1 : 0))
    }
    for (let count = 1; count <= 5; count++) {
      engines.push(await openOn(store))
      await until(`${count} are fair`, async () => `${await counts(store)}` === `${fair(count)}`)
    }
    await Promise.all([engines[1]!.close(), engines[3]!.close()])
    await until("the other three are fair", async () => `${await counts(store)}` === `${fair(3)}`)
  })

  it("S1 one that shuts down hands over idle partitions at once, while a handler of another job still runs", async () => {
    const store = createMemoryStore()
    const busy = gate()
    const leaving = await openOn(store, { handlers: [busy.handler] })
    const staying = await openOn(store, { handlers: [busy.handler] })
    await until("both have half", async () => `${await counts(store)}` === "32,32")
    const long = await leaving.submit(flow([{ id: "g", handler: "gate" }]))
    await busy.came()
    expect(leaving.owns(long.id)).toBe(true)
    const closing = leaving.close()
    await until("all but the busy one are with the other", () => staying.health().partitions === 63)
    busy.open()
    await closing
    expect(await staying.wait(long.id)).toMatchObject({ status: "COMPLETED" })
    expect((await staying.graph(long.id)).nodes[0]).toMatchObject({ attempt: 1, losses: 0 })
  })
})

describe("commands to other engines", () => {
  function counted() {
    const store = createMemoryStore()
    const journal = openMemory(store)
    const calls = { sendMessages: 0, readAnswers: 0 }
    for (const verb of ["sendMessages", "readAnswers"] as const) {
      const send = journal[verb].bind(journal) as (...args: unknown[]) => Promise<never>
      Object.assign(journal, {
        [verb]: (...args: unknown[]) => {
          calls[verb]++
          return new Promise(resolve => setTimeout(resolve, 5)).then(() => send(...args))
        },
      })
    }
    return { store, journal, calls }
  }

  it("a hundred at once cost a few statements, and leave nothing behind once they are answered", async () => {
    const { store, journal, calls } = counted()
    await openOn(store, { roles: ["engine"] })
    await until("somebody owns them", async () => [...(await partitionsOf(store)).values()][0] === 64)
    const questions = new RemoteCommands({ journal, clock: systemClock })
    const ids = Array.from({ length: 100 }, (_, n) => `01a1e030-8ba6-70${n % 3}0-92de-16637145${1000 + n}`)
    const begun = performance.now()
    const answers = await Promise.all(ids.map(id => questions.execute(id, { type: "retry" }, 60_000)))
    expect(answers).toEqual(ids.map(() => ({ refused: "no_such_job" })))
    expect(calls.sendMessages).toBe(1)
    // Polls for all of them, at first every 2 ms, then less and less often: 13 polls until they are 250 ms apart.
    expect(calls.readAnswers).toBeLessThanOrEqual(13 + (performance.now() - begun) / 250)
    await until("they are gone", () => inboxOf(store).length === 0)
  })

  it("one that is not answered in time is withdrawn", async () => {
    const { store, journal } = counted()
    const questions = new RemoteCommands({ journal, clock: systemClock })
    const id = "01a1e030-8ba6-7000-92de-166371451f10"
    await expect(questions.execute(id, { type: "retry" }, 50)).rejects.toMatchObject({ code: "E613" })
    expect(inboxOf(store)).toMatchObject([{ withdrawn: true, answer: null }])
  })
})

describe("ownership according to heartbeats", () => {
  const now = 1_000_000
  const engine = (id: string, beat: number, place = "{}") => ({ engine: id, beat, place, follows: false })
  const owners = () => new KnownEngines({ leaseMs: 10_000, beatMs: 3000, now: () => now, random: () => 0 })
  const rows = (...list: (string | null)[]): Heartbeat["partitions"] =>
    list.map((owner, partition) => ({ partition, owner, epoch: 1 }))

  it("an engine that was silent before this process started gets no command, one that is about to end gets no new job", () => {
    const known = owners()
    expect(known.mayAnswer).toBe(true)
    known.receive({ engines: [engine("a", now - 20_000)], partitions: rows("a", "a"), inbox: [] })
    expect([known.pick(), known.mayAnswer]).toEqual([null, false])
    const leaving = JSON.stringify({ takes_partitions: false })
    const engines = [engine("b", now), engine("c", now, leaving), engine("d", now, leaving)]
    known.receive({ engines, partitions: rows("c", "b", null), inbox: [] })
    expect([known.pick(), known.pick(), known.mayAnswer]).toEqual([1, 1, true])
    known.receive({ engines: engines.slice(1), partitions: rows("c", null, null), inbox: [] })
    expect([known.pick(), known.mayAnswer]).toEqual([null, true])
    known.receive({ engines: engines.slice(2), partitions: rows("c", null, null), inbox: [] })
    expect(known.mayAnswer).toBe(false)
  })
})
