import { describe, expect, it } from "vitest"
import { z } from "zod"
import { expr, workflow } from "../../src/definition/typed/builder.ts"
import { createMemoryStore } from "../../src/journal/sqlite/memory.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { factsOf, jobOf, removeFact, setJob } from "../support/store-tables.ts"
import { childOf, doubling, inner, outer, waitsForChild } from "./family.ts"
import { flow, gate, handler, open, openOn, until } from "./stage.ts"

describe("J14 a node that runs another workflow", () => {
  it("is one WAITING node and one completion; the child has a graph, a version and events of its own", async () => {
    const umbra = await open()
    await umbra.register(doubling)
    const job = await umbra.submit(outer())
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: 42, parent_id: null })
    const child = childOf(job.id)
    expect(await umbra.job(child)).toMatchObject({
      workflow: "inner",
      workflow_version: 1,
      parent_id: job.id,
      status: "COMPLETED",
      output: { doubled: 40 },
    })
    const node = (await umbra.graph(job.id)).nodes[1]
    expect(node).toMatchObject({ id: "child", status: "COMPLETED", child_job_id: child })
    const received = (await umbra.events(job.id)).filter(event => event.node === "child").map(({ to }) => to)
    expect(received).toEqual(["QUEUED", "RUNNING", "WAITING", "COMPLETED"])
    expect((await umbra.events(child)).map(({ type }) => type)).toContain("job.completed")
    expect((await umbra.jobs({ parentId: job.id })).map(({ job_id }) => job_id)).toEqual([child])
    expect((await umbra.jobs({ parentId: null })).map(({ job_id }) => job_id)).toEqual([job.id])
  })

  it("shows what it waits for, leaves memory with its child, and is woken by it", async () => {
    const umbra = await open({ engine: { parkAfterMs: 10 } })
    await umbra.register(
      inner([{ id: "ask", handler: "wait_for_signal", config: { signal: "go" } }], {
        output: { doubled: "{{ ask }}" },
      }),
    )
    const job = await umbra.submit(outer())
    const child = childOf(job.id)
    await until("both have left memory", async () => {
      const { status } = await umbra.job(job.id)
      return status === "PROCESSING" && !umbra.activity(job.id).isHere && !umbra.activity(child).isHere
    })
    expect(await umbra.graph(job.id)).toMatchObject({
      workflow_status: "WAITING_SINGLE",
      waiting_for: [{ node: "child", kind: "child", job_id: child, workflow: "inner", workflow_version: 1 }],
    })
    await umbra.signal(child, "go", 5)
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: 7 })
  })

  it("J20 runs the version that the name, a number or an alias means when it starts", async () => {
    const umbra = await open()
    const version = (n: number) =>
      inner([{ id: "a", handler: "transform", config: { value: n } }], { output: { doubled: "{{ a }}" } })
    for (const n of [1, 2, 3]) await umbra.register(version(n))
    await umbra.registry.putAlias({
      owner: "local",
      name: "inner",
      alias: "stable",
      targets: [{ version: 2, weight: 1 }],
      by: "test",
      at: 0,
    })
    const outputs = []
    for (const workflow of ["inner", "inner@1", "inner@stable", "{{ 'inner@' ~ 3 }}"])
      outputs.push((await (await umbra.submit(outer({ workflow }))).wait()).output)
    expect(outputs).toEqual([5, 3, 4, 5])
  })

  it("J22 sums what the child used on the parent", async () => {
    const umbra = await open({
      handlers: [handler("use", (_, ctx) => void ctx.usage({ tokens: 7 }))],
    })
    await umbra.register(
      inner(
        [
          { id: "a", handler: "use" },
          { id: "b", handler: "use" },
        ],
        { output: { doubled: 1 } },
      ),
    )
    const job = await umbra.submit(outer())
    await job.wait()
    expect((await umbra.graph(job.id)).usage).toEqual({ tokens: 14 })
  })

  it("passes priority, owner and expiry down; a child never outlives its parent", async () => {
    const clock = new VirtualClock()
    const umbra = await open({ clock })
    await umbra.register(
      inner([{ id: "nap", handler: "sleep", config: { seconds: 9000 } }], { ttl_seconds: 50_000 }),
      "ada",
    )
    const job = await umbra.submit(outer(), null, { owner: "ada", priority: 7, ttlSeconds: 3600 })
    await waitsForChild(umbra, job.id)
    const child = childOf(job.id)
    expect(await umbra.job(child)).toMatchObject({ owner: "ada", priority: 7 })
    clock.advance(3_600_000)
    expect(await job.wait()).toMatchObject({ status: "EXPIRED" })
    await until("the child has ended too", async () => (await umbra.job(child)).finished_at !== null)
    expect((await umbra.job(child)).status).toBe("EXPIRED")
  })

  it("abandons the child after the node's timeout_seconds", async () => {
    const clock = new VirtualClock()
    const umbra = await open({ clock, engine: { ttlSeconds: null } })
    await umbra.register(inner([{ id: "nap", handler: "sleep", config: { seconds: 9000 } }]))
    const job = await umbra.submit(outer({}, { timeout_seconds: 60, retry: { max_attempts: 1 } }))
    await waitsForChild(umbra, job.id)
    clock.advance(60_000)
    expect(await job.wait()).toMatchObject({ status: "FAILED", error: { code: "E430", node: "child" } })
  })

  it.each<[string, object, object, string]>([
    ["an unknown workflow", { workflow: "nobody" }, {}, "E305"],
    ["an unknown version", { workflow: "inner@9" }, {}, "E305"],
    ["an input that does not fit", {}, { input: { type: "object", required: ["x"] } }, "E304"],
  ])("fails with %s", async (_, config, rest, code) => {
    const umbra = await open()
    await umbra.register({ ...doubling, ...rest })
    const job = await umbra.submit(outer(config as Record<string, unknown>))
    expect(await job.wait()).toMatchObject({ status: "FAILED", error: { code, node: "child" } })
    expect(await umbra.jobs({ parentId: job.id })).toEqual([])
  })

  it("refuses a secret: what it is configured with is stored", async () => {
    const umbra = await open()
    await expect(umbra.submit(outer({ input: { token: "{{ secrets.T }}" } }))).rejects.toMatchObject({
      code: "E112",
    })
  })
})

describe("J14 a workflow of the builder", () => {
  it("is stored together with those that it runs", async () => {
    const umbra = await open()
    const child = workflow("inner", { input: z.object({ n: z.number() }) }, built => {
      const double = built.transform("double", expr<number>`${built.input.n} * 2`)
      return { twice: double.output }
    })
    const parent = workflow("outer", built => built.run("c", child, { n: 21 }).output.twice)
    const job = await umbra.submit(parent)
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: 42 })
  })
})

describe("J14 nesting has bounds", () => {
  const runs = (name: string, next: string) => ({
    name,
    nodes: [{ id: "n", handler: "workflow", config: { workflow: next }, retry: { max_attempts: 1 } }],
  })

  it("a workflow that would run inside itself is refused, with the way to it", async () => {
    const umbra = await open()
    for (const [name, next] of [
      ["a", "b"],
      ["b", "c@1"],
      ["c", "a"],
    ] as const)
      await umbra.register(runs(name, next))
    const job = await umbra.submit("a")
    const { status, error } = await job.wait()
    expect({ status, code: error?.code }).toEqual({ status: "FAILED", code: "E432" })
    expect(error?.message).toContain("a → b → c → a")
  })

  it("deeper than maxDepth is refused, with the way to it", async () => {
    const umbra = await open({ engine: { maxDepth: 2 } })
    for (let n = 0; n < 4; n++) await umbra.register(runs(`w${n}`, `w${n + 1}`))
    await umbra.register({ name: "w4", nodes: [{ id: "x", handler: "transform", config: { value: 1 } }] })
    expect(await (await umbra.submit("w2")).wait()).toMatchObject({ status: "COMPLETED" })
    const { error } = await (await umbra.submit("w1")).wait()
    expect(error?.code).toBe("E431")
    expect(error?.message).toContain("w1 → w2 → w3 → w4")
  })
})

describe("J14 J16 the end of a parent", () => {
  it.each(["cancelled", "failed by a neighbour"])(
    "%s: its children, and theirs, are cancelled and their handlers aborted",
    async how => {
      const { handler: held, came } = gate()
      const trigger = gate("trigger")
      const umbra = await open({
        worker: { graceSeconds: 0.02 },
        handlers: [
          held,
          trigger.handler,
          handler("fail", () => {
            throw Object.assign(new Error("no"), { retryable: false })
          }),
        ],
      })
      await umbra.register({ name: "innermost", nodes: [{ id: "x", handler: "gate" }] })
      await umbra.register(inner([{ id: "y", handler: "workflow", config: { workflow: "innermost" } }]))
      const job = await umbra.submit(
        flow([
          { id: "child", handler: "workflow", config: { workflow: "inner" } },
          { id: "wait", handler: "trigger" },
          { id: "fail", handler: "fail", dependencies: ["wait"] },
        ]),
      )
      const ctx = await came()
      const aborted = new Promise(resolve => ctx.signal.addEventListener("abort", resolve))
      if (how === "cancelled") await job.cancel("enough")
      else trigger.open()
      await aborted
      const child = childOf(job.id, 0)
      const grandchild = childOf(child, 0)
      await until("all have ended", async () => (await umbra.job(grandchild)).finished_at !== null)
      expect((await umbra.job(child)).status).toBe("CANCELLED")
      expect((await umbra.job(grandchild)).status).toBe("CANCELLED")
      for (const id of [job.id, child, grandchild])
        await until("it is settled", async () => (await umbra.queries.row(id)).wakeAt === null)
      trigger.open()
    },
  )

  it("retried after a cancellation, both continue", async () => {
    const umbra = await open()
    await umbra.register(
      inner([{ id: "ask", handler: "wait_for_signal", config: { signal: "go" } }], {
        output: { doubled: "{{ ask }}" },
      }),
    )
    const job = await umbra.submit(outer())
    await waitsForChild(umbra, job.id)
    await job.cancel()
    await job.retry()
    await waitsForChild(umbra, job.id)
    await umbra.signal(childOf(job.id), "go", 1)
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: 3 })
  })
})

describe("J14 over engines", () => {
  it("a child that ended while its parent's owner was dying is reported once by the next owner", async () => {
    const store = createMemoryStore()
    const clock = new VirtualClock()
    const first = await openOn(store, { clock })
    await first.register(
      inner([{ id: "ask", handler: "wait_for_signal", config: { signal: "go" } }], {
        output: { doubled: "{{ ask }}" },
      }),
    )
    const job = await first.submit(outer())
    const child = childOf(job.id)
    await until("both have left memory", async () => {
      const row = await first.queries.row(job.id)
      return row.status === "PROCESSING" && !first.activity(job.id).isHere && !first.activity(child).isHere
    })
    await first.signal(child, "go", 3)
    await job.wait()
    // As if the process had died with the child's end durable, and nothing after it.
    const cut = (id: string, isLast: (type: string) => boolean) => {
      const facts = factsOf(store, id)
      const end = facts.findIndex(fact => isLast(fact.type)) + 1
      for (const fact of facts.slice(end)) removeFact(store, fact)
      return facts[end - 1]!.seq
    }
    const childSeq = cut(child, type => type === "signal_received")
    const parentSeq = cut(job.id, type => type === "node_waiting")
    await first.close()
    const [parentRow, childRow] = [jobOf(store, job.id)!, jobOf(store, child)!]
    setJob(store, {
      ...parentRow,
      seq: parentSeq,
      status: "PROCESSING",
      finishedAt: null,
      output: null,
      wakeAt: null,
    })
    setJob(store, { ...childRow, seq: childSeq, wakeAt: 0 })
    const second = await openOn(store, { clock })
    await until("the next engine owns it", () => {
      clock.advance(20)
      return second.owns(job.id)
    })
    expect(await second.wait(job.id)).toMatchObject({ status: "COMPLETED", output: 5 })
    await until("the child is settled", async () => (await second.queries.row(child)).wakeAt === null)
    expect(await second.queries.verify(await second.queries.row(job.id))).toEqual([])
    expect(await second.queries.verify(await second.queries.row(child))).toEqual([])
  })
})
