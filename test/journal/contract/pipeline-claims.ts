import { describe, expect, it, onTestFinished } from "vitest"
import type { Journal } from "../../../src/journal/port/journal.ts"
import { newId, type Stage } from "../fixture.ts"
import { finishJob, message, NOW, parked, startExecution, storeJob } from "../pipeline-fixture.ts"

const TERMS = { at: NOW, limit: 3, claimMs: 1000 }

/** Ended with the test. */
function claimer(journal: Journal) {
  return (jobId: string, over: Partial<typeof TERMS> = {}) => {
    onTestFinished(() => journal.pipelines.endExecution({ jobId, at: NOW }))
    return journal.pipelines.claimExecution({ jobId, ...TERMS, ...over })
  }
}

export function pipelineClaimsContract(stage: () => Stage): void {
  describe("P1 a claim of a place among the executions", () => {
    it("is granted exactly as often as the limit says, for 20 requests at once", async () => {
      const { journal, peer } = stage()
      const ask = [claimer(journal), claimer(peer)]
      const jobs = Array.from({ length: 20 }, newId)
      const answers = await Promise.all(jobs.map((jobId, index) => ask[index % 2]!(jobId, { limit: 7 })))
      const given = answers.filter(answer => answer !== null)
      expect(given).toHaveLength(7)
      expect(new Set(given).size).toBe(7)
      const again = await Promise.all(jobs.map((jobId, index) => ask[(index + 1) % 2]!(jobId, { limit: 7 })))
      expect(again).toEqual(answers)
    })

    it("requested again for the same job is the same, also at once and with no place left", async () => {
      const { journal, peer } = stage()
      const jobId = newId()
      const asked = Array.from({ length: 10 }, (_, index) => claimer(index % 2 ? peer : journal)(jobId))
      const answers = await Promise.all(asked)
      expect(new Set(answers).size).toBe(1)
      expect(answers[0]).not.toBeNull()
      expect(await claimer(journal)(jobId, { limit: 0 })).toBe(answers[0])
      expect(await claimer(journal)(newId(), { limit: 1 })).toBeNull()
    })

    it("comes free when its execution has ended, and that may be said twice", async () => {
      const { journal } = stage()
      const { pipelines } = journal
      const claim = claimer(journal)
      const jobs = [newId(), newId(), newId()]
      for (const jobId of jobs) expect(await claim(jobId)).not.toBeNull()
      expect(await claim(newId())).toBeNull()
      await pipelines.endExecution({ jobId: jobs[0]!, at: NOW + 5 })
      await pipelines.endExecution({ jobId: jobs[0]!, at: NOW + 6 })
      await pipelines.endExecution({ jobId: newId(), at: NOW })
      expect((await pipelines.readExecution(jobs[0]!))?.endedAt).toBe(NOW + 5)
      expect(await claim(newId())).not.toBeNull()
      expect(await claim(newId())).toBeNull()
      expect(await pipelines.readExecution(newId())).toBeNull()
    })

    it("comes free after `claimMs` when its job was never stored; that of a running job stays", async () => {
      const { journal } = stage()
      const claim = claimer(journal)
      const [stored, lost] = [newId(), newId()]
      await storeJob(journal, stored)
      await claim(stored)
      const first = await claim(lost)
      expect(await claim(newId(), { limit: 2, at: NOW + 999 })).toBeNull()
      expect(await claim(newId(), { limit: 2, at: NOW + 1000 })).not.toBeNull()
      expect(await claim(newId(), { limit: 2, at: NOW + 1000 })).toBeNull()
      // It may come after all: it waits for a place like everybody.
      expect(await claim(lost, { limit: 2, at: NOW + 1000 })).toBeNull()
      expect(await claim(lost, { limit: 3, at: NOW + 1000 })).toBe(first)
    })

    it("is released with the end of its job, with or without a call, and is claimed again for a retry", async () => {
      const { journal } = stage()
      const claim = claimer(journal)
      const [ended, other] = [newId(), newId()]
      await storeJob(journal, ended)
      const execution = await claim(ended, { limit: 1 })
      expect(await claim(other, { limit: 1 })).toBeNull()
      await finishJob(journal, ended, NOW + 10)
      expect(await claim(other, { limit: 1, at: NOW + 20 })).not.toBeNull()
      await journal.pipelines.endExecution({ jobId: ended, at: NOW + 20 })
      expect(await claim(ended, { limit: 1, at: NOW + 30 })).toBeNull()
      expect(await claim(ended, { limit: 2, at: NOW + 30 })).toBe(execution)
      expect((await journal.pipelines.readExecution(ended))?.endedAt).toBeNull()
      expect(await claim(newId(), { limit: 2, at: NOW + 30 })).toBeNull()
      await finishJob(journal, ended, null)
      expect(await claim(newId(), { limit: 1, at: NOW + 5000 })).toBeNull()
    })
  })

  describe("P1 a list of executions", () => {
    it("has those of one owner, newest first, and says where it continues", async () => {
      const { journal, peer } = stage()
      const [own, other] = [newId(), newId()]
      const started = []
      for (const owner of [own, other, own, own, other])
        started.push(await startExecution(journal, newId(), { owner }))
      const [first, , third, fourth] = started
      const list = (over: object = {}) =>
        peer.pipelines.listExecutions({
          ...{
            owner: own,
            hasDeadLetters: false,
            before: Number.MAX_SAFE_INTEGER,
            limit: 9,
            scan: 1000,
            ...over,
          },
        })
      const idsOf = ({ executions }: Awaited<ReturnType<typeof list>>) => executions.map(({ jobId }) => jobId)
      expect(idsOf(await list())).toEqual([fourth, third, first].map(each => each!.jobId))
      expect((await list()).executions[0]).toEqual({
        ...{ execution: fourth!.execution, jobId: fourth!.jobId, progress: null, endedAt: null },
      })
      const page = await list({ limit: 2 })
      expect([idsOf(page), page.next]).toEqual([[fourth!.jobId, third!.jobId], third!.execution])
      expect(idsOf(await list({ limit: 2, before: page.next }))).toEqual([first!.jobId])
      const bounded = await list({ scan: 3 })
      expect([idsOf(bounded), bounded.next]).toEqual([[fourth!.jobId, third!.jobId], third!.execution])
      const nothing = await list({ scan: 1 })
      expect([idsOf(nothing), nothing.next]).toEqual([[], started[4]!.execution])
      expect(await list({ owner: newId(), before: 0 })).toEqual({ executions: [], next: null })
    })

    it("has only those with dead letters that no job replays, if requested", async () => {
      const { journal } = stage()
      const owner = newId()
      const started = []
      for (let n = 0; n < 4; n++) started.push(await startExecution(journal, newId(), { owner }))
      const messages = [message(0, 1), message(0, 2)]
      await started[0]!.commit({ messages, parked: [parked(0, 1), parked(0, 2)] })
      await started[1]!.commit({ messages, parked: [parked(0, 1, { dueAt: NOW })] })
      await started[3]!.commit({ messages, parked: [parked(0, 2)] })
      const { pipelines } = journal
      const list = async (over: object = {}) => {
        const page = {
          owner,
          hasDeadLetters: true,
          before: Number.MAX_SAFE_INTEGER,
          limit: 9,
          scan: 1000,
          ...over,
        }
        const { executions, next } = await pipelines.listExecutions(page)
        return { ids: executions.map(({ execution }) => execution), next }
      }
      const [first, last] = [started[0]!.execution, started[3]!.execution]
      expect((await list()).ids).toEqual([last, first])
      expect(await list({ limit: 1 })).toEqual({ ids: [last], next: last })
      expect((await list({ before: last })).ids).toEqual([first])
      const claim = { replayedBy: newId(), at: NOW, claimMs: 1000 }
      await pipelines.claimDeadLetters({ ...claim, execution: last, keys: null })
      await pipelines.claimDeadLetters({ ...claim, execution: first, keys: [{ route: 0, seq: 1 }] })
      expect((await list()).ids).toEqual([first])
      expect((await list({ owner: newId() })).ids).toEqual([])
    })
  })

  describe("P4 a claim of dead letters", () => {
    async function withDeadLetters(journal: Journal) {
      const started = await startExecution(journal)
      const messages = [message(0, 1), message(0, 2), message(1, 1), message(1, 2)]
      const dead = messages.slice(0, 3).map(({ route, seq }) => parked(route, seq))
      await started.commit({ messages, parked: [...dead, parked(1, 2, { dueAt: NOW })] })
      const { execution, pipelines } = started
      const claim = (over: object) =>
        pipelines.claimDeadLetters({
          execution,
          keys: null,
          replayedBy: newId(),
          at: NOW,
          claimMs: 1000,
          ...over,
        })
      return { ...started, messages, claim }
    }

    it("marks all of them or those that are named, once, and says how many a job has", async () => {
      const { journal, peer } = stage()
      const { execution, pipelines, messages, claim } = await withDeadLetters(journal)
      const [one, two] = [newId(), newId()]
      const keys = [
        { route: 0, seq: 2 },
        { route: 0, seq: 2 },
        { route: 1, seq: 2 },
        { route: 7, seq: 7 },
      ]
      expect(await claim({ replayedBy: one, keys })).toBe(1)
      expect(await claim({ replayedBy: one, keys })).toBe(1)
      expect(await claim({ replayedBy: two })).toBe(2)
      expect(await claim({ replayedBy: newId() })).toBe(0)
      const letters = await pipelines.listDeadLetters({ execution, limit: 9 })
      expect(letters.map(({ replayedBy }) => replayedBy)).toEqual([two, one, two])
      const replayed = await peer.pipelines.readReplayed({ replayedBy: two, limit: 9 })
      expect(replayed).toEqual([messages[0], messages[2]].map(found => ({ ...found, execution })))
      const after = { execution, route: 0, seq: 1 }
      const rest = await pipelines.readReplayed({ replayedBy: two, after, limit: 9 })
      expect(rest.map(({ route, seq }) => [route, seq])).toEqual([[1, 1]])
      expect(await pipelines.readReplayed({ replayedBy: two, limit: 1 })).toHaveLength(1)
      expect(await pipelines.readReplayed({ replayedBy: newId(), limit: 9 })).toEqual([])
    })

    it("gives each to one of several requests at once", async () => {
      const { journal, peer } = stage()
      const { execution } = await withDeadLetters(journal)
      const claim = { execution, keys: null, at: NOW, claimMs: 1000 }
      const counts = await Promise.all(
        Array.from({ length: 8 }, (_, index) =>
          (index % 2 ? peer : journal).pipelines.claimDeadLetters({ ...claim, replayedBy: newId() }),
        ),
      )
      expect(counts.reduce((sum, count) => sum + count)).toBe(3)
    })

    it("is free again after `claimMs` when its job was never stored, and never when it was", async () => {
      const { journal } = stage()
      const { claim } = await withDeadLetters(journal)
      const [lost, stored] = [newId(), newId()]
      expect(await claim({ replayedBy: lost })).toBe(3)
      expect(await claim({ replayedBy: stored, at: NOW + 999 })).toBe(0)
      expect(await claim({ replayedBy: stored, at: NOW + 1000 })).toBe(3)
      await storeJob(journal, stored)
      await finishJob(journal, stored, NOW + 1001)
      expect(await claim({ replayedBy: lost, at: NOW + 1_000_000 })).toBe(0)
    })

    it("gives a message another body, until it is parked again or claimed again", async () => {
      const { journal, peer } = stage()
      const { execution, pipelines, messages, commit, claim } = await withDeadLetters(journal)
      const [lost, replayedBy] = [newId(), newId()]
      const edited = { route: 0, seq: 2, body: '{"n":"two"}' }
      expect(
        await claim({ replayedBy: lost, keys: [{ route: 0, seq: 1 }], bodies: [{ ...edited, seq: 1 }] }),
      ).toBe(1)
      expect(
        await claim({ replayedBy, at: NOW + 1000, bodies: [edited, { route: 1, seq: 2, body: "0" }] }),
      ).toBe(3)
      const bodies = async () =>
        (await peer.pipelines.readReplayed({ replayedBy, limit: 9 })).map(({ body }) => body)
      expect(await bodies()).toEqual([messages[0]!.body, edited.body, messages[2]!.body])
      const letters = await pipelines.listDeadLetters({ execution, limit: 9 })
      expect(letters.map(({ isEdited }) => isEdited)).toEqual([false, true, false])
      expect(letters.map(({ body }) => body)).toEqual(messages.slice(0, 3).map(({ body }) => body))
      await commit({ parked: [parked(0, 2)] })
      expect(await claim({ replayedBy, keys: [{ route: 0, seq: 2 }] })).toBe(3)
      expect((await bodies())[1]).toBe(messages[1]!.body)
    })

    it("is removed when the message is parked again", async () => {
      const { journal } = stage()
      const { execution, pipelines, commit, claim } = await withDeadLetters(journal)
      const replayedBy = newId()
      await claim({ replayedBy })
      await commit({ parked: [parked(0, 1)] })
      expect(await pipelines.readReplayed({ replayedBy, limit: 9 })).toHaveLength(2)
      expect((await pipelines.listDeadLetters({ execution, limit: 1 }))[0]?.replayedBy).toBeNull()
    })
  })
}
