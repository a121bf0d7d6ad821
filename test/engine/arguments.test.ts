import { describe, expect, it } from "vitest"
import { Reader } from "../../src/jobs/reader.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { waitForSignal } from "../../src/worker/waiting.ts"
import { flow, gate, handler, open, openOn } from "./stage.ts"

const one = flow([{ id: "a", handler: "input" }])
const ring: Record<string, unknown> = {}
ring.ring = ring

it.each([
  { engine: { retentionSecondz: 3 } },
  { worker: { concurrenzy: 3 } },
  { feed: { nothing: 1 } },
  { pipeline: { max_executions: 1 } },
  { redis: { prefixx: "a" }, redisUrl: "redis://127.0.0.1:1" },
])("S10 a setting that does not exist is refused with E620: %j", async options => {
  const [name] = Object.keys(Object.values(options)[0] as object)
  await expect(openOn(createMemoryStore(), options as never)).rejects.toMatchObject({
    code: "E620",
    message: expect.stringContaining(`"${name}"`),
  })
})

describe("arguments besides a workflow and its input", () => {
  it.each([
    { owner: 5 },
    { owner: "" },
    { owner: null },
    { owner: "a\0b" },
    { owner: "a\u001eb" },
    { owner: "x".repeat(201) },
    { idempotencyKey: null },
    { idempotencyKey: "a\0b" },
    { idempotencyKey: "" },
    { idempotencyKey: "half \ud800" },
    { labels: null },
    { labels: "text" },
    { labels: ["a"] },
    { labels: { a: 1 } },
    { labels: { a: "x".repeat(70_000) } },
    { priority: "5" },
    { ttlSeconds: 0 },
  ])("is refused with E309 before anything is decided, and the engine goes on: %j", async options => {
    const umbra = await open()
    await expect(umbra.submit(one, {}, options as never)).rejects.toMatchObject({ code: "E309" })
    expect((await (await umbra.submit(one, {})).wait()).status).toBe("COMPLETED")
  })

  it.each([null, undefined, 5, () => 1])(
    "a value that is not a workflow is refused with E101: %s",
    async source => {
      const umbra = await open()
      await expect(umbra.submit(source as never)).rejects.toMatchObject({ code: "E101" })
    },
  )

  it.each(["flow@99999999999", "a\0b", ""])("an invalid workflow name is unknown: %j", async name => {
    const umbra = await open()
    await expect(umbra.submit(name)).rejects.toMatchObject({ code: "E305" })
  })

  it.each([{ limit: -1 }, { limit: Number.NaN }, { limit: 1.5 }, { after: "junk" }])(
    "a list's filter is checked: %j",
    async filter => {
      const umbra = await open()
      await expect(umbra.jobs(filter)).rejects.toMatchObject({ code: "E309" })
    },
  )
})

describe("objects that the caller keeps", () => {
  it("J5 input and labels changed after submit do not change the job", async () => {
    const through = gate()
    const umbra = await open({ handlers: [through.handler] })
    const input = { list: [1] }
    const labels = { team: "a" }
    const reads = flow([
      { id: "first", handler: "gate" },
      { id: "read", handler: "transform", config: { value: "{{ input }}" }, dependencies: ["first"] },
    ])
    const job = await umbra.submit(reads, input, { labels })
    input.list.push(2)
    labels.team = "b"
    through.open()
    expect(await job.wait()).toMatchObject({ output: { read: { list: [1] } }, labels: { team: "a" } })
  })

  it("a definition is the same version until something in it changes, however deep", async () => {
    const umbra = await open()
    const config: Record<string, unknown> = { value: { list: [1, { deep: "a" }], when: null } }
    const definition = { name: "changing", nodes: [{ id: "a", handler: "transform", config }] }
    const version = async () =>
      (await umbra.job((await umbra.submit(definition as never, null)).id)).workflow_version
    const value = config.value as { list: unknown[]; when: unknown; more?: unknown }
    const changes: readonly (() => unknown)[] = [
      () => {},
      () => Object.assign(value.list[1] as object, { deep: "b" }),
      () => value.list.push(2),
      () => value.list.pop(),
      () => Object.assign(value, { when: false }),
      () => Object.assign(value, { more: [] }),
      () => delete value.more,
      () => Object.assign(config, { value: [value] }),
    ]
    const versions: (number | null)[] = []
    for (const change of changes) {
      change()
      versions.push(await version(), await version())
    }
    expect(versions).toEqual([1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8])
  })

  it("a definition changed after submit is a new version", async () => {
    const umbra = await open()
    const definition = flow([{ id: "a", handler: "transform", config: { value: 1 } }])
    await umbra.submit(definition)
    definition.nodes[0]!.config = { value: 2 }
    const job = await umbra.submit(definition)
    expect(await job.wait()).toMatchObject({ output: { a: 2 }, workflow_version: 2 })
  })
})

describe("commands", () => {
  it.each([() => 1, Number.NaN, ring, new Date(0), 1n, "x".repeat(2000)])(
    "a signal carries JSON within the limits of an output: %s",
    async data => {
      const asking = handler("ask", () => waitForSignal("go"))
      const umbra = await open({ handlers: [asking], worker: { maxOutputBytes: 1000 } })
      const job = await umbra.submit(flow([{ id: "a", handler: "ask" }]))
      await expect(job.signal("go", data as never)).rejects.toMatchObject({ code: "E309" })
      await expect(job.signal(5 as never)).rejects.toMatchObject({ code: "E309" })
      await job.signal("go", { yes: true })
      expect((await job.wait()).output).toEqual({ a: { yes: true } })
    },
  )

  it.each([{ a: 1 }, ring, 1n, "x".repeat(10_001)])(
    "the reason of a cancellation is a text: %s",
    async reason => {
      const through = gate()
      const umbra = await open({ handlers: [through.handler] })
      const job = await umbra.submit(flow([{ id: "a", handler: "gate" }]))
      await expect(job.cancel(reason as never)).rejects.toMatchObject({ code: "E309" })
      expect((await job.status()).status).not.toBe("CANCELLED")
      through.open()
      expect((await job.wait()).status).toBe("COMPLETED")
    },
  )

  it("a job id with a partition that does not exist is rejected at once", async () => {
    const umbra = await open()
    const unknown = "0198c0de-7a11-7fff-9abc-0123456789ab"
    await expect(umbra.cancel(unknown)).rejects.toMatchObject({ code: "E301" })
  })
})

describe("a batch that cannot be encoded as a statement", () => {
  it("fails the job it belongs to, and the database is not reported as unavailable", async () => {
    const journal = openMemory(createMemoryStore())
    const append = journal.append.bind(journal)
    journal.append = async batch => {
      if (batch.newJobs.some(job => job.priority === 7))
        throw new TypeError("text.includes is not a function")
      return append(batch)
    }
    const umbra = await open({ at: journal })
    const jobs = await Promise.allSettled(
      [0, 7, 1].map(priority => umbra.submit(one, {}, { priority }).then(job => job.wait())),
    )
    expect(jobs.map(job => job.status)).toEqual(["fulfilled", "rejected", "fulfilled"])
    expect((await (await umbra.submit(one, {})).wait()).status).toBe("COMPLETED")
  })
})

it.each([
  { type: "signal", name: "", data: 1 },
  { type: "signal", name: "\u0000", data: 1 },
  { type: "signal", name: "go", data: "x".repeat(200) },
  { type: "cancel", reason: "x".repeat(10_001) },
] as const)("is refused with E309 also by whoever only passes it on to another engine: %j", async command => {
  const store = createMemoryStore()
  const umbra = await openOn(store)
  const job = await umbra.submit(flow([{ id: "nap", handler: "sleep", config: { seconds: 60 } }]))
  const reader = new Reader(openMemory(store), { maxSignalBytes: 100 })
  await expect(reader.sendCommand(job.id, command)).rejects.toMatchObject({ code: "E309" })
})
