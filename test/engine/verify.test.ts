import { expect, it } from "vitest"
import { Reader } from "../../src/jobs/reader.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { setJob } from "../support/store-tables.ts"
import { flow, gate, handler, openOn, until } from "./stage.ts"

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

it("J18 a reference that nothing holds differs, also of a large output, and without the content at hand", async () => {
  const store = createMemoryStore()
  const large = handler("large", async (_, { artifacts }) => ({
    files: [await artifacts.put("x", "one"), await artifacts.put("y", "two")],
    pad: "x".repeat(100_000),
  }))
  const umbra = await openOn(store, { handlers: [large] })
  const job = await umbra.submit(flow([{ id: "a", handler: "large" }]))
  await job.wait()
  const reader = new Reader(openMemory(store))
  expect(await reader.verifyArtifacts(job.id, null)).toEqual([])
  const { artifacts } = await umbra.artifacts.list()
  const [first, second] = artifacts.map(({ artifact }) => artifact) as [string, string]
  expect(await reader.verifyArtifacts(job.id, { size: async () => null })).toEqual(
    [first, second].map(hash => `artifact ${hash} has no content`),
  )
  store.connection.run("delete from held where held like ?", `${first}%`)
  store.connection.run("delete from artifacts where hash = ?", second)
  expect(await reader.verifyArtifacts(job.id, null)).toEqual(
    expect.arrayContaining([first, second].map(hash => `artifact ${hash} is referred to, and not held`)),
  )
})
