import { describe, expect, it } from "vitest"
import { encodeFact } from "../../src/engine/commit/batch.ts"
import type { Journal } from "../../src/journal/port/journal.ts"
import { openMemory } from "../../src/journal/sqlite/memory.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { flow, gate, handler, open, soon, until } from "./stage.ts"

/** As long as it takes for a timer of so many milliseconds to fire, by the clock that measures handlers. */
const busy = (ms: number) => {
  const end = performance.now() + ms
  while (performance.now() < end);
}

describe("the attempts of a node", () => {
  it("are listed with their times, worker, outcome, error and usage", async () => {
    let calls = 0
    const flaky = handler("flaky", (_, ctx) => {
      ctx.usage({ tokens: 10 })
      busy(20)
      if (++calls < 3) throw new Error(`no luck ${calls}`)
      return "done"
    })
    const umbra = await open({ handlers: [flaky] })
    const job = await umbra.submit(flow([{ id: "a", handler: "flaky", retry: soon }]))
    expect((await job.wait()).status).toBe("COMPLETED")
    const node = await umbra.node(job.id, "a")
    expect(node.attempts_total).toBe(3)
    expect(node.attempts.map(({ attempt, outcome }) => `${attempt} ${outcome}`)).toEqual([
      "1 failed",
      "2 failed",
      "3 completed",
    ])
    for (const attempt of node.attempts) {
      expect(attempt).toMatchObject({ worker: `local-${process.pid}`, usage: { tokens: 10 } })
      expect(attempt.duration_ms).toBeGreaterThanOrEqual(19)
      expect(attempt.queued_at).toBeLessThanOrEqual(attempt.started_at!)
      expect(attempt.started_at! + attempt.duration_ms!).toBe(attempt.ended_at)
    }
    expect(node.attempts[0]?.error).toMatchObject({ message: "no luck 1" })
    expect(node).toMatchObject({ attempt: 3, max_attempts: 3, losses: 0, duration_ms: expect.any(Number) })
    expect(node.duration_ms).toBe(node.finished_at! - node.started_at!)
  })

  it("show an attempt that was cancelled within its first second, and its start", async () => {
    const { handler: held, came } = gate()
    const umbra = await open({ handlers: [held], worker: { concurrency: 1, graceSeconds: 0.02 } })
    const job = await umbra.submit(flow(["a", "b"].map(id => ({ id, handler: "gate" }))))
    await came()
    await job.cancel("enough")
    const running = (await umbra.events(job.id)).filter(({ type }) => type === "node.running")
    expect(running.map(({ node }) => node)).toEqual(["a"])
    const cancelled = (await umbra.events(job.id)).find(({ type }) => type === "node.cancelled")
    expect(running[0]!.at).toBeLessThanOrEqual(cancelled!.at)
    expect((await umbra.node(job.id, "a")).attempts).toMatchObject([
      { outcome: "cancelled", started_at: running[0]!.at, worker: `local-${process.pid}` },
    ])
    // With one slot in the pool the other never began.
    expect((await umbra.node(job.id, "b")).attempts).toMatchObject([
      { outcome: "cancelled", started_at: null, worker: null },
    ])
  })

  it("show that a sibling ran when the job failed within its first second", async () => {
    const { handler: held, came } = gate()
    const waits = handler("waits", async () => {
      await came()
      throw Object.assign(new Error("broken"), { retryable: false })
    })
    const umbra = await open({ handlers: [held, waits], worker: { graceSeconds: 0.02 } })
    const job = await umbra.submit(
      flow([
        { id: "fails", handler: "waits" },
        { id: "beside", handler: "gate" },
      ]),
    )
    expect((await job.wait()).status).toBe("FAILED")
    const received = (await umbra.events(job.id)).filter(({ node }) => node !== undefined)
    const ofNode = (id: string) => received.filter(({ node }) => node === id).map(({ type }) => type)
    expect(ofNode("fails")).toEqual(["node.queued", "node.running", "node.failed"])
    expect(ofNode("beside")).toEqual(["node.queued", "node.running", "node.cancelled"])
  })

  it("of an item are listed by its index", async () => {
    let calls = 0
    const double = handler("double", ({ n }: { n: number }, ctx) => {
      ctx.usage({ tokens: n })
      if (n === 2 && ++calls < 2) throw new Error("not yet")
      return n
    })
    const umbra = await open({ handlers: [double] })
    const job = await umbra.submit(
      flow([
        { id: "each", handler: "double", for_each: "{{ [1, 2] }}", config: { n: "{{ item }}" }, retry: soon },
      ]),
    )
    expect((await job.wait()).status).toBe("COMPLETED")
    const { attempts, ...second } = await umbra.node(job.id, "each", { item: 1 })
    expect(second).toMatchObject({ item: 1, id: "each", status: "COMPLETED", attempt: 2, output: 2 })
    expect(second).toMatchObject({ usage: { tokens: 4 } })
    expect(second).not.toHaveProperty("items")
    expect(attempts.map(({ outcome }) => outcome)).toEqual(["failed", "completed"])
    const { items } = await umbra.items(job.id, "each")
    expect(items.map(({ attempt, worker }) => [attempt, worker])).toEqual([
      [1, `local-${process.pid}`],
      [2, `local-${process.pid}`],
    ])
    await expect(umbra.node(job.id, "each", { item: 2 })).rejects.toMatchObject({ code: "E310" })
  })

  it("cost at most 40 bytes in the fact that ends them, once the worker is known", () => {
    const fact = { type: "node_completed", at: 1, node: 7, attempt: 1, output: 1 } as const
    const bare = encodeFact(fact, "1").length
    const timed = encodeFact({ ...fact, ran_ms: 299_999, held_ms: 99_999 }, "1")
    expect(timed.length - bare).toBeLessThanOrEqual(40)
    expect(JSON.parse(timed)).toMatchObject({ ran_ms: 299_999, held_ms: 99_999, output: 1 })
  })
})

/** Appends wait from `hold` to `letGo`. */
function heldAppends(append: Journal["append"]) {
  let waits: Promise<void> | null = null
  let end: () => void = () => {}
  const state = { isHolding: false }
  return {
    append: (async batch => {
      if (waits !== null) {
        state.isHolding = true
        await waits
      }
      return append(batch)
    }) as Journal["append"],
    hold(): void {
      waits = new Promise(resolve => {
        end = resolve
      })
    },
    letGo(): void {
      waits = null
      end()
    },
    get isHolding() {
      return state.isHolding
    },
  }
}

describe("the usage of failed attempts", () => {
  it("counts what a handler reports after its abort signal, also for the parent of its job", async () => {
    let begin: () => void = () => {}
    const begun = new Promise<void>(resolve => {
      begin = resolve
    })
    const costly = handler("costly", (_, ctx) => {
      ctx.usage({ tokens: 4 })
      begin()
      return new Promise((_resolve, reject) => {
        ctx.signal.addEventListener("abort", () => {
          ctx.usage({ tokens: 3 })
          reject(ctx.signal.reason)
        })
      })
    })
    const umbra = await open({ handlers: [costly] })
    await umbra.register(flow([{ id: "a", handler: "costly" }], { name: "child" }))
    const parent = await umbra.submit(
      flow([{ id: "sub", handler: "workflow", config: { workflow: "child", input: {} } }]),
    )
    await begun
    const [child] = await umbra.jobs({ workflow: "child" })
    await parent.cancel()
    await expect.poll(async () => (await parent.status()).usage).toEqual({ tokens: 7 })
    for (const [id, node] of [
      [parent.id, "sub"],
      [child!.job_id, "a"],
    ] as const) {
      expect((await umbra.node(id, node)).usage).toEqual({ tokens: 7 })
      expect(await umbra.queries.verify(await umbra.queries.row(id))).toEqual([])
    }
    expect((await umbra.node(child!.job_id, "a")).attempts).toMatchObject([
      { outcome: "cancelled", started_at: expect.any(Number), usage: { tokens: 7 } },
    ])
  })

  it("counts an attempt that began after the end of its job was decided, and before that was durable", async () => {
    const journal = openMemory()
    const append = journal.append.bind(journal)
    const held = heldAppends(append)
    journal.append = held.append
    const [first, second] = [gate("first"), gate("second")]
    const umbra = await open({
      at: journal,
      handlers: [first.handler, second.handler],
      worker: { concurrency: 1 },
    })
    const job = await umbra.submit(
      flow([
        { id: "a", handler: "first" },
        { id: "b", handler: "second" },
      ]),
    )
    await first.came()
    await until("the second waits for its place", () => umbra.health().queued === 1)
    held.hold()
    const cancelled = job.cancel()
    await until("the cancellation is on its way", () => held.isHolding)
    // Its place is free: the next one begins, although its job has ended.
    first.open()
    await second.came()
    held.letGo()
    await cancelled
    await expect
      .poll(async () => (await umbra.node(job.id, "b")).attempts)
      .toMatchObject([
        { outcome: "cancelled", started_at: expect.any(Number), worker: `local-${process.pid}` },
      ])
    const received = await umbra.events(job.id)
    expect(received.findLast(({ node }) => node === "b")).toMatchObject({
      type: "attempt.aborted",
      source: "worker",
    })
    second.open()
  })

  /** A node that fails when so many others run at the gate, and each of them has used 5 tokens. */
  const failing = ({ came, entered }: ReturnType<typeof gate>, others: number) =>
    handler("fails", async () => {
      await came(others)
      for (const ctx of entered) ctx.usage({ tokens: 5 })
      throw Object.assign(new Error("broken"), { retryable: false })
    })

  it("counts for a sibling that is aborted because another node failed, once, and for its items", async () => {
    const held = gate()
    const handlers = [held.handler, failing(held, 3)]
    const umbra = await open({ handlers, worker: { graceSeconds: 0.02 } })
    const job = await umbra.submit(
      flow([
        { id: "bad", handler: "fails" },
        { id: "beside", handler: "gate" },
        { id: "each", handler: "gate", for_each: "{{ [1, 2] }}" },
      ]),
    )
    expect(await job.wait()).toMatchObject({ status: "FAILED", usage: { tokens: 15 } })
    const graph = await job.graph()
    expect(graph.usage).toEqual({ tokens: 15 })
    expect(graph.nodes.map(({ usage }) => usage)).toEqual([undefined, { tokens: 5 }, { tokens: 10 }])
    expect((await umbra.node(job.id, "beside")).attempts).toMatchObject([
      { outcome: "cancelled", usage: { tokens: 5 } },
    ])
    expect((await umbra.items(job.id, "each")).items).toMatchObject([
      { usage: { tokens: 5 } },
      { usage: { tokens: 5 } },
    ])
    expect(await umbra.jobs()).toMatchObject([{ usage: { tokens: 15 } }])
    expect(await umbra.queries.verify(await umbra.queries.row(job.id))).toEqual([])
  })

  it("counts for a child job that is cancelled because another node failed", async () => {
    const held = gate()
    const handlers = [held.handler, failing(held, 1)]
    const umbra = await open({ handlers, worker: { graceSeconds: 0.02 } })
    await umbra.register({ name: "inner", nodes: [{ id: "x", handler: "gate" }] })
    const job = await umbra.submit(
      flow([
        { id: "bad", handler: "fails" },
        { id: "run", handler: "workflow", config: { workflow: "inner" } },
      ]),
    )
    expect((await job.wait()).status).toBe("FAILED")
    await expect
      .poll(() => umbra.node(job.id, "run"))
      .toMatchObject({
        usage: { tokens: 5 },
        attempts: [{ outcome: "cancelled", usage: { tokens: 5 } }],
      })
    expect((await job.graph()).usage).toEqual({ tokens: 5 })
    await expect.poll(async () => (await umbra.jobs({ parentId: null }))[0]?.usage).toEqual({ tokens: 5 })
  })

  it("is on the job while it waits and when it has ended, also in lists", async () => {
    const costly = handler("costly", (_, ctx) => {
      ctx.usage({ tokens: 3 })
      return 1
    })
    const umbra = await open({ handlers: [costly] })
    const job = await umbra.submit(
      flow([
        { id: "a", handler: "costly" },
        { id: "b", handler: "wait_for_signal", config: { signal: "go" }, dependencies: ["a"] },
      ]),
    )
    await expect.poll(async () => (await job.status()).usage).toEqual({ tokens: 3 })
    await expect.poll(() => umbra.jobs()).toMatchObject([{ usage: { tokens: 3 } }])
    await job.signal("go")
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", usage: { tokens: 3 } })
    expect(await umbra.jobs()).toMatchObject([{ error: null, reason: null, usage: { tokens: 3 } }])
  })

  it("counts on the node and on the job: failed twice, then done, is charged three times", async () => {
    let calls = 0
    const costly = handler("costly", (_, ctx) => {
      ctx.usage({ tokens: 7 })
      if (++calls < 3) throw new Error("not yet")
      return 1
    })
    const plain = handler("plain", (_, ctx) => {
      ctx.usage({ tokens: 1 })
      return 1
    })
    const umbra = await open({ handlers: [costly, plain] })
    const job = await umbra.submit(
      flow([
        { id: "a", handler: "costly", retry: soon },
        { id: "b", handler: "plain" },
      ]),
    )
    expect((await job.wait()).status).toBe("COMPLETED")
    const graph = await job.graph()
    expect(graph.usage).toEqual({ tokens: 22 })
    expect(graph.nodes.map(({ usage }) => usage)).toEqual([{ tokens: 21 }, { tokens: 1 }])
  })

  it("counts for an attempt that timed out", async () => {
    const stuck = handler("stuck", (_, ctx) => {
      ctx.usage({ tokens: 5 })
      return new Promise(() => {})
    })
    const umbra = await open({ handlers: [stuck], worker: { graceSeconds: 0.01 } })
    const job = await umbra.submit(
      flow([{ id: "a", handler: "stuck", timeout_seconds: 0.02, retry: { max_attempts: 1 } }]),
    )
    expect((await job.wait()).error).toMatchObject({ code: "E402" })
    expect((await job.graph()).usage).toEqual({ tokens: 5 })
    expect((await umbra.node(job.id, "a")).attempts).toMatchObject([
      { outcome: "failed", usage: { tokens: 5 } },
    ])
  })

  it("counts for items, each on its own and on the node", async () => {
    let calls = 0
    const costly = handler("costly", ({ n }: { n: number }, ctx) => {
      ctx.usage({ tokens: n })
      if (n === 2 && ++calls < 2) throw new Error("not yet")
      return n
    })
    const umbra = await open({ handlers: [costly] })
    const job = await umbra.submit(
      flow([
        { id: "each", handler: "costly", for_each: "{{ [1, 2] }}", config: { n: "{{ item }}" }, retry: soon },
      ]),
    )
    expect((await job.wait()).status).toBe("COMPLETED")
    expect((await umbra.items(job.id, "each")).items.map(({ usage }) => usage)).toEqual([
      { tokens: 1 },
      { tokens: 4 },
    ])
    const graph = await job.graph()
    expect([graph.usage, graph.nodes[0]?.usage]).toEqual([{ tokens: 5 }, { tokens: 5 }])
  })

  it("of a child job counts on its parent once, whether it fails, continues or completes", async () => {
    let calls = 0
    const costly = handler("costly", (_, ctx) => {
      ctx.usage({ tokens: 3 })
      if (++calls < 3) throw new Error("not yet")
      return 1
    })
    const umbra = await open({ handlers: [costly] })
    await umbra.register({
      name: "inner",
      nodes: [{ id: "x", handler: "costly", retry: { max_attempts: 1 } }],
    })
    const job = await umbra.submit(
      flow([{ id: "run", handler: "workflow", config: { workflow: "inner" }, retry: soon }]),
    )
    expect((await job.wait()).status).toBe("COMPLETED")
    expect(calls).toBe(3)
    expect((await job.graph()).usage).toEqual({ tokens: 9 })
  })
})

describe("why a job ended before its work was done", () => {
  const waits = () => {
    const { handler: held, came, open: letThrough } = gate()
    return { held, came, letThrough, worker: { graceSeconds: 0.02 } }
  }

  it("is the caller's reason: on the job, in its list, in the events and in the abort signal", async () => {
    const { held, came, letThrough, worker } = waits()
    const umbra = await open({ handlers: [held], worker })
    const job = await umbra.submit(flow([{ id: "a", handler: "gate" }]))
    const { signal } = await came()
    await job.cancel("changed my mind")
    expect(await job.status()).toMatchObject({ status: "CANCELLED", reason: "changed my mind", error: null })
    expect(await umbra.jobs()).toMatchObject([{ reason: "changed my mind" }])
    await until("the handler is told", () => signal.aborted)
    expect(signal.reason).toMatchObject({
      name: "AbortError",
      message: "The job was cancelled: changed my mind",
    })
    const events = await umbra.events(job.id)
    expect(events.find(({ type }) => type === "node.cancelled")?.payload).toEqual({
      reason: "job_cancelled",
      message: "The job was cancelled: changed my mind",
    })
    await job.retry()
    expect(await job.status()).toMatchObject({ reason: null })
    letThrough()
  })

  it.each([undefined, "", " "])("is shown as unknown if the caller gave none: %j", async given => {
    const { held, came, worker } = waits()
    const umbra = await open({ handlers: [held], worker })
    const job = await umbra.submit(flow([{ id: "a", handler: "gate" }]))
    const { signal } = await came()
    await job.cancel(given)
    expect(await job.status()).toMatchObject({ reason: "no reason was given" })
    expect(await umbra.jobs()).toMatchObject([{ reason: "no reason was given" }])
    const message = "The job was cancelled: no reason was given"
    await until("the handler is told", () => signal.aborted)
    expect(signal.reason.message).toBe(message)
    const events = await umbra.events(job.id)
    expect(events.find(({ type }) => type === "job.cancelled")?.payload).toEqual({
      reason: "no reason was given",
    })
    expect((await job.graph()).nodes).toMatchObject([{ status: "CANCELLED", reason: message }])
    expect(await umbra.node(job.id, "a")).toMatchObject({
      reason: message,
      attempts: [{ outcome: "cancelled", reason: message }],
    })
    expect(await umbra.queries.verify(await umbra.queries.row(job.id))).toEqual([])
  })

  it("is passed on to child jobs, their nodes and their abort signals", async () => {
    const { held, came, worker } = waits()
    const umbra = await open({ handlers: [held], worker })
    await umbra.register({ name: "inner", nodes: [{ id: "x", handler: "gate" }] })
    const job = await umbra.submit(
      flow([{ id: "run", handler: "workflow", config: { workflow: "inner" }, for_each: "{{ [1] }}" }]),
    )
    const { signal, jobId } = await came()
    await job.cancel("ordered twice")
    const reason = `Its parent job ${job.id} was cancelled: ordered twice`
    await expect.poll(() => umbra.job(jobId)).toMatchObject({ status: "CANCELLED", reason })
    await until("the handler is told", () => signal.aborted)
    expect(signal.reason.message).toBe(`The job was cancelled: ${reason}`)
    expect((await umbra.graph(jobId)).nodes).toMatchObject([{ reason: `The job was cancelled: ${reason}` }])
    expect((await umbra.items(job.id, "run")).items).toMatchObject([
      { status: "CANCELLED", reason: "The job was cancelled: ordered twice" },
    ])
  })

  it("is its time to live", async () => {
    const { held, came, worker } = waits()
    const clock = new VirtualClock()
    const umbra = await open({ handlers: [held], worker, clock })
    const job = await umbra.submit(flow([{ id: "a", handler: "gate" }]), {}, { ttlSeconds: 60 })
    const { signal } = await came()
    clock.advance(60_000)
    const reason = "It was not done within its time to live of 60 s (ttl_seconds)."
    expect(await job.wait()).toMatchObject({ status: "EXPIRED", reason })
    await until("the handler is told", () => signal.aborted)
    expect(signal.reason.message).toBe(`The job expired. ${reason}`)
    const events = await umbra.events(job.id)
    expect(events.find(({ type }) => type === "job.expired")?.payload).toEqual({ reason })
    expect(await umbra.queries.verify(await umbra.queries.row(job.id))).toEqual([])
  })

  it("is for a sibling the node that failed", async () => {
    const { held, came, worker } = waits()
    const fails = handler("fails", async () => {
      await came()
      throw Object.assign(new Error("it is broken"), { retryable: false })
    })
    const umbra = await open({ handlers: [held, fails], worker })
    const job = await umbra.submit(
      flow([
        { id: "bad", handler: "fails" },
        { id: "beside", handler: "gate" },
      ]),
    )
    const { signal } = await came()
    await job.wait()
    await until("the handler is told", () => signal.aborted)
    const reason = 'Node "bad" failed: it is broken'
    expect(signal.reason.message).toBe(reason)
    expect((await job.graph()).nodes[1]).toMatchObject({ status: "CANCELLED", reason })
    expect((await umbra.node(job.id, "beside")).attempts).toMatchObject([{ outcome: "cancelled", reason }])
  })
})
