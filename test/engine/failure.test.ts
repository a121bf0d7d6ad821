import { describe, expect, it } from "vitest"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { broken, flow, gate, handler, open, soon, states, until } from "./stage.ts"

describe("fail-fast", () => {
  it("J9 a failed node fails the job at once: downstream FAILED with the cause, siblings CANCELLED and aborted", async () => {
    const sibling = gate()
    const umbra = await open({
      handlers: [
        sibling.handler,
        handler("breaks", async () => {
          await sibling.came()
          throw Object.assign(new Error("it broke"), { retryable: false })
        }),
      ],
    })
    const job = await umbra.submit(
      flow([
        { id: "bad", handler: "breaks" },
        { id: "after", handler: "gate", dependencies: ["bad"] },
        { id: "later", handler: "gate", dependencies: ["after"] },
        { id: "beside", handler: "gate" },
        { id: "behind", handler: "gate", dependencies: ["beside"] },
      ]),
    )
    const { status, error } = await job.wait()
    expect(status).toBe("FAILED")
    expect(error).toMatchObject({ node: "bad", message: expect.stringContaining("it broke") })
    expect(await states(umbra, job.id)).toEqual({
      bad: "FAILED",
      after: "FAILED",
      later: "FAILED",
      beside: "CANCELLED",
      behind: "CANCELLED",
    })
    const { nodes } = await job.graph()
    expect(nodes.find(node => node.id === "later")!.error?.node).toBe("bad")
    expect(sibling.entered[0]!.signal.aborted).toBe(true)
    sibling.open()
    await umbra.close()
  })

  it("J9 a late completion of an aborted sibling changes nothing", async () => {
    const sibling = gate()
    const umbra = await open({
      handlers: [
        sibling.handler,
        handler("breaks", async () => {
          await sibling.came()
          throw Object.assign(new Error("it broke"), { retryable: false })
        }),
      ],
    })
    const job = await umbra.submit(
      flow([
        { id: "bad", handler: "breaks" },
        { id: "beside", handler: "gate" },
      ]),
    )
    await job.wait()
    const before = await umbra.events(job.id)
    sibling.open()
    await new Promise(resolve => setImmediate(resolve))
    expect(await umbra.events(job.id)).toEqual(before)
    expect(await job.status()).toMatchObject({ status: "FAILED" })
  })

  it("a missed heartbeat spends a try: the last one fails the node with E418", async () => {
    const attempts: number[] = []
    const silent = handler("silent", (_: unknown, ctx) => {
      attempts.push(ctx.attempt)
      return new Promise(() => {})
    })
    const umbra = await open({ handlers: [silent], worker: { graceSeconds: 0 } })
    const node = { id: "a", handler: "silent", heartbeat_seconds: 0.02, retry: { ...soon, max_attempts: 2 } }
    const { status, error } = await (await umbra.submit(flow([node]))).wait()
    expect([status, error?.code, attempts]).toEqual(["FAILED", "E418", [1, 2]])
  })

  it.each([
    ["a text", "just a text"],
    ["nothing", undefined],
    ["an object without a message", { a: 1 }],
  ])("a handler that throws %s fails its node with an error that can be read", async (_what, thrown) => {
    const umbra = await open({
      handlers: [
        handler("throws", () => {
          throw thrown
        }),
      ],
    })
    const job = await umbra.submit(flow([{ id: "a", handler: "throws", retry: { max_attempts: 1 } }]))
    const { status, error } = await job.wait()
    expect(status).toBe("FAILED")
    expect(error?.message).toEqual(expect.any(String))
    expect(error?.message).not.toBe("")
    if (typeof thrown === "string") expect(error?.message).toContain(thrown)
  })
})

describe("retries", () => {
  it("J13 a retryable failure is tried again after its backoff, and attempts are counted", async () => {
    const clock = new VirtualClock()
    const times: number[] = []
    const umbra = await open({
      clock,
      handlers: [
        handler("third", () => {
          times.push(clock.now())
          if (times.length < 3) throw Object.assign(new Error("not yet"), { retryable: true })
          return times.length
        }),
      ],
    })
    const retry = { max_attempts: 3, initial_seconds: 10, multiplier: 3, max_seconds: 100, jitter: 0 }
    const job = await umbra.submit(flow([{ id: "a", handler: "third", retry }]))
    await until("the first try", () => clock.next !== null && times.length === 1)
    for (const due of [10_000, 30_000]) {
      await until("the retry is set", async () => (await job.graph()).nodes[0]!.waiting_on?.kind === "retry")
      clock.advance(due - 1)
      await new Promise(resolve => setImmediate(resolve))
      const before = times.length
      clock.advance(1)
      await until("the retry ran", () => times.length === before + 1)
    }
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: { a: 3 } })
    expect(times.map(time => time - times[0]!)).toEqual([0, 10_000, 40_000])
    const [node] = (await job.graph()).nodes
    expect(node).toMatchObject({ attempt: 3, max_attempts: 3, losses: 0 })
  })

  it("J13 Retry-After is honoured when it is longer than the backoff", async () => {
    const clock = new VirtualClock()
    let runs = 0
    const umbra = await open({
      clock,
      handlers: [
        handler("limited", () => {
          if (runs++ > 0) return "through"
          throw Object.assign(new Error("slow down"), { status: 429, headers: { "retry-after": "60" } })
        }),
      ],
    })
    const job = await umbra.submit(flow([{ id: "a", handler: "limited", retry: soon }]))
    await until("the retry is set", async () => (await job.graph()).nodes[0]!.waiting_on?.kind === "retry")
    clock.advance(59_999)
    await new Promise(resolve => setImmediate(resolve))
    expect(runs).toBe(1)
    clock.advance(1)
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: { a: "through" } })
  })

  it("J13 after the last try the node has failed; what is not retryable is tried once", async () => {
    let runs = 0
    const umbra = await open({
      handlers: [
        broken,
        handler("flaky", () => {
          runs++
          throw Object.assign(new Error("never"), { retryable: true })
        }),
      ],
    })
    const flaky = await umbra.submit(flow([{ id: "a", handler: "flaky", retry: soon }]))
    expect((await flaky.wait()).status).toBe("FAILED")
    expect(runs).toBe(3)
    const job = await umbra.submit(flow([{ id: "a", handler: "broken", retry: soon }]))
    await job.wait()
    expect((await job.graph()).nodes[0]).toMatchObject({ attempt: 1, max_attempts: 3 })
  })
})

describe("partial retry", () => {
  it("J10 retrying a job runs exactly what is not COMPLETED or SKIPPED, and counts on what has begun", async () => {
    const ran: string[] = []
    let isBroken = true
    const umbra = await open({
      handlers: [
        handler("note", (_config, ctx) => {
          ran.push(`${ctx.nodeId}#${ctx.attempt}`)
          if (isBroken && ctx.nodeId === "bad") throw Object.assign(new Error("bad"), { retryable: false })
          return ctx.nodeId
        }),
      ],
    })
    const job = await umbra.submit(
      flow([
        { id: "first", handler: "note" },
        { id: "skipped", handler: "note", when: "{{ false }}" },
        { id: "bad", handler: "note", dependencies: ["first", "skipped"] },
        { id: "last", handler: "note", dependencies: ["bad"] },
      ]),
    )
    expect((await job.wait()).status).toBe("FAILED")
    expect(ran).toEqual(["first#1", "bad#1"])
    isBroken = false
    await job.retry()
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: { last: "last" } })
    expect(ran).toEqual(["first#1", "bad#1", "bad#2", "last#1"])
    await expect(job.retry()).rejects.toMatchObject({ code: "E307" })
  })

  it("J10 a job that runs is not retried", async () => {
    const busy = gate()
    const umbra = await open({ handlers: [busy.handler] })
    const job = await umbra.submit(flow([{ id: "a", handler: "gate" }]))
    await busy.came()
    await expect(job.retry()).rejects.toMatchObject({ code: "E303" })
    busy.open()
    expect((await job.wait()).status).toBe("COMPLETED")
  })
})
