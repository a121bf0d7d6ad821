/** What the reasons of `why` tell besides their kind, each from a source that the test knows by itself. */
import { describe, expect, it } from "vitest"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { defineProvider } from "../../src/provider/provider.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { deliver, fakeProvider, make, openWith, optionsFor, waiting } from "../provider/stage.ts"
import { flow, gate, handler, open, until } from "./stage.ts"

const iso = (ms: number) => new Date(ms).toISOString()

describe("an operation at a provider", () => {
  it("names its last and its next poll, and the error of the last one", async () => {
    const clock = new VirtualClock()
    const fake = await fakeProvider()
    const over = { poll_seconds: [30, 60], poll_jitter: 0 }
    const umbra = await openWith(fake, { clock, over })
    const job = await umbra.submit(make())
    await waiting(umbra, fake, job.id)
    const begun = clock.now()
    const reason = async () => (await job.why()).reasons[0]!
    const first = await reason()
    const next = iso(begun + 30_000)
    expect(first.details).toMatchObject({
      polls: 0,
      last_poll_at: null,
      next_poll_at: next,
      poll_error: null,
    })
    expect(first.sentence).toContain(`no webhook yet, not polled yet, next poll at ${next}`)
    fake.misbehave({ route: "poll", status: 503, times: 1 })
    clock.advance(30_000)
    await until("it was polled", async () => (await reason()).details.polls === 1)
    const polled = await reason()
    expect(polled.details).toMatchObject({
      last_poll_at: next,
      next_poll_at: iso(begun + 90_000),
      poll_error: { code: "E410" },
    })
    expect(polled.sentence).toContain(`polled once, last at ${next}, next poll at ${iso(begun + 90_000)}`)
    expect(polled.sentence).toContain("the last poll failed: ")
    clock.advance(60_000)
    await until("it was polled again", async () => (await reason()).details.polls === 2)
    expect((await reason()).details).toMatchObject({ last_poll_at: iso(begun + 90_000), poll_error: null })
    // The same of the past, from facts alone.
    const { reasons } = await job.why({ at: { time: begun + 31_000 } })
    expect(reasons[0]!.details).toMatchObject({ polls: 1, last_poll_at: next, poll_error: { code: "E410" } })
  })

  it("says whether a webhook arrived, and does not guess where the latest ones do not show it", async () => {
    const clock = new VirtualClock()
    const fake = await fakeProvider()
    const store = createMemoryStore()
    const umbra = await open({
      at: openMemory(store),
      ...optionsFor(fake, { clock, over: { poll_seconds: [3600], concurrency: 2 } }),
    })
    const job = await umbra.submit(make())
    const id = await waiting(umbra, fake, job.id)
    const reason = async () => (await job.why()).reasons[0]!
    expect((await reason()).details).toMatchObject({ webhook_seen: false, webhook_at: null })
    // "Still running".
    await deliver(umbra, fake, id)
    const seen = await reason()
    expect(seen.details).toMatchObject({ webhook_seen: true, webhook_at: iso(clock.now()) })
    expect(seen.sentence).toContain(`last webhook at ${iso(clock.now())}`)
    const { providers } = openMemory(store)
    const others = (from: number, receivedAt: number) =>
      Array.from({ length: 200 }, (_, n) =>
        providers.receiveEvent({
          ...{ provider: "fake", eventId: `other-${from + n}`, externalId: `other-${n}`, receivedAt },
          ...{ verdict: "refused" as const, reason: null, bytes: 1, news: null },
        }),
      )
    await Promise.all(others(0, clock.now()))
    const unknown = await reason()
    expect(unknown.details).toMatchObject({ webhook_seen: null, webhook_at: null })
    expect(unknown.sentence).toContain("not known whether a webhook arrived")
    // All that a newer job could have had are among the latest.
    clock.advance(120_000)
    const later = await umbra.submit(make(["other"]))
    await waiting(umbra, fake, later.id, 1)
    expect((await later.why()).reasons[0]!.details).toMatchObject({ webhook_seen: false })
  })
})

it("the expected wait for a slot follows from the slots that are held, also if one is never released", async () => {
  const clock = new VirtualClock()
  const work = gate()
  const providers = [
    defineProvider({ name: "one", concurrency: 1, rate: null }),
    defineProvider({ name: "four", concurrency: 4, rate: null }),
  ]
  const umbra = await open({ handlers: [work.handler], providers, clock, worker: { concurrency: 100 } })
  const job = (name: string, provider: string, nodes: number) =>
    umbra.submit(
      flow(
        Array.from({ length: nodes }, (_, n) => ({ id: `n${n}`, handler: "gate", provider })),
        { name },
      ),
    )
  const first = await job("first", "one", 1)
  await until("it has its slot", () => work.entered.length === 1)
  const since = clock.now()
  const second = await job("second", "one", 2)
  await until("both wait", async () => (await second.why()).reasons[0]?.kind === "slot")
  clock.advance(8000)
  const waits = async (node: string) => (await second.why({ node })).reasons[0]!
  expect((await waits("n0")).details).toMatchObject({
    ...{ provider: "one", position: 1, held: 1, limit: 1, waiting: 2, expected_ms: 8000 },
    holders: [{ job_id: first.id, slots: 1, since: iso(since) }],
  })
  expect((await waits("n1")).details).toMatchObject({ position: 2, expected_ms: 16_000 })
  expect((await waits("n1")).sentence).toMatch(/position 2, about 16 s at the recent rate\.$/)
  // Four at once, then none for a while.
  await job("third", "four", 4)
  await until("they have their slots", () => work.entered.length === 5)
  const last = await job("last", "four", 1)
  await until("it waits", async () => (await last.why()).reasons[0]?.kind === "slot")
  clock.advance(40_000)
  expect((await last.why()).reasons[0]!.details).toMatchObject({ held: 4, limit: 4, expected_ms: 10_000 })
  work.open()
})

it("waits are compared with waits of the same kind: before a run, or as part of it", async () => {
  const clock = new VirtualClock()
  const work = gate()
  const umbra = await open({
    handlers: [work.handler, handler("noop", () => 1)],
    clock,
    worker: { concurrency: 1 },
  })
  const definition = flow([
    { id: "asked", handler: "wait_for_signal", config: { signal: "go" } },
    { id: "after", handler: "noop", dependencies: ["asked"] },
  ])
  const before = await umbra.submit(definition)
  await until("it waits", async () => (await before.why()).reasons[0]?.kind === "signal")
  clock.advance(100_000)
  await umbra.signal(before.id, "go")
  await before.wait()
  const usual = async (node: string) => (await job.why({ node })).reasons[0]!
  const job = await umbra.submit(definition)
  await until("its statistics are written", async () => {
    clock.advance(1000)
    return (await usual("asked")).usual !== null
  })
  // Until the signal came, not until a worker was free.
  const { p50, count } = (await usual("asked")).usual!
  expect(count).toBe(1)
  expect(p50 / 100_000).toBeGreaterThan(0.95)
  expect(p50 / 100_000).toBeLessThan(1.05)
  expect((await usual("after")).usual).toBeNull()
  await job.pause()
  await umbra.signal(job.id, "go")
  await until("it is held", async () => (await usual("after")).kind === "paused")
  expect((await usual("after")).usual).toBeNull()
  // The only worker is busy.
  await umbra.submit(flow([{ id: "a", handler: "gate" }], { name: "busy" }))
  await work.came()
  await umbra.resume(job.id)
  await until("it waits for the worker", async () => (await usual("after")).kind === "worker_busy")
  expect((await usual("after")).usual!.p99).toBeLessThan(1000)
  work.open()
})

it("the past of a parent has the reasons that its child had then", async () => {
  const clock = new VirtualClock()
  const umbra = await open({ clock })
  await umbra.register(
    flow(
      [
        { id: "first", handler: "wait_for_signal", config: { signal: "one" } },
        { id: "second", handler: "wait_for_signal", config: { signal: "two" }, dependencies: ["first"] },
      ],
      { name: "inner" },
    ),
  )
  const job = await umbra.submit(
    flow([{ id: "run", handler: "workflow", config: { workflow: "inner" } }], { name: "outer" }),
  )
  await until("the child waits", async () => (await job.why()).chain.length === 2)
  const childId = (await job.why()).reasons[0]!.child!.job_id
  clock.advance(10_000)
  const early = clock.now()
  clock.advance(10_000)
  await umbra.signal(childId, "one")
  await until("it goes on", async () => (await umbra.why(childId)).chain[0]?.node === "second")
  clock.advance(10_000)
  const chainAt = async (time: number) => {
    const { chain, sentence, action } = await job.why({ at: { time } })
    expect(sentence).toContain(`waits for signal ${chain[1]?.node === "first" ? "one" : "two"}`)
    expect(action).toBeNull()
    return chain.map(({ job_id, node }) => [job_id, node])
  }
  expect(await chainAt(early)).toEqual([
    [job.id, "run"],
    [childId, "first"],
  ])
  // No fact of the parent in between.
  expect(await chainAt(clock.now())).toEqual([
    [job.id, "run"],
    [childId, "second"],
  ])
  await umbra.signal(childId, "two")
  await job.wait()
})
