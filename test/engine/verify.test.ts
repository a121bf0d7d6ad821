import { expect, it } from "vitest"
import { createMemoryStore } from "../../src/journal/sqlite/memory.ts"
import { setJob } from "../support/store-tables.ts"
import { flow, gate, openOn, until } from "./stage.ts"

const gated = flow([
  { id: "first", handler: "input" },
  { id: "second", handler: "gate", dependencies: ["first"] },
])

it("J18 a row whose alarm is too late differs, also when only facts after it show so", async () => {
  const [store, door] = [createMemoryStore(), gate()]
  const waiting = flow([
    { id: "go", handler: "wait_for_signal", config: { signal: "go" } },
    { id: "then", handler: "gate", dependencies: ["go"] },
  ])
  const umbra = await openOn(store, { handlers: [door.handler] })
  const job = await umbra.submit(waiting)
  await until("it has left memory", () => !umbra.activity(job.id).isHere)
  const atRest = await umbra.queries.row(job.id)
  expect(await umbra.queries.verify(atRest)).toEqual([])
  await job.signal("go", null)
  await door.came()
  setJob(store, atRest)
  expect(await umbra.queries.verify(atRest)).toEqual([
    `wake_at: journal 0 at its end, projection ${atRest.wakeAt}`,
  ])
  door.open()
})

it("J18 a job that continues while it is compared does not differ", async () => {
  const [store, door] = [createMemoryStore(), gate()]
  const umbra = await openOn(store, { handlers: [door.handler] })
  const job = await umbra.submit(gated)
  await door.came()
  const before = await umbra.queries.row(job.id)
  door.open()
  await job.wait()
  expect(await umbra.queries.verify(before)).toEqual([])
})
