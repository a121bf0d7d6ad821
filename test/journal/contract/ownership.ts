import { describe, expect, it } from "vitest"
import { batch, fact, hold, newId, type Stage, sendMessage } from "../fixture.ts"

export function ownershipContract(stage: () => Stage): void {
  it("an engine that leaves is not seen any more, and may come back", async () => {
    const { journal, peer } = stage()
    const seen = async () =>
      (await peer.beat({ engine: "looker", place: "x", beat: 1, follows: false })).engines.map(
        other => other.engine,
      )
    await journal.beat({ engine: "leaver", place: "x", beat: 1, follows: false })
    expect(await seen()).toContain("leaver")
    expect(await peer.readEngines()).toContainEqual({ engine: "leaver", place: "x", beat: 1, follows: false })
    await journal.leave("leaver")
    await journal.leave("leaver")
    expect(await seen()).not.toContain("leaver")
    await journal.beat({ engine: "leaver", place: "x", beat: 2, follows: false })
    expect(await seen()).toContain("leaver")
  })

  it("a store that was restored fences processes that wrote after the backup, also when epochs have reached their value again", async () => {
    const { journal, peer } = stage()
    const [, , , , , row] = await journal.readPartitions()
    const { partition } = row!
    // Between the backup, at the epoch of `row`, and now it was taken three times.
    const stale = { partition, epoch: row!.epoch + 3 }
    const before = await journal.feed.position()
    await journal.beat({ engine: "of-old", place: "x", beat: 1, follows: false })
    await journal.restored()
    const after = (await journal.readPartitions())[partition]!
    expect(after).toEqual({ partition, owner: null, epoch: row!.epoch + 1024 })
    expect((await peer.feed.position()).store).not.toBe(before.store)
    const { engines } = await peer.beat({ engine: "of-now", place: "x", beat: 1, follows: false })
    expect(engines.map(({ engine }) => engine)).not.toContain("of-old")
    for (let take = 0; take < 5; take++) {
      const expected = [(await journal.readPartitions())[partition]!]
      await journal.takePartitions({ engine: "of-now", expected })
      const late = { ...stale, engine: "of-old", seq: (n: number) => stale.epoch * 2 ** 34 + n }
      expect((await peer.append(batch(late, { facts: [fact(late, take)] }))).held).toEqual(new Set())
    }
  })

  describe("ownership", () => {
    it("of a partition goes to exactly one of two engines that want it, each time", async () => {
      const { journal, peer } = stage()
      const wanted = [await hold(journal), await hold(journal), await hold(journal)]
      for (let round = 0; round < 5; round++) {
        const rows = await journal.readPartitions()
        const expected = wanted.map(({ partition }) => rows[partition]!)
        const [a, b] = await Promise.all([
          journal.takePartitions({ engine: `a-${round}`, expected }),
          peer.takePartitions({ engine: `b-${round}`, expected: [...expected].reverse() }),
        ])
        const taken = [...a, ...b].sort((x, y) => x.partition - y.partition)
        expect(taken).toEqual(expected.map(({ partition, epoch }) => ({ partition, epoch: epoch + 1 })))
        const owners = new Map([
          ...a.map(t => [t.partition, `a-${round}`] as const),
          ...b.map(t => [t.partition, `b-${round}`] as const),
        ])
        const after = await journal.readPartitions()
        for (const { partition } of wanted) expect(after[partition]?.owner).toBe(owners.get(partition))
      }
    })

    it("taken again after a lost answer is recognised, and does not raise the epoch twice", async () => {
      const { journal } = stage()
      const { partition, epoch } = await hold(journal)
      const take = { engine: "forgetful", expected: [{ partition, epoch }] }
      expect(await journal.takePartitions(take)).toEqual([{ partition, epoch: epoch + 1 }])
      expect(await journal.takePartitions(take)).toEqual([{ partition, epoch: epoch + 1 }])
      expect(await journal.takePartitions({ ...take, engine: "late" })).toEqual([])
    })

    it("ends by release only for the engine and epoch that hold it", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const { partition, epoch, engine } = held
      const owner = async () => (await journal.readPartitions())[partition]?.owner
      await journal.releasePartitions({ engine: "stranger", held: [held] })
      await journal.releasePartitions({ engine, held: [{ partition, epoch: epoch - 1 }] })
      expect(await owner()).toBe(engine)
      await journal.releasePartitions({ engine, held: [held] })
      expect(await owner()).toBeNull()
      expect(await journal.takePartitions({ engine: "next", expected: [held] })).toEqual([
        { partition, epoch: epoch + 1 },
      ])
    })

    it("fences the old owner from the moment of the take-over, whatever it sends", async () => {
      const { journal, peer } = stage()
      const held = await hold(journal)
      const jobId = newId()
      const appends = Array.from({ length: 20 }, (_, counter) =>
        journal.append(batch(held, { facts: [fact(held, counter, { jobId })] })),
      )
      const taken = peer.takePartitions({ engine: "successor", expected: [held] })
      const [results] = await Promise.all([Promise.all(appends), taken])
      const stored = (await peer.readFacts([jobId])).map(row => row.seq)
      const acknowledged = results.flatMap((result, counter) =>
        result.held.size > 0 ? [held.seq(counter)] : [],
      )
      expect(stored).toEqual(acknowledged)
      const late = await journal.append(batch(held, { facts: [fact(held, 99, { jobId })] }))
      expect(late).toEqual({ held: new Set(), inserted: 0 })
    })

    it("and the others' beats are what a beat answers", async () => {
      const { journal, peer } = stage()
      const held = await hold(journal)
      const { partition, epoch, engine } = held
      await peer.beat({ engine: "peer", place: "there", beat: 41, follows: false })
      await peer.beat({ engine: "peer", place: "there", beat: 42, follows: true })
      await sendMessage(journal, { partition, jobId: newId(), command: "{}", sentAt: 1 })
      const pulse = await journal.beat({ engine, place: "here", beat: 7, follows: false })
      expect(pulse.engines).toContainEqual({ engine: "peer", place: "there", beat: 42, follows: true })
      expect(pulse.engines.map(other => other.engine)).not.toContain(engine)
      expect(pulse.partitions).toHaveLength(journal.capabilities.partitions)
      expect(pulse.partitions[partition]).toEqual({ partition, epoch, owner: engine })
      expect(pulse.inbox).toEqual([partition])
      const seen = await peer.beat({ engine: "peer", place: "there", beat: 43, follows: false })
      expect(seen.engines).toContainEqual({ engine, place: "here", beat: 7, follows: false })
      expect(seen.inbox).toEqual([])
    })
  })
}
