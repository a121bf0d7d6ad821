import { randomUUID } from "node:crypto"
import { describe, expect, it } from "vitest"
import type { RollUp } from "../../../src/journal/port/statistics.ts"
import { batch, countAll, fact, freeJobs, holdUncounted, newJob, type Stage, store } from "../fixture.ts"

const HOUR = 3_600_000

export function statisticsContract(stage: () => Stage): void {
  const watermark = async (partition: number) =>
    (await stage().peer.statistics.watermarks([{ partition, upTo: 0 }]))[0]!.seq
  const rollUp = (over: Partial<RollUp> & { owner: string }): RollUp => ({
    ...{ workflow: "flow", version: 1, hour: HOUR, node: "a", data: "1" },
    ...over,
  })

  describe("roll-ups of statistics", () => {
    it("are written with the watermark, once: a second sending changes nothing and is recognised", async () => {
      const { journal, peer } = stage()
      const held = await holdUncounted(journal)
      const { partition, epoch } = held
      const owner = randomUUID()
      const from = await watermark(partition)
      const move = { partition, epoch, from, to: held.seq(10) }
      const write = { partition, moves: [move], rollUps: [rollUp({ owner, data: "one" })] }
      expect(await journal.statistics.write(write)).toBe(true)
      expect(await watermark(partition)).toBe(held.seq(10))
      const next = { ...move, from: held.seq(10), to: held.seq(20) }
      const second = { partition, moves: [next], rollUps: [rollUp({ owner, data: "two" })] }
      expect(await journal.statistics.write(second)).toBe(true)
      expect(await journal.statistics.write(second)).toBe(true)
      expect(await journal.statistics.write({ ...write, rollUps: [rollUp({ owner, data: "late" })] })).toBe(
        false,
      )
      const key = { owner, workflow: "flow", version: 1, hour: HOUR }
      expect(await peer.statistics.readForUpdate({ partition, keys: [key] })).toEqual([
        rollUp({ owner, data: "two" }),
      ])
      expect(await watermark(partition)).toBe(held.seq(20))
    })

    it("are not written at all if one of the fences is stale", async () => {
      const { journal, peer } = stage()
      const [mine, lost] = [await holdUncounted(journal), await holdUncounted(journal)]
      await peer.takePartitions({ engine: "successor", expected: [lost] })
      const owner = randomUUID()
      const before = [await watermark(mine.partition), await watermark(lost.partition)]
      const moves = [mine, lost].map(({ partition, epoch, seq }, index) => {
        return { partition, epoch, from: before[index]!, to: seq(1) }
      })
      const write = { partition: mine.partition, moves, rollUps: [rollUp({ owner })] }
      expect(await journal.statistics.write(write)).toBe(false)
      expect([await watermark(mine.partition), await watermark(lost.partition)]).toEqual(before)
      const query = { owner, workflow: "flow", from: 0, to: 9 * HOUR }
      expect(await journal.statistics.read(query)).toEqual([])
      expect(await journal.statistics.write({ ...write, moves: moves.slice(0, 1) })).toBe(true)
      expect(await journal.statistics.read(query)).toHaveLength(1)
    })

    it("are read by owner, workflow, version and hours, and removed with old hours in pages", async () => {
      const { journal, peer } = stage()
      const held = await holdUncounted(journal)
      const { partition, epoch } = held
      const [owner, other] = [randomUUID(), randomUUID()]
      const rollUps = [
        rollUp({ owner, data: "h1" }),
        rollUp({ owner, data: "h2", hour: 2 * HOUR }),
        rollUp({ owner, data: "v2", hour: 2 * HOUR, version: 2 }),
        rollUp({ owner, data: "job", hour: 2 * HOUR, node: "" }),
        rollUp({ owner, data: "w2", workflow: "other" }),
        rollUp({ owner: other, data: "theirs" }),
      ]
      const move = { partition, epoch, from: await watermark(partition), to: held.seq(1) }
      await journal.statistics.write({ partition, moves: [move], rollUps })
      const read = async (over: object) => {
        const query = { owner, workflow: "flow", from: 0, to: 9 * HOUR, ...over }
        return (await peer.statistics.read(query)).map(({ data }) => data).sort()
      }
      expect(await read({})).toEqual(["h1", "h2", "job", "v2"])
      expect(await read({ version: 2 })).toEqual(["v2"])
      expect(await read({ from: 2 * HOUR })).toEqual(["h2", "job", "v2"])
      expect(await read({ to: 2 * HOUR })).toEqual(["h1"])
      expect(await read({ owner: other })).toEqual(["theirs"])
      let removed = 0
      for (let page = 1; page > 0; removed += page) {
        page = await journal.statistics.purgeHours({ before: 2 * HOUR, limit: 2 })
        expect(page).toBeLessThanOrEqual(2)
      }
      expect(removed).toBeGreaterThanOrEqual(3)
      expect(await read({})).toEqual(["h2", "job", "v2"])
    })

    it("of one hour are one row, with a line for each partition in whose name they are stored", async () => {
      const { journal, peer } = stage()
      const owner = randomUUID()
      for (const name of ["one", "two", "three"]) {
        const held = await holdUncounted(journal)
        const { partition, epoch } = held
        const move = { partition, epoch, from: await watermark(partition), to: held.seq(1) }
        const rollUps = ["a", "b"].map(node => rollUp({ owner, node, data: `${name} ${node}` }))
        await journal.statistics.write({ partition, moves: [move], rollUps })
      }
      const rows = await peer.statistics.read({ owner, workflow: "flow", from: 0, to: 9 * HOUR })
      expect(
        rows
          .map(({ node, data }) => [node, data.split("\n").sort()])
          .sort(([a], [b]) => (String(a) < String(b) ? -1 : 1)),
      ).toEqual([
        ["a", ["one a", "three a", "two a"]],
        ["b", ["one b", "three b", "two b"]],
      ])
    })

    it("need the metrics in the row of a job, which later changes keep", async () => {
      const { journal, peer } = stage()
      const held = await holdUncounted(journal)
      const { partition } = held
      const ended = newJob(held, 2, { status: "FAILED", finishedAt: 1_002, stats: '{"e":2,"d":1,"n":[]}' })
      const running = newJob(held, 3)
      const facts = [1, 2, 3].map(counter => ({
        ...fact(held, counter),
        jobId: counter === 3 ? running.id : ended.id,
      }))
      await journal.append(batch(held, { facts, newJobs: [ended, running] }))
      const read = async (over: object = {}) => {
        const query = { partition, after: held.seq(0), upTo: held.seq(99), limit: 10, ...over }
        const rows = await peer.statistics.factsOfJobs(query)
        return rows.map(({ seq, jobId, stats, hasEnded }) => [seq, jobId, stats, hasEnded])
      }
      const { stats } = ended
      const expected = [
        [held.seq(1), ended.id, stats, true],
        [held.seq(2), ended.id, stats, true],
        [held.seq(3), running.id, null, false],
      ]
      expect(await read()).toEqual(expected)
      expect(await read({ limit: 2 })).toEqual(expected.slice(0, 2))
      expect(await read({ after: held.seq(1), upTo: held.seq(2) })).toEqual(expected.slice(1, 2))
      expect(await peer.statistics.watermarks([{ partition, upTo: held.seq(3) }])).toMatchObject([
        { isBehind: true },
      ])
      const retried = { ...ended, seq: held.seq(4), status: "PROCESSING" as const, finishedAt: null }
      await journal.append(batch(held, { changedJobs: [{ ...retried, stats: null }] }))
      expect((await read())[0]).toEqual([held.seq(1), ended.id, stats, false])
      const again = { ...retried, seq: held.seq(5), finishedAt: 1_005, stats: '{"e":5,"d":1,"n":[]}' }
      await journal.append(batch(held, { changedJobs: [again] }))
      expect((await read())[0]).toEqual([held.seq(1), ended.id, again.stats, true])
    })

    it("J17 retention removes a job only once it is counted", async () => {
      const { journal } = stage()
      const held = await holdUncounted(journal)
      const { partition, epoch } = held
      const [first, second] = [1, 2].map(n => newJob(held, n, { status: "COMPLETED", finishedAt: 10 }))
      await store(journal, held, [first!, second!])
      const purge = () =>
        journal.purge({ fences: [held], jobIds: [first!.id, second!.id], before: 40, limit: 100 })
      expect(await freeJobs(journal, held, { before: 40 })).toEqual([])
      expect(await purge()).toBe(0)
      const move = { partition, epoch, from: await watermark(partition), to: held.seq(1) }
      await journal.statistics.write({ partition, moves: [move], rollUps: [] })
      expect(await freeJobs(journal, held, { before: 40 })).toEqual([first!.id])
      expect(await purge()).toBe(1)
      expect(await journal.readJob(first!.id)).toBeNull()
      expect(await journal.readJob(second!.id)).not.toBeNull()
      await countAll(journal, [held])
      expect(await purge()).toBe(1)
    })
  })
}
