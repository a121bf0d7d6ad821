import { randomUUID } from "node:crypto"
import { describe, expect, it } from "vitest"
import type { BegunOperation, LeftBehind } from "../../../src/journal/port/providers.ts"
import { batch, fact, freeJobs, type Held, newId, newJob, type Stage, store } from "../fixture.ts"

const NOW = 5_000_000
const terms = { limit: 1, leaseMs: 1000, at: NOW }

/** Several owners at one provider: whose turn it is, and whose an operation is. */
export function providerOwnersContract(stage: () => Stage, common: () => Promise<Held>): void {
  const fresh = (what: string) => `${what}-${randomUUID()}`
  const ask = ({ partition }: Held, provider: string, owner: string) => {
    return { provider, jobId: newId(), node: 0, partition, owner }
  }
  const request = async ({ provider, ...one }: ReturnType<typeof ask>) => {
    const { held } = await stage().journal.providers.requestSlots({ provider, ...terms }, [one])
    return held.length > 0
  }
  const leave = (held: Held, left: Omit<LeftBehind, "partition">) =>
    stage().journal.append(
      batch(held, { facts: [fact(held, 50)], left: [{ partition: held.partition, ...left }] }),
    )
  const begin = (held: Held, provider: string, jobId: string, externalId = "op-1") => {
    const { partition } = held
    const times = { submittedAt: NOW, endedAt: null, cancelAt: null }
    const begun: BegunOperation = { partition, provider, externalId, jobId, node: 2, attempt: 1, ...times }
    return stage().journal.append(batch(held, { facts: [fact(held, 50)], begun: [begun] }))
  }

  describe("owners at a provider", () => {
    it("X5 go to the owner that holds the fewest, and of those to the one whose last turn was longest ago", async () => {
      const { journal } = stage()
      const held = await common()
      const provider = fresh("acme")
      const asked = ["ada", "ada", "ada", "bob", "bob", "cy"].map(owner => ask(held, provider, owner))
      const order: string[] = []
      expect(await request(asked[0]!)).toBe(true)
      for (const each of asked.slice(1)) expect(await request(each)).toBe(false)
      const places = await Promise.all(asked.slice(1).map(each => journal.providers.slotPosition(each)))
      expect(places).toEqual([4, 5, 1, 3, 2])
      for (let granted = asked[0]; granted !== undefined; ) {
        order.push(granted.owner)
        await leave(held, { jobId: granted.jobId, node: 0, at: NOW, operation: "none" })
        await journal.providers.grantSlots({ provider, ...terms })
        const [holder] = (await journal.providers.overview({ provider, at: NOW })).held
        granted = asked.find(({ jobId }) => jobId === holder?.jobId)
      }
      expect(order).toEqual(["ada", "bob", "cy", "ada", "bob", "ada"])
    })

    it("X5 of one owner are never more than its own limit", async () => {
      const { journal } = stage()
      const held = await common()
      const provider = fresh("acme")
      const own = { provider, ...terms, limit: 5, limitPerOwner: 2 }
      const wishes = ["ada", "ada", "ada", "ada", "bob"].map(owner => ask(held, provider, owner))
      const { held: first } = await journal.providers.requestSlots(own, wishes)
      expect(first.length).toBe(3)
      const holders = (await journal.providers.overview({ provider, at: NOW })).held.map(({ owner }) => owner)
      expect(holders.sort()).toEqual(["ada", "ada", "bob"])
      await journal.providers.grantSlots(own)
      expect((await journal.providers.overview({ provider, at: NOW })).held.length).toBe(3)
    })

    it("X4 an operation belongs to the owner that claimed it first, as long as it is on record", async () => {
      const { journal, peer } = stage()
      const held = await common()
      const provider = fresh("acme")
      const job = newJob(held, 1)
      await store(journal, held, [job])
      const claim = (owner: string, at = NOW, abandonedBefore = 0) =>
        peer.providers.claimOperation({ provider, externalId: "op-1", owner, at, abandonedBefore })
      expect(await Promise.all([claim(job.owner), claim(job.owner)])).toEqual([true, true])
      expect(await claim("bob")).toBe(false)
      // A crash left it without a record: its own owner is not blocked, another takes it over after a while.
      expect(await claim(job.owner, NOW + 1)).toBe(true)
      expect(await claim("bob", NOW + 10, NOW + 1)).toBe(false)
      expect(await claim("bob", NOW + 10, NOW + 2)).toBe(true)
      expect(await claim(job.owner, NOW + 20, NOW + 11)).toBe(true)
      await begin(held, provider, job.id)
      expect(await claim("bob", NOW + 9000, NOW + 8000)).toBe(false)
      await leave(held, { jobId: job.id, node: 2, at: NOW, operation: "ended" })
      expect(await claim("bob", NOW + 9000, NOW + 8000)).toBe(false)
    })

    it("X4 two owners that claim one operation at once: one has it", async () => {
      const { journal, peer } = stage()
      const provider = fresh("acme")
      const claims = await Promise.all(
        Array.from({ length: 20 }, (_, n) =>
          (n % 2 ? journal : peer).providers.claimOperation({
            ...{ provider, externalId: "op-1", owner: `owner-${n}`, at: NOW, abandonedBefore: 0 },
          }),
        ),
      )
      expect(claims.filter(Boolean).length).toBe(1)
    })

    it("X4 news of an operation go to jobs of its owner alone", async () => {
      const { journal } = stage()
      const held = await common()
      const provider = fresh("acme")
      const jobs = [newJob(held, 1, { owner: "ada" }), newJob(held, 2, { owner: "bob" })]
      await store(journal, held, jobs)
      const claim = { provider, externalId: "op-1", owner: "ada", at: NOW, abandonedBefore: 0 }
      await journal.providers.claimOperation(claim)
      for (const { id } of jobs) await begin(held, provider, id)
      await journal.providers.receiveEvent({
        ...{ provider, eventId: "e1", externalId: "op-1", receivedAt: NOW, verdict: "parked" },
        ...{ reason: null, bytes: 17, news: '{"externalId":"op-1"}' },
      })
      const operation = { provider, externalId: "op-1" }
      expect(await journal.providers.deliverEvents({ operation, at: NOW })).toEqual([held.partition])
      const found = await journal.readMessages({ partitions: [held.partition], limit: 100 })
      const notified = new Set(found.map(({ jobId }) => jobId))
      expect(jobs.map(({ id }) => notified.has(id))).toEqual([true, false])
    })

    it("X2 webhooks of a job that were refused or late are read in order, those of its owner's operations alone", async () => {
      const { journal, peer } = stage()
      const held = await common()
      const provider = fresh("acme")
      const jobs = [newJob(held, 1, { owner: "ada" }), newJob(held, 2, { owner: "bob" })]
      await store(journal, held, jobs)
      for (const [n, externalId] of ["op-1", "op-2", "op-3"].entries()) {
        const owner = n === 2 ? "bob" : "ada"
        await journal.providers.claimOperation({ provider, externalId, owner, at: NOW, abandonedBefore: 0 })
        for (const { id } of jobs) await begin(held, provider, id, externalId)
      }
      const receive = (externalId: string | null, verdict: "parked" | "refused", reason: string | null) =>
        journal.providers.receiveEvent({
          ...{ provider, externalId, verdict, reason, receivedAt: NOW, bytes: 17 },
          ...(verdict === "refused"
            ? { eventId: null, news: null }
            : { eventId: externalId, news: '{"externalId":"x"}' }),
        })
      await receive("op-2", "refused", "E662 \u0000 odd")
      await receive(null, "refused", "E661 forged")
      await receive("op-1", "parked", null)
      await journal.providers.deliverEvents({ operation: { provider, externalId: "op-1" }, at: NOW })
      await receive("op-3", "refused", "E662 of another owner")
      for (let n = 0; n < 5; n++) await receive("op-1", "refused", `E662 ${n}`)
      const found = (jobId: string, after = 0, limit = 100) =>
        peer.providers.jobWebhooks({ jobId, after, limit, perOperation: 3 })
      const all = await found(jobs[0]!.id)
      expect(
        all.map(({ externalId, reason }) => [externalId, reason!.replace("\0", "?").replace("\ufffd", "?")]),
      ).toEqual([["op-2", "E662 ? odd"], ...[0, 1, 2].map(n => ["op-1", `E662 ${n}`])])
      expect(all[0]).toMatchObject({ provider, receivedAt: NOW, verdict: "refused", tasks: [[2, -1]] })
      expect(await found(jobs[0]!.id, all[1]!.id)).toEqual(all.slice(2))
      expect(await found(jobs[0]!.id, 0, 2)).toEqual(all.slice(0, 2))
      expect((await found(jobs[1]!.id)).map(({ reason }) => reason)).toEqual(["E662 of another owner"])
      // After the end of the operation.
      const jobId = jobs[0]!.id
      await leave(held, { jobId, node: 2, at: NOW, operation: "ended" })
      await receive("op-2", "parked", null)
      await journal.providers.deliverEvents({ operation: { provider, externalId: "op-2" }, at: NOW })
      expect((await found(jobId)).at(-1)).toMatchObject({ externalId: "op-2", verdict: "late", reason: null })
    })

    it("J17 the claim of an operation goes with its job", async () => {
      const { journal } = stage()
      const held = await common()
      const provider = fresh("acme")
      const jobs = [newJob(held, 1, { status: "FAILED", finishedAt: 10 }), newJob(held, 2)]
      await store(journal, held, jobs)
      const claim = (externalId: string, owner: string, at = NOW) =>
        journal.providers.claimOperation({ provider, externalId, owner, at, abandonedBefore: 0 })
      for (const [n, { id }] of jobs.entries()) {
        await claim(`op-${n}`, "ada", 10)
        await begin(held, provider, id, `op-${n}`)
      }
      expect(
        await journal.purge({ fences: [held], jobIds: jobs.map(({ id }) => id), before: 40, limit: 1000 }),
      ).toBe(1)
      await journal.tidy({ before: 40, unsettledBefore: 40, silentSince: 0, limit: 1000 })
      expect([await claim("op-0", "bob"), await claim("op-1", "bob")]).toEqual([true, false])
    })
  })

  describe("what ended jobs leave at a provider", () => {
    const LEASE = 1000
    const unseen = (held: Held, provider: string, jobId: string, attempt = 1): BegunOperation => ({
      ...{ partition: held.partition, provider, externalId: `\u0001${attempt}`, jobId, node: 2, attempt },
      ...{
        submittedAt: NOW,
        endedAt: null,
        cancelAt: null,
        slotUntil: NOW + LEASE,
        unseen: { operation: 3 },
      },
    })
    const append = (held: Held, begun: BegunOperation[]) =>
      stage().journal.append(batch(held, { facts: [fact(held, 50)], begun }))
    const settle = (jobId: string, externalId: string | null, attempt = 1) =>
      stage().journal.providers.settleSubmission({ jobId, node: 2, attempt, externalId, at: NOW + 1 })
    const ended = async (held: Held) => {
      const job = newJob(held, 1, { status: "CANCELLED", finishedAt: NOW, owner: "ada" })
      await store(stage().journal, held, [job])
      return job.id
    }
    const isFree = async (held: Held, provider: string, at = NOW) => {
      const { providers } = stage().journal
      const one = { jobId: newId(), node: 0, partition: held.partition, owner: "bob" }
      const { held: got } = await providers.requestSlots({ provider, ...terms, at }, [one])
      await providers.releaseSlot(one)
      return got.length === 1
    }

    it("X5 a submission without an answer holds a slot until it has one, or its lease ends", async () => {
      const { providers } = stage().journal
      const held = await common()
      const provider = fresh("acme")
      const jobId = await ended(held)
      await append(held, [unseen(held, provider, jobId)])
      const left = { provider, jobId, node: 2, attempt: 1, operation: 3, owner: "ada" }
      const expected = [{ ...left, since: NOW, slotUntil: NOW + LEASE }]
      expect(await providers.unseenSubmissions({ jobId })).toEqual(expected)
      const { partition } = held
      expect(await providers.unseenSubmissions({ partitions: [partition], at: NOW })).toEqual(
        expect.arrayContaining(expected),
      )
      expect(await providers.overview({ provider, at: NOW })).toMatchObject({
        held: [{ jobId, owner: "ada", heldUntil: NOW + LEASE }],
        unseen: [{ jobId, since: NOW }],
      })
      expect([await isFree(held, provider), await isFree(held, provider, NOW + LEASE)]).toEqual([false, true])
      // What happens to the node later, after a retry of the job, is not about it.
      await leave(held, { jobId, node: 2, at: NOW, operation: "ended" })
      expect(await isFree(held, provider)).toBe(false)
      expect(await settle(jobId, null, 2)).toBeNull()
      expect(await settle(jobId, null)).toEqual({ provider, isToCancel: false })
      expect([await isFree(held, provider), await settle(jobId, null)]).toEqual([true, null])
    })

    it("X5 an operation that is known by then is to be cancelled, and holds the slot until it is", async () => {
      const { providers } = stage().journal
      const held = await common()
      const provider = fresh("acme")
      const jobId = await ended(held)
      await append(held, [unseen(held, provider, jobId)])
      expect(await settle(jobId, "op-1")).toEqual({ provider, isToCancel: true })
      expect(await providers.unseenSubmissions({ jobId })).toEqual([])
      const due = await providers.dueCancels({
        ...{ partitions: [held.partition], providers: [provider], at: NOW + 1, limit: 10 },
      })
      expect(due).toMatchObject([{ provider, externalId: "op-1", jobId, node: 2, owner: "ada" }])
      await providers.settleCancel({ ...due[0]!, again: NOW + 50 })
      expect(await isFree(held, provider)).toBe(false)
      await providers.settleCancel({ ...due[0]!, again: null })
      expect(await isFree(held, provider)).toBe(true)
      const claim = { provider, externalId: "op-1", owner: "bob", at: NOW, abandonedBefore: 0 }
      expect(await providers.claimOperation(claim)).toBe(false)
    })

    it("X4 X5 an operation of another owner, or one that the node has on record, is not cancelled for it", async () => {
      const { providers } = stage().journal
      const held = await common()
      const provider = fresh("acme")
      const jobId = await ended(held)
      const others = { provider, externalId: "op-1", owner: "bob", at: NOW, abandonedBefore: 0 }
      await providers.claimOperation(others)
      await append(held, [unseen(held, provider, jobId)])
      expect(await settle(jobId, "op-1")).toEqual({ provider, isToCancel: false })
      await begin(held, provider, jobId, "op-2")
      await append(held, [unseen(held, provider, jobId, 2)])
      expect(await settle(jobId, "op-2", 2)).toEqual({ provider, isToCancel: false })
      expect(await isFree(held, provider)).toBe(true)
    })

    it("J17 X5 a job with a submission without an answer stays, but not for ever", async () => {
      const { journal } = stage()
      const held = await common()
      const jobId = await ended(held)
      await append(held, [unseen(held, fresh("acme"), jobId)])
      const find = (unsettledBefore: number) => freeJobs(journal, held, { before: NOW + 1, unsettledBefore })
      expect(await find(NOW)).not.toContain(jobId)
      expect(await find(NOW + 1)).toContain(jobId)
      await settle(jobId, null)
      expect(await find(NOW)).toContain(jobId)
    })

    it("J16 X5 an operation that is to be cancelled holds its slot until it is", async () => {
      const { providers } = stage().journal
      const held = await common()
      const provider = fresh("acme")
      const jobId = await ended(held)
      await begin(held, provider, jobId)
      const slotUntil = NOW + LEASE
      await leave(held, { jobId, node: 2, at: NOW, operation: "cancel", slotUntil })
      expect([await isFree(held, provider), await isFree(held, provider, slotUntil)]).toEqual([false, true])
      const cancelled = { provider, externalId: "op-1", jobId, node: 2, again: null }
      await providers.settleCancel(cancelled)
      expect(await isFree(held, provider)).toBe(true)
    })
  })
}
