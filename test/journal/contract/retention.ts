import { describe, expect, it } from "vitest"
import { answerOf, batch, type Held, hold, newId, newJob, type Stage, sendOne, store } from "../fixture.ts"

/** Other tests of the suite live after time 1,000; this one before. */
export function retentionContract(stage: () => Stage): void {
  /** There are more tests than partitions: some share one. */
  let shared: Promise<Held> | undefined
  const common = () => {
    shared ??= hold(stage().journal)
    return shared
  }

  describe("purge", () => {
    it("J17 removes jobs that ended before the limit, oldest first, with their facts", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const ended = (counter: number, finishedAt: number) =>
        newJob(held, counter, { status: "COMPLETED", finishedAt })
      const [second, first, third, later] = [ended(1, 20), ended(2, 10), ended(3, 30), ended(4, 40)]
      const running = newJob(held, 5)
      await store(journal, held, [second, first, third, later, running])
      const query = { partitions: [held.partition], before: 40, unsettledBefore: 0 }
      const ids = (limit: number) => journal.endedJobs({ ...query, limit })
      const purge = async (limit: number) =>
        journal.purge({ fences: [held], jobIds: await ids(limit), before: 40 })
      expect(await purge(2)).toBe(2)
      expect(await journal.readJob(first.id)).toBeNull()
      expect(await journal.readJob(second.id)).toBeNull()
      expect(await journal.readFacts([first.id, second.id])).toEqual([])
      expect(await journal.readJob(third.id)).toEqual(third)
      expect(await purge(2)).toBe(1)
      expect(await purge(2)).toBe(0)
      expect((await journal.readFacts([later.id, running.id])).length).toBe(2)
    })

    it("J17 only the owner removes: not with an epoch that has passed, not what was retried meanwhile", async () => {
      const { journal, peer } = stage()
      const [held, other] = [await hold(journal), await hold(journal)]
      const ended = (of: typeof held, counter: number) =>
        newJob(of, counter, { status: "FAILED", finishedAt: 10 })
      const [mine, retried, theirs] = [ended(held, 1), ended(held, 2), ended(other, 1)]
      await store(journal, held, [mine, retried])
      await store(journal, other, [theirs])
      const query = { partitions: [held.partition], before: 40, unsettledBefore: 0, limit: 10 }
      const found = await peer.endedJobs(query)
      expect(found.sort()).toEqual([mine.id, retried.id].sort())
      const purge = (fences: readonly (typeof held)[]) =>
        peer.purge({ fences, jobIds: [...found, theirs.id], before: 40 })
      expect(await purge([{ ...held, epoch: held.epoch - 1 }])).toBe(0)
      const changedJobs = [{ ...retried, seq: held.seq(3), status: "QUEUED" as const, finishedAt: null }]
      await journal.append(batch(held, { changedJobs }))
      expect(await purge([held])).toBe(1)
      expect(await journal.readFacts([mine.id])).toEqual([])
      expect((await journal.readFacts([retried.id, theirs.id])).length).toBe(2)
      expect(await journal.readJob(theirs.id)).toEqual(theirs)
    })

    it("J14 J17 never removes a child before its parent, which may be retried", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const parent = newJob(held, 1)
      const child = newJob(held, 2, { parentId: parent.id, status: "COMPLETED", finishedAt: 10 })
      const orphan = newJob(held, 3, { parentId: newId(), status: "COMPLETED", finishedAt: 10 })
      await store(journal, held, [parent, child, orphan])
      const query = { partitions: [held.partition], unsettledBefore: 0, limit: 10 }
      const purge = async (before = 40) =>
        journal.purge({ fences: [held], jobIds: await journal.endedJobs({ ...query, before }), before })
      expect(await purge()).toBe(1)
      expect(await journal.readJob(child.id)).toEqual(child)
      const changedJobs = [{ ...parent, seq: held.seq(4), status: "COMPLETED" as const, finishedAt: 100 }]
      await journal.append(batch(held, { changedJobs }))
      expect(await purge()).toBe(0)
      await purge(101)
      expect(await journal.readJob(parent.id)).toBeNull()
      expect(await journal.readJob(child.id)).not.toBeNull()
      await purge(101)
      expect(await journal.readJob(child.id)).toBeNull()
    })

    it("J17 keeps the keys of jobs that are there, whether they run or have ended", async () => {
      const { journal } = stage()
      const held = await common()
      const [running, ended] = [newJob(held, 1), newJob(held, 2, { status: "COMPLETED", finishedAt: 50 })]
      await store(journal, held, [running, ended])
      const claim = (jobId: string, key: string) =>
        journal.claimKey({ owner: "kept", key, jobId, fingerprint: key, createdAt: 10 })
      for (const { id } of [running, ended]) await claim(id, `of ${id}`)
      const tidy = () => journal.tidy({ before: 60, unsettledBefore: 0, silentSince: 0 })
      await tidy()
      for (const { id } of [running, ended])
        expect(await claim(newId(), `of ${id}`)).toMatchObject({ jobId: id })
      expect(await journal.purge({ fences: [held], jobIds: [ended.id], before: 60 })).toBe(1)
      await tidy()
      const next = newId()
      expect(await claim(next, `of ${ended.id}`)).toMatchObject({ jobId: next })
      expect(await claim(next, `of ${running.id}`)).toMatchObject({ jobId: running.id })
    })

    it("J14 J17 keeps a job that has ended until those who are to know of it do", async () => {
      const { journal } = stage()
      const held = await common()
      const telling = newJob(held, 3, { status: "CANCELLED", finishedAt: 10, wakeAt: 0 })
      await store(journal, held, [telling])
      const query = { partitions: [held.partition], before: 40, unsettledBefore: 40, limit: 10 }
      const isPurged = async () => (await journal.endedJobs(query)).includes(telling.id)
      expect(await isPurged()).toBe(false)
      await journal.append(batch(held, { changedJobs: [{ ...telling, seq: held.seq(4), wakeAt: null }] }))
      expect(await isPurged()).toBe(true)
    })

    it("removes old keys and settled messages, never an open one", async () => {
      const { journal } = stage()
      const held = await common()
      const { partition } = held
      const claim = (key: string, createdAt: number) =>
        journal.claimKey({ owner: "purged", key, jobId: newId(), fingerprint: key, createdAt })
      const [oldKey, newKey] = [await claim("old", 10), await claim("new", 50)]
      const send = (sentAt: number) => sendOne(journal, { partition, jobId: newId(), command: "{}", sentAt })
      const [answered, recent, open, withdrawn] = [
        await send(10),
        await send(50),
        await send(10),
        await send(10),
      ]
      const answers = [answered, recent].map(messageId => ({ messageId, partition, answer: "1" }))
      await journal.append(batch(held, { answers }))
      await journal.withdrawMessage(withdrawn)

      await journal.tidy({ before: 40, unsettledBefore: 0, silentSince: 0 })
      expect((await claim("old", 60)).jobId).not.toBe(oldKey.jobId)
      expect(await claim("new", 60)).toEqual(newKey)
      expect(await answerOf(journal, answered)).toBeNull()
      expect(await answerOf(journal, recent)).toBe("1")
      expect((await journal.readMessages({ partitions: [partition], limit: 10 })).map(row => row.id)).toEqual(
        [open],
      )
      expect(await journal.withdrawMessage(withdrawn)).toBe(false)
    })

    it("forgets engines that own nothing and whose beat stands still", async () => {
      const { journal, peer } = stage()
      const { engine } = await hold(journal)
      const purge = (silentSince = 10) => journal.tidy({ before: 0, unsettledBefore: 0, silentSince })
      const others = async () =>
        (await peer.beat({ engine: "observer", place: "x", beat: 1, follows: false })).engines.map(
          other => other.engine,
        )
      await journal.beat({ engine, place: "x", beat: 1, follows: false })
      await journal.beat({ engine: "dead", place: "x", beat: 1, follows: false })
      await journal.beat({ engine: "idle", place: "x", beat: 1, follows: false })
      await purge()
      expect(await others()).toEqual(expect.arrayContaining([engine, "dead", "idle"]))
      await journal.beat({ engine: "idle", place: "x", beat: 2, follows: false })
      await purge(0)
      expect(await others()).toContain("dead")
      await journal.beat({ engine: "idle", place: "x", beat: 3, follows: false })
      await purge()
      const left = await others()
      expect(left).toEqual(expect.arrayContaining([engine, "idle"]))
      expect(left).not.toContain("dead")
    })
  })
}
