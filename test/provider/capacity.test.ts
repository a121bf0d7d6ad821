import { describe, expect, it } from "vitest"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { defineProvider } from "../../src/provider/provider.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { openUmbra } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { flow, gate, open, openOn, states, until } from "../engine/stage.ts"
import { deliver, fakeProvider, make, openWith, optionsFor, waiting } from "./stage.ts"

describe("a provider that has too much to do", () => {
  it("X6 gets no request for as long as it names, from any process, and then half the rate", async () => {
    const clock = new VirtualClock()
    const fake = await fakeProvider()
    fake.misbehave({ route: "submit", status: 429, headers: { "retry-after": "20" } })
    const umbra = await openWith(fake, { clock, over: { rate: 10, concurrency: 5 } })
    const retry = { initial_seconds: 1, jitter: 0 }
    const job = await umbra.submit({ name: "busy", nodes: [{ ...make().nodes[0]!, retry }] })
    await until("it has refused", async () => (await umbra.graph(job.id)).waiting_for[0]?.kind === "retry")
    await until("that is known", async () => (await umbra.providers())[0]!.rate.pace === 0.5)
    const [wait] = (await umbra.graph(job.id)).waiting_for
    expect(wait).toMatchObject({ kind: "retry", at: clock.now() + 20_000 })
    expect((await umbra.providers())[0]).toMatchObject({
      slots: { held: [] },
      recent_errors: [{ what: "submit", code: "E409" }],
    })
    const other = await umbra.submit(make())
    await new Promise(resolve => setTimeout(resolve, 20))
    clock.advance(19_000)
    await new Promise(resolve => setTimeout(resolve, 20))
    expect(fake.operations.size).toBe(0)
    await until("both are submitted", () => {
      clock.advance(500)
      return fake.operations.size === 2
    })
    await waiting(
      umbra,
      fake,
      other.id,
      [...fake.operations.values()].findIndex(({ key }) => key.startsWith(other.id)),
    )
  })

  it("X6 is left alone by those, too, whose turn had been settled before it said so", async () => {
    const clock = new VirtualClock()
    const fake = await fakeProvider({
      script: ({ request }) =>
        (request as { scene: string }).scene === "b"
          ? { submit: [{ status: 429, headers: { "retry-after": "20" } }] }
          : {},
    })
    const umbra = await openWith(fake, { clock, over: { rate: 2, concurrency: 10 } })
    await umbra.submit(make(["a", "b", "c", "d", "e", "f"]))
    await until("the first has gone out", () => fake.operations.size === 1)
    clock.advance(525)
    await until("the second was refused", async () => (await umbra.providers())[0]!.rate.pace === 0.5)
    for (let passed = 0; passed < 19_500; passed += 500) {
      clock.advance(500)
      await new Promise(resolve => setTimeout(resolve, 5))
    }
    expect(fake.operations.size).toBe(1)
    await until("all are submitted", () => {
      clock.advance(500)
      return fake.operations.size === 6
    })
  })

  it.each([
    { asks: "20", rate: null, ms: 20_000, submitted: 2, what: "for as long as it asks, also without a rate" },
    { asks: "0", rate: null, ms: 1000, submitted: 1, what: "for a second although it asks for none" },
    { asks: "99999999999", rate: 10, ms: 3_600_000, submitted: 1, what: "for an hour if it asks for years" },
  ])("X6 is left alone $what", async ({ asks, rate, ms, submitted }) => {
    const clock = new VirtualClock()
    const fake = await fakeProvider()
    fake.misbehave({ route: "submit", status: 429, headers: { "retry-after": asks } })
    const umbra = await openWith(fake, { clock, over: { rate, concurrency: 5 } })
    const job = await umbra.submit(make())
    await until("it has refused", async () => (await umbra.graph(job.id)).waiting_for[0]?.kind === "retry")
    await umbra.submit(make(["b"]))
    clock.advance(ms - 1)
    await new Promise(resolve => setTimeout(resolve, 20))
    expect(fake.operations.size).toBe(0)
    await until("it is asked again", () => {
      clock.advance(1)
      return fake.operations.size === submitted
    })
  })

  it("X6 is left alone by every process, also without a rate", async () => {
    const store = createMemoryStore()
    const clock = new VirtualClock()
    const fake = await fakeProvider()
    const options = optionsFor(fake, { clock, over: { rate: null, concurrency: 5, poll_seconds: [30] } })
    const first = await openOn(store, options)
    const before = await first.submit(make())
    const id = await waiting(first, fake, before.id)
    // Another process of the same fleet hears it.
    const peer = openMemory(store)
    const until429 = clock.now() + 60_000
    await peer.providers.slowDown({ provider: "fake", until: until429 })
    clock.advance(1000)
    const after = await first.submit(make(["b"]))
    for (let passed = 0; passed < 58_000; passed += 1000) {
      clock.advance(1000)
      await new Promise(resolve => setTimeout(resolve, 1))
    }
    expect([fake.operations.size, fake.operations.get(id)!.polls]).toEqual([1, 0])
    await until("both are asked for", () => {
      clock.advance(100)
      return fake.operations.size === 2 && fake.operations.get(id)!.polls === 1
    })
    expect(clock.now()).toBeGreaterThanOrEqual(until429)
    await waiting(first, fake, after.id, 1)
    expect((await first.providers())[0]!.rate).toEqual({ limit: null, limit_per_owner: null, pace: 1 })
  })

  it("X6 is waited for longer than there are tries, and slowed down for by any Retry-After", async () => {
    const clock = new VirtualClock()
    const fake = await fakeProvider()
    fake.misbehave({ route: "submit", status: 429, headers: { "retry-after": "2" }, times: 12 })
    const umbra = await openWith(fake, { clock, over: { rate: 10 } })
    const retry = { max_attempts: 2, initial_seconds: 1, max_seconds: 2, jitter: 0 }
    const job = await umbra.submit({ name: "busy", nodes: [{ ...make().nodes[0]!, retry }] })
    await until("it has taken it", () => {
      clock.advance(500)
      return fake.operations.size === 1
    })
    const id = await waiting(umbra, fake, job.id)
    expect((await umbra.graph(job.id)).nodes[0]).toMatchObject({ attempt: 1, max_attempts: 2 })
    fake.complete(id)
    await deliver(umbra, fake, id)
    expect((await job.wait()).status).toBe("COMPLETED")
  })

  it("X5 keeps the slot of what it may have begun before it said so", async () => {
    const clock = new VirtualClock()
    const fake = await fakeProvider({
      limit: 1,
      script: ({ request }) =>
        (request as { scene: string }).scene === "a"
          ? { submit: [{ status: 502, afterwards: true }, { status: 429 }] }
          : {},
    })
    const umbra = await openWith(fake, { clock, over: { concurrency: 1 } })
    const retry = { initial_seconds: 10, max_seconds: 10, jitter: 0 }
    const node = (id: string) => ({ ...make([id]).nodes[0]!, retry })
    const first = await umbra.submit({ name: "begun", nodes: [node("a")] })
    const errors = async () => (await umbra.providers())[0]!.recent_errors.map(({ code }) => code)
    await until("its answer was lost", async () => (await errors()).length === 1)
    await umbra.submit({ name: "next", nodes: [node("b")] })
    await until("it has refused", async () => {
      clock.advance(500)
      return (await errors()).length === 2
    })
    expect(await errors()).toEqual(["E409", "E410"])
    await until("that is written", async () => (await umbra.graph(first.id)).waiting_for[0]?.kind === "retry")
    expect((await umbra.providers())[0]).toMatchObject({
      slots: { held: [{ job_id: first.id }], waiting: 1 },
    })
    expect([fake.operations.size, fake.overLimit]).toEqual([1, 0])
  })

  it("X6 does not keep a process alive that has closed", async () => {
    const clock = new VirtualClock()
    const fake = await fakeProvider()
    const { providers = [], ...rest } = optionsFor(fake, { clock, over: { rate: 0.001, concurrency: 5 } })
    const umbra = await openUmbra("memory:", { providers, ...rest })
    const job = await umbra.submit(make(["a", "b"]))
    await waiting(umbra, fake, job.id)
    await umbra.close()
    expect(clock.next).toBeNull()
  })

  it("X6 gets at most so many requests a second, from all nodes together", async () => {
    const clock = new VirtualClock()
    const fake = await fakeProvider()
    const umbra = await openWith(fake, { clock, over: { rate: 2, concurrency: 10 } })
    await umbra.submit(make(["a", "b", "c", "d", "e"]))
    await until("the first has gone out", () => fake.operations.size === 1)
    for (const expected of [2, 3, 4, 5]) {
      clock.advance(524)
      await new Promise(resolve => setTimeout(resolve, 10))
      expect(fake.operations.size).toBe(expected - 1)
      clock.advance(1)
      await until("the next has gone out", () => fake.operations.size === expected)
    }
  })
})

describe("slots of jobs that have ended", () => {
  it("X5 are returned although they were requested in the same moment", async () => {
    const store = createMemoryStore()
    const fake = await fakeProvider()
    const umbra = await openOn(store, optionsFor(fake, { engine: { providerSweepSeconds: 0.02 } }))
    const first = await umbra.submit(make())
    const id = await waiting(umbra, fake, first.id)
    const second = await umbra.submit(make())
    await until("it waits", async () => (await umbra.graph(second.id)).waiting_for[0]?.kind === "slot")
    await second.cancel()
    // What a node asks for while the cancellation is being written comes after the release.
    const { providers } = openMemory(store)
    const terms = { provider: "fake", limit: 1, leaseMs: 3_600_000, at: Date.now() }
    const partition = Number.parseInt(second.id.slice(15, 18), 16)
    await providers.requestSlots(terms, [{ jobId: second.id, node: 0, partition, owner: "local" }])
    fake.complete(id)
    await deliver(umbra, fake, id)
    await first.wait()
    await until("all capacity is back", async () => {
      const { slots } = (await umbra.providers())[0]!
      return slots.held.length + slots.waiting === 0
    })
  })
})

describe("slots of nodes that are done", () => {
  it("X5 are returned although they were requested in the same moment, and the next in the queue has them", async () => {
    const journal = openMemory()
    const { providers } = journal
    const requestSlots = providers.requestSlots.bind(providers)
    let hold: Promise<void> | null = null
    let asked = 0
    providers.requestSlots = async (...request) => {
      asked++
      await hold
      return requestSlots(...request)
    }
    const fake = await fakeProvider()
    fake.misbehave({ route: "poll", status: 500 })
    const over = { poll_seconds: [0.02, 3600], max_poll_errors: 0 }
    const umbra = await open({ ...optionsFor(fake, { over }), at: journal })
    const wait = { id: "wait", handler: "wait_for_signal", config: { signal: "go" } }
    const retry = { initial_seconds: 0.05, jitter: 0 }
    let release = () => {}
    const job = await umbra.submit({ name: "going on", nodes: [{ ...make().nodes[0]!, retry }, wait] })
    const id = await waiting(umbra, fake, job.id)
    hold = new Promise(resolve => {
      release = resolve
    })
    await until("it is about to be submitted again", () => asked === 2)
    fake.complete(id)
    await deliver(umbra, fake, id)
    await until("it is done", async () => (await states(umbra, job.id)).film === "COMPLETED")
    const next = await umbra.submit(make())
    release()
    await waiting(umbra, fake, next.id, 1)
    expect((await umbra.providers())[0]!.slots).toMatchObject({ held: [{ job_id: next.id }], waiting: 0 })
  })
})

describe("a slot whose holder does not know of it", () => {
  it("X5 is found by the next engine: its process died with the answer that it is granted", async () => {
    const store = createMemoryStore()
    const fake = await fakeProvider()
    const first = await openOn(store, optionsFor(fake))
    const one = await first.submit(make())
    const id = await waiting(first, fake, one.id)
    const two = await first.submit(make())
    await until("it waits", async () => (await first.graph(two.id)).waiting_for[0]?.kind === "slot")
    await first.close()
    // What the process did last: one slot came free, and the answer to its question was that the other has it now.
    const journal = openMemory(store)
    await journal.providers.releaseSlot({ jobId: one.id, node: 0 })
    const terms = { provider: "fake", limit: 1, leaseMs: 3_600_000, at: Date.now() }
    const partition = Number.parseInt(two.id.slice(15, 18), 16)
    const request = { jobId: two.id, node: 0, partition, owner: "local" }
    expect(await journal.providers.requestSlots(terms, [request])).toMatchObject({
      held: [{ jobId: two.id }],
    })
    await journal.close()
    const second = await openOn(store, optionsFor(fake, { engine: { providerSweepSeconds: 0.02 } }))
    const other = await waiting(second, fake, two.id, 1)
    for (const each of [id, other]) {
      fake.complete(each)
      await deliver(second, fake, each)
    }
    expect((await second.wait(two.id, { timeoutMs: 60_000 })).status).toBe("COMPLETED")
  })
})

describe("slots of a provider", () => {
  it("X5 the position of a node in the queue is queried once, and of that node only", async () => {
    const journal = openMemory(createMemoryStore())
    const ask = journal.providers.slotPosition.bind(journal.providers)
    const asked: number[] = []
    journal.providers.slotPosition = place => {
      asked.push(place.node)
      return ask(place)
    }
    const held = gate("held")
    const one = defineProvider({ name: "one", concurrency: 1, rate: null })
    const umbra = await open({ at: journal, handlers: [held.handler], providers: [one] })
    const nodes = ["a", "b", "c", "d"].map(id => ({ id, handler: "held", provider: "one" }))
    const job = await umbra.submit(flow(nodes))
    await held.came()
    await until("three wait", async () => (await job.graph()).waiting_for.length === 3)
    asked.length = 0
    const { waiting_on, live } = await umbra.node(job.id, "d")
    expect(waiting_on).toEqual({ kind: "slot", provider: "one", position: null })
    expect(live?.nodes).toMatchObject([
      { id: "d", status: "QUEUED", waiting_on: { kind: "slot", provider: "one", position: 3 } },
    ])
    expect(asked).toEqual([3])
    await expect(umbra.node(job.id, "e")).rejects.toMatchObject({ code: "E310" })
    expect(asked).toEqual([3])
    held.open()
    expect((await job.wait({ timeoutMs: 60_000 })).status).toBe("COMPLETED")
  })

  it("a handler that returns uses the provider's slots and rate, and nothing else", async () => {
    let now = 0
    let most = 0
    const busy = defineHandler({
      name: "busy",
      async run() {
        most = Math.max(most, ++now)
        await new Promise(resolve => setTimeout(resolve, 5))
        now--
      },
    })
    const two = defineProvider({ name: "two", concurrency: 2, rate: null })
    const umbra = await open({ handlers: [busy], providers: [two] })
    const nodes = Array.from({ length: 12 }, (_, i) => ({ id: `n${i}`, handler: "busy", provider: "two" }))
    const job = await umbra.submit(flow(nodes))
    expect((await job.wait({ timeoutMs: 60_000 })).status).toBe("COMPLETED")
    expect(most).toBe(2)
    expect((await umbra.providers())[0]).toMatchObject({ slots: { held: [], waiting: 0 } })
  })
})
