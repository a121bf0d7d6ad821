import { describe, expect, it } from "vitest"
import { JournalDataError } from "../../../src/journal/errors.ts"
import {
  answerOf,
  batch,
  change,
  fact,
  hold,
  newId,
  newJob,
  type Stage,
  sendMessage,
  store,
} from "../fixture.ts"

export function appendContract(stage: () => Stage): void {
  describe("append", () => {
    it("stores facts and projection together and says which partitions held", async () => {
      const { journal, peer } = stage()
      const held = await hold(journal)
      const job = newJob(held, 1, { labels: '{"team":"a"}', parentId: newId(), priority: 3, wakeAt: 77 })
      const facts = [fact(held, 1, { jobId: job.id, type: "job_submitted", data: '{"input":1}' })]
      const result = await journal.append(batch(held, { facts, newJobs: [job] }))
      expect(result).toEqual({ held: new Set([held.partition]), inserted: 1 })
      expect(await peer.readJob(job.id)).toEqual(job)
      expect(await peer.readFacts([job.id])).toEqual([
        { jobId: job.id, seq: held.seq(1), at: 1_001, type: "job_submitted", data: '{"input":1}', bytes: 11 },
      ])
    })

    it("J8 stores jobs of a bulk, which wait as rows, like any others; a repetition changes nothing", async () => {
      const { journal, peer } = stage()
      const [one, other, lost] = [await hold(journal), await hold(journal), await hold(journal)]
      await peer.takePartitions({ engine: "successor", expected: [lost] })
      const shared = {
        ...{
          status: "QUEUED" as const,
          wakeAt: -77,
          labels: '{"team":"a"}',
          priority: 3,
          submittedBy: "token",
        },
        ...{ owner: "tenant", workflow: "bulk", workflowVersion: 4, createdAt: 1_000_000 },
      }
      const held = new Set([one.partition, other.partition])
      let counter = 0
      for (const different of [
        {},
        { priority: 4 },
        { labels: null },
        { parentId: newId() },
        { error: "{}" },
      ]) {
        const jobs = [one, other, lost, one].map((owned, i) =>
          newJob(owned, ++counter, i === 1 ? { ...shared, ...different } : shared),
        )
        const facts = jobs.map(({ id: jobId, partition, seq, createdAt: at }, i) => {
          return { jobId, partition, seq, at, type: "job_submitted", data: `{"input":"ü${i}"}` }
        })
        for (const inserted of [3, 0]) {
          const result = await journal.append(batch([one, other, lost], { facts, newJobs: jobs }))
          expect(result).toEqual({ held, inserted })
          for (const [i, job] of jobs.entries()) {
            const { jobId, seq, at, type, data } = facts[i]!
            expect(await peer.readJob(job.id)).toEqual(i === 2 ? null : job)
            expect(await peer.readFacts([job.id])).toEqual(
              i === 2 ? [] : [{ jobId, seq, at, type, data, bytes: 15 }],
            )
          }
        }
      }
    })

    it("accepts a batch with nothing in it", async () => {
      const held = await hold(stage().journal)
      expect(await stage().journal.append(batch(held, {}))).toEqual({
        held: new Set([held.partition]),
        inserted: 0,
      })
      expect(await stage().journal.append(batch([], {}))).toEqual({ held: new Set(), inserted: 0 })
    })

    it("J8 writes nothing of a partition whose epoch is stale, and all of one that is held", async () => {
      const { journal, peer } = stage()
      const [stale, good] = [await hold(journal), await hold(journal)]
      const running = newJob(stale, 1)
      await store(journal, stale, [running])
      const message = await sendMessage(journal, {
        partition: stale.partition,
        jobId: running.id,
        command: "{}",
        sentAt: 1,
      })
      await peer.takePartitions({ engine: "successor", expected: [stale] })

      const [lost, kept] = [newJob(stale, 2), newJob(good, 1)]
      const result = await journal.append(
        batch([good, stale], {
          facts: [fact(stale, 2, { jobId: lost.id }), fact(good, 1, { jobId: kept.id })],
          newJobs: [lost, kept],
          changedJobs: [change(running, { seq: stale.seq(3), status: "COMPLETED" })],
          answers: [{ messageId: message, partition: stale.partition, answer: "1" }],
          messages: [
            {
              partition: 60,
              jobId: lost.id,
              command: '"lost"',
              sentAt: 1,
              cause: { partition: stale.partition, seq: stale.seq(2) },
            },
            {
              partition: 60,
              jobId: kept.id,
              command: '"kept"',
              sentAt: 1,
              cause: { partition: good.partition, seq: good.seq(1) },
            },
          ],
        }),
      )
      expect(result).toEqual({ held: new Set([good.partition]), inserted: 1 })
      expect(await journal.readFacts([lost.id])).toEqual([])
      expect(await journal.readJob(lost.id)).toBeNull()
      expect(await journal.readJob(running.id)).toEqual(running)
      expect(await answerOf(journal, message)).toBeNull()
      expect(await journal.readJob(kept.id)).toEqual(kept)
      const sent = await journal.readMessages({ partitions: [60], limit: 100 })
      expect(sent.map(row => row.command)).toEqual(['"kept"'])
    })

    it("writes nothing for a fact whose partition has no fence in the batch", async () => {
      const { journal } = stage()
      const [fenced, other] = [await hold(journal), await hold(journal)]
      const stray = fact(other, 1)
      const result = await journal.append(batch(fenced, { facts: [stray] }))
      expect(result).toEqual({ held: new Set([fenced.partition]), inserted: 0 })
      expect(await journal.readFacts([stray.jobId])).toEqual([])
    })

    it("J8 recognises a batch that is sent again, also after later ones: projections never go back", async () => {
      const { journal, peer } = stage()
      const held = await hold(journal)
      const job = newJob(held, 1)
      const first = batch(held, {
        facts: [fact(held, 1, { jobId: job.id }), fact(held, 2, { jobId: job.id })],
        newJobs: [{ ...job, seq: held.seq(2) }],
        messages: [1, 2].map(n => ({
          partition: 61,
          jobId: job.id,
          command: String(n),
          sentAt: 1,
          cause: { partition: held.partition, seq: held.seq(2) },
        })),
      })
      const done = change(job, {
        seq: held.seq(3),
        status: "COMPLETED",
        output: "[1]",
        finishedAt: 5_000_000,
        wakeAt: null,
      })
      const second = batch(held, { facts: [fact(held, 3, { jobId: job.id })], changedJobs: [done] })

      expect(await journal.append(first)).toEqual({ held: new Set([held.partition]), inserted: 2 })
      expect(await peer.append(first)).toEqual({ held: new Set([held.partition]), inserted: 0 })
      expect((await journal.append(second)).inserted).toBe(1)
      expect(await journal.append(first)).toEqual({ held: new Set([held.partition]), inserted: 0 })
      expect(await peer.append(second)).toEqual({ held: new Set([held.partition]), inserted: 0 })

      expect(await journal.readJob(job.id)).toEqual({ ...job, ...done })
      expect((await journal.readFacts([job.id])).map(row => row.seq)).toEqual([1, 2, 3].map(held.seq))
      const sent = await journal.readMessages({ partitions: [61], limit: 10 })
      expect(sent.map(row => row.command)).toEqual(["1", "2"])
    })

    it("completes a batch of which an earlier sending had only a part", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const jobId = newId()
      const facts = [1, 2, 3].map(counter => fact(held, counter, { jobId }))
      await journal.append(batch(held, { facts: facts.slice(0, 2) }))
      expect((await journal.append(batch(held, { facts }))).inserted).toBe(1)
    })

    it("clears what a retried job no longer has: error, output and end", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const failed = newJob(held, 1, {
        status: "FAILED",
        error: '{"code":"E401"}',
        output: "1",
        finishedAt: 9_000_000,
      })
      await store(journal, held, [failed])
      const again = change(failed, {
        seq: held.seq(2),
        status: "QUEUED",
        error: null,
        output: null,
        finishedAt: null,
        wakeAt: 5,
      })
      await journal.append(batch(held, { changedJobs: [again] }))
      expect(await journal.readJob(failed.id)).toEqual({ ...failed, ...again })
    })

    it("refuses a batch with data that is not JSON, and stores nothing of it", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const good = fact(held, 1)
      for (const data of ["{", "", "nope", "1\u001e2", '"\u001f"', '"\u0000"']) {
        const attempt = journal.append(batch(held, { facts: [good, fact(held, 2, { data })] }))
        await expect(attempt, JSON.stringify(data)).rejects.toBeInstanceOf(JournalDataError)
      }
      expect(await journal.readFacts([good.jobId])).toEqual([])
      expect((await journal.append(batch(held, { facts: [good] }))).inserted).toBe(1)
    })

    it("tried out, it says what an append would and keeps nothing", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const job = newJob(held, 1)
      const good = batch(held, { facts: [fact(held, 1, { jobId: job.id })], newJobs: [job] })
      await journal.tryAppend(good)
      expect(await journal.readJob(job.id)).toBeNull()
      expect(await journal.readFacts([job.id])).toEqual([])
      const bad = batch(held, { facts: [fact(held, 2, { data: "{" })] })
      await expect(journal.tryAppend(bad)).rejects.toBeInstanceOf(JournalDataError)
      expect((await journal.append(good)).inserted).toBe(1)
      await journal.tryAppend(good)
    })

    it("refuses a message that does not name its cause", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const messages = [{ partition: 1, jobId: newId(), command: "{}", sentAt: 1 }]
      await expect(journal.append(batch(held, { messages }))).rejects.toBeInstanceOf(JournalDataError)
    })
  })
}
