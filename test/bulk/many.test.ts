/** A large operation, and another owner who is served meanwhile. */
import { expect, it } from "vitest"
import { open } from "../engine/stage.ts"
import { ended, handlers, kinds } from "./stage.ts"

const TARGETS = 10_000

it("10,000 targets are deleted once each while another owner's jobs complete", {
  timeout: 600_000,
}, async () => {
  const umbra = await open({ handlers })
  const made = await umbra.submitMany(
    Array.from({ length: TARGETS }, () => ({
      workflow: kinds.completes,
      input: {},
      options: { owner: "ada" },
    })),
  )
  const ids = made.map(({ job }) => job!.id)
  for (const id of ids) await umbra.wait(id)
  const request = { verb: "delete", filter: { workflow: "completes" }, rate: 10_000 } as const
  expect(await umbra.bulk.count(request, { owner: "ada" })).toMatchObject({ count: TARGETS, complete: true })
  const { bulk_id } = await umbra.bulk.start(request, { owner: "ada" })
  let served = 0
  let isOver = false
  const operation = ended(umbra, bulk_id).finally(() => {
    isOver = true
  })
  // Each of bob's jobs is submitted, runs and ends while the operation is under way.
  while (!isOver) {
    const job = await umbra.submit(kinds.completes, {}, { owner: "bob" })
    expect((await job.wait()).status).toBe("COMPLETED")
    if (!isOver) served++
  }
  expect(await operation).toMatchObject({
    status: "COMPLETED",
    processed: TARGETS,
    done: TARGETS,
    refused: 0,
  })
  expect(served).toBeGreaterThan(10)
  const left = await umbra.jobs({ owner: "ada", limit: 10 })
  expect(left.map(({ job_id }) => job_id)).toEqual([bulk_id])
  expect(await umbra.jobs({ owner: "bob", limit: 1, statuses: ["DELETED"], deleted: true })).toEqual([])
  const { facts } = await umbra.queries.facts.page(bulk_id, { limit: 1000 })
  // A record for each page of up to 200 targets, and no write for each target.
  expect(facts.length).toBeLessThan(100)
})
