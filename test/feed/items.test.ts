/** S4, J14, J21: what streams tell of lists and of child jobs, and what they do not keep of them. */

import { describe, expect, it, onTestFinished } from "vitest"
import type { Fact } from "../../src/core/facts.ts"
import { readFact } from "../../src/feed/known-jobs.ts"
import { listNode } from "../../src/feed/progress.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { flow, gate, handler } from "../engine/stage.ts"
import { openFeedStage } from "./stage.ts"

async function light({ type, at, ...data }: Fact): Promise<Fact | null> {
  const text = JSON.stringify(data)
  return readFact(openMemory(), { jobId: "j", seq: 1, at, type, data: text, bytes: text.length })
}

/** What is followed begins when its gate is opened. */
async function stage() {
  const held = gate()
  const opened = await openFeedStage(createMemoryStore(), {
    handlers: [
      held.handler,
      handler("secretive", ({ n }: { n: number }) => {
        if (n === 13) throw Object.assign(new Error("unlucky"), { retryable: false })
        return `kept ${n}`
      }),
    ],
  })
  onTestFinished(() => opened.umbra.close())
  return { ...opened, open: () => held.open() }
}

const first = { id: "first", handler: "gate" }

const each = (items: readonly number[]) =>
  flow([
    first,
    {
      id: "each",
      handler: "secretive",
      dependencies: ["first"],
      for_each: [...items],
      config: { n: "{{ item }}" },
    },
  ])

describe("lists in streams", () => {
  it("S4 J21 send the node and how many items it has, not the items", async () => {
    const { umbra, job: follow, open } = await stage()
    const job = await umbra.submit(each([1, 2, 3]), null, { owner: "ada" })
    const { sink } = await follow("ada", job.id)
    open()
    await job.wait()
    await expect.poll(() => sink.received.at(-1)?.event).toBe("end")
    const lines = sink.received.filter(({ event, data }) => event === "node" && data.node === "each")
    expect(lines.map(({ data }) => data.status)).toEqual(["QUEUED", "RUNNING", "WAITING", "COMPLETED"])
    expect(lines[2]!.data).toMatchObject({ items: 3 })
    expect(sink.states(job.id).at(-1)).toBe("COMPLETED")
    expect(JSON.stringify(sink.received)).not.toContain("kept")
  })

  it("S4 J21 send how far a list is while it runs", async () => {
    const second = gate("second")
    const { umbra, job: follow } = await openFeedStage(createMemoryStore(), { handlers: [second.handler] })
    onTestFinished(() => umbra.close())
    await umbra.register(
      flow([{ id: "a", handler: "wait_for_signal", config: { signal: "go" } }], { name: "w" }),
      "ada",
    )
    const list = {
      id: "each",
      handler: "workflow",
      for_each: ["w", "w", "w", "w"],
      config: { workflow: "{{ item }}" },
    }
    const job = await umbra.submit(
      flow([list, { id: "last", handler: "second", dependencies: ["each"] }]),
      null,
      {
        owner: "ada",
      },
    )
    const { sink } = await follow("ada", job.id)
    const waiting = async () => (await umbra.graph(job.id)).nodes[0]?.items?.waiting
    await expect.poll(waiting).toBe(4)
    const { items } = await umbra.items(job.id, "each")
    for (const { child_job_id } of items.slice(0, 3)) await umbra.signal(child_job_id!, "go", null)
    const progress = () => sink.received.findLast(({ event }) => event === "progress")?.data
    await expect.poll(progress).toMatchObject({
      node: "each",
      node_pct: 75,
      progress_pct: 37,
      progress_message: "3/4 items",
    })
    await umbra.signal(items[3]!.child_job_id!, "go", null)
    await second.came()
    second.open()
    await job.wait()
    await expect.poll(() => sink.received.at(-1)?.event).toBe("end")
  })

  it("S4 J21 do not hide what the handlers of other nodes say", async () => {
    const [talks, item] = [gate("talks"), gate("item")]
    const { umbra, job: follow } = await openFeedStage(createMemoryStore(), {
      feed: { progressMs: 500 },
      handlers: [talks.handler, item.handler, handler("quick", () => 1)],
    })
    onTestFinished(() => umbra.close())
    const workflow = flow([
      { id: "talks", handler: "talks" },
      { id: "held", handler: "item" },
      {
        id: "each",
        handler: "workflow",
        for_each: ["fast", "fast", "fast", "slow"],
        config: { workflow: "{{ item }}" },
        dependencies: ["held"],
      },
    ])
    await umbra.register(flow([{ id: "a", handler: "quick" }], { name: "fast" }), "ada")
    await umbra.register(
      flow([{ id: "a", handler: "wait_for_signal", config: { signal: "go" } }], { name: "slow" }),
      "ada",
    )
    const job = await umbra.submit(workflow, null, { owner: "ada" })
    const { sink } = await follow("ada", job.id)
    const { progress } = await talks.came()
    progress(50, "half")
    item.open()
    const newest = (node: string) =>
      sink.received.findLast(({ event, data }) => event === "progress" && data.node === node)?.data
    await expect.poll(() => newest("each")).toMatchObject({ node_pct: 75, progress_message: "3/4 items" })
    expect(newest("talks")).toMatchObject({ node_pct: 50, progress_message: "half" })
    talks.open()
  })

  it("S4 J21 of ten thousand items cost a few events, and the job's percentage never falls", async () => {
    const progressMs = 25
    const { umbra, job: follow } = await openFeedStage(createMemoryStore(), {
      feed: { progressMs },
      handlers: [handler("quick", () => 1)],
    })
    onTestFinished(() => umbra.close())
    const items = Array.from({ length: 10_000 }, (_, n) => n)
    const [start, each] = [
      { id: "start", handler: "wait_for_signal", config: { signal: "go" } },
      { id: "each", handler: "quick", for_each: items, dependencies: ["start"] },
    ]
    const job = await umbra.submit(flow([start, each]), null, { owner: "ada" })
    const { sink } = await follow("ada", job.id)
    const begun = performance.now()
    await umbra.signal(job.id, "go", null)
    await job.wait()
    await expect.poll(() => sink.received.at(-1)?.event).toBe("end")
    const rounds = (performance.now() - begun) / progressMs
    const events = sink.received.filter(({ event }) => event === "progress")
    expect(events.length).toBeGreaterThan(2)
    expect(events.length).toBeLessThanOrEqual(rounds + 1)
    const percents = events.map(({ data }) => data.progress_pct)
    expect(percents).toEqual([...percents].sort((a, b) => a - b))
  })

  it("S4 J21 count items that failed permanently as ended, and those that are tried again not", async () => {
    const held = gate("item")
    const { umbra, job: follow } = await openFeedStage(createMemoryStore(), {
      handlers: [
        handler("item", ({ n }: { n: number }, ctx) => {
          if (n === 13) throw Object.assign(new Error("unlucky"), { retryable: false })
          return n === 0 ? held.handler.run({}, ctx) : n
        }),
      ],
    })
    onTestFinished(() => umbra.close())
    const config = { n: "{{ item }}" }
    const list = { id: "each", handler: "item", fail_fast: false, for_each: [13, 13, 1, 0], config }
    const start = { id: "start", handler: "wait_for_signal", config: { signal: "go" } }
    const job = await umbra.submit(flow([start, { ...list, dependencies: ["start"] }]), null, {
      owner: "ada",
    })
    const { sink } = await follow("ada", job.id)
    await umbra.signal(job.id, "go", null)
    await expect
      .poll(() => sink.received.findLast(({ event }) => event === "progress")?.data)
      .toMatchObject({ node: "each", node_pct: 75, progress_message: "3/4 items, 2 failed" })
    held.open()
    await job.wait()
    const fault = { code: "E401", message: "not now", retryable: true } as const
    const failed: Fact = { type: "item_failed", at: 1, node: 2, item: 0, attempt: 1, fault }
    expect(listNode(failed)).toBe(2)
    expect(listNode({ ...failed, retry_at: 9 })).toBeNull()
  })

  it("S4 J21 say which item failed", async () => {
    const { umbra, job: follow, open } = await stage()
    const job = await umbra.submit(each([1, 13]), null, { owner: "ada" })
    const { sink } = await follow("ada", job.id)
    open()
    await job.wait()
    await expect.poll(() => sink.received.at(-1)?.event).toBe("end")
    const newest = (event: string) => sink.received.findLast(line => line.event === event)!.data
    expect(newest("job").error).toMatchObject({ node: "each", item: 1, message: "unlucky" })
    const failed = sink.received.find(({ event, data }) => event === "node" && data.status === "FAILED")!.data
    expect(failed).toMatchObject({ node: "each", error: { item: 1 } })
  })

  it("S4 keeps neither items nor their outputs, nor what a wait completes with", async () => {
    const [at, node, attempt, item] = [1, 0, 1, 0]
    const expanded: Fact = { type: "node_expanded", at, node, attempt, items: ["large", "larger"] }
    expect(await light(expanded)).toEqual({ ...expanded, items: [null, null] })
    const { items: _, ...elsewhere } = { ...expanded, items_of: { count: 2, input: ["items"] } }
    expect(await light(elsewhere)).toEqual(elsewhere)
    const completed: Fact = { type: "item_completed", at, node, item, attempt, output: "large" }
    expect(await light(completed)).toEqual({ ...completed, output: null })
    const signal = { kind: "signal", name: "go", until: 9 } as const
    const waits: Fact = {
      type: "item_waiting",
      at,
      node,
      item,
      attempt,
      waiting: { ...signal, default: "x" },
    }
    expect(await light(waits)).toEqual({ ...waits, waiting: { ...signal, default: null } })
    const plain: Fact = { type: "node_waiting", at, node, attempt, waiting: signal }
    expect(await light(plain)).toEqual(plain)
    const timer = { kind: "timer", until: 9, output: "large" } as const
    const sleeps: Fact = { type: "item_waiting", at, node, item, attempt, waiting: timer }
    expect(await light(sleeps)).toEqual({ ...sleeps, waiting: { ...timer, output: null } })
  })
})

describe("child jobs in streams", () => {
  it("S4 J14 the parent's says which job does the node's work, which has a stream of its own", async () => {
    const { umbra, job: follow, owner, open } = await stage()
    const { sink: all } = await owner("ada")
    const inner = flow([{ id: "a", handler: "secretive", config: { n: 1 } }], { name: "inner" })
    await umbra.register(inner, "ada")
    const run = { id: "run", handler: "workflow", dependencies: ["first"], config: { workflow: "inner" } }
    const job = await umbra.submit(flow([first, run]), null, { owner: "ada" })
    const { sink } = await follow("ada", job.id)
    open()
    await job.wait()
    await expect.poll(() => sink.received.at(-1)?.event).toBe("end")
    const { child_job_id } = (await umbra.graph(job.id)).nodes[1]!
    await expect.poll(() => all.states(child_job_id!).at(-1)).toBe("COMPLETED")
    const waits = sink.received.find(({ event, data }) => event === "node" && data.status === "WAITING")
    expect(waits!.data.waiting_on).toEqual({
      kind: "child",
      job_id: child_job_id,
      workflow: "inner",
      workflow_version: 1,
    })
  })
})
