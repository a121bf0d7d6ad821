import { describe, expect, it } from "vitest"
import fc from "../../support/property.ts"
import { batch, fact, hold, newId, newJob, type Stage } from "../fixture.ts"

export function dataContract(stage: () => Stage): void {
  describe("data", () => {
    it("comes back byte for byte: \\u0000, lone surrogates, key order, spaces and number forms", async () => {
      const { journal, peer } = stage()
      const held = await hold(journal)
      const texts = [
        '{"b":"\\u0000","a":"\\ud800","B":"\\udfff\\ud83d"}',
        '{"z":1,"a":2,"10":3,"9":4,"a":5}',
        " [1.0, 1e3, -0, 12345678901234567890.12345] ",
        JSON.stringify("\u0000\ud800 \u001e\u001f \u2028 € 😀 \\ \" ' { } , NULL"),
        "null",
        '""',
        "{}",
      ]
      const jobId = newId()
      const facts = texts.map((data, counter) => fact(held, counter, { jobId, data }))
      const job = newJob(held, 0, {
        id: jobId,
        output: texts[0] ?? "",
        error: texts[1] ?? "",
        labels: texts[3] ?? "",
      })
      await journal.append(batch(held, { facts, newJobs: [job] }))
      const rows = await peer.readFacts([jobId])
      expect(rows.map(row => row.data)).toEqual(texts)
      expect(rows.map(row => row.bytes)).toEqual(texts.map(text => Buffer.byteLength(text)))
      expect(await peer.readJob(jobId)).toEqual(job)
    })

    it("comes back as it was for any JSON value, many to a batch", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      let counter = 0
      const values = fc.array(fc.jsonValue({ stringUnit: "binary", maxDepth: 4 }), {
        minLength: 1,
        maxLength: 30,
      })
      await fc.assert(
        fc.asyncProperty(values, async list => {
          const jobId = newId()
          const facts = list.map(value => fact(held, ++counter, { jobId, data: JSON.stringify(value) }))
          await journal.append(batch(held, { facts }))
          const rows = await journal.readFacts([jobId])
          expect(rows.map(row => row.data)).toEqual(facts.map(({ data }) => data))
        }),
        { numRuns: 40 },
      )
    })

    it("keeps odd names as they are: quotes, commas, braces, spaces, nothing at all", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const names = ["", "NULL", 'a"b', "a,b", "{a}", "a\\b", " a ", "a\nb", "ü€😀"]
      const jobs = names.map((name, counter) => newJob(held, counter, { owner: name, workflow: name }))
      await journal.append(batch(held, { newJobs: jobs }))
      for (const job of jobs) expect(await journal.readJob(job.id)).toEqual(job)
    })

    it("does not return large data unless requested: inlineBytes", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const jobId = newId()
      const exact = JSON.stringify("x".repeat(98))
      const large = JSON.stringify("ü".repeat(50))
      const facts = [exact, large].map((data, counter) => fact(held, counter, { jobId, data }))
      await journal.append(batch(held, { facts }))
      const rows = await journal.readFacts([jobId], { inlineBytes: 100 })
      expect(rows.map(({ data, bytes }) => ({ data, bytes }))).toEqual([
        { data: exact, bytes: 100 },
        { data: null, bytes: 102 },
      ])
      expect(await journal.readFact(jobId, held.seq(1))).toBe(large)
      expect(await journal.readFact(jobId, held.seq(2))).toBeNull()
    })

    it("of one job comes in pages, by seq, however high the epoch of its owner is", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const [jobId, other] = [newId(), newId()]
      const facts = Array.from({ length: 9 }, (_, counter) =>
        fact(held, counter, {
          jobId: counter % 3 === 1 ? other : jobId,
          data: JSON.stringify("x".repeat(counter)),
        }),
      )
      await journal.append(batch(held, { facts }))
      const own = facts.filter(each => each.jobId === jobId).map(({ seq }) => seq)
      const page = async (query: object) =>
        (await journal.readFactPage({ jobId, after: -1, limit: 100, inlineBytes: 1000, ...query })).map(
          row => row.seq,
        )
      expect(await page({})).toEqual(own)
      expect(await page({ limit: 2 })).toEqual(own.slice(0, 2))
      expect(await page({ after: own[1], limit: 3 })).toEqual(own.slice(2, 5))
      expect(await page({ after: own[1], upTo: own[3] })).toEqual(own.slice(2, 4))
      expect(await page({ upTo: own[0]! - 1 })).toEqual([])
      expect(await page({ jobId: newId() })).toEqual([])
      const [row] = await journal.readFactPage({ jobId, after: own[4]!, limit: 1, inlineBytes: 9 })
      expect(row).toMatchObject({ seq: own[5], data: null, bytes: 10 })
      expect(await journal.countFacts(jobId, own[2]!)).toBe(3)
      expect(await journal.countFacts(jobId, Number.MAX_SAFE_INTEGER)).toBe(6)
      const late = { ...held, epoch: held.epoch, seq: (counter: number) => 500 * 2 ** 34 + counter }
      await journal.append(batch(held, { facts: [fact(late, 1, { jobId })] }))
      expect((await page({})).at(-1)).toBe(late.seq(1))
    })

    it("may be 10 MB", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const data = JSON.stringify({ text: "0123456789".repeat(1_000_000) })
      const big = fact(held, 1, { data })
      expect((await journal.append(batch(held, { facts: [big] }))).inserted).toBe(1)
      const [row] = await journal.readFacts([big.jobId], { inlineBytes: 256 * 1024 })
      expect(row).toMatchObject({ data: null, bytes: data.length })
      expect((await journal.readFact(big.jobId, big.seq)) === data).toBe(true)
    })

    it("of several jobs comes job by job, oldest first", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const [a, b] = [newId(), newId()]
      const order = [a, b, b, a, b]
      for (const [counter, jobId] of order.entries()) {
        await journal.append(batch(held, { facts: [fact(held, counter, { jobId })] }))
      }
      const rows = await journal.readFacts([b, a, newId(), a])
      expect(rows.map(row => [row.jobId, row.seq])).toEqual([
        [a, held.seq(0)],
        [a, held.seq(3)],
        [b, held.seq(1)],
        [b, held.seq(2)],
        [b, held.seq(4)],
      ])
      expect(await journal.readFacts([])).toEqual([])
      const later = await journal.readFacts([b], { after: held.seq(2) })
      expect(later.map(row => row.seq)).toEqual([held.seq(4)])
    })
  })
}
