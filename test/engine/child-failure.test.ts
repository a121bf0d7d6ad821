import { describe, expect, it } from "vitest"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { childOf, inner, outer } from "./family.ts"
import { broken, gate, handler, open, soon, states, until } from "./stage.ts"

describe("J14 a child that does not complete", () => {
  it("J10 is resumed by the node's retry: what it has done is not done again", async () => {
    const runs = { first: 0, second: 0 }
    const umbra = await open({
      handlers: [
        handler("first", () => ++runs.first),
        handler("second", () => {
          if (++runs.second < 3) throw new Error("not yet")
          return runs.second
        }),
      ],
    })
    await umbra.register(
      inner(
        [
          { id: "a", handler: "first" },
          { id: "b", handler: "second", dependencies: ["a"], retry: { max_attempts: 1 } },
        ],
        { output: { doubled: "{{ b }}" } },
      ),
    )
    const job = await umbra.submit(outer({}, { retry: soon }))
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: 5 })
    expect(runs).toEqual({ first: 1, second: 3 })
    expect((await umbra.graph(job.id)).nodes[1]).toMatchObject({ attempt: 3, max_attempts: 3 })
    const lives = (await umbra.events(childOf(job.id))).filter(({ type }) => type === "job.failed")
    expect(lives).toHaveLength(2)
  })

  it("E405 fails the node if its output is larger than a handler's may be", async () => {
    const umbra = await open({ worker: { maxOutputBytes: 1000 } })
    const nodes = [{ id: "a", handler: "transform", config: { value: 1 } }]
    // What a template inserts is bounded as it is rendered; what is written out is not.
    await umbra.register(inner(nodes, { output: ["{{ a }}", "x".repeat(1201)] }))
    const job = await umbra.submit(outer({}, { retry: soon }))
    expect(await job.wait()).toMatchObject({
      status: "FAILED",
      error: {
        ...{ code: "E405", node: "child" },
        message: expect.stringMatching(
          /^The output of child job .* \(inner@1\) has 1207 bytes; the limit for a node is 1000\./,
        ),
      },
    })
    expect((await umbra.job(childOf(job.id))).status).toBe("COMPLETED")
    // A retry finds the child completed, and its output as large.
    await job.retry()
    expect(await job.wait()).toMatchObject({ status: "FAILED", error: { code: "E405" } })
  })

  it("fails the node with the cause and its place, if the failure is not transient", async () => {
    const umbra = await open({ handlers: [broken] })
    await umbra.register(inner([{ id: "deep", handler: "broken" }]))
    const job = await umbra.submit(outer())
    const { status, error } = await job.wait()
    expect({ status, node: error?.node }).toEqual({ status: "FAILED", node: "child" })
    expect(error?.message).toMatch(/^Child job .* \(inner@1\) failed at node "deep": it is broken/)
    expect(await states(umbra, job.id)).toEqual({ before: "COMPLETED", child: "FAILED", after: "FAILED" })
  })

  it("continues when its parent is retried, and does not start over", async () => {
    let isMended = false
    const umbra = await open({
      handlers: [
        handler("fragile", () => {
          if (!isMended) throw Object.assign(new Error("broken"), { retryable: false })
          return 1
        }),
      ],
    })
    await umbra.register(inner([{ id: "x", handler: "fragile" }], { output: { doubled: "{{ x }}" } }))
    const job = await umbra.submit(outer())
    expect((await job.wait()).status).toBe("FAILED")
    isMended = true
    await job.retry()
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: 3 })
    expect((await umbra.jobs({ parentId: job.id })).map(({ job_id }) => job_id)).toEqual([childOf(job.id)])
  })

  it("J13 with a Retry-After delays its parent by the same time", async () => {
    const clock = new VirtualClock()
    let calls = 0
    const umbra = await open({
      clock,
      handlers: [
        handler("limited", () => {
          if (++calls === 1)
            throw Object.assign(new Error("too many"), { status: 429, retryAfterSeconds: 900 })
          return 1
        }),
      ],
    })
    await umbra.register(
      inner([{ id: "x", handler: "limited", retry: { max_attempts: 1 } }], {
        output: { doubled: "{{ x }}" },
      }),
    )
    const job = await umbra.submit(outer({}, { retry: { max_attempts: 2, initial_seconds: 1, jitter: 0 } }))
    await until("the parent is to try again", async () => (await job.graph()).nodes[1]?.attempt === 2)
    const [again] = (await umbra.events(job.id)).filter(({ payload }) => payload?.reason === "retry")
    expect(again?.payload).toMatchObject({ retry_at: clock.now() + 900_000 })
    clock.advance(900_000)
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: 3 })
  })

  it("is an error of the node when it is cancelled", async () => {
    const { handler: held, came } = gate()
    const umbra = await open({ handlers: [held], worker: { graceSeconds: 0.02 } })
    await umbra.register(inner([{ id: "x", handler: "gate" }]))
    const job = await umbra.submit(outer())
    await came()
    await umbra.cancel(childOf(job.id), "enough")
    const { status, error } = await job.wait()
    expect({ status, code: error?.code }).toEqual({ status: "FAILED", code: "E430" })
    expect(error?.message).toContain("is CANCELLED: enough")
  })
})
