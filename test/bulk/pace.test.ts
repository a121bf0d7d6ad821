/** What happens between two targets: the clock of the test decides when the next one gets its command. */
import { expect, it, onTestFinished } from "vitest"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { openUmbra } from "../../src/umbra.ts"
import { until } from "../engine/stage.ts"
import { countFactsOf, ended, handlers, refusals, submit } from "./stage.ts"

const SECOND = 1000

async function stage(jobs: number) {
  const clock = new VirtualClock()
  const umbra = await openUmbra(openMemory(createMemoryStore({ partitions: 4 })), { clock, handlers })
  onTestFinished(() => umbra.close())
  const ids: string[] = []
  for (let i = 0; i < jobs; i++) {
    ids.push(await submit(umbra, "fails"))
    clock.advance(10)
  }
  /** How many of the jobs the operation has reached: also those that are not counted yet. */
  const reached = async (operation: string) => {
    let count = 0
    for (const id of ids) count += await countFactsOf(umbra, id, operation)
    return count
  }
  return { clock, umbra, ids, reached }
}

it("keeps the rate, newest job first", async () => {
  const { clock, umbra, ids, reached } = await stage(3)
  const { bulk_id } = await umbra.bulk.start({ verb: "retry", filter: { workflow: "fails" }, rate: 1 })
  await until("the first has its command", async () => (await reached(bulk_id)) === 1)
  expect(await countFactsOf(umbra, ids[2]!, bulk_id)).toBe(1)
  await until("it is counted", async () => (await umbra.bulk.get(bulk_id)).processed === 1)
  for (let advanced = 0; advanced < 900; advanced += 100) clock.advance(100)
  expect(await reached(bulk_id)).toBe(1)
  for (let i = 2; i <= 3; i++)
    await until(`the next has its command`, async () => {
      clock.advance(50)
      return (await reached(bulk_id)) >= i
    })
  expect(await ended(umbra, bulk_id)).toMatchObject({ status: "COMPLETED", done: 3 })
})

it("leaves a job alone that has changed since the operation began, and says so; what begins later is no target", async () => {
  const { clock, umbra, ids, reached } = await stage(3)
  const { bulk_id } = await umbra.bulk.start({ verb: "retry", filter: { workflow: "fails" }, rate: 1 })
  await until("the first has its command", async () => (await reached(bulk_id)) === 1)
  await umbra.retry(ids[0]!)
  await umbra.wait(ids[0]!)
  const later = await submit(umbra, "fails")
  await until("the operation has ended", async () => {
    clock.advance(SECOND)
    return (await umbra.bulk.get(bulk_id)).finished_at
  })
  expect(await umbra.bulk.get(bulk_id)).toMatchObject({ processed: 3, done: 2, refused: 1 })
  expect(await refusals(umbra, bulk_id)).toMatchObject([{ job_id: ids[0], code: "E316" }])
  expect(await countFactsOf(umbra, later, bulk_id)).toBe(0)
})

it("aborts between two targets, with exact counts, and a retry of the operation resumes it", async () => {
  const { clock, umbra, reached } = await stage(12)
  const { bulk_id } = await umbra.bulk.start({ verb: "delete", filter: { workflow: "fails" }, rate: 1 })
  await until("one is deleted", async () => (await reached(bulk_id)) === 1)
  expect(await umbra.bulk.abort(bulk_id)).toMatchObject({ aborting: true })
  await until("it is aborted", async () => {
    clock.advance(100)
    return (await umbra.bulk.get(bulk_id)).finished_at
  })
  const aborted = await umbra.bulk.get(bulk_id)
  expect(aborted).toMatchObject({ status: "CANCELLED", aborting: false, refused: 0 })
  expect(aborted.processed).toBe(await reached(bulk_id))
  expect(aborted.processed).toBeLessThan(12)
  await expect(umbra.bulk.abort(bulk_id)).rejects.toMatchObject({ code: "E302" })
  await umbra.retry(bulk_id)
  await until("it has resumed and ended", async () => {
    clock.advance(SECOND)
    return (await umbra.bulk.get(bulk_id)).finished_at
  })
  expect(await umbra.bulk.get(bulk_id)).toMatchObject({ status: "COMPLETED", processed: 12, done: 12 })
  expect(await umbra.jobs({ workflow: "fails" })).toEqual([])
})
