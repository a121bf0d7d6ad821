import { expect, it } from "vitest"
import { childJobId, isJobId, jobPartition, newJobId } from "../../src/engine/ids.ts"
import { engineSettings } from "../../src/engine/settings.ts"
import { createMemoryStore } from "../../src/journal/sqlite/memory.ts"
import fc from "../support/property.ts"
import { flow, open, openOn } from "./stage.ts"

const cellOf = (jobId: string) => Number.parseInt(jobId[15]!, 16)

it("the id of a job, and of its children, names its cell and its partition", () => {
  const whole = (max: number) => fc.integer({ min: 0, max })
  fc.assert(
    fc.property(whole(15), whole(255), whole(2 ** 45), whole(1000), (cell, partition, now, node) => {
      const id = newJobId(partition, now, cell)
      for (const each of [id, childJobId(id, node), childJobId(id, node, 7)]) {
        expect(isJobId(each)).toBe(true)
        expect([cellOf(each), jobPartition(each)]).toEqual([cell, partition])
      }
    }),
  )
})

it("a store continues jobs from before it was a cell, and does not know those of another cell", async () => {
  const store = createMemoryStore()
  const quick = flow([{ id: "q", handler: "transform", config: { value: 1 } }])
  const before = await openOn(store)
  const old = await before.submit(quick)
  await before.close()
  const umbra = await openOn(store, { engine: { cell: 11 } })
  const job = await umbra.submit(quick)
  expect([cellOf(old.id), cellOf(job.id)]).toEqual([0, 11])
  expect((await job.wait()).status).toBe("COMPLETED")
  await umbra.delete(old.id)
  await umbra.delete(job.id)
  const elsewhere = await open({ engine: { cell: 3 } })
  await expect(umbra.cancel((await elsewhere.submit(quick)).id)).rejects.toMatchObject({ code: "E301" })
  expect(() => engineSettings({ cell: 16 })).toThrow(expect.objectContaining({ code: "E620" }))
})
