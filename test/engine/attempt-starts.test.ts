/** What the history says of attempts that did not begin, and of what they waited for before. */
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { defineHandler } from "../../src/index.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { flow, gate, handler, open, until } from "./stage.ts"

const strict = (runs: string[]) =>
  defineHandler({
    name: "strict",
    config: z.object({ n: z.number(), token: z.string().optional() }),
    run: ({ n }) => void runs.push(String(n)),
  })

describe("an attempt that fails before its handler begins", () => {
  const token = "{{ secrets.TOKEN }}"
  it.each([
    ["a config that does not fit", { n: "{{ input.n }}" }, undefined, "E403"],
    ["a secret that is missing", { n: 1, token }, () => undefined, "E407"],
    ["a secret whose source fails", { n: 1, token }, () => Promise.reject(new Error("no vault")), null],
  ])("has no start: %s", async (_, config, secrets, code) => {
    const runs: string[] = []
    const umbra = await open({ handlers: [strict(runs)], ...(secrets === undefined ? {} : { secrets }) })
    const retry = { max_attempts: 1 }
    const job = await umbra.submit(flow([{ id: "a", handler: "strict", config, retry }]), { n: "x" })
    const { status, error } = await job.wait()
    expect([status, runs]).toEqual(["FAILED", []])
    if (code !== null) expect(error).toMatchObject({ code })
    const node = await umbra.node(job.id, "a")
    expect(node).toMatchObject({ status: "FAILED", started_at: null, duration_ms: null, queued_ms: null })
    expect(node.attempts).toMatchObject([{ outcome: "failed", started_at: null, duration_ms: null }])
    const events = await umbra.events(job.id)
    expect(events.map(({ type }) => type)).not.toContain("node.running")
  })
})

describe("an attempt of a paused job", () => {
  it("has waited for the end of the pause, and one that ran meanwhile has not", async () => {
    const clock = new VirtualClock()
    const first = gate()
    const umbra = await open({ handlers: [first.handler, handler("quick", () => 1)], clock })
    const job = await umbra.submit(
      flow([
        { id: "a", handler: "gate" },
        { id: "b", handler: "quick", dependencies: ["a"] },
      ]),
    )
    await first.came()
    clock.advance(10)
    await job.pause({ by: "ada", reason: "look" })
    clock.advance(1000)
    const readyAt = clock.now()
    first.open()
    await until("b is held", async () => (await umbra.graph(job.id)).nodes[1]!.status === "QUEUED")
    clock.advance(2000)
    const waits = async (node: string) => (await umbra.node(job.id, node)).attempts.map(each => each.waits)
    expect(await waits("b")).toEqual([[{ kind: "paused", from: readyAt, until: null }]])
    const resumedAt = performance.now()
    await job.resume()
    await job.wait()
    const took = Math.ceil(performance.now() - resumedAt)
    const [attempt] = (await umbra.node(job.id, "b")).attempts
    // The start is the time of the end less the real time of the run, during which the virtual clock stands still.
    const startedAt = Number(attempt!.started_at)
    expect(startedAt).toBeLessThanOrEqual(readyAt + 2000)
    expect(startedAt).toBeGreaterThanOrEqual(readyAt + 2000 - took)
    expect(attempt).toMatchObject({
      waits: [{ kind: "paused", from: readyAt, until: startedAt }],
      queued_ms: startedAt - readyAt,
    })
    expect(await waits("a")).toEqual([[]])
  })

  it("that is retried waits for both, one after the other", async () => {
    const clock = new VirtualClock()
    let tries = 0
    const flaky = handler("flaky", () => {
      if (++tries === 1) throw new Error("once")
      return 1
    })
    const umbra = await open({ handlers: [flaky], clock })
    const retry = { max_attempts: 2, initial_seconds: 5, jitter: 0 }
    const job = await umbra.submit(flow([{ id: "a", handler: "flaky", retry }]))
    await until("it has failed once", async () => (await umbra.graph(job.id)).nodes[0]!.attempt === 2)
    const failedAt = clock.now()
    clock.advance(1000)
    await job.pause({})
    clock.advance(9000)
    const waits = async () => (await umbra.node(job.id, "a")).attempts[1]!.waits
    const retried = { kind: "retry", from: failedAt, until: failedAt + 5000 }
    expect(await waits()).toEqual([retried, { kind: "paused", from: failedAt + 5000, until: null }])
    const resumedAt = performance.now()
    await job.resume()
    await until("it has completed", async () => {
      clock.advance(1)
      return (await job.status()).status === "COMPLETED"
    })
    const took = Math.ceil(performance.now() - resumedAt)
    const [, attempt] = (await umbra.node(job.id, "a")).attempts
    const { at: endedAt } = (await umbra.events(job.id)).find(({ type }) => type === "node.completed")!
    // Its start is counted back from its end, as above; the clock was moved while it waited to end.
    const startedAt = Number(attempt!.started_at)
    expect(startedAt).toBeLessThanOrEqual(endedAt)
    expect(startedAt).toBeGreaterThanOrEqual(failedAt + 10_000 - took)
    const end = Math.min(startedAt, failedAt + 10_000)
    expect(attempt!.waits).toEqual([retried, { kind: "paused", from: failedAt + 5000, until: end }])
  })
})
