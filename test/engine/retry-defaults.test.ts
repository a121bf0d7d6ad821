import { describe, expect, it } from "vitest"
import { compileWorkflow, handlerCatalog } from "../../src/definition/index.ts"
import { createMemoryStore, type MemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import type { UmbraOptions } from "../../src/umbra.ts"
import { flow, handler, open, openOn, until } from "./stage.ts"

const five = { retryMaxAttempts: 5, retryInitialSeconds: 0, retryJitter: 0 }
const two = { retryMaxAttempts: 2, retryInitialSeconds: 0, retryJitter: 0 }

/** Fails every time, and counts. */
function failing() {
  const runs = new Map<string, number>()
  return {
    runs,
    handler: handler("failing", (_, ctx) => {
      runs.set(ctx.nodeId, (runs.get(ctx.nodeId) ?? 0) + 1)
      throw Object.assign(new Error("it failed"), { retryable: true })
    }),
  }
}

const factsOf = async (store: MemoryStore, jobId: string) =>
  (await openMemory(store).readFacts([jobId])).map(({ data }) => JSON.parse(data ?? "null"))

describe("retry where the definition does not say it", () => {
  it("follows the settings, field by field", async () => {
    const { runs, handler } = failing()
    const umbra = await open({ handlers: [handler], engine: five })
    const run = async (retry?: object) => {
      runs.clear()
      await (await umbra.submit(flow([{ id: "a", handler: "failing", ...(retry && { retry }) }]))).wait()
      return runs.get("a")
    }
    expect(await run()).toBe(5)
    expect(await run({ multiplier: 3 })).toBe(5)
    // What was written counts, also where it says the default.
    expect(await run({ max_attempts: 3 })).toBe(3)
  })

  it("also of items and of child jobs", async () => {
    const { runs, handler } = failing()
    const umbra = await open({ handlers: [handler], engine: five })
    await umbra.register(flow([{ id: "inner", handler: "failing" }], { name: "child" }))
    const list = await umbra.submit(flow([{ id: "list", handler: "failing", for_each: [1] }]))
    const parent = await umbra.submit(
      flow([{ id: "c", handler: "workflow", config: { workflow: "child" }, retry: { max_attempts: 1 } }]),
    )
    await list.wait()
    await parent.wait()
    expect(Object.fromEntries(runs)).toEqual({ list: 5, inner: 5 })
  })

  it("is recorded with the job: a process with other settings that takes it over, or retries it, uses that", async () => {
    const [store, { runs, handler }] = [createMemoryStore(), failing()]
    const openWith = (engine: NonNullable<UmbraOptions["engine"]>) =>
      openOn(store, { handlers: [handler], engine })
    const first = await openWith(five)
    const job = await first.submit(flow([{ id: "a", handler: "failing" }]))
    await job.wait()
    expect(runs.get("a")).toBe(5)
    await first.close()
    const second = await openWith(two)
    await second.retry(job.id)
    await second.wait(job.id)
    expect(runs.get("a")).toBe(10)
    expect((await factsOf(store, job.id))[0].retry_defaults).toMatchObject({ max_attempts: 5 })
  })

  it("continues as recorded after a take-over in the middle of the tries", async () => {
    const [store, clock, { runs, handler }] = [createMemoryStore(), new VirtualClock(), failing()]
    const engine = { ...five, retryInitialSeconds: 60, retryMultiplier: 1, ttlSeconds: null }
    const first = await openOn(store, { clock, handlers: [handler], engine })
    const job = await first.submit(flow([{ id: "a", handler: "failing" }]))
    await until("it has failed once", async () => (await first.node(job.id, "a")).error !== null)
    await first.close()
    const second = await openOn(store, { clock, handlers: [handler], engine: { ...two, ttlSeconds: null } })
    for (let tries = 2; tries <= 5; tries++)
      // In steps: the retry may be due while the next owner still takes over.
      await until(`it is tried ${tries} times`, () => {
        if (runs.get("a") !== tries) clock.advance(10_000)
        return runs.get("a") === tries
      })
    expect((await second.wait(job.id)).status).toBe("FAILED")
  })

  it("is not recorded where the settings are the usual ones, and such a job has those for ever", async () => {
    const [store, { runs, handler }] = [createMemoryStore(), failing()]
    const first = await openOn(store, { handlers: [handler] })
    const job = await first.submit(flow([{ id: "a", handler: "failing", retry: { initial_seconds: 0 } }]))
    await job.wait()
    await first.close()
    expect((await factsOf(store, job.id))[0]).not.toHaveProperty("retry_defaults")
    const second = await openOn(store, { handlers: [handler], engine: five })
    await second.retry(job.id)
    await second.wait(job.id)
    expect(runs.get("a")).toBe(6)
  })
})

describe("the stored document", () => {
  const document = (retry?: object) => flow([{ id: "a", handler: "input", ...(retry && { retry }) }])
  const handlers = handlerCatalog([{ name: "input" }])
  const compile = (retry?: object) => compileWorkflow(document(retry), { handlers }).plan!

  it("keeps values of retry that were written although they are the default; the hash does not see them", () => {
    const written = { max_attempts: 3, jitter: 0.1 }
    expect(compile(written).document).toMatchObject({ nodes: [{ retry: written }] })
    expect(compile(written).canonical).toEqual(compile().canonical)
    expect(compile(written).hash).toBe(compile().hash)
    expect(compile({ max_attempts: 5, jitter: 0.1 }).hash).toBe(compile({ max_attempts: 5 }).hash)
    // As 0.1.0 computed it.
    expect(compile().hash).toBe("76ff20a89119ab184ef62effef135d2fdfe459ca2982730cec3970c09a6a5ab4")
    const again = compileWorkflow(compile(written).document, { handlers }).plan!
    expect([again.document, again.hash]).toEqual([compile(written).document, compile().hash])
  })

  it("is what jobs run: written again with the default it is a new version of the same hash", async () => {
    const { runs, handler: failingHandler } = failing()
    const umbra = await open({ handlers: [failingHandler], engine: five })
    const say = (retry?: object) => flow([{ id: "a", handler: "failing", ...(retry && { retry }) }])
    const first = await umbra.register(say())
    const second = await umbra.register(say({ max_attempts: 3 }))
    expect([first.version, second.version, first.hash === second.hash]).toEqual([1, 2, true])
    expect(await umbra.register(say({ max_attempts: 3 }))).toMatchObject({ version: 2, unchanged: true })
    for (const [reference, tries] of [
      ["flow@1", 5],
      ["flow@2", 3],
    ] as const) {
      runs.clear()
      await (await umbra.submit(reference)).wait()
      expect(runs.get("a")).toBe(tries)
    }
  })
})
