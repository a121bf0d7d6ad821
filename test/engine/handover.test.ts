import { expect, it } from "vitest"
import { createMemoryStore } from "../../src/journal/sqlite/memory.ts"
import { flow, gate, openOn, until } from "./stage.ts"

it("S7 however often its process shuts down cleanly, a node that outlives it is started again and not failed", async () => {
  const store = createMemoryStore()
  const limits = { lossLimit: 3, drainSeconds: 0.01 }
  let jobId = ""
  for (let restart = 0; restart < 5; restart++) {
    const busy = gate()
    const umbra = await openOn(store, { handlers: [busy.handler], engine: limits })
    if (jobId === "") jobId = (await umbra.submit(flow([{ id: "long", handler: "gate" }]))).id
    await busy.came()
    // Only what is known to have begun could ever count as lost.
    await until("its start is stored", async () => (await umbra.graph(jobId)).nodes[0]!.started_at !== null)
    await umbra.close()
  }
  const last = gate()
  const umbra = await openOn(store, { handlers: [last.handler], engine: limits })
  await last.came()
  last.open("done")
  expect(await umbra.wait(jobId, { timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED" })
  const { nodes } = await umbra.graph(jobId)
  expect(nodes[0]).toMatchObject({ losses: 0 })
})

it("S7 J21 so are the items of a list", async () => {
  const store = createMemoryStore()
  const limits = { lossLimit: 2, drainSeconds: 0.01 }
  const twice = flow([{ id: "long", handler: "gate", for_each: [1, 2], config: {} }])
  let jobId = ""
  for (let restart = 0; restart < 3; restart++) {
    const busy = gate()
    const umbra = await openOn(store, { handlers: [busy.handler], engine: limits })
    if (jobId === "") jobId = (await umbra.submit(twice)).id
    await busy.came(2)
    const begun = async () =>
      new Set(
        (await umbra.events(jobId))
          .filter(({ type, payload }) => type === "item.running" && payload.worker !== undefined)
          .map(({ item, attempt }) => `${item}#${attempt}`),
      )
    const current = async () => (await umbra.items(jobId, "long")).items.map(i => `${i.index}#${i.attempt}`)
    await until("their starts are stored", async () => {
      const known = await begun()
      return (await current()).every(task => known.has(task))
    })
    await umbra.close()
  }
  const last = gate()
  const umbra = await openOn(store, { handlers: [last.handler], engine: limits })
  await last.came(2)
  last.open("done")
  expect(await umbra.wait(jobId, { timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED" })
  const lost = (await umbra.events(jobId)).filter(({ type }) => type === "attempt.lost")
  // Whoever takes over begins them again: of what was known to run, nothing is lost but handed over.
  const begun = lost.filter(({ payload }) => payload.worker !== undefined)
  expect(begun.map(({ payload }) => payload.handed_over)).toEqual(new Array(6).fill(true))
})
