import { randomUUID } from "node:crypto"
import { describe, expect, it } from "vitest"
import type { BegunOperation, LeftBehind } from "../../../src/journal/provider-store.ts"
import { batch, fact, type Held, newId, newJob, type Stage, store } from "../fixture.ts"

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
      const asked = ["ada", "ada", "ada", "bob", "bob", "cy"].map(owner => ({
        ...ask(held, provider),
        owner,
      }))
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

    it("X4 news of an operation are told to jobs of its owner alone", async () => {
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
      const told = new Set(found.map(({ jobId }) => jobId))
      expect(jobs.map(({ id }) => told.has(id))).toEqual([true, false])
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
      expect(await journal.purge({ fences: [held], jobIds: jobs.map(({ id }) => id), before: 40 })).toBe(1)
      await journal.tidy({ before: 40, unsettledBefore: 40, silentSince: 0 })
      expect([await claim("op-0", "bob"), await claim("op-1", "bob")]).toEqual([true, false])
    })
  })
}
