/** Jobs that end while a submission is in flight. The fake provider is the witness: how many it had at once, by its own count. */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { LATE_MS } from "../../src/broker/local.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import type { FakeProvider } from "../../src/testing/fake-provider.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { openUmbra, type Umbra } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { submitted } from "../../src/worker/waiting.ts"
import { collectLog, flow, gate, until } from "../engine/stage.ts"
import { fakeProvider, make, openWith, optionsFor, waiting } from "./stage.ts"

/** The first submission is answered when the test says so. */
const slow = () =>
  fakeProvider({
    limit: 1,
    script: ({ request }) =>
      (request as { scene: string }).scene === "film" ? { steps: [{ do: "hold" }, { do: "answer" }] } : {},
  })

async function folder(): Promise<string> {
  const parent = await mkdtemp(join(tmpdir(), "umbra-left-"))
  onTestFinished(() => rm(parent, { recursive: true, force: true }))
  return join(parent, "data")
}

const first = (fake: FakeProvider) => [...fake.operations.values()][0]!

async function submitting(umbra: Umbra, fake: FakeProvider) {
  const job = await umbra.submit(make())
  await until("the provider has it", () => fake.operations.size === 1)
  return job
}

const next = (umbra: Umbra) => umbra.submit(make(["next"]))
const isWaiting = (umbra: Umbra, id: string) => async () =>
  (await umbra.graph(id)).waiting_for[0]?.kind === "slot"

describe("a job that ends while its submission is in flight", () => {
  it.each(["memory", "SQLite"])(
    "J16 X5 is CANCELLED at once; its slot is held until the operation is cancelled (%s)",
    async store => {
      const fake = await slow()
      const at = store === "memory" ? "memory:" : await folder()
      const umbra = await openWith(fake, { at, over: { concurrency: 1 } })
      const job = await submitting(umbra, fake)
      const other = await next(umbra)
      await until("the other waits", isWaiting(umbra, other.id))
      await job.cancel()
      expect((await job.wait({ timeoutMs: 60_000 })).status).toBe("CANCELLED")
      expect((await umbra.graph(job.id)).unseen_operations).toMatchObject([
        { node: "film", provider: "fake" },
      ])
      expect(await umbra.providers()).toMatchObject([
        { slots: { held: [{ job_id: job.id }] }, unseen_operations: [{ job_id: job.id, owner: "local" }] },
      ])
      expect(await isWaiting(umbra, other.id)()).toBe(true)
      fake.release(first(fake).id)
      await waiting(umbra, fake, other.id, 1)
      expect(first(fake)).toMatchObject({ status: "canceled", submissions: 1 })
      expect([fake.mostAtOnce, fake.overLimit]).toEqual([1, 0])
      expect((await umbra.graph(job.id)).unseen_operations).toBeUndefined()
      expect(await umbra.providers()).toMatchObject([{ unseen_operations: [] }])
    },
  )

  it("J17 X5 the same for one that expires", async () => {
    const clock = new VirtualClock()
    const fake = await slow()
    const umbra = await openWith(fake, { clock, over: { concurrency: 1, timeout_seconds: 3600 } })
    const job = await umbra.submit(make(), null, { ttlSeconds: 60 })
    await until("the provider has it", () => fake.operations.size === 1)
    const other = await next(umbra)
    await until("the other waits", isWaiting(umbra, other.id))
    clock.advance(61_000)
    expect((await job.wait({ timeoutMs: 60_000 })).status).toBe("EXPIRED")
    fake.release(first(fake).id)
    await waiting(umbra, fake, other.id, 1)
    expect([first(fake).status, fake.mostAtOnce]).toEqual(["canceled", 1])
  })

  it("J9 X5 the same for the sibling of a node that fails", async () => {
    const fake = await slow()
    let open = () => {}
    const opened = new Promise<void>(resolve => {
      open = resolve
    })
    const boom = defineHandler({
      name: "boom",
      retryable: false,
      run: async () => {
        await opened
        throw new Error("no")
      },
    })
    const umbra = await openWith(fake, { handlers: [boom], over: { concurrency: 1 } })
    const nodes = [...make().nodes, { id: "boom", handler: "boom" }]
    const job = await umbra.submit({ name: "siblings", nodes })
    await until("the provider has it", () => fake.operations.size === 1)
    const other = await next(umbra)
    await until("the other waits", isWaiting(umbra, other.id))
    open()
    expect((await job.wait({ timeoutMs: 60_000 })).status).toBe("FAILED")
    fake.release(first(fake).id)
    await waiting(umbra, fake, other.id, 1)
    expect([first(fake).status, fake.mostAtOnce]).toEqual(["canceled", 1])
  })

  it("X5 without an answer keeps its slot until the lease ends, is not repeated, and that is said", async () => {
    const { log, hasLogged } = collectLog()
    const fake = await fakeProvider()
    fake.misbehave({ route: "submit", silence: "hang", afterwards: true })
    const engine = { slotLeaseSeconds: 4, providerSweepSeconds: 0.2 }
    const umbra = await openWith(fake, { log, engine, over: { concurrency: 1, timeout_seconds: 0.3 } })
    const job = await submitting(umbra, fake)
    const other = await next(umbra)
    await job.cancel()
    await until("it is said", () => hasLogged("an operation may be running unnoticed"))
    const [unseen] = (await umbra.graph(job.id)).unseen_operations!
    expect((await umbra.providers())[0]!.unseen_operations.length).toBe(1)
    await waiting(umbra, fake, other.id, 1)
    expect(Date.now()).toBeGreaterThanOrEqual(unseen!.held_until)
    expect(first(fake)).toMatchObject({ status: "running", submissions: 1 })
  })

  it("X5 without an answer is repeated under its key where the provider honours keys, and cancelled", async () => {
    const fake = await fakeProvider({
      limit: 1,
      script: ({ request }) =>
        (request as { scene: string }).scene === "film"
          ? { submit: [{ silence: "cut", afterwards: true }, { status: 502 }] }
          : {},
    })
    const once = { max_attempts: 5, initial_seconds: 3600, jitter: 0 }
    const umbra = await openWith(fake, { over: { concurrency: 1, honours_keys: true } })
    const job = await umbra.submit({ name: "make", nodes: [{ ...make().nodes[0]!, retry: once }] })
    await until("it got no answer", async () => (await umbra.graph(job.id)).waiting_for[0]?.kind === "retry")
    const other = await next(umbra)
    await until("the other waits", isWaiting(umbra, other.id))
    await job.cancel()
    await waiting(umbra, fake, other.id, 1)
    expect(first(fake)).toMatchObject({ status: "canceled" })
    expect(first(fake).submissions).toBeGreaterThanOrEqual(2)
    expect([fake.operations.size, fake.mostAtOnce]).toEqual([2, 1])
  })

  it("X5 a grant that arrives before its end is durable does not give its slot away", async () => {
    const fake = await fakeProvider({
      limit: 1,
      script: ({ request }) =>
        (request as { scene: string }).scene === "film"
          ? { submit: [{ silence: "cut", afterwards: true }] }
          : {},
    })
    const store = createMemoryStore()
    const journal = openMemory(store)
    const retry = { max_attempts: 5, initial_seconds: 3600, jitter: 0 }
    const options = optionsFor(fake, { over: { concurrency: 1, honours_keys: true } })
    const umbra = await openUmbra(journal, options)
    onTestFinished(() => umbra.close())
    const job = await umbra.submit({ name: "make", nodes: [{ ...make().nodes[0]!, retry }] })
    await until("it got no answer", async () => (await umbra.graph(job.id)).waiting_for[0]?.kind === "retry")
    const other = await next(umbra)
    await until("the other waits", isWaiting(umbra, other.id))

    const order: string[] = []
    const append = journal.append.bind(journal)
    const end = gate()
    onTestFinished(() => end.open())
    journal.append = (async batch => {
      order.push("append")
      await end.left
      const stored = await append(batch)
      order.push("durable")
      return stored
    }) as typeof append
    const release = journal.providers.releaseSlot.bind(journal.providers)
    journal.providers.releaseSlot = slot => {
      order.push("released")
      return release(slot)
    }
    const read = journal.readMessages.bind(journal)
    journal.readMessages = async query => {
      const found = await read(query)
      if (found.some(message => message.jobId === job.id)) order.push("read")
      return found
    }
    const cancelled = job.cancel()
    await until("its end is on its way", () => order.includes("append"))
    const command = JSON.stringify({ type: "grant_slot", node: "film" })
    const { partition } = await umbra.queries.row(job.id)
    await openMemory(store).sendMessages([{ partition, jobId: job.id, command, sentAt: Date.now() }])
    await until("the grant was read", () => order.includes("read"))
    // Time for an engine that would release the slot now.
    await new Promise(resolve => setTimeout(resolve, 100))
    expect(order).not.toContain("durable")
    expect(order).not.toContain("released")
    end.open()
    await cancelled
    await until("the grant was refused", () => order.includes("released"))
    expect(order.indexOf("durable")).toBeLessThan(order.indexOf("released"))
    await waiting(umbra, fake, other.id, 1)
    expect([fake.mostAtOnce, fake.overLimit]).toEqual([1, 0])
  })

  it("X5 X6 is repeated also when no worker is free at once: it takes another place in the rate", async () => {
    const fake = await fakeProvider({ script: () => ({ submit: [{ silence: "cut", afterwards: true }] }) })
    const retry = { max_attempts: 5, initial_seconds: 3600, jitter: 0 }
    const busy = gate()
    const over = { honours_keys: true, rate: 100 }
    const umbra = await openWith(fake, { handlers: [busy.handler], worker: { concurrency: 1 }, over })
    const job = await umbra.submit({ name: "make", nodes: [{ ...make().nodes[0]!, retry }] })
    await until("it got no answer", async () => (await umbra.graph(job.id)).waiting_for[0]?.kind === "retry")
    await umbra.submit(flow([{ id: "a", handler: "gate" }]))
    await busy.came()
    await job.cancel()
    await until("the repetition waits", () => umbra.health().queued === 1)
    const since = performance.now()
    await until("its place has passed", () => performance.now() - since > 2 * LATE_MS)
    busy.open()
    await until("it was cancelled", () => first(fake).status === "canceled")
    expect([first(fake).submissions, fake.operations.size]).toEqual([2, 1])
  })

  it("S7 X5 is found by the next process, which repeats it under its key and cancels the operation", async () => {
    const fake = await slow()
    const store = createMemoryStore()
    const over = { concurrency: 1, honours_keys: true, timeout_seconds: 0.2 }
    const engine = { drainSeconds: 0.05, providerSweepSeconds: 0.1 }
    const options = optionsFor(fake, { over, engine })
    const before = await openUmbra(openMemory(store), { ...options, worker: { graceSeconds: 0.05 } })
    const job = await submitting(before, fake)
    await job.cancel()
    await before.close()
    fake.release(first(fake).id)
    const umbra = await openUmbra(openMemory(store), options)
    onTestFinished(() => umbra.close())
    await until("it was cancelled", () => first(fake).status === "canceled")
    expect(fake.operations.size).toBe(1)
  })

  it("J10 X5 that is retried meanwhile submits under a key of its own, once the first is over", async () => {
    const fake = await slow()
    const umbra = await openWith(fake, { over: { concurrency: 1 } })
    const job = await submitting(umbra, fake)
    await job.cancel()
    await job.wait({ timeoutMs: 60_000 })
    await job.retry()
    await until("it waits", isWaiting(umbra, job.id))
    fake.release(first(fake).id)
    await until("there is another", () => fake.operations.size === 2)
    expect([...fake.operations.values()].map(({ key }) => key)).toEqual([
      `${job.id}/film`,
      `${job.id}/film/1`,
    ])
    expect([first(fake).status, fake.mostAtOnce]).toEqual(["canceled", 1])
  })

  it("X5 that is deleted meanwhile has its operation cancelled all the same", async () => {
    const fake = await slow()
    const umbra = await openWith(fake, { over: { concurrency: 1 } })
    const job = await submitting(umbra, fake)
    await job.cancel()
    await job.wait({ timeoutMs: 60_000 })
    await umbra.delete(job.id)
    fake.release(first(fake).id)
    await until("it was cancelled", () => first(fake).status === "canceled")
  })

  it("X5 X6 the same for a handler of one's own that submits, and requests another place afterwards", async () => {
    const fake = await fakeProvider({ limit: 1 })
    let open = () => {}
    const opened = new Promise<void>(resolve => {
      open = resolve
    })
    const own = defineHandler({
      name: "own",
      run: async (_, { idempotencyKey, place }) => {
        const headers = { "idempotency-key": idempotencyKey }
        const body = JSON.stringify({ request: null })
        const answer = await fetch(`${fake.url}/operations`, { method: "POST", headers, body })
        await opened
        await place()
        return submitted(((await answer.json()) as { id: string }).id)
      },
    })
    const umbra = await openWith(fake, { handlers: [own], over: { concurrency: 1 } })
    const job = await umbra.submit({ name: "own", nodes: [{ id: "film", handler: "own", provider: "fake" }] })
    await until("the provider has it", () => fake.operations.size === 1)
    const other = await next(umbra)
    await job.cancel()
    expect((await job.wait({ timeoutMs: 60_000 })).status).toBe("CANCELLED")
    open()
    await waiting(umbra, fake, other.id, 1)
    expect([first(fake).status, fake.mostAtOnce]).toEqual(["canceled", 1])
  })
})

it("J16 X5 an operation of a cancelled job holds its slot until the provider has cancelled it", async () => {
  const fake = await fakeProvider({ limit: 1 })
  fake.misbehave({ route: "cancel", status: 503, headers: { "retry-after": "0" } })
  const umbra = await openWith(fake, {
    over: { concurrency: 1 },
    engine: { providerSweepSeconds: 0.2 },
  })
  const job = await umbra.submit(make())
  await waiting(umbra, fake, job.id)
  const other = await next(umbra)
  await until("the other waits", isWaiting(umbra, other.id))
  await job.cancel()
  await waiting(umbra, fake, other.id, 1)
  expect([first(fake).status, fake.mostAtOnce]).toEqual(["canceled", 1])
})
