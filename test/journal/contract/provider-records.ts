/** What is written down of providers, how long it stays, and what all processes know by it. */
import { randomUUID } from "node:crypto"
import { describe, expect, it } from "vitest"
import type { NewWebhookEvent } from "../../../src/journal/port/providers.ts"
import { batch, fact, freeJobs, type Held, newJob, type Stage, store } from "../fixture.ts"

const NOW = 5_000_000

export function providerRecordsContract(stage: () => Stage, common: () => Promise<Held>): void {
  const acme = () => `acme-${randomUUID()}`
  const event = (provider: string, over: Partial<NewWebhookEvent>): NewWebhookEvent => ({
    ...{ provider, eventId: randomUUID(), externalId: "op-1", receivedAt: NOW, verdict: "parked" },
    ...{ reason: null, bytes: 17, news: "{}" },
    ...over,
  })

  describe("records of a provider", () => {
    it("X6 that it wants to be left alone is known to all, and asking changes nothing", async () => {
      const { journal, peer } = stage()
      const provider = acme()
      expect(await peer.providers.restUntil({ provider })).toBe(0)
      await journal.providers.slowDown({ provider, until: NOW + 5000 })
      await journal.providers.slowDown({ provider, until: NOW + 2000 })
      for (const _ of [1, 2]) expect(await peer.providers.restUntil({ provider })).toBe(NOW + 5000)
    })

    it("X2 whatever it says of a failure can be written down", async () => {
      const { providers } = stage().journal
      const provider = acme()
      const text = "no\u0000film \ud83c"
      const readable = expect.stringMatching(/^no.film .$/su)
      expect(await providers.receiveEvent(event(provider, { reason: text }))).toBe(true)
      expect(await providers.listEvents({ provider, limit: 1 })).toMatchObject([{ reason: readable }])
      await providers.noteError({ provider, at: NOW, what: "poll", code: text, message: text })
      const { errors } = await providers.overview({ provider, at: NOW })
      expect(errors).toMatchObject([{ code: readable, message: readable }])
    })

    it("are its last twenty failures", async () => {
      const { providers } = stage().journal
      const provider = acme()
      const failure = { provider, what: "poll", code: "E408" }
      for (let i = 0; i < 23; i++) await providers.noteError({ ...failure, at: NOW + i, message: `${i}` })
      const { errors } = await providers.overview({ provider, at: NOW })
      expect(errors.length).toBe(20)
      expect(errors[0]).toEqual({ at: NOW + 22, what: "poll", code: "E408", message: "22" })
    })

    it("J17 a webhook that is parked stays longer than others", async () => {
      const { journal } = stage()
      const provider = acme()
      for (const verdict of ["parked", "refused"] as const)
        for (const receivedAt of [10, 20, 50]) {
          const eventId = `${verdict} ${receivedAt}`
          await journal.providers.receiveEvent(event(provider, { verdict, eventId, receivedAt }))
        }
      await journal.tidy({ before: 40, unsettledBefore: 15, silentSince: 0, limit: 1000 })
      const events = await journal.providers.listEvents({ provider, limit: 10 })
      expect(events.map(({ eventId }) => eventId)).toEqual(["refused 50", "parked 50", "parked 20"])
    })

    it("J16 J17 a job whose operation is yet to be cancelled stays until the provider was notified, or for long enough", async () => {
      const { journal } = stage()
      const held = await common()
      const job = newJob(held, 1, { status: "CANCELLED", finishedAt: 10 })
      await store(journal, held, [job])
      const operation = {
        ...{ partition: held.partition, provider: acme(), externalId: "op-1", jobId: job.id, node: 0 },
        ...{ attempt: 1, submittedAt: 5, endedAt: 10, cancelAt: 10 },
      }
      await journal.append(batch(held, { facts: [fact(held, 1)], begun: [operation] }))
      const isPurged = async (unsettledBefore: number) =>
        (await freeJobs(journal, held, { before: 40, unsettledBefore })).includes(job.id)
      expect([await isPurged(10), await isPurged(11)]).toEqual([false, true])
      await journal.providers.settleCancel({ ...operation, again: null })
      expect(await isPurged(10)).toBe(true)
    })
  })
}
