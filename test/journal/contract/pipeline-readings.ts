import { describe, expect, it } from "vitest"
import type { LineageRow, PipelineCommit } from "../../../src/journal/port/pipelines.ts"
import { openMemory } from "../../../src/journal/sqlite/memory.ts"
import fc from "../../support/property.ts"
import type { Stage } from "../fixture.ts"
import {
  deadLettersOf,
  type Execution,
  invocation,
  message,
  NOW,
  nextRetryAt,
  parked,
  startExecution,
} from "../pipeline-fixture.ts"

const ALL = { limit: 1000, maxBytes: 2 ** 30 }

export function pipelineReadingsContract(stage: () => Stage): void {
  describe("P2 readings of an execution", () => {
    it("messages come in order of seq, in pages of limited number and bytes, and at least one", async () => {
      const { journal, peer } = stage()
      const { execution, commit } = await startExecution(journal)
      const body = (bytes: number) => JSON.stringify("ü".repeat(bytes / 2 - 1))
      await commit({ messages: [message(0, 40, { body: body(100) }), message(0, 10, { body: body(100) })] })
      await commit({
        messages: [message(0, 20, { body: body(100) }), message(1, 15), message(0, 30, { body: body(400) })],
      })
      const seqs = async (after: number, limit: number, maxBytes: number) => {
        const page = await peer.pipelines.readMessages({ execution, route: 0, after, limit, maxBytes })
        return page.map(({ seq }) => seq)
      }
      expect(await seqs(0, 100, 10_000)).toEqual([10, 20, 30, 40])
      expect(await seqs(0, 2, 10_000)).toEqual([10, 20])
      expect(await seqs(10, 2, 10_000)).toEqual([20, 30])
      expect(await seqs(40, 2, 10_000)).toEqual([])
      expect(await seqs(0, 100, 599)).toEqual([10, 20])
      expect(await seqs(0, 100, 600)).toEqual([10, 20, 30])
      expect(await seqs(20, 100, 100)).toEqual([30])
      expect(await seqs(0, 100, 0)).toEqual([10])
    })

    it("P4 dead letters that are left are counted up to a bound, and the first is returned; replayed ones do not count", async () => {
      const { journal } = stage()
      const { execution, pipelines, commit } = await startExecution(journal)
      const left = (most = 100) => pipelines.deadLettersLeft({ execution, most })
      expect(await left()).toEqual({ count: 0, first: null })
      const error = (n: number) => JSON.stringify({ code: "E401", message: `m${n}`, retryable: false })
      await commit({
        messages: [message(1, 7), message(0, 3), message(0, 9), message(0, 1)],
        parked: [
          parked(1, 7, { error: error(7) }),
          parked(0, 9, { error: error(9) }),
          parked(0, 3, { error: error(3) }),
          parked(0, 1, { dueAt: NOW + 1000 }),
        ],
      })
      expect(await left()).toEqual({ count: 3, first: { route: 0, seq: 3, error: error(3) } })
      expect((await left(2)).count).toBe(2)
      const claim = { execution, replayedBy: "00000000-0000-7000-8000-00000000000a", at: NOW, claimMs: 1000 }
      await pipelines.claimDeadLetters({ ...claim, keys: [{ route: 0, seq: 3 }] })
      expect(await left()).toEqual({ count: 2, first: { route: 0, seq: 9, error: error(9) } })
      await pipelines.claimDeadLetters({ ...claim, keys: null })
      expect(await left()).toEqual({ count: 0, first: null })
    })

    it("P5 a dead letter and its place among those that a job replays are found from each other, by route", async () => {
      const { journal } = stage()
      const { execution, pipelines, commit } = await startExecution(journal)
      const keys = [
        { route: 0, seq: 2 },
        { route: 0, seq: 5 },
        { route: 0, seq: 9 },
        { route: 1, seq: 4 },
      ]
      await commit({
        messages: [...keys, { route: 0, seq: 7 }].map(({ route, seq }) => message(route, seq)),
        parked: [...keys, { route: 0, seq: 7 }].map(({ route, seq }) => parked(route, seq)),
      })
      const replayedBy = "00000000-0000-7000-8000-00000000000b"
      await pipelines.claimDeadLetters({ execution, keys, replayedBy, at: NOW, claimMs: 1000 })
      const place = (route: number, seq: number) =>
        pipelines.countReplayedBefore({ execution, route, seq, replayedBy })
      expect([await place(0, 2), await place(0, 5), await place(0, 9), await place(1, 4)]).toEqual([
        0, 1, 2, 0,
      ])
      const nth = (route: number, n: number) =>
        pipelines.findReplayed({ execution, route, replayedBy, before: n })
      expect(await Promise.all([nth(0, 0), nth(0, 1), nth(0, 2), nth(1, 0)])).toEqual(keys)
      expect([await nth(0, 3), await nth(2, 0)]).toEqual([null, null])
    })

    it("P7 messages of several executions never mix", async () => {
      const { journal } = stage()
      const [one, two] = [await startExecution(journal), await startExecution(journal)]
      await one.commit({ messages: [message(0, 1, { body: "1" })], parked: [parked(0, 1)] })
      await two.commit({ messages: [message(0, 1, { body: "2" })], lineage: [invocation(0, 1)] })
      const { pipelines } = journal
      const bodies = async ({ execution }: Execution) =>
        (await pipelines.findMessages(execution, [{ route: 0, seq: 1 }])).map(({ body }) => body)
      expect([await bodies(one), await bodies(two)]).toEqual([["1"], ["2"]])
      expect(await deadLettersOf({ pipelines }, two.execution)).toBe(0)
      expect(
        await pipelines.readLineage({ execution: one.execution, keys: [{ route: 0, seq: 1 }], limit: 9 }),
      ).toEqual([])
    })

    it("messages are found by their keys, those that exist, once each", async () => {
      const { journal } = stage()
      const { execution, pipelines, commit } = await startExecution(journal)
      const messages = [message(0, 1), message(1, 1), message(1, 2)]
      await commit({ messages })
      const keys = [...messages, messages[0]!, { route: 0, seq: 2 }].map(({ route, seq }) => ({ route, seq }))
      const found = await pipelines.findMessages(execution, keys)
      expect(found).toHaveLength(3)
      expect(found).toEqual(expect.arrayContaining(messages))
      expect(await pipelines.findMessages(execution, [])).toEqual([])
    })

    it("a body may be 10 MB, and a page does not read those it leaves out", async () => {
      const { journal } = stage()
      const { execution, pipelines, commit } = await startExecution(journal)
      const body = JSON.stringify({ text: "0123456789".repeat(1_000_000) })
      await commit({ messages: [message(0, 1, { body }), message(0, 2, { body }), message(0, 3)] })
      const query = { execution, route: 0, limit: 10, maxBytes: 1000 }
      const [first, ...others] = await pipelines.readMessages({ ...query, after: 0 })
      expect([first?.body === body, others]).toEqual([true, []])
      expect((await pipelines.readMessages({ ...query, after: 2 })).map(({ seq }) => seq)).toEqual([3])
    })

    it("P4 retries come the earliest first from behind the cursor on, in limited pages, never dead letters", async () => {
      const { journal } = stage()
      const { execution, pipelines, commit } = await startExecution(journal)
      const due = [
        [4, 10],
        [2, 20],
        [1, 20],
        [3, 30],
        [5, 99],
      ] as const
      const messages = [1, 2, 3, 4, 5, 6].map(seq =>
        message(0, seq, { body: JSON.stringify("x".repeat(98)) }),
      )
      const waiting = due.map(([seq, dueAt]) => parked(0, seq, { dueAt: NOW + dueAt }))
      await commit({
        messages: [...messages, message(1, 1)],
        parked: [...waiting, parked(0, 6), parked(1, 1, { dueAt: NOW })],
      })
      const seqs = async (over: object) => {
        const query = { execution, route: 0, dueBy: NOW + 30, ...ALL, ...over }
        return (await pipelines.readRetries(query)).map(({ seq }) => seq)
      }
      expect(await seqs({})).toEqual([4, 1, 2, 3])
      expect(await seqs({ dueBy: NOW + 20 })).toEqual([4, 1, 2])
      expect(await seqs({ limit: 2 })).toEqual([4, 1])
      expect(await seqs({ after: { dueAt: NOW + 20, seq: 1 } })).toEqual([2, 3])
      expect(await seqs({ maxBytes: 299 })).toEqual([4, 1])
      expect(await seqs({ maxBytes: 0 })).toEqual([4])
      expect(await nextRetryAt({ pipelines }, execution, 0)).toBe(NOW + 10)
    })

    it("P4 dead letters are listed by route and seq, in pages, with their message and error", async () => {
      const { journal, peer } = stage()
      const { execution, pipelines, commit } = await startExecution(journal)
      const messages = [message(1, 3), message(0, 7), message(1, 2), message(0, 5), message(2, 1)]
      await commit({
        messages,
        parked: messages.slice(0, 4).map(({ route, seq }) => parked(route, seq, { attempts: 4 })),
      })
      await commit({ parked: [parked(2, 1, { dueAt: NOW })] })
      const list = async (over: object) => {
        const found = await peer.pipelines.listDeadLetters({ execution, limit: 10, ...over })
        return found.map(({ route, seq }) => `${route}:${seq}`)
      }
      expect(await list({})).toEqual(["0:5", "0:7", "1:2", "1:3"])
      expect(await list({ limit: 2 })).toEqual(["0:5", "0:7"])
      expect(await list({ after: { route: 0, seq: 7 } })).toEqual(["1:2", "1:3"])
      expect(await list({ route: 1 })).toEqual(["1:2", "1:3"])
      expect(await list({ route: 0, after: { route: 0, seq: 5 } })).toEqual(["0:7"])
      expect(await list({ route: 2 })).toEqual([])
      expect(await deadLettersOf({ pipelines }, execution)).toBe(4)
      expect((await pipelines.listDeadLetters({ execution, route: 0, limit: 1 }))[0]).toEqual({
        ...messages[3],
        ...{ attempts: 4, failedAt: NOW, error: '{"code":"E401"}', replayedBy: null, isEdited: false },
      })
    })

    it("P5 lineage has every invocation of a message, in all its attempts, at most `limit`", async () => {
      const { journal } = stage()
      const { execution, pipelines, commit } = await startExecution(journal)
      const fault = { status: "failed", error: '{"message":"no; not now"}' } as const
      const first = [invocation(0, 1), invocation(0, 1, { adapter: 1, ...fault, durationUs: 3_600_000_000 })]
      const again = { attempt: 2, at: NOW + 9 }
      const second = [
        invocation(0, 1, again),
        invocation(0, 1, { ...again, adapter: 1, emitted: "1:5-9,2:7" }),
      ]
      const other = invocation(0, 2, { status: "failed" })
      await commit({ lineage: first })
      await commit({ lineage: [second[0]!, other, second[1]!] })
      const read = (seqs: number[], limit: number) =>
        pipelines.readLineage({ execution, keys: seqs.map(seq => ({ route: 0, seq })), limit })
      expect(await read([1], 99)).toEqual([...first, ...second])
      expect(await read([2, 1, 1], 99)).toEqual([...first, ...second, other])
      expect(await read([1, 2], 3)).toHaveLength(3)
      expect(await read([3], 99)).toEqual([])
    })

    it("P5 lineage comes by message, attempt, adapter and time, whichever was committed first; so does its first page", async () => {
      const { journal } = stage()
      const { execution, pipelines, commit } = await startExecution(journal)
      const ordered = [
        invocation(0, 1, { at: NOW }),
        invocation(0, 1, { at: NOW + 5, status: "completed" }),
        invocation(0, 1, { at: NOW + 5, status: "failed", error: '"a"' }),
        invocation(0, 1, { at: NOW + 5, status: "failed", error: '"b"' }),
        invocation(0, 1, { adapter: 1, at: NOW - 5 }),
        invocation(0, 1, { attempt: 2 }),
        invocation(0, 2),
        invocation(1, 1),
      ]
      for (const row of ordered.toReversed()) await commit({ lineage: [row] })
      const keys = [1, 0].flatMap(route => [2, 1].map(seq => ({ route, seq })))
      for (const limit of [1, 2, 3, 5, 6, 99])
        expect(await pipelines.readLineage({ execution, keys, limit })).toEqual(ordered.slice(0, limit))
    })

    it("P5 gathered messages are found by what they were gathered into", async () => {
      const { journal } = stage()
      const { execution, pipelines, commit } = await startExecution(journal)
      const gathered = [2, 4, 3].flatMap(seq => [
        invocation(0, seq),
        invocation(0, seq, { adapter: 1, into: 1 }),
      ])
      await commit({
        lineage: [
          invocation(0, 1),
          invocation(0, 1, { adapter: 1 }),
          ...gathered,
          invocation(1, 9, { into: 1 }),
        ],
      })
      const into = [
        { route: 0, seq: 1 },
        { route: 0, seq: 2 },
      ]
      const found = await pipelines.readGathered({ execution, into, limit: 9 })
      expect(found).toEqual([2, 3, 4].map(seq => ({ route: 0, seq })))
      expect(await pipelines.readGathered({ execution, into, limit: 2 })).toHaveLength(2)
      expect(await pipelines.readLineage({ execution, keys: [{ route: 0, seq: 2 }], limit: 9 })).toEqual(
        gathered.slice(0, 2),
      )
    })

    it("are the same as those of a store in memory after any commits, whichever were sent again", async () => {
      const model = openMemory()
      const pairs = fc.array(
        fc.record({
          messages: fc.nat({ max: 4 }),
          route: fc.nat({ max: 2 }),
          attempts: fc.nat({ max: 3 }),
          fate: fc.array(fc.constantFrom("ack", "retry", "dead", "gather"), { maxLength: 5 }),
          resend: fc.subarray(["same", "before", "stale"]),
        }),
        { minLength: 1, maxLength: 8 },
      )
      await fc.assert(
        fc.asyncProperty(pairs, async plan => {
          const [real, other] = [await startExecution(stage().journal), await startExecution(model)]
          const seen = { last: [0, 0, 0], open: [] as { route: number; seq: number }[] }
          let before: PipelineCommit | null = null
          for (const step of plan) {
            const content = contentOf(step, seen)
            const made = [real.next(content), other.next(content)] as const
            for (const [index, each] of [real, other].entries()) {
              const { fence } = made[index]!
              const stale = { ...made[index]!, fence: { ...fence, epoch: fence.epoch - 1 } }
              if (step.resend.includes("stale"))
                expect(await each.pipelines.commit(stale)).toEqual({ isHeld: false })
              const again = before && { ...before, execution: each.execution, fence }
              if (again && step.resend.includes("before"))
                expect(await each.pipelines.commit(again)).toEqual({ isHeld: true })
              await each.commit(content)
              if (step.resend.includes("same")) await each.pipelines.commit(made[index]!)
            }
            before = made[0]
          }
          expect(await everything(real)).toEqual(await everything(other))
        }),
        { numRuns: 15 },
      )
    })
  })
}

interface Step {
  readonly messages: number
  readonly route: number
  readonly attempts: number
  readonly fate: readonly string[]
}

/** New messages, and what becomes of some that are open. */
function contentOf(step: Step, seen: { last: number[]; open: { route: number; seq: number }[] }) {
  const { route } = step
  const messages = Array.from({ length: step.messages }, () => message(route, ++seen.last[route]!))
  const lineage: LineageRow[] = []
  const content = {
    parked: [] as ReturnType<typeof parked>[],
    unparked: [] as { route: number; seq: number }[],
  }
  const countFactsOf = seen.open.splice(0, step.fate.length)
  for (const [index, key] of countFactsOf.entries()) {
    const fate = step.fate[index]
    const isFailed = fate === "retry" || fate === "dead"
    const attempt = step.attempts + 1
    lineage.push(invocation(key.route, key.seq, { attempt }))
    lineage.push(
      invocation(key.route, key.seq, {
        ...{ attempt, adapter: 1, into: fate === "gather" ? countFactsOf[0]!.seq : null },
        ...(isFailed ? { status: "failed", error: "{}" } : {}),
      }),
    )
    if (isFailed) {
      const dueAt = fate === "retry" ? NOW + step.attempts : null
      content.parked.push(parked(key.route, key.seq, { attempts: attempt, dueAt }))
      seen.open.push(key)
    } else content.unparked.push(key)
  }
  seen.open.push(...messages)
  return { ...content, messages, lineage, stored: [{ key: `${route}`, value: `${step.messages}` }] }
}

async function everything({ pipelines, execution, jobId }: Execution) {
  const routes = [0, 1, 2]
  const queues = await Promise.all(
    routes.map(route => pipelines.readMessages({ execution, route, after: 0, ...ALL })),
  )
  const keys = queues.flat().map(({ route, seq }) => ({ route, seq }))
  const { commit, progress } = (await pipelines.readExecution(jobId))!
  const retries = routes.map(route => pipelines.readRetries({ execution, route, dueBy: NOW + 9, ...ALL }))
  return {
    ...{ commit, progress, queues },
    retries: await Promise.all(retries),
    nextRetryAt: await Promise.all(routes.map(route => nextRetryAt({ pipelines }, execution, route))),
    dead: await pipelines.listDeadLetters({ execution, limit: 1000 }),
    count: await deadLettersOf({ pipelines }, execution),
    lineage: await pipelines.readLineage({ execution, keys, limit: 1000 }),
    gathered: await pipelines.readGathered({ execution, into: keys, limit: 1000 }),
    stored: [...(await pipelines.readStored(execution, ["0", "1", "2"]))].sort(),
  }
}
