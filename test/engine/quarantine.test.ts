/** A job whose work meets a bug of ours is stopped, shown, and goes on later; no other job is affected. */
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest"
import { LocalBroker } from "../../src/broker/local.ts"
import { AppendLane } from "../../src/engine/commit/committer.ts"
import type { Journal } from "../../src/journal/port/journal.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import type { Umbra } from "../../src/umbra.ts"
import { stores } from "../server/stage.ts"
import { flow, gate, open, until } from "./stage.ts"

afterEach(() => vi.restoreAllMocks())

const nodes = [
  { id: "a", handler: "gate" },
  { id: "b", handler: "transform", config: { value: "{{ a }} and on" }, dependencies: ["a"] },
]
const work = flow(nodes, { output: "{{ b }}" })

/** The dispatch of `b`, which joins the commit of the completion of `a`, throws. */
async function stopped(again: () => string | Journal = shared()) {
  const gated = gate()
  const umbra = await open({ at: again(), handlers: [gated.handler] })
  const job = await umbra.submit(work)
  await gated.came()
  const dispatch = vi.spyOn(LocalBroker.prototype, "dispatch").mockImplementationOnce(() => {
    throw new RangeError("a bug")
  })
  gated.open()
  await until("the job is shown as stopped", async () => (await umbra.job(job.id)).error !== null)
  dispatch.mockRestore()
  return { umbra, id: job.id, again }
}

/** A store in memory, opened as often as it is asked for. */
function shared(): () => Journal {
  const store = createMemoryStore({ partitions: 4 })
  return () => openMemory(store)
}

async function storeOf(kind: string): Promise<() => string | Journal> {
  if (kind === "memory") return shared()
  const { location, remove } = await stores[kind]!()
  onTestFinished(() => remove())
  return () => location
}

const differences = async (umbra: Umbra, id: string) => {
  const row = await umbra.queries.row(id)
  return umbra.queries.verify(row!)
}

describe("a job quarantined after an internal error", () => {
  it("is shown with the reason, in lists too, and found by verify", async () => {
    const { umbra, id } = await stopped()
    const error = {
      code: "E639",
      message: expect.stringMatching(/^Internal error: RangeError: a bug\. .*restarted/),
    }
    expect(await umbra.job(id)).toMatchObject({ status: "PROCESSING", finished_at: null, error })
    expect(await umbra.jobs({})).toMatchObject([{ job_id: id, error }])
    expect((await umbra.graph(id)).nodes).toMatchObject([{ status: "COMPLETED" }, {}])
    expect(await differences(umbra, id)).toEqual([expect.stringContaining("quarantined: ")])
  })

  it.each(["memory", "SQLite", "PostgreSQL"])(
    "continues where its journal has it when its engine is restarted: %s",
    async kind => {
      const { umbra, id, again } = await stopped(await storeOf(kind))
      await umbra.close()
      const gated = gate()
      const next = await open({ at: again(), handlers: [gated.handler] })
      expect(await next.wait(id, { timeoutMs: 60_000 })).toMatchObject({
        status: "COMPLETED",
        output: "through and on",
        error: null,
      })
      expect(gated.entered).toHaveLength(0)
      expect(await differences(next, id)).toEqual([])
    },
    240_000,
  )

  it("continues with the next command for it", async () => {
    const { umbra, id } = await stopped()
    await umbra.signal(id, "anything", 1)
    expect(await umbra.wait(id, { timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED", error: null })
  })

  it("can be cancelled", async () => {
    const { umbra, id } = await stopped()
    await umbra.cancel(id)
    expect(await umbra.job(id)).toMatchObject({ status: "CANCELLED", error: null })
  })

  it("that had ended, but whose row did not say so, is shown as ended after a restart", async () => {
    const at = createMemoryStore({ partitions: 4 })
    const gated = gate()
    const umbra = await open({ at: openMemory(at), handlers: [gated.handler] })
    const job = await umbra.submit(flow([{ id: "a", handler: "gate" }]))
    await gated.came()
    const { record } = AppendLane.prototype
    const bug = vi.spyOn(AppendLane.prototype, "record").mockImplementation(function (
      this: AppendLane,
      ...given
    ) {
      record.apply(this, given)
      throw new RangeError("a bug")
    })
    gated.open()
    await until("the job is shown as stopped", async () => (await umbra.job(job.id)).error !== null)
    bug.mockRestore()
    await umbra.close()
    const next = await open({ at: openMemory(at), handlers: [gate().handler] })
    await until("the row is written", async () => (await next.job(job.id)).status === "COMPLETED")
    expect(await next.job(job.id)).toMatchObject({ output: { a: "through" }, error: null })
  })
})
