/** What two processes do to each other at the same moment, made to happen with real locks. */
import { randomUUID } from "node:crypto"
import { describe, expect, it } from "vitest"
import { JournalUnavailableError } from "../../src/journal/errors.ts"
import { batch, change, fact, hold, newJob, store } from "./fixture.ts"
import { postgresStage } from "./postgres-stage.ts"

describe("PostgreSQL under concurrency", () => {
  /** An append that has its fence and now waits, because a bystander has locked the job it changes. */
  async function appendInFlight(options = {}) {
    const stage = await postgresStage()
    const journal = await stage.open({ retry: { tries: 1 }, ...options })
    const held = await hold(journal)
    const job = newJob(held, 1)
    await store(journal, held, [job])
    await stage.bystander.query("begin")
    await stage.bystander.query("select from umbra.jobs where id = $1 for update", [job.id])
    const done = change(job, { seq: held.seq(3), status: "COMPLETED" })
    const facts = [fact(held, 2, { jobId: job.id }), fact(held, 3, { jobId: job.id })]
    const sent = batch(held, { facts, changedJobs: [done] })
    const append = journal.append(sent)
    append.catch(() => {})
    const [pid = 0] = await stage.waitingForLock()
    return { ...stage, journal, held, job, done, sent, append, pid }
  }

  it("a take-over waits for an append in flight, which is then stored whole", async () => {
    const { open, bystander, waitingForLock, journal, held, job, done, append } = await appendInFlight()
    const peer = await open()
    let taken = false
    const take = peer.takePartitions({ engine: "successor", expected: [held] }).then(result => {
      taken = true
      return result
    })
    await waitingForLock(2)
    expect(taken).toBe(false)
    await bystander.query("commit")
    expect(await append).toEqual({ held: new Set([held.partition]), inserted: 2 })
    expect(await take).toEqual([{ partition: held.partition, epoch: held.epoch + 1 }])
    expect(await journal.readJob(job.id)).toEqual({ ...job, ...done })
    expect((await journal.append(batch(held, { facts: [fact(held, 4)] }))).held).toEqual(new Set())
  })

  it("an append that waited for a take-over sees the new epoch and writes nothing", async () => {
    const { open, bystander, waitingForLock } = await postgresStage()
    const journal = await open()
    const [lost, kept] = [await hold(journal), await hold(journal)]
    await bystander.query("begin")
    await bystander.query("update umbra.partitions set epoch = epoch + 1, owner = 'x' where id = $1", [
      lost.partition,
    ])
    const facts = [fact(lost, 1), fact(kept, 1)]
    const append = journal.append(batch([lost, kept], { facts }))
    await waitingForLock()
    await bystander.query("commit")
    expect(await append).toEqual({ held: new Set([kept.partition]), inserted: 1 })
    expect(await journal.readFacts([facts[0]!.jobId])).toEqual([])
  })

  it("an append that waited for a pause of its schedule does not queue a tick", async () => {
    const { open, bystander, waitingForLock } = await postgresStage()
    const journal = await open()
    const held = await hold(journal)
    const id = randomUUID()
    const base = { id, partition: held.partition, lastTick: 100, nextAt: 200 }
    await journal.schedules.create({ ...base, owner: "ada", name: "s", document: "{}", createdAt: 1 })
    await bystander.query("begin")
    await bystander.query("update umbra.schedules set paused_at = 150, revision = 2 where id = $1", [id])
    const reason = "the job before it had not ended"
    const append = journal.append(
      batch(held, {
        facts: [fact(held, 1)],
        schedules: [
          { ...base, revision: 1, lastTick: 200, queuedTick: 200, lastJob: null, startedTick: null },
        ],
        fires: [
          {
            ...{ scheduleId: id, partition: held.partition, tick: 200, kind: "tick", at: 200 },
            ...{ outcome: "queued", jobId: null, reason, count: 1 },
          },
        ],
      }),
    )
    await waitingForLock()
    await bystander.query("commit")
    await append
    expect(await journal.schedules.fires({ scheduleId: id, limit: 10 })).toMatchObject([
      { tick: 200, outcome: "skipped", reason: "the schedule was paused" },
    ])
    expect(await journal.schedules.read({ owner: "ada", name: "s" })).toMatchObject({ queuedTick: null })
  })

  it("a pause that waited for an append skips the tick that it queued", async () => {
    const { open, bystander, waitingForLock } = await postgresStage()
    const journal = await open()
    const { partition } = await hold(journal)
    const id = randomUUID()
    const created = { id, partition, owner: "ada", name: "s", document: "{}", createdAt: 1 }
    await journal.schedules.create({ ...created, lastTick: 100, nextAt: 200 })
    await bystander.query("begin")
    await bystander.query("update umbra.schedules set last_tick = 200, queued_tick = 200 where id = $1", [id])
    await bystander.query("insert into umbra.fires values ($1, 200, 'tick', 200, 'queued', null, null, 1)", [
      id,
    ])
    const edit = { id, revision: 1, document: "{}", updatedAt: 210, pausedAt: 210, lastTick: 100 }
    const change = journal.schedules.change({ ...edit, nextAt: null, dropsQueued: true })
    await waitingForLock()
    await bystander.query("commit")
    expect(await change).toBe(true)
    expect(await journal.schedules.fires({ scheduleId: id, limit: 10 })).toMatchObject([
      { tick: 200, outcome: "skipped", at: 210, reason: "the schedule was paused" },
    ])
  })

  it("X7 a connection killed in mid-append loses nothing: sent again, each fact is stored once", async () => {
    const { bystander, journal, held, job, done, sent, append, pid } = await appendInFlight()
    await bystander.query("select pg_terminate_backend($1)", [pid])
    await expect(append).rejects.toBeInstanceOf(JournalUnavailableError)
    await bystander.query("commit")
    expect(await journal.readFacts([job.id])).toHaveLength(1)
    expect(await journal.append(sent)).toEqual({ held: new Set([held.partition]), inserted: 2 })
    expect(await journal.append(sent)).toEqual({ held: new Set([held.partition]), inserted: 0 })
    expect(await journal.readFacts([job.id])).toHaveLength(3)
    expect(await journal.readJob(job.id)).toEqual({ ...job, ...done })
  })

  it("X7 a batch sent again while its first sending still runs is stored once", async () => {
    const { open, bystander, waitingForLock, held, job, sent, append } = await appendInFlight()
    const peer = await open()
    const again = peer.append(sent)
    await waitingForLock(2)
    await bystander.query("commit")
    const results = await Promise.all([append, again])
    expect(results.map(result => result.held)).toEqual(Array(2).fill(new Set([held.partition])))
    expect(results.map(result => result.inserted).sort()).toEqual([0, 2])
    expect(await peer.readFacts([job.id])).toHaveLength(3)
  })

  it("X7 an append without an answer ends by the time limit, and the next has a new connection", async () => {
    const { bystander, journal, held, append, sent } = await appendInFlight({ queryTimeoutMs: 2000 })
    await expect(append).rejects.toBeInstanceOf(JournalUnavailableError)
    await bystander.query("commit")
    expect((await journal.append(sent)).held).toEqual(new Set([held.partition]))
  })

  it("J17 an append does not wait for a purge of its partition that is under way, nor for one of facts", async () => {
    const { open, bystander, waitingForLock } = await postgresStage()
    const [journal, peer] = [await open(), await open()]
    const held = await hold(journal)
    const [ended, large, other] = [1, 2, 3].map(counter =>
      newJob(held, counter * 10, { status: "COMPLETED", finishedAt: 10 }),
    )
    const facts = [1, 2, 3].map(counter => fact(held, counter, { jobId: large!.id }))
    await journal.append(batch(held, { facts, newJobs: [large!] }))
    await store(journal, held, [ended!, other!])
    const purge = (id: string) => peer.purge({ fences: [held], jobIds: [id], before: 40, limit: 2 })
    expect(await purge(large!.id)).toBe(1)
    await bystander.query("begin")
    await bystander.query("select from umbra.jobs where id = $1 for update", [ended!.id])
    await bystander.query("select from umbra.journal where job_id = $1 for update", [large!.id])
    const purging = [purge(ended!.id), peer.purgeFacts({ limit: 10 })]
    await waitingForLock(2)
    const job = newJob(held, 50)
    await store(journal, held, [job])
    await journal.append(batch(held, { changedJobs: [change(job, { seq: held.seq(51), finishedAt: 60 })] }))
    expect(await purge(other!.id)).toBe(1)
    await bystander.query("commit")
    expect(await Promise.all(purging)).toEqual([1, 2])
  })

  it("two appends over the same partitions do not wait for each other", async () => {
    const { open, bystander, waitingForLock, held, append } = await appendInFlight()
    const peer = await open()
    expect((await peer.append(batch(held, { facts: [fact(held, 9)] }))).inserted).toBe(1)
    await waitingForLock(1)
    await bystander.query("commit")
    await append
  })

  it("J20 an alias that is made while its workflow is being deleted does not outlive it", async () => {
    const { open, bystander, waitingForLock } = await postgresStage()
    const [journal, peer] = [await open(), await open()]
    const key = { owner: "o", name: "flow" }
    await journal.putWorkflow({ ...key, hash: "a", definition: "{}", createdAt: 1 })
    const alias = { ...key, alias: "stable", targets: [{ version: 1, weight: 1 }], at: 2, by: "me" }
    // The same alias, about to be made by somebody who then thinks better of it: ours has its locks and waits.
    await bystander.query("begin")
    await bystander.query(
      "insert into umbra.aliases (owner, name, alias, moved_at, moved_by, targets) values ('o', 'flow', 'stable', 1, 'x', '[]')",
    )
    const put = journal.registry.putAlias(alias)
    await waitingForLock()
    const remove = peer.registry.deleteWorkflow({ ...key, at: 3, by: "me" })
    await waitingForLock(2)
    await bystander.query("rollback")
    expect([await put, await remove]).toEqual([{ moved: true, missing: [] }, true])
    expect(await peer.registry.readLatest(key)).toBeNull()
    expect(await peer.registry.listAliases(key)).toEqual([])
    expect(await peer.registry.listAliasMoves({ ...alias, limit: 9 })).toMatchObject([
      { at: 3, to: null },
      { at: 2, from: null },
    ])
  })
})
