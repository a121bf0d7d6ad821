import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { openUmbra, type Umbra } from "../../src/umbra.ts"
import { until } from "../engine/stage.ts"
import { type Store, stores } from "../server/stage.ts"
import { deliver, fakeProvider, make, openWith, optionsFor, output, waiting } from "./stage.ts"

const never = [3600]
const soon = [0.05, 0.1]

const endOf = async (umbra: Umbra, jobId: string) =>
  (await umbra.events(jobId)).find(({ type }) => type === "node.completed")

describe.each(["SQLite", "PostgreSQL"])("X4 webhook and poll converge on %s", name => {
  let store: Store
  beforeAll(async () => {
    store = await stores[name]!()
  })
  afterAll(() => store?.remove())

  it("scenario 1: the webhook arrives, and no poll is sent", async () => {
    const fake = await fakeProvider()
    const umbra = await openWith(fake, { at: store.location, over: { poll_seconds: never } })
    const job = await umbra.submit(make())
    const id = await waiting(umbra, fake, job.id)
    fake.complete(id)
    expect(await deliver(umbra, fake, id)).toEqual({ isNew: true })
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED", output: output(id) })
    expect(fake.operations.get(id)!.polls).toBe(0)
    expect(await endOf(umbra, job.id)).toMatchObject({ source: "provider", payload: { via: "webhook" } })
  })

  it("scenario 2: the webhook is lost, and the poll finds the result", async () => {
    const fake = await fakeProvider()
    const umbra = await openWith(fake, { at: store.location, over: { poll_seconds: soon } })
    const job = await umbra.submit(make())
    const id = await waiting(umbra, fake, job.id)
    await until("it was looked at", () => fake.operations.get(id)!.polls >= 2)
    fake.complete(id)
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED", output: output(id) })
    expect(await endOf(umbra, job.id)).toMatchObject({ source: "provider", payload: { via: "poll" } })
  })

  it("scenario 3: the webhook is late, recorded, and changes nothing", async () => {
    const fake = await fakeProvider()
    const umbra = await openWith(fake, { at: store.location, over: { poll_seconds: soon } })
    const job = await umbra.submit(make())
    const id = await waiting(umbra, fake, job.id)
    fake.complete(id)
    await job.wait({ timeoutMs: 60_000 })
    const before = (await umbra.events(job.id)).length
    fake.operations.get(id)!.output = "something else"
    expect(await deliver(umbra, fake, id)).toEqual({ isNew: true })
    expect((await umbra.events(job.id)).length).toBe(before)
    expect(await job.status()).toMatchObject({ output: output(id) })
    expect((await umbra.webhookEvents("fake"))[0]).toMatchObject({ verdict: "late", externalId: id })
  })

  it("scenario 4: both come at once, and exactly one completes the node", async () => {
    const fake = await fakeProvider({ script: () => ({ steps: [{ do: "complete" }] }) })
    const over = { poll_seconds: [0.01], poll_jitter: 1, concurrency: 20 }
    const umbra = await openWith(fake, { at: store.location, over })
    const jobs = await Promise.all(Array.from({ length: 20 }, () => umbra.submit(make())))
    await until("all are submitted", () => fake.operations.size === 20)
    const deliveries = [...fake.operations.keys()].flatMap(id => [
      deliver(umbra, fake, id, "first"),
      deliver(umbra, fake, id, "second"),
    ])
    await Promise.all(deliveries)
    for (const job of jobs) {
      expect((await job.wait({ timeoutMs: 60_000 })).status).toBe("COMPLETED")
      const completed = (await umbra.events(job.id)).filter(({ type }) => type === "node.completed")
      expect(completed.length).toBe(1)
    }
  })

  it("X2 a webhook may name its event as it likes, and is recognised all the same", async () => {
    const fake = await fakeProvider()
    const umbra = await openWith(fake, { at: store.location, over: { poll_seconds: never } })
    const job = await umbra.submit(make())
    const id = await waiting(umbra, fake, job.id)
    for (const eventId of ["long ".repeat(10_000), "nul \u0000", "half \ud800"]) {
      expect(await deliver(umbra, fake, id, eventId)).toEqual({ isNew: true })
      expect(await deliver(umbra, fake, id, eventId)).toEqual({ isNew: false })
    }
    fake.complete(id)
    await deliver(umbra, fake, id)
    expect((await job.wait({ timeoutMs: 60_000 })).status).toBe("COMPLETED")
  })

  it("X4 a webhook counts although the operation could not be polled any more", async () => {
    const fake = await fakeProvider()
    fake.misbehave({ route: "poll", status: 500, times: 1000 })
    const over = { poll_seconds: soon, max_poll_errors: 0 }
    const umbra = await openWith(fake, { at: store.location, over })
    const retry = { initial_seconds: 3600, max_seconds: 3600, jitter: 0 }
    const nodes = [{ ...make().nodes[0]!, retry }]
    const job = await umbra.submit({ name: "unfollowed", nodes, output: "{{ film.made }}" })
    await until("it is to be submitted again", async () => {
      const [wait] = (await umbra.graph(job.id)).waiting_for
      return wait?.kind === "retry"
    })
    const [id] = [...fake.operations.keys()]
    fake.complete(id!)
    await deliver(umbra, fake, id!)
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED", output: id })
    expect((await umbra.providers())[0]).toMatchObject({ operations: 0, slots: { held: [], waiting: 0 } })
  })

  it("J16 an operation that could not be polled any more is cancelled with its job", async () => {
    const fake = await fakeProvider()
    fake.misbehave({ route: "poll", status: 500, times: 1000 })
    const over = { poll_seconds: soon, max_poll_errors: 0 }
    const umbra = await openWith(fake, { at: store.location, over })
    const retry = { initial_seconds: 3600, max_seconds: 3600, jitter: 0 }
    const job = await umbra.submit({ name: "unfollowed", nodes: [{ ...make().nodes[0]!, retry }] })
    await until("it is to be submitted again", async () => {
      const [wait] = (await umbra.graph(job.id)).waiting_for
      return wait?.kind === "retry"
    })
    await job.cancel()
    await until("the provider was told", () => [...fake.operations.values()][0]!.status === "canceled")
  })

  it("X5 a node whose lease ended while no engine ran gets a slot again", async () => {
    const fake = await fakeProvider()
    fake.misbehave({ route: "submit", status: 500 })
    const clock = new VirtualClock({ start: Date.now() })
    const engine = { slotLeaseSeconds: 20, providerSweepSeconds: 5 }
    const options = { over: { concurrency: 1, poll_seconds: soon }, engine, clock }
    const first = await openUmbra(store.location, optionsFor(fake, options))
    const retry = { initial_seconds: 50, jitter: 0 }
    const job = await first.submit({ name: "lapsed", nodes: [{ ...make().nodes[0]!, retry }] })
    await until("it has failed", async () => (await first.graph(job.id)).waiting_for[0]?.kind === "retry")
    await first.close()
    clock.advance(30_000)
    const umbra = await openWith(fake, { at: store.location, ...options })
    await until("it is at the provider", () => {
      clock.advance(1000)
      return fake.operations.size === 1
    })
    const [id] = fake.operations.keys()
    fake.complete(id!)
    await until("it is over", async () => {
      clock.advance(1000)
      return (await umbra.job(job.id)).status === "COMPLETED"
    })
  })

  it("scenario 5: neither comes, so the job expires and the operation is cancelled", async () => {
    const fake = await fakeProvider()
    fake.misbehave({ route: "poll", status: 500, times: 1000 })
    const clock = new VirtualClock({ start: Date.now() })
    const umbra = await openWith(fake, { at: store.location, over: { poll_seconds: soon }, clock })
    const job = await umbra.submit(make(), {}, { ttlSeconds: 60 })
    const id = await waiting(umbra, fake, job.id)
    await until("its time is up", async () => {
      clock.advance(1000)
      return (await job.status()).status === "EXPIRED"
    })
    await until("the provider was told", () => fake.operations.get(id)!.status === "canceled")
    fake.operations.get(id)!.status = "done"
    await deliver(umbra, fake, id)
    expect((await job.status()).status).toBe("EXPIRED")
    expect((await umbra.webhookEvents("fake"))[0]).toMatchObject({ verdict: "late", externalId: id })
  })
})
