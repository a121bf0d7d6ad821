/** What is recorded of handlers that end after their abort signal, also while their process closes. */
import { expect, it } from "vitest"
import { createMemoryStore } from "../../src/journal/sqlite/memory.ts"
import { flow, gate, handler, open, openOn, until } from "./stage.ts"

/** Uses 4 tokens, and 3 more a moment after its abort signal, if `onAbort` lets it. */
function costlyAfterAbort(onAbort: () => Promise<unknown>) {
  const begun = gate("unused")
  const costly = handler("costly", (_, ctx) => {
    ctx.usage({ tokens: 4 })
    begun.open()
    return new Promise((_resolve, reject) => {
      ctx.signal.addEventListener("abort", async () => {
        await onAbort()
        ctx.usage({ tokens: 3 })
        reject(ctx.signal.reason)
      })
    })
  })
  return { costly, begun: begun.left }
}

it("shows how long an aborted handler ran until it ended, if that was reported", async () => {
  let [begunAt, ranMs] = [0, 0]
  const slow = handler("slow", (_, ctx) => {
    begunAt = performance.now()
    return new Promise((_resolve, reject) => {
      ctx.signal.addEventListener("abort", () =>
        setTimeout(() => {
          ctx.usage({ tokens: 3 })
          ranMs = performance.now() - begunAt
          reject(ctx.signal.reason)
        }, 400),
      )
    })
  })
  const umbra = await open({ handlers: [slow] })
  const job = await umbra.submit(flow([{ id: "a", handler: "slow" }]))
  await until("the handler runs", () => begunAt > 0)
  await job.cancel()
  await until("its usage is counted", async () => (await umbra.node(job.id, "a")).usage?.tokens === 3)
  const { attempts, ...node } = await umbra.node(job.id, "a")
  expect(node.duration_ms).toBeGreaterThanOrEqual(Math.floor(ranMs))
  expect(node.finished_at! - node.started_at!).toBeLessThan(node.duration_ms!)
  expect(attempts).toMatchObject([{ duration_ms: node.duration_ms, started_at: node.started_at }])
  const { nodes } = await umbra.graph(job.id)
  expect(nodes[0]).toMatchObject({ duration_ms: node.duration_ms })
  const aborted = (await umbra.events(job.id)).findLast(({ type }) => type === "attempt.aborted")
  expect(aborted?.payload).toMatchObject({ duration_ms: node.duration_ms, started_at: node.started_at })
})

it("counts what a handler reports after its abort signal, also if its engine is closed meanwhile", async () => {
  for (const others of [0, 1]) {
    const store = createMemoryStore()
    const { costly, begun } = costlyAfterAbort(() => new Promise(resolve => setTimeout(resolve, 300)))
    const first = await openOn(store, { handlers: [costly] })
    const job = await first.submit(flow([{ id: "a", handler: "costly" }]))
    await begun
    // With another engine idle partitions are handed over as soon as this one begins to close.
    for (let n = 0; n < others; n++) await openOn(store, { handlers: [] })
    await job.cancel()
    await first.close()
    const next = await openOn(store, { handlers: [] })
    expect((await next.node(job.id, "a")).usage).toEqual({ tokens: 7 })
    expect((await next.job(job.id)).usage).toEqual({ tokens: 7 })
  }
})

it("counts what a handler reports when it is aborted because its engine stops", async () => {
  const store = createMemoryStore()
  const { costly, begun } = costlyAfterAbort(() => new Promise(resolve => setTimeout(resolve, 100)))
  const first = await openOn(store, { handlers: [costly], engine: { drainSeconds: 0 } })
  const job = await first.submit(flow([{ id: "a", handler: "costly" }]))
  await begun
  await first.close()
  const next = await openOn(store, { handlers: [] })
  expect((await next.node(job.id, "a")).usage).toEqual({ tokens: 7 })
})

it("a handler that does not end after its abort signal does not keep its engine from closing", async () => {
  const { costly, begun } = costlyAfterAbort(() => new Promise(() => {}))
  const umbra = await open({
    handlers: [costly],
    engine: { drainSeconds: 0.01 },
    worker: { graceSeconds: 3600 },
  })
  const job = await umbra.submit(flow([{ id: "a", handler: "costly" }]))
  await begun
  await job.cancel()
  await umbra.close()
})
