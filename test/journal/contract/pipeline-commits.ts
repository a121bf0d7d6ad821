import { describe, expect, it } from "vitest"
import { JournalDataError } from "../../../src/journal/errors.ts"
import fc from "../../support/property.ts"
import type { Stage } from "../fixture.ts"
import {
  deadLettersOf,
  invocation,
  message,
  NOW,
  nextRetryAt,
  parked,
  startExecution,
} from "../pipeline-fixture.ts"

const ALL = { limit: 1000, maxBytes: 2 ** 30 }

export function pipelineCommitsContract(stage: () => Stage): void {
  describe("P3 a commit of an execution", () => {
    it("writes progress, messages, lineage, parked messages and storage together", async () => {
      const { journal, peer } = stage()
      const { execution, jobId, commit } = await startExecution(journal)
      expect(await peer.pipelines.readExecution(jobId)).toEqual({
        ...{ execution, jobId, commit: 0, progress: null, endedAt: null },
      })
      const messages = [message(1, 1, { parent: { route: 0, seq: 9 }, hops: 2, root: 7 }), message(0, 9)]
      const lineage = [invocation(0, 9, { emitted: "1:1" }), invocation(0, 9, { adapter: 1 })]
      const waiting = parked(0, 9, { dueAt: NOW + 5, attempts: 3 })
      await commit({
        ...{ messages, lineage, parked: [waiting], progress: '{"a": 1.0}' },
        stored: [{ key: "k", value: "[1]" }],
      })
      const { pipelines } = peer
      expect(await pipelines.readExecution(jobId)).toMatchObject({ commit: 1, progress: '{"a": 1.0}' })
      expect(await pipelines.readMessages({ execution, route: 1, after: 0, ...ALL })).toEqual([messages[0]])
      expect(await pipelines.readLineage({ execution, keys: [{ route: 0, seq: 9 }], limit: 9 })).toEqual(
        lineage,
      )
      expect(await pipelines.readRetries({ execution, route: 0, dueBy: NOW + 5, ...ALL })).toEqual([
        { ...messages[1], attempts: 3, dueAt: NOW + 5 },
      ])
      expect(await pipelines.readStored(execution, ["k", "none"])).toEqual(new Map([["k", "[1]"]]))
    })

    it("sent again is held and writes nothing, whatever it holds by then", async () => {
      const { journal, peer } = stage()
      const { execution, jobId, pipelines, commit } = await startExecution(journal)
      const first = await commit({ messages: [message(0, 1)], lineage: [invocation(0, 1)] })
      expect(await peer.pipelines.commit(first)).toEqual({ isHeld: true })
      const second = await commit({ messages: [message(0, 2)] })
      for (const again of [first, second, first])
        expect(await pipelines.commit({ ...again, progress: '"other"' })).toEqual({ isHeld: true })
      const found = await pipelines.readMessages({ execution, route: 0, after: 0, ...ALL })
      expect(found.map(({ seq }) => seq)).toEqual([1, 2])
      expect(await pipelines.readLineage({ execution, keys: [{ route: 0, seq: 1 }], limit: 9 })).toHaveLength(
        1,
      )
      expect(await pipelines.readExecution(jobId)).toMatchObject({ commit: 2, progress: '{"commit":2}' })
    })

    it("sent by many at once is written once", async () => {
      const { journal, peer } = stage()
      const { execution, jobId, pipelines, next } = await startExecution(journal)
      const made = next({ messages: [message(0, 1)], lineage: [invocation(0, 1)] })
      const sent = Array.from({ length: 10 }, (_, index) =>
        (index % 2 ? peer : journal).pipelines.commit(made),
      )
      for (const { isHeld } of await Promise.all(sent)) expect(isHeld).toBe(true)
      expect(await pipelines.readExecution(jobId)).toMatchObject({ commit: 1 })
      expect(await pipelines.readLineage({ execution, keys: made.messages, limit: 9 })).toHaveLength(1)
    })

    it("with a stale epoch is not held and writes nothing", async () => {
      const { journal, peer } = stage()
      const { execution, jobId, pipelines, held, next } = await startExecution(journal)
      const { partition, epoch } = held
      for (const stale of [epoch - 1, epoch + 1]) {
        const made = next({
          ...{ fence: { partition, epoch: stale }, messages: [message(0, 1)], parked: [parked(0, 1)] },
          ...{ lineage: [invocation(0, 1)], stored: [{ key: "k", value: "1" }] },
        })
        expect(await peer.pipelines.commit(made)).toEqual({ isHeld: false })
      }
      expect(await pipelines.readExecution(jobId)).toMatchObject({ commit: 0, progress: null })
      expect(await pipelines.findMessages(execution, [{ route: 0, seq: 1 }])).toEqual([])
      expect(await pipelines.readLineage({ execution, keys: [{ route: 0, seq: 1 }], limit: 9 })).toEqual([])
      expect(await deadLettersOf({ pipelines }, execution)).toBe(0)
      expect(await pipelines.readStored(execution, ["k"])).toEqual(new Map())
    })

    it("that does not follow on the last, or of no execution, is refused and writes nothing", async () => {
      const { journal } = stage()
      const { execution, jobId, pipelines, commit, next } = await startExecution(journal)
      await commit({})
      const early = next({ commit: 3, messages: [message(0, 1)] })
      await expect(pipelines.commit(early)).rejects.toThrow(JournalDataError)
      await expect(pipelines.commit(early)).rejects.toThrow(
        /commit 3 of execution \d+, whose last commit is 1/,
      )
      await expect(pipelines.commit(next({ execution: 2 ** 40 }))).rejects.toThrow(/which does not exist/)
      expect(await pipelines.findMessages(execution, early.messages)).toEqual([])
      expect(await pipelines.readExecution(jobId)).toMatchObject({ commit: 1 })
    })

    it("with data that cannot be stored is refused as a whole", async () => {
      const { journal } = stage()
      const { execution, jobId, pipelines, next, commit } = await startExecution(journal)
      await commit({ messages: [message(0, 5)] })
      const good = message(0, 6)
      const bad = [
        { messages: [good, message(0, 7, { body: "{" })] },
        { messages: [good, message(0, 7, { body: "" })] },
        { messages: [good, message(0, 7, { body: '"\u001e"' })] },
        { messages: [good, message(0, 5)] },
        { messages: [good, good] },
        { messages: [good], parked: [parked(0, 5, { error: "no" })] },
        { messages: [good], stored: [{ key: "k", value: "no" }] },
        { messages: [good], progress: "no" },
      ]
      for (const over of bad) await expect(pipelines.commit(next(over))).rejects.toThrow(JournalDataError)
      expect(await pipelines.findMessages(execution, [good])).toEqual([])
      expect(await pipelines.readExecution(jobId)).toMatchObject({ commit: 1 })
    })

    it("parks in place of what was parked, and takes out what is not parked any more", async () => {
      const { journal } = stage()
      const { execution, pipelines, commit } = await startExecution(journal)
      const keys = [1, 2, 3].map(seq => message(0, seq))
      await commit({ messages: keys, parked: keys.map(({ seq }) => parked(0, seq, { dueAt: NOW + seq })) })
      expect(await nextRetryAt({ pipelines }, execution, 0)).toBe(NOW + 1)
      expect(await nextRetryAt({ pipelines }, execution, 1)).toBeNull()
      await commit({
        parked: [parked(0, 1, { attempts: 2, dueAt: NOW + 9 })],
        unparked: [{ route: 0, seq: 2 }],
      })
      const due = () => pipelines.readRetries({ execution, route: 0, dueBy: NOW + 20, ...ALL })
      expect((await due()).map(({ seq, attempts, dueAt }) => [seq, attempts, dueAt])).toEqual([
        [3, 1, NOW + 3],
        [1, 2, NOW + 9],
      ])
      expect(await nextRetryAt({ pipelines }, execution, 0)).toBe(NOW + 3)
      // What is said twice counts as it was said last, and what is parked is not also taken out.
      await commit({
        parked: [
          parked(0, 3, { attempts: 5, dueAt: NOW + 1 }),
          parked(0, 3, { attempts: 6, dueAt: NOW + 2 }),
        ],
        unparked: [
          { route: 0, seq: 3 },
          { route: 0, seq: 1 },
        ],
      })
      expect((await due()).map(({ seq, attempts }) => [seq, attempts])).toEqual([[3, 6]])
      await commit({ parked: [parked(0, 3, { attempts: 7 })] })
      expect(await due()).toEqual([])
      expect(await deadLettersOf({ pipelines }, execution)).toBe(1)
    })

    it("stores under any key, and the last value counts", async () => {
      const { journal, peer } = stage()
      const { execution, pipelines, commit } = await startExecution(journal)
      const keys = [
        "",
        " a ",
        'q"\\',
        "{a,b}",
        "NULL",
        "\u0000",
        "\u001e\u001f",
        "\ud800",
        "\udc00",
        "ü€😀",
        "\n",
      ]
      keys.push(`https://example.com/?q=${"x".repeat(5000)}`, `https://example.com/?q=${"x".repeat(4999)}y`)
      const stored = keys.map((key, index) => ({ key, value: `${index}` }))
      await commit({ stored })
      expect(await peer.pipelines.readStored(execution, keys)).toEqual(
        new Map(stored.map(({ key, value }) => [key, value])),
      )
      await commit({
        stored: [
          { key: "\u0000", value: '"a"' },
          { key: "", value: "1" },
          { key: "", value: "2" },
        ],
      })
      expect(await pipelines.readStored(execution, ["\u0000", "", "unknown"])).toEqual(
        new Map([
          ["\u0000", '"a"'],
          ["", "2"],
        ]),
      )
      const other = await startExecution(journal)
      expect(await pipelines.readStored(other.execution, keys)).toEqual(new Map())
    })

    it("keeps bodies, errors, values and progress byte for byte, for any JSON text", async () => {
      const { journal } = stage()
      const { execution, jobId, pipelines, commit } = await startExecution(journal)
      let seq = 0
      const json = fc.jsonValue({ stringUnit: "binary", maxDepth: 3 }).map(value => JSON.stringify(value))
      const odd = fc.constantFrom(
        '{"b":"\\u0000","a":"\\ud800","B":"\\udfff\\ud83d"}',
        '{"z":1,"a":2,"10":3,"9":4,"a":5}',
        " [1.0, 1e3, -0, 12345678901234567890.12345] ",
        JSON.stringify("\u0000\ud800 \u001e\u001f \u2028 € 😀 \\ \" ' { } , ; NULL"),
        "null",
        '""',
      )
      const texts = fc.array(fc.oneof(json, odd), { minLength: 1, maxLength: 20 })
      await fc.assert(
        fc.asyncProperty(texts, async list => {
          const messages = list.map(body => message(0, ++seq, { body }))
          const lineage = messages.map(({ seq: of, body }) =>
            invocation(0, of, { status: "failed", error: body, emitted: "1:2-3,4:5" }),
          )
          const dead = messages.map(({ seq: of, body }) => parked(0, of, { error: body }))
          const stored = messages.map(({ seq: of, body }) => ({ key: `${of}`, value: body }))
          await commit({ messages, lineage, parked: dead, stored, progress: list[0]! })
          const after = seq - list.length
          expect(await pipelines.readMessages({ execution, route: 0, after, ...ALL })).toEqual(messages)
          expect(await pipelines.readLineage({ execution, keys: messages, limit: 99 })).toEqual(lineage)
          const letters = await pipelines.listDeadLetters({
            execution,
            after: { route: 0, seq: after },
            limit: 99,
          })
          expect(letters.map(({ error }) => error)).toEqual(list)
          const found = await pipelines.readStored(
            execution,
            stored.map(({ key }) => key),
          )
          expect([...found.values()]).toEqual(list)
          expect((await pipelines.readExecution(jobId))?.progress).toBe(list[0])
        }),
        { numRuns: 15 },
      )
    })
  })
}
