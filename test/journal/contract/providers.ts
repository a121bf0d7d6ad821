import { randomUUID } from "node:crypto"
import { describe, expect, it } from "vitest"
import { messageCommand } from "../../../src/journal/message-command.ts"
import type { BegunOperation, LeftBehind, NewWebhookEvent } from "../../../src/journal/port/providers.ts"
import { batch, fact, type Held, hold, newId, newJob, type Stage, store } from "../fixture.ts"
import { itemOperationsContract } from "./item-operations.ts"
import { providerOwnersContract } from "./provider-owners.ts"
import { providerRecordsContract } from "./provider-records.ts"

const NOW = 5_000_000
const terms = { limit: 1, leaseMs: 1000, at: NOW }

export function providersContract(stage: () => Stage): void {
  const fresh = (what: string) => `${what}-${randomUUID()}`
  const ask = (held: Held, provider: string, over: { jobId?: string; limit?: number; at?: number } = {}) => {
    const { partition } = held
    return { provider, ...terms, jobId: newId(), node: 0, partition, owner: 'a "da', ...over }
  }
  const request = async (one: ReturnType<typeof ask>, journal = stage().journal) => {
    const { jobId, node, partition, owner, ...own } = one
    const { held, notified: told } = await journal.providers.requestSlots(own, [
      { jobId, node, partition, owner },
    ])
    return { isHeld: held.length > 0, told }
  }
  /** There are more tests than partitions: those that read no messages share one. */
  let shared: Promise<Held> | undefined
  const common = () => {
    shared ??= hold(stage().journal)
    return shared
  }
  const messages = async (held: Held) =>
    (await stage().journal.readMessages({ partitions: [held.partition], limit: 100 })).map(message => ({
      jobId: message.jobId,
      command: messageCommand(message),
    }))
  const leave = (held: Held, left: Omit<LeftBehind, "partition">) =>
    stage().journal.append(
      batch(held, { facts: [fact(held, 50)], left: [{ partition: held.partition, ...left }] }),
    )

  describe("slots", () => {
    it("X5 are granted up to the limit, then in the order of the requests", async () => {
      const { journal, peer } = stage()
      const held = await hold(journal)
      const provider = fresh("acme")
      const requests = [1, 2, 3, 4].map(() => ask(held, provider, { limit: 2 }))
      const answers = []
      for (const each of requests) answers.push(await request(each))
      expect(answers.map(({ isHeld }) => isHeld)).toEqual([true, true, false, false])
      expect(await peer.providers.slotPosition(requests[3]!)).toBe(2)
      expect(await peer.providers.slotPosition(requests[0]!)).toBeNull()
      await leave(held, { jobId: requests[0]!.jobId, node: 0, at: NOW, operation: "none" })
      expect(await peer.providers.grantSlots({ ...requests[0]!, limit: 2 })).toEqual([held.partition])
      expect(await messages(held)).toEqual([
        { jobId: requests[2]!.jobId, command: { type: "grant_slot", node: 0 } },
      ])
      expect((await request(requests[2]!)).isHeld).toBe(true)
      expect(await peer.providers.slotPosition(requests[3]!)).toBe(1)
    })

    it("X5 are requested together, and granted in the order of the list", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const [provider, { partition }] = [fresh("acme"), held]
      const wishes = [1, 2, 3, 4].map(node => ({ jobId: newId(), node, partition, owner: "ada" }))
      const own = { provider, ...terms, limit: 3 }
      const first = await journal.providers.requestSlots(own, wishes.slice(0, 2))
      expect(first.held.map(({ node }) => node).sort()).toEqual([1, 2])
      const all = await journal.providers.requestSlots(own, wishes)
      expect(all.held.map(({ node }) => node).sort()).toEqual([1, 2, 3])
      expect(all.notified).toEqual([])
      expect(await messages(held)).toEqual([])
    })

    it("X5 are requested twice by one node and held once", async () => {
      const { journal } = stage()
      const held = await common()
      const asked = ask(held, fresh("acme"))
      for (const _ of [1, 2]) expect((await request(asked)).isHeld).toBe(true)
      expect((await journal.providers.overview({ ...asked })).held).toMatchObject([
        { jobId: asked.jobId, node: 0, owner: 'a "da', heldUntil: NOW + 1000 },
      ])
    })

    it("X5 never exceed the limit when many request and release at once", async () => {
      const { journal, peer } = stage()
      const held = await common()
      const provider = fresh("acme")
      const everybody = Array.from({ length: 20 }, () => ask(held, provider, { limit: 3 }))
      const answers = await Promise.all(everybody.map((asked, i) => request(asked, i % 2 ? journal : peer)))
      const overview = await journal.providers.overview({ provider, at: NOW })
      expect(overview).toMatchObject({ waiting: 17, held: { length: 3 } })
      expect(answers.filter(({ isHeld }) => isHeld).length).toBeLessThanOrEqual(3)
      for (let left = 20; left > 0; ) {
        const holders = (await journal.providers.overview({ provider, at: NOW })).held
        expect(holders.length).toBe(Math.min(3, left))
        await Promise.all(
          holders.map(({ jobId }) => leave(held, { jobId, node: null, at: NOW, operation: "none" })),
        )
        left -= holders.length
        const grant = { provider, ...terms, limit: 3 }
        await Promise.all([journal, peer].map(each => each.providers.grantSlots(grant)))
      }
    })

    it("X5 come free when their lease ends, unless an unfinished job's owner renews it", async () => {
      const { journal } = stage()
      const held = await common()
      const provider = fresh("acme")
      const job = newJob(held, 1)
      await store(journal, held, [job])
      await request(ask(held, provider, { jobId: job.id }))
      const waits = ask(held, provider)
      expect((await request(waits)).isHeld).toBe(false)
      await journal.providers.renewSlots({ partitions: [held.partition], at: NOW + 900, leaseMs: 1000 })
      expect(await journal.providers.grantSlots({ ...waits, at: NOW + 1500 })).toEqual([])
      expect(await journal.providers.grantSlots({ ...waits, at: NOW + 1900 })).toEqual([held.partition])
      await journal.providers.renewSlots({ partitions: [held.partition], at: NOW + 2800, leaseMs: 1000 })
      const { held: holders } = await journal.providers.overview({ provider, at: NOW + 2950 })
      expect(holders).toEqual([])
    })

    it("X5 whose lease ended are granted again to the node that requests them again", async () => {
      const held = await common()
      const first = ask(held, fresh("acme"))
      expect((await request(first)).isHeld).toBe(true)
      expect((await request({ ...first, at: NOW + 1000 })).isHeld).toBe(true)
    })

    it("X5 whose lease ended are waited for again, in order, unless their operation runs on", async () => {
      const { journal } = stage()
      const held = await common()
      const { partition } = held
      const provider = fresh("acme")
      const [idle, busy] = [ask(held, provider), ask(held, provider)]
      const both = { limit: 2 }
      for (const each of [idle, busy]) expect((await request({ ...each, ...both })).isHeld).toBe(true)
      const operation = {
        ...{ partition, provider, externalId: fresh("op"), jobId: busy.jobId, node: 0, attempt: 1 },
        ...{ submittedAt: NOW, endedAt: null, cancelAt: null },
      }
      await journal.append(batch(held, { begun: [operation] }))
      const late = { at: NOW + 1000, leaseMs: 1000 }
      expect((await request({ ...ask(held, provider), ...late })).isHeld).toBe(true)
      expect(await journal.providers.slotPosition({ ...idle, provider })).toBe(1)
      expect(await journal.providers.slotPosition({ ...busy, provider })).toBeNull()
      expect(await journal.providers.grantSlots({ ...terms, ...late, ...both, provider })).toEqual([
        partition,
      ])
    })

    it("X5 are not released by an owner that was replaced", async () => {
      const { journal } = stage()
      const held = await common()
      const asked = ask(held, fresh("acme"))
      await request(asked)
      const stale = { ...held, epoch: held.epoch - 1 }
      await journal.append(
        batch(stale, {
          left: [{ partition: held.partition, jobId: asked.jobId, node: 0, at: NOW, operation: "none" }],
        }),
      )
      expect((await journal.providers.overview({ ...asked })).held.length).toBe(1)
      await journal.providers.releaseSlot(asked)
      expect((await journal.providers.overview({ ...asked })).held.length).toBe(0)
    })
  })

  itemOperationsContract(stage, common)
  providerOwnersContract(stage, common)
  providerRecordsContract(stage, common)

  describe("outbound rates", () => {
    it("X6 give one place after the other, whichever process requests it", async () => {
      const { journal, peer } = stage()
      const take = { provider: fresh("acme"), intervalMs: 100, at: NOW, maxWaitMs: 450 }
      const taken = await Promise.all(
        Array.from({ length: 8 }, (_, i) => (i % 2 ? journal : peer).providers.takeRate(take)),
      )
      const places = taken.filter(place => place.taken).map(({ at }) => at - NOW)
      expect(places.sort((a, b) => a - b)).toEqual([0, 100, 200, 300, 400])
      expect(taken.filter(place => !place.taken).map(({ at }) => at)).toEqual(
        [500, 500, 500].map(ms => NOW + ms),
      )
      expect(await journal.providers.takeRate({ ...take, at: NOW + 2000 })).toEqual({
        taken: true,
        at: NOW + 2000,
      })
    })

    it("X6 learn from a provider that has too much to do, and recover", async () => {
      const { journal } = stage()
      const provider = fresh("acme")
      const take = { provider, intervalMs: 100, at: NOW, maxWaitMs: 1e6 }
      await journal.providers.takeRate(take)
      await journal.providers.slowDown({ provider, until: NOW + 5000 })
      expect(await journal.providers.takeRate(take)).toEqual({ taken: true, at: NOW + 5000 })
      expect(await journal.providers.takeRate(take)).toEqual({ taken: true, at: NOW + 5200 })
      expect((await journal.providers.overview({ provider, at: NOW })).pace).toBeCloseTo(0.52)
      for (let i = 0; i < 60; i++) await journal.providers.takeRate(take)
      expect((await journal.providers.overview({ provider, at: NOW })).pace).toBe(1)
    })
  })

  describe("operations and webhooks", () => {
    const begun = (held: Held, provider: string, over: Partial<BegunOperation> = {}): BegunOperation => ({
      partition: held.partition,
      provider,
      externalId: "op-1",
      jobId: newId(),
      node: 2,
      attempt: 1,
      submittedAt: NOW,
      endedAt: null,
      cancelAt: null,
      ...over,
    })
    const begin = (held: Held, ...operations: BegunOperation[]) =>
      stage().journal.append(batch(held, { facts: [fact(held, 1)], begun: operations }))
    const event = (provider: string, over: Partial<NewWebhookEvent> = {}): NewWebhookEvent => ({
      provider,
      eventId: "event-1",
      externalId: "op-1",
      receivedAt: NOW,
      verdict: "parked",
      reason: null,
      bytes: 17,
      news: '{"b":"\\u0000","a":1}',
      ...over,
    })
    const deliver = (provider: string) =>
      stage().peer.providers.deliverEvents({ operation: { provider, externalId: "op-1" }, at: NOW })
    const verdicts = async (provider: string) =>
      (await stage().journal.providers.listEvents({ provider, limit: 10 })).map(({ verdict }) => verdict)

    it("X2 a webhook becomes a message to the job that waits, once", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const provider = fresh("acme")
      const operation = begun(held, provider)
      await begin(held, operation)
      expect(await journal.providers.receiveEvent(event(provider))).toBe(true)
      expect(await journal.providers.receiveEvent(event(provider))).toBe(false)
      expect(await deliver(provider)).toEqual([held.partition])
      expect(await deliver(provider)).toEqual([])
      expect(await messages(held)).toEqual([
        { jobId: operation.jobId, command: { type: "external", node: 2, b: "\u0000", a: 1 } },
      ])
      expect(await verdicts(provider)).toEqual(["delivered"])
    })

    it("X2 a webhook that comes early is parked until its operation is known", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const provider = fresh("acme")
      await journal.providers.receiveEvent(event(provider))
      expect(await deliver(provider)).toEqual([])
      expect(await verdicts(provider)).toEqual(["parked"])
      await begin(held, begun(held, provider))
      expect(await stage().peer.providers.deliverEvents({ operation: null, at: NOW })).toContain(
        held.partition,
      )
      expect((await messages(held)).length).toBe(1)
    })

    it("X2 webhook and submission that arrive together find each other, whichever is second", async () => {
      const { journal, peer } = stage()
      const held = await hold(journal)
      const providers = Array.from({ length: 12 }, () => fresh("acme"))
      await Promise.all(
        providers.flatMap((provider, i) => [
          begin(held, begun(held, provider), ...(i % 3 ? [] : [begun(held, provider)])).then(() =>
            journal.providers.deliverEvents({ operation: { provider, externalId: "op-1" }, at: NOW }),
          ),
          peer.providers.receiveEvent(event(provider)).then(() => deliver(provider)),
        ]),
      )
      // A third of them has two jobs that wait for the same operation.
      expect((await messages(held)).length).toBe(16)
    })

    it("X4 a webhook of an operation that is over is late, and no job is notified", async () => {
      const { journal } = stage()
      const held = await common()
      const provider = fresh("acme")
      const operation = begun(held, provider)
      await begin(held, operation)
      await leave(held, { jobId: operation.jobId, node: 2, at: NOW + 1, operation: "ended" })
      await journal.providers.receiveEvent(event(provider))
      expect(await deliver(provider)).toEqual([])
      expect(await verdicts(provider)).toEqual(["late"])
    })

    it("records what was refused, every time", async () => {
      const { journal } = stage()
      const provider = fresh("acme")
      const refused = {
        eventId: null,
        externalId: null,
        news: null,
        verdict: "refused" as const,
        reason: "forged",
      }
      for (const _ of [1, 2])
        expect(await journal.providers.receiveEvent(event(provider, refused))).toBe(true)
      expect(await journal.providers.listEvents({ provider, limit: 1 })).toEqual([
        { ...refused, receivedAt: NOW, bytes: 17, news: undefined },
      ])
      expect(await verdicts(provider)).toEqual(["refused", "refused"])
    })

    it("J16 an operation that is no longer needed is to be cancelled until its provider was notified", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const provider = fresh("acme")
      const operation = begun(held, provider)
      const other = begun(held, provider, { externalId: "op-2", node: 3, endedAt: NOW, cancelAt: NOW + 5 })
      await begin(held, operation, other)
      await leave(held, { jobId: operation.jobId, node: 2, at: NOW, operation: "cancel" })
      const due = (at: number) =>
        journal.providers.dueCancels({
          partitions: [held.partition],
          providers: [provider, "x"],
          at,
          limit: 10,
        })
      expect((await due(NOW)).map(({ externalId, tries }) => [externalId, tries])).toEqual([["op-1", 0]])
      expect((await due(NOW + 5)).map(({ externalId }) => externalId)).toEqual(["op-1", "op-2"])
      const elsewhere = { partitions: [held.partition], providers: ["x"], at: NOW + 5, limit: 10 }
      expect(await journal.providers.dueCancels(elsewhere)).toEqual([])
      await journal.providers.settleCancel({ ...operation, again: NOW + 100 })
      await journal.providers.settleCancel({ ...other, again: null })
      expect(await due(NOW + 99)).toEqual([])
      expect(await due(NOW + 100)).toMatchObject([
        { provider, externalId: "op-1", node: 2, attempt: 1, tries: 1 },
      ])
    })

    it("J8 a batch with operations that is sent again is recognised, and tried without being kept", async () => {
      const { journal } = stage()
      const held = await common()
      const [provider, { partition }] = [fresh("acme"), held]
      const jobs = [newJob(held, 1), newJob(held, 2)]
      const begins = jobs.map(({ id }, n) => begun(held, provider, { jobId: id, externalId: `op-${n}` }))
      const first = batch(held, { facts: [fact(held, 1)], newJobs: jobs, begun: begins })
      const left = [{ partition, jobId: jobs[0]!.id, node: 2, at: NOW, operation: "cancel" as const }]
      const second = batch(held, { facts: [fact(held, 3)], left })
      const open = async () => (await journal.providers.overview({ provider, at: NOW })).operations
      await journal.tryAppend(first)
      expect(await open()).toBe(0)
      for (const inserted of [1, 0]) expect(await journal.append(first)).toMatchObject({ inserted })
      await journal.tryAppend(second)
      expect(await open()).toBe(2)
      for (const inserted of [1, 0]) expect(await journal.append(second)).toMatchObject({ inserted })
      expect(await open()).toBe(1)
      const due = await journal.providers.dueCancels({
        partitions: [partition],
        providers: [provider],
        at: NOW,
        limit: 10,
      })
      expect(due).toMatchObject([{ externalId: "op-0", tries: 0 }])
    })

    it("J17 operations and slots go with their job, webhooks with their time", async () => {
      const { journal } = stage()
      const held = await common()
      const provider = fresh("acme")
      const ended = newJob(held, 1, { status: "FAILED", finishedAt: 10 })
      const open = newJob(held, 2)
      await store(journal, held, [ended, open])
      const jobs = [ended, open].map(({ id }) => id)
      await begin(held, ...jobs.map((jobId, n) => begun(held, provider, { jobId, externalId: `op-${n}` })))
      for (const jobId of jobs) await request(ask(held, provider, { jobId, limit: 2 }))
      for (const receivedAt of [10, 50])
        await journal.providers.receiveEvent(event(provider, { eventId: `${receivedAt}`, receivedAt }))
      expect(await journal.purge({ fences: [held], jobIds: jobs, before: 40, limit: 1000 })).toBe(1)
      await journal.tidy({ before: 40, unsettledBefore: 40, silentSince: 0, limit: 1000 })
      const overview = await journal.providers.overview({ provider, at: NOW })
      expect(overview).toMatchObject({ operations: 1, held: [{ jobId: open.id }] })
      const events = await journal.providers.listEvents({ provider, limit: 10 })
      expect(events.map(({ eventId }) => eventId)).toEqual(["50"])
    })
  })
}
