import { describe, expect, it } from "vitest"
import { newId, type Stage } from "../fixture.ts"
import {
  deadLettersOf,
  finishJob,
  holdForPipelines,
  invocation,
  message,
  NOW,
  parked,
  startExecution,
} from "../pipeline-fixture.ts"

const ALL = { limit: 1000, maxBytes: 2 ** 30 }
/** Other tests' executions end at NOW. */
const EARLY = 1000

export function pipelineRetentionContract(stage: () => Stage): void {
  describe("P5 retention of pipelines", () => {
    /** 20 acknowledged with three invocations in two attempts, one dead, one that waits, one never touched. */
    async function ended(endedAt: number) {
      const started = await startExecution(stage().journal)
      const seqs = Array.from({ length: 20 }, (_, index) => index + 1)
      await started.commit({
        messages: [...seqs, 21, 22, 23].map(seq => message(0, seq)),
        lineage: [...seqs, 21, 22].flatMap(seq => [
          invocation(0, seq),
          invocation(0, seq, { attempt: 2 }),
          invocation(0, seq, { attempt: 2, adapter: 1 }),
        ]),
        parked: [parked(0, 21), parked(0, 22, { dueAt: NOW })],
        stored: [{ key: "k", value: "1" }],
      })
      await started.pipelines.endExecution({ jobId: started.jobId, at: endedAt })
      const left = async () => {
        const { execution, pipelines } = started
        const found = await pipelines.readMessages({ execution, route: 0, after: 0, ...ALL })
        const keys = [...seqs, 21, 22].map(seq => ({ route: 0, seq }))
        const lineage = await pipelines.readLineage({ execution, keys, limit: 1000 })
        return { messages: found.map(({ seq }) => seq), lineage: lineage.length }
      }
      return { ...started, left }
    }

    it("removes lineage and acknowledged messages of executions that ended before then, page by page", async () => {
      const { journal, peer } = stage()
      const [old, recent] = [await ended(EARLY - 1), await ended(EARLY)]
      const purge = (limit: number) => peer.pipelines.purgeLineage({ before: EARLY, limit })
      const first = await purge(10)
      expect(first).toBeGreaterThan(0)
      expect(first).toBeLessThanOrEqual(10)
      expect((await old.left()).lineage).toBeGreaterThan(0)
      let pages = 1
      while ((await purge(10)) > 0) pages++
      expect(pages).toBeGreaterThan(4)
      expect(await old.left()).toEqual({ messages: [21, 22, 23], lineage: 0 })
      expect((await recent.left()).lineage).toBe(66)
      const { execution, jobId, pipelines } = old
      expect(await deadLettersOf({ pipelines }, execution)).toBe(1)
      expect(await pipelines.readRetries({ execution, route: 0, dueBy: NOW, ...ALL })).toHaveLength(1)
      expect(await pipelines.readStored(execution, ["k"])).toEqual(new Map([["k", "1"]]))
      expect(await journal.pipelines.readExecution(jobId)).toMatchObject({ commit: 1 })
    })

    it("counts an execution as ended when its job has, and begins again after a retry", async () => {
      const { journal } = stage()
      const one = await startExecution(journal)
      await one.commit({ messages: [message(0, 1)], lineage: [invocation(0, 1)] })
      const purge = (before: number) => one.pipelines.purgeLineage({ before, limit: 1000 })
      await finishJob(journal, one.jobId, NOW + 50)
      await purge(NOW + 50)
      expect(await one.pipelines.findMessages(one.execution, [{ route: 0, seq: 1 }])).toHaveLength(1)
      expect((await one.pipelines.readExecution(one.jobId))?.endedAt).toBe(NOW + 50)
      expect(await purge(NOW + 51)).toBe(2)
      await one.pipelines.claimExecution({ jobId: one.jobId, at: NOW + 60, limit: 1000, claimMs: 1000 })
      await finishJob(journal, one.jobId, null)
      await one.commit({ messages: [message(0, 2)], lineage: [invocation(0, 2)] })
      expect(await purge(NOW + 100)).toBe(0)
      await one.pipelines.endExecution({ jobId: one.jobId, at: NOW + 70 })
      expect(await purge(NOW + 100)).toBe(2)
    })

    it("removes claims whose job was never stored, an hour later", async () => {
      const { pipelines } = stage().journal
      const jobId = newId()
      const claim = { jobId, at: NOW, limit: 1000, claimMs: 1000 }
      const first = await pipelines.claimExecution(claim)
      await pipelines.purgeLineage({ before: NOW + 3_600_000, limit: 1000 })
      expect(await pipelines.readExecution(jobId)).not.toBeNull()
      await pipelines.purgeLineage({ before: NOW + 3_600_001, limit: 1000 })
      expect(await pipelines.readExecution(jobId)).toBeNull()
      expect(await pipelines.claimExecution(claim)).not.toBe(first)
      await pipelines.endExecution({ jobId, at: NOW })
    })

    it("J17 removes the execution of a job that is purged, at once from sight and then page by page", async () => {
      const { journal, peer } = stage()
      const held = await holdForPipelines(journal)
      const [gone, kept] = [await ended(NOW), await ended(NOW)]
      await finishJob(journal, gone.jobId, EARLY - 1)
      const purge = { fences: [held], jobIds: [gone.jobId, kept.jobId], before: EARLY, limit: 100 }
      expect(await journal.purge(purge)).toBe(1)
      expect(await peer.pipelines.readExecution(gone.jobId)).toBeNull()
      await expect(peer.pipelines.commit(gone.next())).rejects.toThrow(/which does not exist/)
      while ((await peer.pipelines.purgeLineage({ before: 0, limit: 10 })) > 0);
      const { execution, pipelines } = gone
      expect(await gone.left()).toEqual({ messages: [], lineage: 0 })
      expect(await deadLettersOf({ pipelines }, execution)).toBe(0)
      expect(await pipelines.readStored(execution, ["k"])).toEqual(new Map())
      expect(await kept.left()).toEqual({
        messages: Array.from({ length: 23 }, (_, i) => i + 1),
        lineage: 66,
      })
    })
  })
}
