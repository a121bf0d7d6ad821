/** X1 to X6 with J14 and J21: work that is done elsewhere, for each item of a list. */
import { describe, expect, it } from "vitest"
import { withLiveItems } from "../../src/core/view/live-view.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { defineProvider } from "../../src/provider/provider.ts"
import type { Umbra } from "../../src/umbra.ts"
import { open, openOn, until } from "../engine/stage.ts"
import { deliver, fakeProvider, make, openWith, optionsFor } from "./stage.ts"

const never = { poll_seconds: [3600] }
const scenes = ["opening", "chase", "kiss"]

const films = (over: object = {}, rest: object = {}) => ({
  name: "films",
  nodes: [
    {
      ...{
        id: "films",
        handler: "external",
        provider: "fake",
        for_each: scenes,
        config: { scene: "{{ item }}" },
      },
      ...over,
    },
  ],
  output: "{{ films }}",
  ...rest,
})

const allWait = (umbra: Umbra, jobId: string) =>
  until("all are on record", async () => (await umbra.graph(jobId)).nodes[0]!.items?.waiting === 3)

describe("J21 a list whose items are done at a provider", () => {
  it("X1 X5 has an operation, a key and a slot for each item, and its output in their order", async () => {
    const fake = await fakeProvider({ limit: 2 })
    const umbra = await openWith(fake, { over: { ...never, concurrency: 2 } })
    const job = await umbra.submit(films())
    await until("two are at the provider, one waits", async () => {
      const { waiting_for } = await umbra.graph(job.id)
      return fake.operations.size === 2 && waiting_for[0]?.kind === "items" && waiting_for[0].waiting === 3
    })
    const { items } = withLiveItems(await umbra.items(job.id, "films"))
    const last = items.find(({ waiting_on }) => waiting_on?.kind === "slot")
    expect(last).toMatchObject({
      status: "QUEUED",
      waiting_on: { kind: "slot", provider: "fake", position: 1 },
    })
    const view = (await umbra.providers())[0]!
    expect(view).toMatchObject({ operations: 2, slots: { held: { length: 2 }, waiting: 1 } })
    for (const n of [0, 1, 2]) {
      await until("it has been submitted", () => fake.operations.size > n)
      const { id, request } = [...fake.operations.values()][n]!
      fake.complete(id, (request as { scene: string }).scene)
      await deliver(umbra, fake, id)
    }
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED", output: scenes })
    expect([...fake.operations.values()].map(({ key }) => key).sort()).toEqual(
      scenes.map((_, n) => `${job.id}/films/${n}`),
    )
    expect(fake.overLimit).toBe(0)
    expect((await umbra.providers())[0]).toMatchObject({ operations: 0, slots: { held: [], waiting: 0 } })
  })

  it("X4 an item whose operation failed is submitted again, under another key; the others are not", async () => {
    const steps = [{ do: "complete", output: "made" }] as const
    const fake = await fakeProvider({
      script: ({ key }) => ({ steps: key.endsWith("/films/1") ? [{ do: "fail" }] : steps }),
    })
    const umbra = await openWith(fake, { over: { poll_seconds: [0.02], concurrency: 3 } })
    const retry = { max_attempts: 2, initial_seconds: 0.01, jitter: 0 }
    const job = await umbra.submit(films({ retry }))
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ output: ["made", "made", "made"] })
    expect([...fake.operations.values()].map(({ key }) => key.slice(job.id.length)).sort()).toEqual([
      ...["/films/0", "/films/1", "/films/1/1", "/films/2"],
    ])
    const completed = (await umbra.events(job.id)).filter(({ type }) => type === "item.completed")
    expect(completed.map(({ source }) => source)).toEqual(["provider", "provider", "provider"])
  })

  it("X4 J3 the last item counts for the job's output although it could not be polled any more", async () => {
    const fake = await fakeProvider()
    const umbra = await openWith(fake, { over: { poll_seconds: [0.02], max_poll_errors: 0 } })
    fake.misbehave({ route: "poll", status: 500, times: 1000 })
    const retry = { initial_seconds: 3600, max_seconds: 3600, jitter: 0 }
    const job = await umbra.submit(films({ for_each: ["kiss"], retry }))
    await until("it is to be submitted again", async () => {
      const { items } = await umbra.items(job.id, "films")
      return items[0]?.waiting_on?.kind === "retry"
    })
    const [id] = [...fake.operations.keys()]
    fake.complete(id!, "made")
    await deliver(umbra, fake, id!)
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED", output: ["made"] })
    const completed = (await umbra.events(job.id)).find(({ type }) => type === "item.completed")
    expect(completed).toMatchObject({ source: "provider" })
  })

  it("J15 shows progress and partial results of each item", async () => {
    const fake = await fakeProvider()
    const umbra = await openWith(fake, { over: { ...never, concurrency: 3 } })
    const job = await umbra.submit(films())
    await allWait(umbra, job.id)
    const [, chase] = [...fake.operations.values()].sort((a, b) => a.key.localeCompare(b.key))
    Object.assign(chase!, { progress: 40, preview: { frames: 7 } })
    await deliver(umbra, fake, chase!.id)
    await until("the job shows it", async () => (await umbra.job(job.id)).status === "PREVIEW")
    const { items } = await umbra.items(job.id, "films")
    expect(items[1]).toMatchObject({ preview: { frames: 7 } })
    expect(items[0]).not.toHaveProperty("preview")
    const shown = (await umbra.events(job.id)).find(({ type }) => type === "job.preview")
    expect(shown).toMatchObject({
      source: "provider",
      payload: { node: "films", item: 1, data: { frames: 7 } },
    })
  })

  it("X3 continues in the next engine: operations at the provider are polled, waiting items get their slots", async () => {
    const store = createMemoryStore()
    const fake = await fakeProvider({ limit: 1 })
    const over = { poll_seconds: [0.02] }
    const first = await openOn(store, optionsFor(fake, { over }))
    const job = await first.submit(films())
    await until("one is at the provider", () => fake.operations.size === 1)
    await first.close()
    const second = await openOn(store, optionsFor(fake, { over, engine: { providerSweepSeconds: 0.05 } }))
    await until("all are made", async () => {
      for (const { id } of fake.operations.values()) fake.complete(id, "made")
      return (await second.job(job.id)).status === "COMPLETED"
    })
    expect([...fake.operations.values()].map(({ submissions }) => submissions).length).toBe(3)
    expect(fake.overLimit).toBe(0)
  })

  it("J16 cancels every operation when the job is cancelled, and when one item fails permanently", async () => {
    const fake = await fakeProvider()
    const umbra = await openWith(fake, { over: { ...never, concurrency: 3 } })
    const cancelled = await umbra.submit(films())
    await allWait(umbra, cancelled.id)
    await cancelled.cancel()
    await until("all were told", () => fake.cancels === 3)
    const failed = await umbra.submit(films())
    await allWait(umbra, failed.id)
    const one = [...fake.operations.values()].find(({ key }) => key === `${failed.id}/films/2`)!
    fake.fail(one.id, "no kiss", false)
    await deliver(umbra, fake, one.id)
    expect(await failed.wait()).toMatchObject({ status: "FAILED", error: { node: "films", item: 2 } })
    await until("the other two were told", () => fake.cancels === 5)
    await expect
      .poll(async () => (await umbra.providers())[0])
      .toMatchObject({ operations: 0, slots: { held: [], waiting: 0 } })
  })

  it("J10 a retry of the job submits only the items that are not done, as new operations", async () => {
    const fake = await fakeProvider()
    const umbra = await openWith(fake, { over: { ...never, concurrency: 3 } })
    const job = await umbra.submit(films({ fail_fast: false, retry: { max_attempts: 1 } }))
    await allWait(umbra, job.id)
    for (const { id, key } of fake.operations.values()) {
      if (key.endsWith("/1")) fake.fail(id)
      else fake.complete(id, "made")
      await deliver(umbra, fake, id)
    }
    expect((await job.wait()).status).toBe("FAILED")
    await job.retry()
    await until("one is submitted again", () => fake.operations.size === 4)
    const again = [...fake.operations.values()][3]!
    expect(again.key).toBe(`${job.id}/films/1/1`)
    fake.complete(again.id, "at last")
    await deliver(umbra, fake, again.id)
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ output: ["made", "at last", "made"] })
  })

  it("J17 the provider's own time for one item ends the job", async () => {
    const fake = await fakeProvider()
    const umbra = await openWith(fake, { over: { ...never, concurrency: 3, ttl_seconds: 0.2 } })
    const job = await umbra.submit(films())
    expect((await job.wait({ timeoutMs: 60_000 })).status).toBe("EXPIRED")
    await until("those on record were told", () => fake.cancels > 0)
  })

  it("J21 max_parallel counts items at the provider and those that wait for a slot", async () => {
    const fake = await fakeProvider()
    const umbra = await openWith(fake, { over: { ...never, concurrency: 1 } })
    const job = await umbra.submit(films({ max_parallel: 2 }))
    await until("one is there, one waits", async () => {
      const { items } = (await umbra.graph(job.id)).nodes[0]!
      return fake.operations.size === 1 && items?.waiting === 1 && items.queued === 1 && items.pending === 1
    })
    expect((await umbra.providers())[0]!.slots.waiting).toBe(1)
  })
})

it("J21 a long list is not read again for each of its slots and results", async () => {
  const journal = openMemory()
  const readFacts = journal.readFacts.bind(journal)
  let reads = 0
  journal.readFacts = (...query) => {
    reads++
    return readFacts(...query)
  }
  const fake = await fakeProvider()
  // On a slow machine the job must not leave memory between two results.
  const engine = { parkAfterMs: 3_600_000 }
  const umbra = await open({
    ...optionsFor(fake, { engine, over: { ...never, concurrency: 1 } }),
    at: journal,
  })
  const job = await umbra.submit(films({ for_each: Array.from({ length: 120 }, (_, n) => n) }))
  for (let n = 0; n < 20; n++) {
    await until("the next is at the provider", () => fake.operations.size === n + 1)
    const id = [...fake.operations.keys()][n]!
    fake.complete(id)
    await deliver(umbra, fake, id)
  }
  expect(reads).toBeLessThan(10)
  await job.cancel()
})

it("J14 X5 a node that runs a workflow holds its slot while the child runs, however long that is", async () => {
  const fake = await fakeProvider()
  const license = defineProvider({ name: "license", concurrency: 1, rate: null })
  const engine = { providerSweepSeconds: 0.01 }
  const umbra = await openWith(fake, { over: { ...never, concurrency: 5 }, providers: [license], engine })
  await umbra.register(make())
  const run = (id: string) => ({ id, handler: "workflow", provider: "license", config: { workflow: "make" } })
  const job = await umbra.submit({ name: "licensed", nodes: [run("a"), run("b")] })
  const views = async () => (await umbra.providers()).find(({ name }) => name === "license")!
  for (const n of [0, 1]) {
    await until("one child is at the provider", () => fake.operations.size === n + 1)
    const swept = Date.now() + 60
    await until("there were sweeps", () => Date.now() > swept)
    expect(fake.operations.size).toBe(n + 1)
    expect(await views()).toMatchObject({ slots: { held: { length: 1 }, waiting: 1 - n } })
    const id = [...fake.operations.keys()][n]!
    fake.complete(id)
    await deliver(umbra, fake, id)
  }
  expect((await job.wait({ timeoutMs: 60_000 })).status).toBe("COMPLETED")
  expect(await views()).toMatchObject({ slots: { held: [], waiting: 0 } })
})

it("J14 J21 X1 a list of child jobs has an operation and a slot for each item", async () => {
  const fake = await fakeProvider()
  const umbra = await openWith(fake, { over: { poll_seconds: [3600], concurrency: 1 } })
  await umbra.register(make(["film"], { output: "{{ film.made }}" }))
  const run = { id: "films", handler: "workflow", for_each: [1, 2], config: { workflow: "make" } }
  const job = await umbra.submit({ name: "films", nodes: [run], output: "{{ films }}" })
  const made: string[] = []
  for (const n of [0, 1]) {
    await until("an operation began", () => fake.operations.size === n + 1)
    const id = [...fake.operations.keys()][n]!
    made.push(id)
    fake.complete(id)
    await deliver(umbra, fake, id)
  }
  const ended = await job.wait({ timeoutMs: 60_000 })
  expect(ended).toMatchObject({ status: "COMPLETED" })
  expect([...(ended.output as string[])].sort()).toEqual(made.sort())
})
