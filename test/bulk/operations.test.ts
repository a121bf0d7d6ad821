import { describe, expect, it } from "vitest"
import type { BulkView } from "../../src/jobs/bulk/bulk.ts"
import type { Umbra } from "../../src/umbra.ts"
import { broken, flow, gate, open, until } from "../engine/stage.ts"

const owner = "local"
const fails = flow([{ id: "a", handler: "broken" }], { name: "fails" })

async function ended(umbra: Umbra, id: string): Promise<BulkView> {
  await umbra.wait(id)
  return umbra.bulk.get(id)
}

async function failedJobs(umbra: Umbra, count: number): Promise<string[]> {
  const made = await umbra.submitMany(
    fails,
    Array.from({ length: count }, () => ({})),
  )
  const ids: string[] = []
  for (const each of made) {
    if ("error" in each) throw each.error
    ids.push(each.job.id)
    await each.job.wait()
  }
  return ids
}

describe("bulk operations", () => {
  it("retries every job that matched at the start, once", async () => {
    const umbra = await open({ handlers: [broken] })
    const ids = await failedJobs(umbra, 30)
    const request = { verb: "retry", filter: { workflow: "fails" }, rate: 10_000 } as const
    expect(await umbra.bulk.count(request, { owner })).toMatchObject({
      count: 30,
      complete: true,
      by_status: { FAILED: 30 },
    })
    const { bulk_id } = await umbra.bulk.start(request, { owner })
    expect(await ended(umbra, bulk_id)).toMatchObject({
      status: "COMPLETED",
      processed: 30,
      done: 30,
      refused: 0,
    })
    for (const id of ids) {
      const facts = await umbra.queries.facts.page(id, { limit: 100 })
      const retried = facts.facts.filter(({ type }) => type === "job_retried")
      expect(retried).toMatchObject([{ operation: bulk_id }])
    }
  })

  it("aborts", async () => {
    const umbra = await open({ handlers: [broken] })
    await failedJobs(umbra, 20)
    const { bulk_id } = await umbra.bulk.start(
      { verb: "delete", filter: { workflow: "fails" }, rate: 20 },
      { owner },
    )
    await umbra.bulk.abort(bulk_id)
    const view = await ended(umbra, bulk_id)
    expect(view.status).toBe("CANCELLED")
    expect(view.processed).toBe(view.done)
    const left = await umbra.jobs({ workflow: "fails" })
    expect(left).toHaveLength(20 - view.done)
  })
})
