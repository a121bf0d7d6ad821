import { describe, expect, it } from "vitest"
import { batch, fact, freeJobs, type Held, hold, newId, newJob, type Stage } from "../fixture.ts"

/** Other tests of the suite live after time 1,000; this one before. */
export function forksContract(stage: () => Stage): void {
  const ended = (held: Held, counter: number, over: object = {}) =>
    newJob(held, counter, { status: "COMPLETED", finishedAt: 10, ...over })

  const purge = async (held: Held, ids?: readonly string[]) => {
    const { journal } = stage()
    const jobIds = ids ?? (await freeJobs(journal, held, { before: 40 }))
    return journal.purge({ fences: [held], jobIds, before: 40, limit: 100 })
  }

  describe("forks", () => {
    it("keeps the origin and the definition of a fork in its row, and lists forks by their origin", async () => {
      const { journal, peer } = stage()
      const held = await hold(journal)
      const owner = newId()
      const origin = newJob(held, 1, { owner })
      const fork = newJob(held, 2, { owner, forkedFrom: origin.id, workflowVersion: 0, definition: "d1" })
      await journal.append(batch(held, { newJobs: [origin, fork] }))
      expect(await peer.readJob(fork.id)).toEqual(fork)
      expect(await peer.readJob(origin.id)).toEqual(origin)
      const list = async (forkedFrom: string, of: string = owner) =>
        (await peer.listJobs({ owner: of, forkedFrom, limit: 10 })).jobs.map(({ id }) => id)
      expect(await list(origin.id)).toEqual([fork.id])
      expect(await list(fork.id)).toEqual([])
      expect(await list(origin.id, newId())).toEqual([])
    })

    it("removes no job that another holds, by any method, until the last holder is removed", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const origin = ended(held, 1)
      const [one, two] = [
        ended(held, 2, { forkedFrom: origin.id }),
        ended(held, 3, { forkedFrom: origin.id }),
      ]
      const rows = [one, two].map(({ id }) => ({ partition: held.partition, by: id, held: origin.id }))
      const facts = [origin, one, two].map((job, n) => fact(held, n + 1, { jobId: job.id }))
      await journal.append(batch(held, { newJobs: [origin], facts: facts.slice(0, 1) }))
      await journal.append(batch(held, { newJobs: [one, two], facts: facts.slice(1), held: rows }))
      expect(await freeJobs(journal, held, { before: 40 })).not.toContain(origin.id)
      expect(await purge(held, [origin.id])).toBe(0)
      expect(await purge(held, [one.id])).toBe(1)
      expect(await purge(held, [origin.id])).toBe(0)
      expect(await journal.readFacts([origin.id])).toHaveLength(1)
      expect(await purge(held, [two.id])).toBe(1)
      expect(await freeJobs(journal, held, { before: 40 })).toContain(origin.id)
      expect(await purge(held, [origin.id])).toBe(1)
      expect(await journal.readFacts([origin.id])).toEqual([])
    })

    it("writes the same rows once, also when the batch is sent again", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const origin = ended(held, 1)
      const fork = ended(held, 2, { forkedFrom: origin.id, definition: "again" })
      const { partition } = held
      const sent = batch(held, {
        newJobs: [origin, fork],
        facts: [fact(held, 1, { jobId: origin.id }), fact(held, 2, { jobId: fork.id })],
        held: [
          { partition, by: fork.id, held: origin.id },
          { partition, by: fork.id, held: "again" },
        ],
        definitions: [
          { partition, jobId: fork.id, hash: "again", definition: '{"name":"x"}', rules: 2, usedAt: 5 },
        ],
      })
      expect((await journal.append(sent)).inserted).toBe(2)
      expect((await journal.append(sent)).inserted).toBe(0)
      await journal.tryAppend(sent)
      expect(await purge(held, [fork.id])).toBe(1)
      expect(await purge(held, [origin.id])).toBe(1)
    })

    it("writes nothing of a fork without its fence", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const origin = ended(held, 1)
      await journal.append(batch(held, { newJobs: [origin] }))
      const late = { ...held, epoch: held.epoch - 1 }
      const fork = ended(held, 2, { forkedFrom: origin.id })
      const { partition } = held
      await journal.append({
        ...batch(held, { newJobs: [fork], facts: [fact(held, 2, { jobId: fork.id })] }),
        fences: [late],
        held: [{ partition, by: fork.id, held: origin.id }],
        definitions: [{ partition, jobId: fork.id, hash: "late", definition: "{}", rules: 2, usedAt: 5 }],
      })
      expect(await journal.readJob(fork.id)).toBeNull()
      expect(await journal.readDefinition("late")).toBeNull()
      expect(await purge(held, [origin.id])).toBe(1)
    })

    it("keeps a definition as long as a job holds it, and returns it", async () => {
      const { journal, peer } = stage()
      const held = await hold(journal)
      const { partition } = held
      const text = '{"name":"order","nodes":[]}'
      const add = async (counter: number, hash: string, usedAt: number) => {
        const fork = ended(held, counter, { definition: hash, workflowVersion: 0 })
        await journal.append(
          batch(held, {
            newJobs: [fork],
            facts: [fact(held, counter, { jobId: fork.id })],
            held: [{ partition, by: fork.id, held: hash }],
            definitions: [{ partition, jobId: fork.id, hash, definition: text, rules: 2, usedAt }],
          }),
        )
        return fork.id
      }
      const [one, two] = [await add(1, "kept", 5), await add(2, "kept", 7)]
      expect(await peer.readDefinition("kept")).toEqual({ hash: "kept", definition: text, rules: 2 })
      const tidy = () => journal.tidy({ before: 40, unsettledBefore: 0, silentSince: 0, limit: 10 })
      await tidy()
      await purge(held, [one])
      await tidy()
      expect(await journal.readDefinition("kept")).not.toBeNull()
      await purge(held, [two])
      const third = await add(3, "kept", 50)
      await purge(held, [third])
      await tidy()
      expect(await journal.readDefinition("kept")).not.toBeNull()
      await journal.tidy({ before: 60, unsettledBefore: 0, silentSince: 0, limit: 10 })
      expect(await journal.readDefinition("kept")).toBeNull()
      expect(await journal.readDefinition("never")).toBeNull()
    })
  })
}
