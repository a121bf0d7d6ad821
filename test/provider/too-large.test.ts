/** Results that cannot be kept: too large, or no JSON. */
import { describe, expect, it } from "vitest"
import { withLive } from "../../src/core/view/live-view.ts"
import { defineProvider } from "../../src/provider/provider.ts"
import type { Umbra } from "../../src/umbra.ts"
import { flow, open, until } from "../engine/stage.ts"
import { deliver, fakeProvider, make, openWith, waiting } from "./stage.ts"

const worker = { maxOutputBytes: 400, maxPreviewBytes: 400 }
const large = { frames: "x".repeat(500) }
const never = { poll_seconds: [3600] }
const soon = { poll_seconds: [0.02] }

const failures = async (umbra: Umbra, id: string) =>
  (await umbra.events(id)).filter(({ type }) => type === "node.failed").length

describe("a result larger than max_output_bytes", () => {
  it("X2 fails the node by its webhook, which was right and need not come again", async () => {
    const fake = await fakeProvider()
    const umbra = await openWith(fake, { worker, over: never })
    const job = await umbra.submit(make())
    const id = await waiting(umbra, fake, job.id)
    fake.complete(id, large)
    expect(await deliver(umbra, fake, id, "e1")).toEqual({ isNew: true })
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({
      status: "FAILED",
      error: { code: "E405", message: expect.stringContaining("UMBRA_MAX_OUTPUT_BYTES") },
    })
    expect(await deliver(umbra, fake, id, "e1")).toEqual({ isNew: false })
    await deliver(umbra, fake, id, "e2")
    expect(await umbra.webhookEvents("fake")).toMatchObject([
      { verdict: "late", reason: expect.stringMatching(/^E405 The output is larger than 400 bytes/) },
      { verdict: "delivered", reason: expect.stringMatching(/^E405 /) },
    ])
    expect(await failures(umbra, job.id)).toBe(1)
    expect((await umbra.providers())[0]).toMatchObject({ slots: { held: [] }, operations: 0 })
    expect(fake.operations.get(id)!.polls).toBe(0)
  })

  it("X3 fails the node at the first poll, however many tries it has", async () => {
    const fake = await fakeProvider()
    const umbra = await openWith(fake, { worker, over: soon })
    const job = await umbra.submit(make())
    const id = await waiting(umbra, fake, job.id)
    fake.complete(id, large)
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ status: "FAILED", error: { code: "E405" } })
    const { polls } = fake.operations.get(id)!
    expect(await failures(umbra, job.id)).toBe(1)
    expect((await umbra.providers())[0]).toMatchObject({ slots: { held: [] }, operations: 0 })
    expect(fake.operations.get(id)!.polls).toBe(polls)
    expect(fake.operations.size).toBe(1)
  })

  it("X3 is found by the poll after its webhook was refused for its size", async () => {
    const fake = await fakeProvider()
    const umbra = await openWith(fake, { worker, provider: { webhookMaxBytes: 450 }, over: soon })
    const job = await umbra.submit(make())
    const id = await waiting(umbra, fake, job.id)
    fake.complete(id, large)
    await expect(deliver(umbra, fake, id)).rejects.toMatchObject({ code: "E635" })
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ status: "FAILED", error: { code: "E405" } })
    expect(await umbra.webhookEvents("fake")).toMatchObject([{ verdict: "refused" }])
  })

  it("X3 that is larger than a response may be fails the node, too, and the operation is cancelled", async () => {
    const fake = await fakeProvider()
    const umbra = await openWith(fake, { over: { ...soon, max_response_bytes: 450 } })
    const job = await umbra.submit(make())
    const id = await waiting(umbra, fake, job.id)
    fake.operations.get(id)!.preview = large
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ status: "FAILED", error: { code: "E413" } })
    await until("it was told", () => fake.operations.get(id)!.status === "canceled")
    // The slot is free once the provider's answer to the cancel is recorded.
    await expect
      .poll(async () => (await umbra.providers())[0])
      .toMatchObject({ slots: { held: [] }, operations: 0 })
  })

  it("X3 that is no JSON fails the node as a handler's would", async () => {
    const dated = defineProvider({
      ...{ name: "dated", pollSeconds: [0.01], submit: () => ({ externalId: "op-1" }) },
      poll: () => ({ status: "completed", output: { at: new Date() } }),
    })
    const umbra = await open({ providers: [dated] })
    const job = await umbra.submit(flow([{ id: "a", handler: "external", provider: "dated" }]))
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({
      status: "FAILED",
      error: { code: "E404", message: expect.stringContaining("The output at at is an instance of Date") },
    })
  })
})

describe("what is only shown", () => {
  it("J15 is left out when it is too large, and the operation continues", async () => {
    const fake = await fakeProvider()
    const umbra = await openWith(fake, {
      ...{ worker, over: { ...soon, max_poll_errors: 0 }, engine: { parkAfterMs: 60_000 } },
    })
    const job = await umbra.submit(make())
    const id = await waiting(umbra, fake, job.id)
    Object.assign(fake.operations.get(id)!, { progress: 30, preview: large })
    const node = async () => withLive(await umbra.graph(job.id)).nodes[0]!
    await until("progress is shown", async () => (await node()).progress?.percent === 30)
    expect(await node()).toMatchObject({
      status: "WAITING",
      progress: { message: expect.stringContaining("The preview is larger than 400 bytes") },
    })
    fake.complete(id)
    expect((await job.wait({ timeoutMs: 60_000 })).status).toBe("COMPLETED")
  })

  it("X4 does not keep a failure from counting", async () => {
    const failing = defineProvider({
      ...{ name: "failing", pollSeconds: [0.01], submit: () => ({ externalId: "op-1" }) },
      poll: () => ({ status: "failed", message: "no film", retryable: false, details: large }),
    })
    const umbra = await open({ providers: [failing], worker })
    const job = await umbra.submit(flow([{ id: "a", handler: "external", provider: "failing" }]))
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({
      ...{ status: "FAILED", error: { code: "E420", message: "no film" } },
    })
  })
})
