/** The live overlay of the graph: what runs, while facts are on their way to the store and from other processes. */
import { describe, expect, it } from "vitest"
import { withLive } from "../../src/core/view/live-view.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { messagesSent } from "../support/store-tables.ts"
import { flow, gate, open, openOn, until } from "./stage.ts"

const two = flow([
  { id: "long", handler: "long" },
  { id: "short", handler: "short" },
  { id: "after", handler: "long", dependencies: ["short"] },
])

describe("J19 the live overlay", () => {
  it("is shown beside the facts, and nothing of it among them", async () => {
    const [long, short] = [gate("long"), gate("short")]
    const umbra = await open({ handlers: [long.handler, short.handler], worker: { concurrency: 1 } })
    const job = await umbra.submit(two)
    await long.came()
    await until("the other was handed out", () => umbra.health().queued === 1)
    const graph = await job.graph()
    // On a machine that stood still for a second the start of the first is a fact.
    expect(graph.nodes.map(({ status }) => status).slice(1)).toEqual(["QUEUED", "PENDING"])
    expect(graph.live!.nodes).toMatchObject([
      { id: "long", status: "RUNNING", waiting_on: null },
      {
        id: "short",
        status: "QUEUED",
        worker: null,
        waiting_on: { kind: "worker", handler: "short", reason: "busy", queued: 1, position: 1 },
      },
    ])
    expect(graph.live!.nodes[0]!.started_at).toBeLessThanOrEqual(graph.live!.at)
    expect(withLive(graph).nodes.map(({ status }) => status)).toEqual(["RUNNING", "QUEUED", "PENDING"])
    long.open()
    short.open()
    await job.wait()
    expect(await job.graph()).not.toHaveProperty("live")
  })

  it("stays while facts of the job are not durable yet", async () => {
    const journal = openMemory()
    const append = journal.append.bind(journal)
    let release = () => {}
    let held: Promise<void> = Promise.resolve()
    journal.append = async batch => {
      await held
      return append(batch)
    }
    const [long, short] = [gate("long"), gate("short")]
    const umbra = await open({ at: journal, handlers: [long.handler, short.handler] })
    const job = await umbra.submit(two)
    await Promise.all([long.came(), short.came()])
    held = new Promise(resolve => {
      release = resolve
    })
    short.open()
    await until("its end is on its way", () => umbra.activity(job.id).running.length === 1)
    const graph = await job.graph()
    // The facts are those that are stored; what runs is shown all the same.
    expect(graph.nodes.map(({ status }) => status).slice(1)).toEqual(["QUEUED", "PENDING"])
    expect(graph.live!.nodes).toMatchObject([{ id: "long", status: "RUNNING" }])
    release()
    long.open()
    expect((await job.wait()).status).toBe("COMPLETED")
  })

  it("comes from the owner's process: one query for all callers, and nothing is written", async () => {
    const store = createMemoryStore()
    const long = gate("long")
    const owner = await openOn(store, { handlers: [long.handler] })
    const questions: string[] = []
    store.feedListeners.add(text => void (text.startsWith("live?") && questions.push(text)))
    const api = await openOn(store, { roles: ["api"] })
    const job = await owner.submit(flow([{ id: "a", handler: "long" }]))
    await long.came()
    const written = messagesSent(store)
    const graphs = await Promise.all(Array.from({ length: 200 }, () => api.graph(job.id)))
    for (const { live } of graphs) expect(live!.nodes).toMatchObject([{ id: "a", status: "RUNNING" }])
    // They come in a few turns of the event loop, each with at most one question behind the one in flight.
    expect(questions.length).toBeLessThan(20)
    expect(messagesSent(store)).toBe(written)
    long.open()
    await job.wait()
  })

  it("is null if the owner does not answer, and the graph is there nevertheless", async () => {
    const store = createMemoryStore()
    const long = gate("long")
    const owner = await openOn(store, { handlers: [long.handler] })
    const job = await owner.submit(flow([{ id: "a", handler: "long" }]))
    await long.came()
    const api = await openOn(store, { roles: ["api"] })
    // Nothing of what it is asked reaches the owner from here on.
    store.feedListeners.clear()
    const graph = await api.graph(job.id)
    expect(graph.live).toBeNull()
    expect(withLive(graph).nodes).toMatchObject([{ id: "a", status: "QUEUED" }])
    expect((await api.node(job.id, "a")).live).toBeNull()
    long.open()
    await owner.wait(job.id)
  })

  it("an answer longer than a notification arrives whole", async () => {
    const store = createMemoryStore()
    const long = gate("long")
    const owner = await openOn(store, { handlers: [long.handler], worker: { concurrency: 300 } })
    const sizes: number[] = []
    store.feedListeners.add(text => void sizes.push(Buffer.byteLength(text)))
    const api = await openOn(store, { roles: ["api"] })
    const nodes = Array.from({ length: 300 }, (_, n) => ({ id: `node_${n}`, handler: "long" }))
    const job = await owner.submit(flow(nodes))
    await long.came(300)
    const { live } = await api.graph(job.id)
    expect(live!.nodes.map(({ id, status }) => [id, status])).toEqual(nodes.map(({ id }) => [id, "RUNNING"]))
    expect(Math.max(...sizes)).toBeLessThan(8000)
    long.open()
    await owner.wait(job.id)
  })
})
