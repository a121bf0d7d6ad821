/** Slots and operations of items (J21), and slots that nobody uses. There are more tests than partitions: these share one. */
import { randomUUID } from "node:crypto"
import { describe, expect, it } from "vitest"
import { messageCommand } from "../../../src/journal/message-command.ts"
import type { BegunOperation, LeftBehind, SlotKey } from "../../../src/journal/port/providers.ts"
import { batch, fact, type Held, newId, type Stage } from "../fixture.ts"

const NOW = 5_000_000

export function itemOperationsContract(stage: () => Stage, common: () => Promise<Held>): void {
  const acme = () => `acme-${randomUUID()}`
  const terms = (provider: string, limit: number, at = NOW) => ({ provider, limit, leaseMs: 1000, at })
  const begin = (held: Held, begun: BegunOperation[]) =>
    stage().journal.append(batch(held, { facts: [fact(held, 1)], begun }))
  const begun = (held: Held, provider: string, slot: SlotKey, externalId: string): BegunOperation => ({
    ...{ partition: held.partition, provider, externalId, ...slot, attempt: 1 },
    ...{ submittedAt: NOW, endedAt: null, cancelAt: null },
  })
  const leave = (held: Held, left: Omit<LeftBehind, "partition">) =>
    stage().journal.append(
      batch(held, { facts: [fact(held, 50)], left: [{ partition: held.partition, ...left }] }),
    )
  const messagesTo = async (held: Held, jobId: string) => {
    const all = await stage().journal.readMessages({ partitions: [held.partition], limit: 100 })
    return all.filter(message => message.jobId === jobId).map(messageCommand)
  }

  describe("items", () => {
    it("J21 X5 have slots, each for itself", async () => {
      const { providers } = stage().journal
      const held = await common()
      const [provider, jobId, { partition }] = [acme(), newId(), held]
      const wishes = [0, 1, 2].map(item => ({ jobId, node: 4, item, partition, owner: "ada" }))
      const { held: got } = await providers.requestSlots(terms(provider, 2), wishes)
      expect(got.map(({ item }) => item).sort()).toEqual([0, 1])
      expect(await providers.slotPosition({ provider, jobId, node: 4, item: 2 })).toBe(1)
      expect(await providers.slotPosition({ provider, jobId, node: 4 })).toBeNull()
      await leave(held, { jobId, node: 4, at: NOW, operation: "none" })
      expect(await providers.grantSlots(terms(provider, 2))).toEqual([])
      await leave(held, { jobId, node: 4, item: 0, at: NOW, operation: "none" })
      expect(await providers.grantSlots(terms(provider, 2))).toEqual([partition])
      expect(await messagesTo(held, jobId)).toEqual([{ type: "grant_slot", node: 4, item: 2 }])
      await providers.releaseSlot({ jobId, node: 4, item: 1 })
      expect((await providers.overview({ provider, at: NOW })).held).toMatchObject([
        { jobId, node: 4, item: 2 },
      ])
    })

    it("J21 X4 have operations that are distinguished", async () => {
      const { providers } = stage().journal
      const held = await common()
      const [provider, jobId, { partition }] = [acme(), newId(), held]
      await begin(
        held,
        [0, 1].map(item => begun(held, provider, { jobId, node: 2, item }, `op-${item}`)),
      )
      await providers.receiveEvent({
        ...{ provider, eventId: "1", externalId: "op-1", receivedAt: NOW, verdict: "parked" },
        ...{ reason: null, bytes: 17, news: '{"a":1}' },
      })
      const operation = { provider, externalId: "op-1" }
      expect(await providers.deliverEvents({ operation, at: NOW })).toEqual([partition])
      expect(await messagesTo(held, jobId)).toEqual([{ type: "external", node: 2, item: 1, a: 1 }])
      await leave(held, { jobId, node: 2, item: 0, at: NOW, operation: "cancel" })
      expect((await providers.overview({ provider, at: NOW })).operations).toBe(1)
      const query = { partitions: [partition], providers: [provider], at: NOW, limit: 10 }
      const due = await providers.dueCancels(query)
      expect(due).toMatchObject([{ jobId, node: 2, item: 0, externalId: "op-0" }])
      await providers.settleCancel({ provider, externalId: "op-0", jobId, node: 2, again: null })
      expect((await providers.dueCancels(query)).length).toBe(1)
      await providers.settleCancel({ ...due[0]!, again: null })
      expect(await providers.dueCancels(query)).toEqual([])
    })
  })

  describe("slots that no attempt uses", () => {
    it("X5 are found when they are held for a while and nothing runs", async () => {
      const { providers } = stage().journal
      const held = await common()
      const [provider, { partition }] = [acme(), held]
      const jobs = [0, 1, 5, 6].map(later => ({ jobId: newId(), at: NOW + later }))
      for (const { jobId, at } of jobs)
        await providers.requestSlots(terms(provider, 3, at), [{ jobId, node: 0, partition, owner: "ada" }])
      const [idle, busy] = jobs
      await begin(held, [begun(held, provider, { jobId: busy!.jobId, node: 0 }, "op")])
      const query = { partitions: [partition], grantedBefore: NOW + 5 }
      const found = async (over: Partial<typeof query> = {}) => {
        const all = await providers.idleSlots({ ...query, ...over })
        return all.filter(slot => jobs.some(({ jobId }) => jobId === slot.jobId))
      }
      expect(await found()).toEqual([{ jobId: idle!.jobId, node: 0, partition }])
      expect(await found({ grantedBefore: NOW })).toEqual([])
      expect(await found({ partitions: [] })).toEqual([])
    })
  })
}
