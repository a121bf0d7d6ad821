import { describe, expect, it } from "vitest"
import { withLive, withLiveItems } from "../../src/core/view/live-view.ts"
import { childJobId } from "../../src/engine/ids.ts"
import { createMemoryStore } from "../../src/journal/sqlite/memory.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { flow, gate, handler, open, openOn, soon, states, until } from "./stage.ts"

const double = handler("double", ({ n }: { n: number }) => n * 2)

const each = (node: Record<string, unknown> = {}, rest: Record<string, unknown> = {}) =>
  flow(
    [
      { id: "list", handler: "transform", config: { value: [1, 2, 3] } },
      {
        id: "each",
        handler: "double",
        config: { n: "{{ item }}", at: "{{ index }}" },
        for_each: "{{ list }}",
        ...node,
      },
      { id: "sum", handler: "transform", config: { value: "{{ each | sum }}" } },
    ],
    { output: { sum: "{{ sum }}", all: "{{ each }}" }, ...rest },
  )

describe("J21 for_each", () => {
  it("runs the node once per item and collects the outputs in order", async () => {
    const umbra = await open({
      handlers: [
        handler("double", async ({ n, at }: { n: number; at: number }) => {
          await new Promise(resolve => setTimeout(resolve, (3 - n) * 5))
          return { n, at }
        }),
      ],
    })
    const job = await umbra.submit({ ...each(), output: "{{ each }}", nodes: each().nodes.slice(0, 2) })
    expect((await job.wait()).output).toEqual([1, 2, 3].map((n, at) => ({ n, at })))
  })

  it("shows one node with counts, and its items by pages", async () => {
    const held = gate("double")
    const umbra = await open({ handlers: [held.handler] })
    const job = await umbra.submit(each({ max_parallel: 2 }))
    await held.came(2)
    const graph = await job.graph()
    expect(graph.nodes[1]).toMatchObject({
      status: "QUEUED",
      items: { total: 3, queued: 2, pending: 1 },
      waiting_on: { kind: "worker", handler: "double" },
    })
    expect(withLive(graph).nodes[1]).toMatchObject({
      status: "RUNNING",
      items: { total: 3, running: 2, pending: 1 },
      waiting_on: null,
    })
    const page = await umbra.items(job.id, "each", { limit: 2 })
    expect(page.items.map(({ status }) => status)).toEqual(["QUEUED", "QUEUED"])
    expect(withLiveItems(page)).toMatchObject({
      items: [
        { index: 0, item: 1, status: "RUNNING", attempt: 1 },
        { index: 1, item: 2, status: "RUNNING" },
      ],
      next: 1,
    })
    expect(await umbra.items(job.id, "each", { after: 1 })).toMatchObject({
      items: [{ index: 2, item: 3, status: "PENDING", waiting_on: null }],
      next: null,
    })
    expect(umbra.activity(job.id).running).toMatchObject([
      { node: "each", item: 0 },
      { node: "each", item: 1 },
    ])
    await expect(umbra.items(job.id, "nobody")).rejects.toMatchObject({ code: "E310" })
    expect(await umbra.items(job.id, "list")).toMatchObject({ items: [], next: null, live: { items: [] } })
    held.open(5)
    expect(await job.wait()).toMatchObject({ output: { sum: 15, all: [5, 5, 5] } })
    expect((await job.graph()).nodes[1]).toMatchObject({
      status: "COMPLETED",
      items: { total: 3, completed: 3 },
    })
    const received = (await umbra.events(job.id)).filter(event => event.item === 2).map(({ type }) => type)
    expect(received).toEqual(["item.queued", "item.running", "item.completed"])
  })

  it("runs at most max_parallel at once, and the next as soon as one is done", async () => {
    let [running, most] = [0, 0]
    const umbra = await open({
      handlers: [
        handler("double", async ({ n }: { n: number }) => {
          most = Math.max(most, ++running)
          await new Promise(resolve => setTimeout(resolve, n % 3))
          running--
          return n
        }),
      ],
    })
    const list = Array.from({ length: 40 }, (_, n) => n)
    const job = await umbra.submit(each({ for_each: list, max_parallel: 4 }))
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: { sum: 780, all: list } })
    expect(most).toBe(4)
  })

  it("an empty list completes at once, also as the job's last node", async () => {
    const umbra = await open({ handlers: [double] })
    expect(await (await umbra.submit(each({ for_each: [] }))).wait()).toMatchObject({
      output: { sum: 0, all: [] },
    })
    const last = {
      ...each({ for_each: "{{ [] }}" }),
      nodes: each({ for_each: "{{ [] }}" }).nodes.slice(1, 2),
      output: "{{ each | length }}",
    }
    expect(await (await umbra.submit(last)).wait()).toMatchObject({ status: "COMPLETED", output: 0 })
  })

  it.each([
    ["a number", "{{ 3 }}", "E433", /yields a number, not a list/],
    ["a mapping", "{{ {'a': 1} }}", "E433", /yields a mapping/],
    ["a node that was skipped", "{{ absent }}", "E433", /yields the output of a skipped node/],
    ["more than maxItems", "{{ range(11) }}", "E434", /11 items; at most 10/],
  ])("refuses %s", async (_, for_each, code, message) => {
    const umbra = await open({ handlers: [double], engine: { maxItems: 10 } })
    const absent = { id: "absent", handler: "transform", config: { value: [] }, when: false }
    const { nodes, ...rest } = each({ for_each })
    const { status, error } = await (await umbra.submit({ ...rest, nodes: [absent, ...nodes] })).wait()
    expect({ status, code: error?.code }).toEqual({ status: "FAILED", code })
    expect(error?.message).toMatch(message)
  })

  it("J12 `when` is about the node as a whole", async () => {
    const umbra = await open({ handlers: [double] })
    const job = await umbra.submit({
      ...each({ when: "{{ list | length > 5 }}" }),
      nodes: each({ when: "{{ list | length > 5 }}" }).nodes.slice(0, 2),
      output: "{{ each }}",
    })
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: { skipped: true } })
  })

  it("J8 gives each item an idempotency key of its own", async () => {
    const umbra = await open({ handlers: [handler("double", (_, ctx) => ctx.idempotencyKey)] })
    const job = await umbra.submit({ ...each(), nodes: each().nodes.slice(0, 2), output: "{{ each }}" })
    expect((await job.wait()).output).toEqual([0, 1, 2].map(item => `${job.id}/each/${item}`))
  })

  it("J13 retries are each item's own", async () => {
    const tries = new Map<number, number>()
    const umbra = await open({
      handlers: [
        handler("double", ({ n }: { n: number }) => {
          tries.set(n, (tries.get(n) ?? 0) + 1)
          if (n === 2 && tries.get(n)! < 3) throw new Error("not yet")
          return n
        }),
      ],
    })
    const job = await umbra.submit(each({ retry: soon }))
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: { sum: 6 } })
    expect(Object.fromEntries(tries)).toEqual({ 1: 1, 2: 3, 3: 1 })
    expect((await umbra.items(job.id, "each")).items.map(({ attempt }) => attempt)).toEqual([1, 3, 1])
  })

  it("J9 the first item that fails permanently fails the job and stops the others; J10 a retry runs only those", async () => {
    const runs: number[] = []
    let isMended = false
    const held = new Map<number, AbortSignal>()
    const umbra = await open({
      worker: { graceSeconds: 0.02 },
      handlers: [
        handler("double", ({ n }: { n: number }, ctx) => {
          runs.push(n)
          if (isMended || n === 1) return n
          if (n === 2) throw Object.assign(new Error("two is odd"), { retryable: false })
          held.set(n, ctx.signal)
          return new Promise(() => {})
        }),
      ],
    })
    const list = { for_each: "{{ [1, 3, 2, 4] }}", max_parallel: 3 }
    const job = await umbra.submit(each(list))
    const { status, error } = await job.wait()
    expect({ status, ...error }).toMatchObject({
      status: "FAILED",
      node: "each",
      item: 2,
      message: "two is odd",
    })
    await until("the neighbour was told", () => held.get(3)?.aborted)
    expect(await states(umbra, job.id)).toEqual({ list: "COMPLETED", each: "FAILED", sum: "FAILED" })
    expect((await umbra.items(job.id, "each")).items.map(item => item.status)).toEqual([
      "COMPLETED",
      "CANCELLED",
      "FAILED",
      "CANCELLED",
    ])
    isMended = true
    runs.length = 0
    await job.retry()
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: { sum: 10, all: [1, 3, 2, 4] } })
    expect(runs.sort()).toEqual([2, 3, 4])
  })

  it("with fail_fast: false the others continue; the node fails with the first error, and a retry runs what failed", async () => {
    const runs: number[] = []
    let isMended = false
    const umbra = await open({
      handlers: [
        handler("double", ({ n }: { n: number }) => {
          runs.push(n)
          if (n % 2 === 0 && !isMended) throw Object.assign(new Error(`${n} is even`), { retryable: false })
          return n
        }),
      ],
    })
    const list = { for_each: [1, 2, 3, 4, 5], max_parallel: 2, fail_fast: false }
    const job = await umbra.submit(each(list))
    const { status, error } = await job.wait()
    expect({ status, ...error }).toMatchObject({
      status: "FAILED",
      node: "each",
      item: 1,
      message: "2 is even",
    })
    expect((await job.graph()).nodes[1]?.items).toEqual({ total: 5, completed: 3, failed: 2 })
    isMended = true
    runs.length = 0
    await job.retry()
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: { all: [1, 2, 3, 4, 5] } })
    expect(runs).toEqual([2, 4])
  })

  it("items wait without a worker: for a time, and for signals, which they take in turn", async () => {
    const clock = new VirtualClock()
    const umbra = await open({ clock, engine: { ttlSeconds: null } })
    const nap = await umbra.submit({
      ...each({ handler: "sleep", config: { seconds: "{{ item * 3600 }}" } }),
      output: "{{ each | length }}",
      nodes: each({ handler: "sleep", config: { seconds: "{{ item * 3600 }}" } }).nodes.slice(0, 2),
    })
    await until(
      "it has left memory",
      async () => !umbra.activity(nap.id).isHere && (await nap.status()).status === "PROCESSING",
    )
    expect(await nap.graph()).toMatchObject({
      workflow_status: "WAITING_PARALLEL",
      waiting_for: [{ node: "each", kind: "items", waiting: 3 }],
    })
    for (let hour = 0; hour < 3; hour++) {
      clock.advance(3_600_000)
      await new Promise(resolve => setTimeout(resolve, 20))
    }
    expect(await nap.wait()).toMatchObject({ status: "COMPLETED", output: 3 })
    const ask = each({ handler: "wait_for_signal", config: { signal: "go" } })
    const asked = await umbra.submit(ask)
    await asked.signal("go", 10)
    await until("two wait", async () => ((await asked.graph()).nodes[1]?.items?.waiting ?? 0) === 2)
    await asked.signal("go", 20)
    await asked.signal("go", 30)
    expect(await asked.wait()).toMatchObject({ output: { sum: 60 } })
  })

  it("large outputs of items leave memory and are read where they are needed", async () => {
    const umbra = await open({
      engine: { largeOutputBytes: 100 },
      handlers: [handler("double", ({ n }: { n: number }) => ({ n, pad: "x".repeat(n === 2 ? 500 : 5) }))],
    })
    const nodes = [
      ...each().nodes.slice(0, 2),
      { id: "sum", handler: "transform", config: { value: "{{ each | map(attribute='n') | sum }}" } },
      {
        id: "late",
        handler: "transform",
        config: { value: "{{ each[1].pad | length }}" },
        dependencies: ["sum"],
      },
    ]
    const job = await umbra.submit(
      flow(nodes, { output: { sum: "{{ sum }}", late: "{{ late }}", n: "{{ each[2].n }}" } }),
    )
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: { sum: 6, late: 500, n: 3 } })
    const whole = await umbra.submit(flow(nodes.slice(0, 2)))
    expect((await whole.wait()).output).toMatchObject({ each: [{ n: 1 }, { n: 2 }, { n: 3 }] })
  })

  it("J14 with handler workflow each item is a child job; the parent waits for all of them", async () => {
    const umbra = await open()
    await umbra.register(
      flow([{ id: "twice", handler: "transform", config: { value: "{{ input.n * 2 }}" } }], {
        output: "{{ twice }}",
      }),
    )
    await umbra.register({
      ...flow([{ id: "twice", handler: "transform", config: { value: "{{ input.n * 2 }}" } }], {
        output: "{{ twice }}",
      }),
      name: "inner",
    })
    const job = await umbra.submit({
      ...each({
        handler: "workflow",
        config: { workflow: "inner", input: { n: "{{ item }}" } },
        max_parallel: 2,
      }),
      name: "outer",
    })
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: { sum: 12, all: [2, 4, 6] } })
    const children = (await umbra.jobs({ parentId: job.id })).map(({ job_id }) => job_id)
    expect(children.sort()).toEqual([0, 1, 2].map(item => childJobId(job.id, 1, item)).sort())
    expect((await umbra.items(job.id, "each")).items[1]).toMatchObject({
      child_job_id: childJobId(job.id, 1, 1),
    })
  })

  it("J14 J16 the children of items are cancelled with their parent, and continue with its retry", async () => {
    const umbra = await open()
    const inner = flow([{ id: "ask", handler: "wait_for_signal", config: { signal: "go" } }], {
      output: "{{ ask }}",
    })
    await umbra.register({ ...inner, name: "inner" })
    const job = await umbra.submit({
      ...each({ handler: "workflow", config: { workflow: "inner" } }),
      name: "outer",
    })
    const children = [0, 1, 2].map(item => childJobId(job.id, 1, item))
    const areWaiting = async () => ((await job.graph()).nodes[1]?.items?.waiting ?? 0) === 3
    await until("all wait", areWaiting)
    await umbra.signal(children[0]!, "go", 1)
    await until("one is done", async () => ((await job.graph()).nodes[1]?.items?.completed ?? 0) === 1)
    await job.cancel()
    await until("the children have ended", async () =>
      (await umbra.jobs({ parentId: job.id })).every(child => child.finished_at !== null),
    )
    expect((await umbra.job(children[1]!)).status).toBe("CANCELLED")
    await job.retry()
    await until("two wait", async () => ((await job.graph()).nodes[1]?.items?.waiting ?? 0) === 2)
    await umbra.signal(children[1]!, "go", 2)
    await umbra.signal(children[2]!, "go", 3)
    expect(await job.wait()).toMatchObject({ output: { sum: 6, all: [1, 2, 3] } })
  })

  it("10,000 items work, at most 500 at once, each with its own output", async () => {
    const umbra = await open({ handlers: [double] })
    const job = await umbra.submit(each({ for_each: "{{ range(10000) }}", max_parallel: 500 }))
    const { status, output } = await job.wait()
    expect(status).toBe("COMPLETED")
    const { sum, all } = output as unknown as { sum: number; all: number[] }
    expect([sum, all.length, all[9_999]]).toEqual([99_990_000, 10_000, 19_998])
    expect((await umbra.items(job.id, "each", { after: 9_998 })).items).toMatchObject([{ index: 9_999 }])
  })

  it("S7 continues in the next engine with the same list and without the items that are done", async () => {
    const store = createMemoryStore()
    const ran: string[] = []
    const held = gate("double")
    const first = await openOn(store, {
      handlers: [
        handler("double", ({ n }: { n: number }, ctx) => {
          ran.push(`first ${n}`)
          return n === 1 ? n : held.handler.run({}, ctx)
        }),
      ],
      worker: { graceSeconds: 0.01 },
      engine: { drainSeconds: 0.01 },
    })
    const job = await first.submit(each())
    await held.came(2)
    await until("one is done", async () => ((await job.graph()).nodes[1]?.items?.completed ?? 0) === 1)
    await first.close()
    const second = await openOn(store, {
      handlers: [
        handler("double", ({ n }: { n: number }) => {
          ran.push(`second ${n}`)
          return n
        }),
      ],
    })
    expect(await second.wait(job.id)).toMatchObject({
      status: "COMPLETED",
      output: { sum: 6, all: [1, 2, 3] },
    })
    expect(ran.sort()).toEqual(["first 1", "first 2", "first 3", "second 2", "second 3"])
    expect(await second.queries.verify(await second.queries.row(job.id))).toEqual([])
  })
})
