import { describe, expect, it } from "vitest"
import { childJobId } from "../../src/engine/ids.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import type { Umbra } from "../../src/umbra.ts"
import { broken, flow, gate, handler, open, openOn, until } from "./stage.ts"

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
  it("deletes its children, those of items and theirs too", async () => {
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

  it("reads many children at once: deleting a job with hundreds costs a few queries", async () => {
    const journal = openMemory()
    const readFacts = journal.readFacts.bind(journal)
    let reads = 0
    journal.readFacts = (...given) => {
      reads++
      return readFacts(...given)
    }
    const umbra = await open({ at: journal })
    await umbra.register(leaf)
    const job = await umbra.submit(flow([run("leaf", { for_each: "{{ range(600) }}" })]))
    expect((await job.wait()).status).toBe("COMPLETED")
    await until("they have left memory", () => !umbra.activity(job.id).isHere)
    reads = 0
    await job.delete()
    expect(await umbra.jobs()).toEqual([])
    expect(reads).toBeLessThan(20)
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

describe("J14 a child that was deleted before it was done", () => {
  const failing = { ...leaf, nodes: [{ id: "leaf", handler: "broken" }] }

  it("is started again by the next try of its parent's node, with the version of that time", async () => {
    const umbra = await open({ handlers: [broken] })
    await umbra.register(failing)
    const job = await umbra.submit(flow([run("leaf")]))
    expect((await job.wait()).status).toBe("FAILED")
    const first = childJobId(job.id, 0)
    await umbra.delete(first)
    await umbra.register(leaf)
    await job.retry()
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: { run: { leaf: 1 } } })
    const [second, ...others] = await umbra.jobs({ parentId: job.id })
    expect({ ...second, others }).toMatchObject({ status: "COMPLETED", workflow_version: 2, others: [] })
    expect((await job.graph()).nodes[0]).toMatchObject({ child_job_id: second?.job_id })
    expect((await umbra.job(first)).status).toBe("DELETED")
    expect(await umbra.queries.verify(await umbra.queries.row(job.id))).toEqual([])
  })

  it("concerns one item alone: the children of the others continue", async () => {
    const runs: string[] = []
    const once = handler("once", () => runs.push("ran"))
    const umbra = await open({ handlers: [broken, once] })
    const done = { id: "once", handler: "once" }
    await umbra.register({
      ...leaf,
      nodes: [done, { id: "leaf", handler: "broken", dependencies: ["once"] }],
    })
    const job = await umbra.submit(flow([run("leaf", { for_each: [1, 2], fail_fast: false })]))
    expect((await job.wait()).status).toBe("FAILED")
    await umbra.delete(childJobId(job.id, 0, 0))
    await umbra.register({ ...leaf, nodes: [done] })
    await job.retry()
    expect(await job.wait()).toMatchObject({ status: "FAILED", error: { item: 1 } })
    const { items } = await umbra.items(job.id, "run")
    expect(items.map(({ status }) => status)).toEqual(["COMPLETED", "FAILED"])
    expect(runs).toHaveLength(3)
  })
})
