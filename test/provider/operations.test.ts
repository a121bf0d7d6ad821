import { describe, expect, it } from "vitest"
import { withLive } from "../../src/core/view/live-view.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { defineProvider } from "../../src/provider/provider.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { submitted } from "../../src/worker/waiting.ts"
import { flow, open, openOn, until } from "../engine/stage.ts"
import { deliver, fakeProvider, make, openWith, optionsFor, output, waiting } from "./stage.ts"

describe("a node with a provider", () => {
  it("X1 submits with its key, waits without a worker, and leaves memory", async () => {
    const fake = await fakeProvider()
    const umbra = await openWith(fake, { engine: { parkAfterMs: 0 } })
    const job = await umbra.submit(make(["film"], { output: { got: "{{ film.made }}" } }))
    const id = await waiting(umbra, fake, job.id)
    expect(fake.operations.get(id)).toMatchObject({
      key: `${job.id}/film`,
      request: { scene: "film" },
      submissions: 1,
    })
    await until("it has left memory", () => !umbra.activity(job.id).isHere)
    expect(await umbra.graph(job.id)).toMatchObject({
      workflow_status: "WAITING_SINGLE",
      status: "PROCESSING",
    })
    fake.complete(id)
    await deliver(umbra, fake, id)
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: { got: id } })
  })

  it("X2 takes a repeated delivery for what it is", async () => {
    const fake = await fakeProvider()
    const umbra = await openWith(fake)
    const job = await umbra.submit(make())
    const id = await waiting(umbra, fake, job.id)
    fake.complete(id)
    expect(await deliver(umbra, fake, id, "once")).toEqual({ isNew: true })
    expect(await deliver(umbra, fake, id, "once")).toEqual({ isNew: false })
    await job.wait()
    expect((await umbra.webhookEvents("fake")).length).toBe(1)
  })

  it("X2 does not take a replay for new because of an unsigned header", async () => {
    const fake = await fakeProvider()
    const { event_id: _, ...webhook } = fake.definition().webhook!
    const umbra = await openWith(fake, { over: { poll_seconds: [3600], webhook } })
    const job = await umbra.submit(make())
    const body = fake.webhookBody(await waiting(umbra, fake, job.id))
    const isNew = async (id: string) =>
      (
        await umbra.webhooks.receive("fake", {
          body: Buffer.from(body),
          headers: { ...fake.signed(body), "webhook-id": id },
        })
      ).isNew
    expect([await isNew("one"), await isNew("two")]).toEqual([true, false])
  })

  it("X2 polls the provider when its webhooks are only hints", async () => {
    const fake = await fakeProvider()
    const definition = fake.definition()
    const webhook = { ...definition.webhook!, is_hint: true }
    const umbra = await openWith(fake, { over: { webhook, poll_seconds: [3600] } })
    const job = await umbra.submit(make())
    const id = await waiting(umbra, fake, job.id)
    const lie = JSON.stringify({ id, status: "done", output: "a lie", event_id: "1" })
    await umbra.webhooks.receive("fake", { body: Buffer.from(lie), headers: fake.signed(lie) })
    await until("it was asked", () => fake.operations.get(id)!.polls === 1)
    expect((await umbra.graph(job.id)).status).toBe("PROCESSING")
    fake.complete(id)
    await deliver(umbra, fake, id)
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ output: output(id) })
  })

  it("X3 is polled after a restart, also if its time passed while no engine ran", async () => {
    const store = createMemoryStore()
    const clock = new VirtualClock()
    const fake = await fakeProvider()
    const options = optionsFor(fake, { clock, engine: { parkAfterMs: 0 } })
    const first = await openOn(store, options)
    const job = await first.submit(make())
    const id = await waiting(first, fake, job.id)
    await first.close()
    clock.advance(120_000)
    expect(fake.operations.get(id)!.polls).toBe(0)
    fake.complete(id)
    const second = await openOn(store, options)
    await until("the next engine owns it", () => {
      clock.advance(20)
      return second.owns(job.id)
    })
    expect(await second.wait(job.id, { timeoutMs: 60_000 })).toMatchObject({ output: output(id) })
    expect(fake.operations.get(id)!.polls).toBe(1)
  })

  it("X3 is polled after 30, 60, 120 and 120 seconds, and errors do not fail it", async () => {
    const clock = new VirtualClock()
    const fake = await fakeProvider()
    const umbra = await openWith(fake, { clock, over: { poll_jitter: 0 } })
    const job = await umbra.submit(make())
    const id = await waiting(umbra, fake, job.id)
    fake.misbehave({ route: "poll", status: 503, times: 1 })
    for (const [n, seconds] of [30, 60, 120, 120].entries()) {
      clock.advance(seconds * 1000 - 1)
      await new Promise(resolve => setImmediate(resolve))
      clock.advance(1)
      await until(`look ${n + 1} is over`, async () => {
        const [wait] = (await umbra.graph(job.id)).waiting_for
        return wait?.kind === "external" && wait.polls === n + 1
      })
      const [wait] = (await umbra.graph(job.id)).waiting_for
      expect(wait).toMatchObject({ poll_error: n === 0 ? { code: "E410" } : null })
    }
    expect(fake.operations.get(id)!.polls).toBe(3)
    expect((await umbra.providers())[0]!.recent_errors).toMatchObject([{ what: "poll", code: "E410" }])
  })

  it("J15 shows partial results and progress, from a poll and from a webhook", async () => {
    const fake = await fakeProvider()
    const umbra = await openWith(fake, { over: { poll_seconds: [0.02] }, engine: { parkAfterMs: 60_000 } })
    const job = await umbra.submit(make())
    const id = await waiting(umbra, fake, job.id)
    Object.assign(fake.operations.get(id)!, { progress: 40, preview: { frames: 7 } })
    await until("the poll brought it", async () => (await umbra.job(job.id)).status === "PREVIEW")
    const seen = async () => withLive(await umbra.graph(job.id)).nodes[0]!
    expect(await seen()).toMatchObject({ preview: { frames: 7 }, progress: { percent: 40 } })
    fake.misbehave({ route: "poll", status: 500, times: 1000 })
    Object.assign(fake.operations.get(id)!, { progress: 80, preview: { frames: 9 } })
    await deliver(umbra, fake, id)
    await until("the webhook brought it", async () => (await seen()).progress?.percent === 80)
    // The overlay has what came before the journal has it.
    await until("it is stored", async () => ((await seen()).preview as { frames: number }).frames === 9)
  })

  it("is submitted again under another key when the provider says that it failed", async () => {
    const fake = await fakeProvider()
    const umbra = await openWith(fake)
    const retry = { max_attempts: 2, initial_seconds: 0.01, jitter: 0 }
    const { nodes } = make()
    const job = await umbra.submit({ name: "again", nodes: [{ ...nodes[0]!, retry }] })
    const first = await waiting(umbra, fake, job.id)
    fake.fail(first)
    await deliver(umbra, fake, first)
    const second = await waiting(umbra, fake, job.id, 1)
    expect(fake.operations.get(second)!.key).toBe(`${job.id}/film/1`)
    fake.fail(second, "out of film")
    await deliver(umbra, fake, second)
    expect(await job.wait()).toMatchObject({
      status: "FAILED",
      error: { code: "E420", message: "The provider says: out of film" },
    })
  })

  it("repeats a submission whose answer was lost with the same key", async () => {
    const fake = await fakeProvider()
    fake.misbehave({ route: "submit", status: 502, afterwards: true })
    const umbra = await openWith(fake)
    const retry = { initial_seconds: 0.01, jitter: 0 }
    const job = await umbra.submit({ name: "lost", nodes: [{ ...make().nodes[0]!, retry }] })
    const id = await waiting(umbra, fake, job.id)
    expect(fake.operations.size).toBe(1)
    expect(fake.operations.get(id)!.submissions).toBe(2)
  })
})

describe("cancellation", () => {
  it("J16 cancels at the provider, again until it accepts, and ignores what arrives later", async () => {
    const fake = await fakeProvider()
    fake.misbehave({ route: "cancel", status: 503, times: 2 })
    const clock = new VirtualClock()
    const umbra = await openWith(fake, { clock })
    const job = await umbra.submit(make())
    const id = await waiting(umbra, fake, job.id)
    await job.cancel("enough")
    await until("it has listened", () => {
      clock.advance(60_000)
      return fake.operations.get(id)!.status === "canceled"
    })
    fake.operations.get(id)!.status = "done"
    await deliver(umbra, fake, id)
    expect((await umbra.webhookEvents("fake"))[0]).toMatchObject({ verdict: "late" })
    expect((await job.status()).status).toBe("CANCELLED")
    expect(fake.cancels).toBe(1)
  })

  it("J16 is sent by the next engine when the first died before it could", async () => {
    const store = createMemoryStore()
    const fake = await fakeProvider()
    fake.misbehave({ route: "cancel", status: 503, times: 1 })
    const first = await openOn(store, optionsFor(fake))
    const job = await first.submit(make())
    const id = await waiting(first, fake, job.id)
    await job.cancel()
    await first.close()
    const clock = new VirtualClock({ start: Date.now() + 60_000 })
    const second = await openOn(store, optionsFor(fake, { clock, engine: { providerSweepSeconds: 10 } }))
    await until("the next engine has told it", () => {
      clock.advance(1000)
      return second.owns(job.id) && fake.operations.get(id)!.status === "canceled"
    })
  })

  it("J16 of a job that is being submitted takes the operation back", async () => {
    let begin: () => void = () => {}
    const began = new Promise<void>(resolve => {
      begin = resolve
    })
    let answer: () => void = () => {}
    const answered = new Promise<void>(resolve => {
      answer = resolve
    })
    const taken: string[] = []
    let isAborted: boolean | undefined
    const slow = defineProvider({
      name: "slow",
      async submit(_, { signal }) {
        begin()
        await answered
        isAborted = signal.aborted
        return { externalId: "op-1" }
      },
      poll: () => ({ status: "running" }),
      cancel: ({ externalId }) => void taken.push(externalId),
    })
    const umbra = await open({ providers: [slow] })
    const job = await umbra.submit(flow([{ id: "a", handler: "external", provider: "slow" }]))
    await began
    await job.cancel()
    expect((await job.wait()).status).toBe("CANCELLED")
    expect((await umbra.providers())[0]!.slots.held).toMatchObject([{ job_id: job.id }])
    answer()
    await until("it was taken back", () => taken.length === 1)
    await until("its slot is free", async () => (await umbra.providers())[0]!.slots.held.length === 0)
    expect(isAborted).toBe(false)
  })
})

describe("handlers and providers", () => {
  const plain = defineProvider({ name: "acme", rate: null, poll: () => ({ status: "completed", output: 7 }) })

  it("X1 a handler of one's own may answer that its work was submitted", async () => {
    const ask = defineHandler({ name: "ask", run: (_, ctx) => submitted(`for ${ctx.provider}`) })
    const umbra = await open({ handlers: [ask], providers: [plain], provider: { pollSeconds: [0.01] } })
    const job = await umbra.submit(flow([{ id: "a", handler: "ask", provider: "acme" }]))
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED", output: { a: 7 } })
    const nobody = await umbra.submit(flow([{ id: "a", handler: "ask" }]))
    expect(await nobody.wait()).toMatchObject({ status: "FAILED", error: { code: "E421" } })
  })

  it("call_external_service with a provider waits for the operation that the answer names", async () => {
    const fake = await fakeProvider()
    const umbra = await openWith(fake, { worker: { allowPrivateAddresses: true } })
    const config = { method: "POST", url: `${fake.url}/operations`, json: { request: { x: 1 } } }
    const job = await umbra.submit(
      flow([{ id: "film", handler: "call_external_service", provider: "fake", config }]),
    )
    const id = await waiting(umbra, fake, job.id)
    expect(fake.operations.get(id)!.key).toBe(`${job.id}/film`)
    fake.complete(id)
    await deliver(umbra, fake, id)
    expect(await job.wait()).toMatchObject({ output: output(id) })
  })

  it("a node whose provider no engine knows waits, and starts when one does", async () => {
    const store = createMemoryStore()
    const first = await openOn(store)
    const job = await first.submit(flow([{ id: "a", handler: "external", provider: "acme" }]))
    expect(first.activity(job.id).unserved).toEqual([{ node: "a", handler: "external", provider: "acme" }])
    await first.close()
    const knows = defineProvider({ name: "acme", submit: () => ({ output: "at once" }) })
    const second = await openOn(store, { providers: [knows] })
    expect(await second.wait(job.id, { timeoutMs: 60_000 })).toMatchObject({ output: { a: "at once" } })
  })

  it("keeps a provider's secrets out of outputs, errors and the journal", async () => {
    const provider = defineProvider({
      name: "leaky",
      rate: null,
      submit(_, ctx) {
        if (ctx.nodeId === "a") throw new Error(`no access with ${ctx.secret("KEY")}`)
        return { externalId: "op-1" }
      },
      poll: (_, ctx) => ({
        status: "completed",
        output: { echoed: ctx.secret("KEY"), signed: "signing-key-value" },
      }),
      secrets: ["NOT_SET"],
      verify: { scheme: "hmac-sha256", header: "x-signature", secrets: ["SIGNING"] },
      webhook: () => null,
    })
    const values: Record<string, string> = { KEY: "very-secret-value", SIGNING: "signing-key-value" }
    const providerSecrets = (name: string) => values[name]
    const umbra = await open({ providers: [provider], providerSecrets, provider: { pollSeconds: [0.01] } })
    const once = { max_attempts: 1 }
    const failed = await umbra.submit(
      flow([{ id: "a", handler: "external", provider: "leaky", retry: once }]),
    )
    expect((await failed.wait()).error?.message).toBe("no access with [secret KEY]")
    const done = await umbra.submit(flow([{ id: "b", handler: "external", provider: "leaky" }]))
    expect((await done.wait({ timeoutMs: 60_000 })).output).toEqual({
      b: { echoed: "[secret KEY]", signed: "[secret SIGNING]" },
    })
  })

  it("refuses what is no provider, and two of one name", async () => {
    const memory = openMemory()
    await expect(open({ at: memory, providers: [{ name: "x" } as never] })).rejects.toMatchObject({
      code: "E605",
    })
    await expect(open({ at: memory, providers: [plain, plain] })).rejects.toMatchObject({ code: "E605" })
    for (const wrong of [
      { name: "no spaces please" },
      { name: "a", webhook: () => null },
      { name: "a", concurrency: 0 },
      { name: "a", rate: -1 },
      { name: "a", pollSeconds: [] },
      { name: "a", submit: "text" },
    ])
      expect(() => defineProvider(wrong as never)).toThrow(/defineProvider:/)
  })
})
