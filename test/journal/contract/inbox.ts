import { describe, expect, it } from "vitest"
import { JournalDataError } from "../../../src/journal/errors.ts"
import { answerOf, batch, fact, type Held, hold, newId, type Stage, sendMessage } from "../fixture.ts"

export function inboxContract(stage: () => Stage): void {
  const send = (partition: number, command: string) =>
    sendMessage(stage().peer, { partition, jobId: newId(), command, sentAt: 9_000_000 })

  /** For tests that need no partition to themselves: there are not enough. */
  const shared = new WeakMap<object, Promise<Held>>()
  const holdShared = (journal: Stage["journal"]): Promise<Held> => {
    const held = shared.get(journal) ?? hold(journal)
    shared.set(journal, held)
    return held
  }

  describe("inbox", () => {
    it("gives messages in order until they are answered", async () => {
      const { journal, peer } = stage()
      const held = await hold(journal)
      const { partition } = held
      const ids = [
        await send(partition, '{"n":1}'),
        await send(partition, '{"n":2}'),
        await send(partition, '{"n":3}'),
      ]
      const open = async (limit = 10) =>
        (await journal.readMessages({ partitions: [partition], limit })).map(row => row.id)
      expect(await open()).toEqual(ids)
      expect(await open(2)).toEqual(ids.slice(0, 2))
      const answers = [{ messageId: ids[1]!, partition, answer: '{"b":1,"a":"\\u0000"}' }]
      await journal.append(batch(held, { facts: [fact(held, 1)], answers }))
      expect(await open()).toEqual([ids[0], ids[2]])
      expect(await answerOf(peer, ids[1]!)).toBe('{"b":1,"a":"\\u0000"}')
      expect(await answerOf(peer, ids[0]!)).toBeNull()
    })

    it("takes many at once, in order, and returns the answer to each", async () => {
      const { journal, peer } = stage()
      const held = await holdShared(journal)
      const { partition } = held
      const messages = Array.from({ length: 30 }, (_, n) => ({
        ...{
          partition,
          jobId: newId(),
          sentAt: n,
          command: JSON.stringify({ n, text: "\u001e\u001f\u0000" }),
        },
      }))
      const ids = await peer.sendMessages(messages)
      expect(ids).toEqual([...ids].sort((a, b) => a - b))
      const open = await journal.readMessages({ partitions: [partition], limit: 100 })
      expect(open.map(({ id, command }) => [id, command])).toEqual(
        messages.map(({ command }, n) => [ids[n], command]),
      )
      const answers = ids.slice(10, 20).map(messageId => ({ messageId, partition, answer: `${messageId}` }))
      await journal.append(batch(held, { answers }))
      const others = ids.filter(id => !answers.some(({ messageId }) => messageId === id))
      for (const id of others) await peer.withdrawMessage(id)
      expect([...(await peer.readAnswers({ messageIds: ids }))].sort(([a], [b]) => a - b)).toEqual(
        ids.slice(10, 20).map(id => [id, String(id)]),
      )
    })

    it("removes messages whose sender knows the answer, and never one without", async () => {
      const { journal, peer } = stage()
      const held = await holdShared(journal)
      const { partition } = held
      const [known, unknown, open] = [
        await send(partition, "{}"),
        await send(partition, "{}"),
        await send(partition, "{}"),
      ]
      const answering = batch(held, {
        facts: [fact(held, 101)],
        answers: [known, unknown].map(messageId => ({ messageId, partition, answer: "1" })),
      })
      await journal.append(answering)
      expect((await peer.readAnswers({ messageIds: [unknown], forget: [known, open] })).size).toBe(1)
      expect(await answerOf(peer, known)).toBeNull()
      expect(await answerOf(peer, unknown)).toBe("1")
      expect((await journal.readMessages({ partitions: [partition], limit: 9 })).map(row => row.id)).toEqual([
        open,
      ])
      expect(await peer.withdrawMessage(known)).toBe(false)
      await peer.withdrawMessage(open)
      // A batch that is sent again after its message is gone is recognised all the same.
      expect(await journal.append(answering)).toEqual({ held: new Set([partition]), inserted: 0 })
    })

    it("keeps the first answer when a batch is sent again", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const messageId = await send(held.partition, "{}")
      const answering = (answer: string) =>
        batch(held, { facts: [fact(held, 1)], answers: [{ messageId, partition: held.partition, answer }] })
      await journal.append(answering("1"))
      expect((await journal.append(answering("2"))).held).toEqual(new Set([held.partition]))
      expect(await answerOf(journal, messageId)).toBe("1")
    })

    it("J6 changes together with the facts, or not at all", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const messageId = await send(held.partition, "{}")
      const cause = { partition: held.partition, seq: held.seq(1) }
      const bad = batch(held, {
        facts: [fact(held, 1), fact(held, 2, { data: "not json" })],
        answers: [{ messageId, partition: held.partition, answer: "1" }],
        messages: [{ partition: 62, jobId: newId(), command: "{}", sentAt: 1, cause }],
      })
      await expect(journal.append(bad)).rejects.toBeInstanceOf(JournalDataError)
      expect(await answerOf(journal, messageId)).toBeNull()
      expect(await journal.readMessages({ partitions: [62], limit: 10 })).toEqual([])
    })

    it("lets an unanswered message be taken back, and then nothing acts on it", async () => {
      const { journal, peer } = stage()
      const held = await hold(journal)
      const other = await hold(journal)
      const { partition } = held
      const messageId = await send(partition, "{}")
      expect(await peer.withdrawMessage(messageId)).toBe(true)
      expect(await peer.withdrawMessage(messageId)).toBe(true)
      expect(await journal.readMessages({ partitions: [partition], limit: 10 })).toEqual([])

      // Its owner had read it before: what it decided is refused, what others decided is not.
      const [caused, unrelated] = [fact(held, 1), fact(other, 1)]
      const result = await journal.append(
        batch([held, other], {
          facts: [caused, unrelated],
          answers: [{ messageId, partition, answer: "1" }],
        }),
      )
      expect(result).toEqual({ held: new Set([other.partition]), inserted: 1 })
      expect(await journal.readFacts([caused.jobId])).toEqual([])
      expect(await answerOf(peer, messageId)).toBeNull()
    })

    it("does not let an answered message be taken back", async () => {
      const { journal, peer } = stage()
      const held = await holdShared(journal)
      const messageId = await send(held.partition, "{}")
      await journal.append(batch(held, { answers: [{ messageId, partition: held.partition, answer: "1" }] }))
      expect(await peer.withdrawMessage(messageId)).toBe(false)
      expect(await peer.withdrawMessage(1e12)).toBe(false)
    })

    it("decides a race between answer and withdrawal one way or the other, never both", async () => {
      const { journal, peer } = stage()
      const held = await hold(journal)
      const { partition } = held
      for (let round = 0; round < 20; round++) {
        const messageId = await send(partition, "{}")
        const caused = fact(held, round)
        const answering = batch(held, { facts: [caused], answers: [{ messageId, partition, answer: "1" }] })
        const append = () => journal.append(answering)
        const withdraw = () => peer.withdrawMessage(messageId)
        const [result, withdrawn] =
          round % 2
            ? await Promise.all([append(), withdraw()])
            : await Promise.all([withdraw(), append()]).then(([w, a]) => [a, w] as const)
        expect(result.held.has(partition)).toBe(!withdrawn)
        expect((await journal.readFacts([caused.jobId])).length).toBe(withdrawn ? 0 : 1)
        expect(await answerOf(journal, messageId)).toBe(withdrawn ? null : "1")
      }
    })

    it("notifies listeners, where several processes share the store", async () => {
      const { journal, peer } = stage()
      expect(journal.listen === null).toBe(journal.capabilities.exclusive)
      if (!journal.listen) return
      const held = await hold(journal)
      const received = new Set<number>()
      const stop = await journal.listen(partition => void received.add(partition))
      await sendMessage(peer, { partition: 63, jobId: newId(), command: "{}", sentAt: 1 })
      await expect.poll(() => received.has(63)).toBe(true)
      const cause = { partition: held.partition, seq: held.seq(1) }
      const messages = [{ partition: 62, jobId: newId(), command: "{}", sentAt: 1, cause }]
      await peer.append(batch(held, { messages }))
      await expect.poll(() => received.has(62)).toBe(true)
      await stop()
    })
  })
}
