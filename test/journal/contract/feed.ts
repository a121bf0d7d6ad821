import { describe, expect, it } from "vitest"
import type { FeedRange } from "../../../src/journal/port/feed.ts"
import type { Journal } from "../../../src/journal/port/journal.ts"
import fc from "../../support/property.ts"
import { batch, fact, type Held, hold, newId, newJob, type Stage } from "../fixture.ts"

const everything = { owners: null, limit: 1000, inlineBytes: 1000 }

/** Jobs of these owners, one fact each, in this order. */
async function write(journal: Journal, held: Held, owners: readonly string[], from = 1): Promise<string[]> {
  const jobs = owners.map((owner, index) => newJob(held, from + index, { owner }))
  const facts = jobs.map(job => fact(held, 0, { seq: job.seq, jobId: job.id }))
  await journal.append(batch(held, { facts, newJobs: jobs }))
  return jobs.map(({ id }) => id)
}

export function feedContract(stage: () => Stage): void {
  describe("the feed", () => {
    it("S4 returns the last seq of each partition, and which store it is", async () => {
      const { journal, peer } = stage()
      const held = await hold(journal)
      const before = await journal.feed.position()
      expect(before.seqs).toHaveLength(journal.capabilities.partitions)
      await write(journal, held, ["a", "b"], 6)
      const after = await peer.feed.position()
      expect(after.seqs[held.partition]).toBe(held.seq(7))
      expect(after.store).toBe(before.store)
      expect(after.store).not.toBe("")
    })

    it("S4 reads on from a position: facts of these owners, in order, and how far it came", async () => {
      const { journal, peer } = stage()
      const held = await hold(journal)
      const { partition } = held
      const [a1, b1, a2] = await write(journal, held, ["a", "b", "a"])
      const ranges = [{ partition, after: 0 }]
      const page = await peer.feed.read({ ...everything, ranges, owners: ["a"] })
      expect(page.facts).toEqual([
        expect.objectContaining({ partition, owner: "a", jobId: a1, seq: held.seq(1), data: "{}", bytes: 2 }),
        expect.objectContaining({ partition, owner: "a", jobId: a2, seq: held.seq(3) }),
      ])
      expect(page.reached).toEqual([{ partition, seq: held.seq(3), looked: 3, isMore: false }])
      const all = await peer.feed.read({ ...everything, ranges })
      expect(all.facts.map(({ jobId }) => jobId)).toEqual([a1, b1, a2])
      const rest = await peer.feed.read({
        ...everything,
        ranges: [{ partition, after: held.seq(1), upTo: held.seq(2) }],
      })
      expect(rest.facts.map(({ jobId }) => jobId)).toEqual([b1])
      expect(rest.reached).toEqual([{ partition, seq: held.seq(2), looked: 1, isMore: false }])
      const nothing = await peer.feed.read({ ...everything, ranges: [{ partition, after: held.seq(3) }] })
      expect(nothing).toEqual({ reached: [], facts: [] })
      expect(await peer.feed.read({ ...everything, ranges: [] })).toEqual({ reached: [], facts: [] })
    })

    it("S4 leaves large data out, and takes odd names of owners as they are", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const owner = 'a"b,{c}\\'
      const job = newJob(held, 1, { owner })
      const data = JSON.stringify("\u0000".repeat(300))
      await journal.append(batch(held, { facts: [fact(held, 1, { jobId: job.id, data })], newJobs: [job] }))
      const ranges = [{ partition: held.partition, after: 0 }]
      const { facts } = await journal.feed.read({ ...everything, ranges, owners: [owner], inlineBytes: 100 })
      expect(facts).toEqual([expect.objectContaining({ owner, data: null, bytes: data.length })])
      const whole = await journal.feed.read({ ...everything, ranges, owners: [owner], inlineBytes: 10_000 })
      expect(whole.facts[0]?.data).toBe(data)
    })

    it("S4 page by page, in pages of any size, nothing is missed and nothing comes twice", async () => {
      const { journal } = stage()
      const helds = [await hold(journal), await hold(journal), await hold(journal)]
      const written: string[] = []
      for (let round = 0; round < 4; round++)
        for (const [index, held] of helds.entries())
          written.push(...(await write(journal, held, ["p", "q", "p"].slice(0, index + 1), 1 + 10 * round)))
      await fc.assert(
        fc.asyncProperty(fc.integer({ min: 1, max: 9 }), async limit => {
          const seen: string[] = []
          let ranges: FeedRange[] = helds.map(({ partition, seq }) => ({ partition, after: seq(0) }))
          while (ranges.length > 0) {
            const page = await journal.feed.read({ ...everything, ranges, limit })
            seen.push(...page.facts.map(({ jobId }) => jobId))
            ranges = page.reached
              .filter(({ isMore }) => isMore)
              .map(({ partition, seq }) => ({ partition, after: seq }))
          }
          expect(seen.sort()).toEqual([...written].sort())
        }),
        { numRuns: 9 },
      )
    })

    it("S4 during writes, what was read from position to position is what is stored in the end", async () => {
      const { journal, peer } = stage()
      const held = await hold(journal)
      const jobId = newId()
      await journal.append(batch(held, { newJobs: [newJob(held, 0, { id: jobId })] }))
      let isWriting = true
      const writing = (async () => {
        for (let counter = 1; counter <= 150; counter += 3) {
          const facts = [0, 1, 2].map(more => fact(held, counter + more, { jobId }))
          await journal.append(batch(held, { facts }))
        }
        isWriting = false
      })()
      const seen: number[] = []
      let after = held.seq(0)
      for (let isLast = false; !isLast; ) {
        isLast = !isWriting
        const page = await peer.feed.read({ ...everything, ranges: [{ partition: held.partition, after }] })
        seen.push(...page.facts.map(({ seq }) => seq))
        after = page.reached[0]?.seq ?? after
      }
      await writing
      expect(seen).toEqual(Array.from({ length: 150 }, (_, index) => held.seq(index + 1)))
    })

    it("S4 begins with the owner's newest jobs that have not ended, and the position they belong to", async () => {
      const { journal, peer } = stage()
      const held = await hold(journal)
      const owner = `owner ${held.partition}`
      const jobs = [1, 2, 3, 4].map(counter =>
        newJob(held, counter, { owner, finishedAt: counter === 2 ? 5 : null }),
      )
      const facts = jobs.map(job => fact(held, 0, { seq: job.seq, jobId: job.id }))
      await journal.append(batch(held, { facts, newJobs: jobs }))
      const begin = await peer.feed.start({ owner, limit: 2 })
      expect(begin.jobs).toEqual([jobs[3]!.id, jobs[2]!.id])
      expect(begin.seqs[held.partition]).toBe(held.seq(4))
      expect(begin.seqs).toHaveLength(journal.capabilities.partitions)
      expect((await peer.feed.start({ owner, limit: 9 })).jobs).toHaveLength(3)
      expect((await peer.feed.start({ owner: "nobody", limit: 9 })).jobs).toEqual([])
    })

    it("S4 notifies every listener, where there can be other processes", async () => {
      const { journal, peer } = stage()
      expect(journal.feed.listen === null).toBe(journal.capabilities.exclusive)
      if (peer.feed.listen === null) return
      const received: string[] = []
      const unlisten = await peer.feed.listen(news => void received.push(news))
      journal.feed.notify('{"a":"ü, {1}"}')
      await expect.poll(() => received).toEqual(['{"a":"ü, {1}"}'])
      await unlisten()
    })
  })
}
