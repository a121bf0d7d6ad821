import { describe, expect, it } from "vitest"
import { createMemoryStore } from "../../src/journal/memory-store.ts"
import type { Umbra } from "../../src/umbra.ts"
import { flow, gate, open, openOn, until } from "./stage.ts"

const leaf = { ...flow([{ id: "leaf", handler: "transform", config: { value: 1 } }]), name: "leaf" }
const run = (workflow: string, more: object = {}) => ({
  ...{ id: "run", handler: "workflow", config: { workflow } },
  ...more,
})
const inner = { ...flow([run("leaf")]), name: "inner" }
const outer = flow([run("inner", { for_each: [1, 2] }), { ...run("leaf"), id: "alone" }])

async function submitted(umbra: Umbra): Promise<string> {
  await umbra.register(leaf)
  await umbra.register(inner)
  const { id } = await umbra.submit(outer)
  expect((await umbra.wait(id)).status).toBe("COMPLETED")
  return id
}

describe("J1 a job that is deleted", () => {
  it("takes its children along, those of items and theirs too", async () => {
    const umbra = await open()
    const id = await submitted(umbra)
    expect((await umbra.jobs()).length).toBe(6)
    await umbra.delete(id)
    expect(await umbra.jobs()).toEqual([])
    expect((await umbra.jobs({ deleted: true })).map(({ status }) => status)).toEqual(
      Array(6).fill("DELETED"),
    )
    await expect(umbra.delete(id)).rejects.toMatchObject({ code: "E307" })
  })

  it("does so as well when another engine owns it", async () => {
    const store = createMemoryStore()
    const first = await openOn(store)
    const second = await openOn(store)
    const id = await submitted(first)
    const other = first.owns(id) ? second : first
    await until("partitions are settled", () => first.owns(id) !== second.owns(id))
    await other.delete(id)
    expect(await other.jobs()).toEqual([])
  })

  it("is refused while it runs, and its children stay", async () => {
    const stop = gate()
    const umbra = await open({ handlers: [stop.handler] })
    await umbra.register(leaf)
    const job = await umbra.submit(flow([run("leaf"), { id: "slow", handler: "gate" }]))
    await stop.came()
    await until("the child has ended", async () => (await umbra.jobs({ parentId: job.id }))[0]?.finished_at)
    await expect(job.delete()).rejects.toMatchObject({ code: "E303" })
    expect((await umbra.jobs()).length).toBe(2)
    stop.open()
    await job.wait()
  })
})
