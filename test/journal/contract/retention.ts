import { describe, expect, it } from "vitest"
import {
  answerOf,
  batch,
  fact,
  freeJobs,
  type Held,
  hold,
  newId,
  newJob,
  type Stage,
  sendMessage,
  store,
} from "../fixture.ts"

export function retentionContract(stage: () => Stage): void {
  describe("purge", () => {
    it("J17 removes jobs that ended before the limit, oldest first, with their facts", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const ended = (counter: number, finishedAt: number) =>
        newJob(held, counter, { status: "COMPLETED", finishedAt })
      const [second, first, third, later] = [ended(1, 20), ended(2, 10), ended(3, 30), ended(4, 40)]
      const running = newJob(held, 5)
      await store(journal, held, [second, first, third, later, running])
      const purge = async (count: number) => {
        const jobIds = (await freeJobs(journal, held, { before: 40 })).slice(0, count)
        return journal.purge({ fences: [held], jobIds, before: 40, limit: 100 })
      }
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
      const found = await freeJobs(peer, held, { before: 40 })
      expect(found.sort()).toEqual([mine.id, retried.id].sort())
      const purge = (fences: readonly (typeof held)[]) =>
        peer.purge({ fences, jobIds: [...found, theirs.id], before: 40, limit: 100 })
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
      const purge = async (before = 40) => {
        const jobIds = await freeJobs(journal, held, { before })
        return journal.purge({ fences: [held], jobIds, before, limit: 100 })
      }
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

    it("J17 keeps the keys of jobs that are there, whether they run or have ended, and removes them with the job", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const [running, ended] = [newJob(held, 1), newJob(held, 2, { status: "COMPLETED", finishedAt: 50 })]
      await store(journal, held, [running, ended])
      const claim = (jobId: string, key: string) =>
        journal.claimKey({ owner: "kept", key, jobId, fingerprint: key, createdAt: 10 })
      for (const { id } of [running, ended]) await claim(id, `of ${id}`)
      await journal.purgeKeys({ before: 60, after: null, limit: 10_000 })
      for (const { id } of [running, ended])
        expect(await claim(newId(), `of ${id}`)).toMatchObject({ jobId: id })
      expect(await journal.purge({ fences: [held], jobIds: [ended.id], before: 60, limit: 100 })).toBe(1)
      const next = newId()
      expect(await claim(next, `of ${ended.id}`)).toMatchObject({ jobId: next })
      expect(await claim(next, `of ${running.id}`)).toMatchObject({ jobId: running.id })
    })

    it("J17 reads ended jobs in pages, with those of other partitions and those that are kept", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const ended = (counter: number, over = {}) =>
        newJob(held, counter, { status: "COMPLETED", finishedAt: 600 + (counter >> 1), ...over })
      const parent = newJob(held, 9)
      // Two of each time: the order is that of their ids.
      const jobs = [ended(0), ended(1, { wakeAt: 0 }), ended(2), ended(3, { parentId: parent.id }), ended(4)]
      await store(journal, held, [parent, ...jobs])
      const query = { partitions: [held.partition], before: 603, unsettledBefore: 0, limit: 4 }
      const start = { after: { finishedAt: 599, id: newId() } }
      const first = await journal.endedJobs({ ...query, ...start })
      expect(first).toEqual(
        [true, false, true, false].map((isFree, n) => ({
          ...{ id: jobs[n]!.id, finishedAt: jobs[n]!.finishedAt, isMine: true, isFree },
        })),
      )
      expect(await journal.endedJobs({ ...query, after: first.at(-1)! })).toEqual([
        { id: jobs[4]!.id, finishedAt: 602, isMine: true, isFree: true },
      ])
      expect(await journal.endedJobs({ ...query, limit: 1, after: first[1]! })).toEqual([first[2]!])
      const others = await journal.endedJobs({ ...query, ...start, partitions: [held.partition + 1] })
      expect(others.map(({ id, isMine, isFree }) => [id, isMine, isFree])).toEqual(
        jobs.slice(0, 4).map(({ id }) => [id, false, false]),
      )
    })

    /** Jobs that ended at 10 with this number of facts each. */
    async function endedWith(held: Held, counts: readonly number[]): Promise<string[]> {
      const jobs = counts.map((count, index) =>
        newJob(held, 1000 * index + count, { status: "COMPLETED", finishedAt: 10 }),
      )
      const facts = jobs.flatMap(({ id: jobId }, index) =>
        Array.from({ length: counts[index]! }, (_, n) => fact(held, 1000 * index + n + 1, { jobId })),
      )
      await stage().journal.append(batch(held, { facts, newJobs: jobs }))
      return jobs.map(({ id }) => id)
    }

    it("J17 removes at most so many facts at a time: readers see those that are left no more, and later jobs stay", async () => {
      const { journal, peer } = stage()
      const held = await hold(journal)
      const [small, large, later] = await endedWith(held, [2, 25, 2])
      const jobIds = [small!, large!, later!]
      const purge = () => journal.purge({ fences: [held], jobIds, before: 40, limit: 10 })
      expect(await purge()).toBe(2)
      expect(await journal.readFacts([small!, large!])).toEqual([])
      expect(await journal.readJob(large!)).toBeNull()
      expect(await journal.readFacts([later!])).toHaveLength(2)
      expect(await purge()).toBe(1)
      // 17 facts are left of the large job, and the record of it.
      const removed: number[] = []
      for (let n = await peer.purgeFacts({ limit: 10 }); n > 0; n = await peer.purgeFacts({ limit: 10 }))
        removed.push(n)
      expect(Math.max(...removed)).toBeLessThanOrEqual(10)
      expect(removed.reduce((sum, n) => sum + n, 0)).toBe(18)
    })

    it("J17 two engines that remove the facts of one job remove each once", async () => {
      const { journal, peer } = stage()
      const held = await hold(journal)
      const [large] = await endedWith(held, [60])
      expect(await journal.purge({ fences: [held], jobIds: [large!], before: 40, limit: 10 })).toBe(1)
      let sum = 0
      for (let round = 0; round < 20; round++)
        for (const removed of await Promise.all([journal, peer].map(each => each.purgeFacts({ limit: 5 }))))
          sum += removed
      expect(sum).toBe(51)
    })

    it("J17 a job that is submitted again under the id of a removed one keeps its own facts", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const [id] = await endedWith(held, [20])
      expect(await journal.purge({ fences: [held], jobIds: [id!], before: 40, limit: 10 })).toBe(1)
      const again = newJob(held, 5000, { id: id! })
      await store(journal, held, [again])
      const seqs = async () => (await journal.readFacts([id!])).map(({ seq }) => seq)
      expect(await seqs()).toEqual([again.seq])
      while ((await journal.purgeFacts({ limit: 10 })) > 0);
      expect(await seqs()).toEqual([again.seq])
      expect(await journal.readJob(id!)).toEqual(again)
    })

    it("J17 reads keys in pages, and removes those whose job was never stored", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const jobs = Array.from({ length: 5 }, (_, n) => newJob(held, 100 + n))
      await store(journal, held, [jobs[0]!, jobs[3]!])
      const claim = (jobId: string) =>
        journal.claimKey({ owner: "paged", key: jobs[0]!.id + jobId, jobId, fingerprint: "", createdAt: 10 })
      for (const { id } of jobs) await claim(id)
      let pages = 0
      let after: string | null = null
      do {
        pages++
        after = await journal.purgeKeys({ before: 40, after, limit: 2 })
      } while (after !== null)
      expect(pages).toBeGreaterThan(2)
      const kept = await Promise.all(
        jobs.map(async ({ id }) => {
          const key = jobs[0]!.id + id
          const next = { owner: "paged", key, jobId: newId(), fingerprint: "", createdAt: 50 }
          return (await journal.claimKey(next)).jobId === id
        }),
      )
      expect(kept).toEqual([true, false, false, true, false])
    })

    it("removes at most so many settled messages at a time", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const { partition } = held
      const send = () => sendMessage(journal, { partition, jobId: newId(), command: "{}", sentAt: 10 })
      const sent = [await send(), await send(), await send()]
      await journal.append(
        batch(held, { answers: sent.map(messageId => ({ messageId, partition, answer: "1" })) }),
      )
      const tidy = () => journal.tidy({ before: 40, unsettledBefore: 0, silentSince: 0, limit: 2 })
      const left = async () => (await journal.readAnswers({ messageIds: sent })).size
      while (await tidy());
      expect(await left()).toBe(0)
    })

    it("J14 J17 keeps a job that has ended until its parent and children are notified", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const telling = newJob(held, 3, { status: "CANCELLED", finishedAt: 10, wakeAt: 0 })
      await store(journal, held, [telling])
      const times = { before: 40, unsettledBefore: 40 }
      const isPurged = async () => (await freeJobs(journal, held, times)).includes(telling.id)
      expect(await isPurged()).toBe(false)
      await journal.append(batch(held, { changedJobs: [{ ...telling, seq: held.seq(4), wakeAt: null }] }))
      expect(await isPurged()).toBe(true)
    })

    it("removes old keys and settled messages, never an open one", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const { partition } = held
      const claim = (key: string, createdAt: number) =>
        journal.claimKey({ owner: "purged", key, jobId: newId(), fingerprint: key, createdAt })
      const [oldKey, newKey] = [await claim("old", 10), await claim("new", 50)]
      const send = (sentAt: number) =>
        sendMessage(journal, { partition, jobId: newId(), command: "{}", sentAt })
      const [answered, recent, open, withdrawn] = [
        await send(10),
        await send(50),
        await send(10),
        await send(10),
      ]
      const answers = [answered, recent].map(messageId => ({ messageId, partition, answer: "1" }))
      await journal.append(batch(held, { answers }))
      await journal.withdrawMessage(withdrawn)

      await journal.purgeKeys({ before: 40, after: null, limit: 10_000 })
      await journal.tidy({ before: 40, unsettledBefore: 0, silentSince: 0, limit: 100 })
      expect((await claim("old", 60)).jobId).not.toBe(oldKey.jobId)
      expect(await claim("new", 60)).toEqual(newKey)
      expect(await answerOf(journal, answered)).toBeNull()
      expect(await answerOf(journal, recent)).toBe("1")
      expect((await journal.readMessages({ partitions: [partition], limit: 10 })).map(row => row.id)).toEqual(
        [open],
      )
      expect(await journal.withdrawMessage(withdrawn)).toBe(false)
    })

    it("removes engines that own nothing and send no heartbeat", async () => {
      const { journal, peer } = stage()
      const { engine } = await hold(journal)
      const purge = (silentSince = 10) =>
        journal.tidy({ before: 0, unsettledBefore: 0, silentSince, limit: 100 })
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
