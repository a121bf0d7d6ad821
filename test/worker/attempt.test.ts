import { describe, expect, it } from "vitest"
import { z } from "zod"
import { fail } from "../../src/worker/fail.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { HandlerRegistry } from "../../src/worker/registry.ts"
import { waitForSignal, waitUntil } from "../../src/worker/waiting.ts"
import { faultIn, gate, outputIn, settled, task, worker } from "./support.ts"

const nothing = () => null
const thenable = {
  // biome-ignore lint/suspicious/noThenProperty: what a handler might return is the point
  then() {
    throw new Error("then")
  },
}

describe("one attempt", () => {
  it("gives the handler its config as the schema gives it, and stores what the output schema gives", async () => {
    const greet = defineHandler({
      name: "greet",
      config: z.object({ name: z.string(), times: z.number().default(2) }),
      output: z.object({ text: z.string() }),
      run: ({ name, times }) => ({ text: `hello ${name} `.repeat(times).trim(), more: "not declared" }),
    })
    const outcome = await worker([greet]).run(task("greet", { config: { name: "Ada" } }))
    expect(outcome).toEqual({
      type: "completed",
      output: { text: "hello Ada hello Ada" },
      text: '{"text":"hello Ada hello Ada"}',
    })
  })

  it("J5 gives the handler copies of its own: what it does to them changes neither plan nor state", async () => {
    const given = () => ({ list: [1, { deep: "x" }], word: "w", ["__proto__"]: { a: 1 } })
    const [config, input, parents] = [given(), given(), { p: given() }]
    const spoil = (value: { list: unknown[] }) => {
      value.list.push("more")
      ;(value.list[1] as Record<string, unknown>).deep = "changed"
      return value.list.length
    }
    const spoiler = defineHandler({
      name: "spoiler",
      run: (own, ctx) => [own, ctx.input, ctx.parents.p].map(value => spoil(value as { list: unknown[] })),
    })
    const outcome = await worker([spoiler]).run(task("spoiler", { config, input, parents: () => parents }))
    expect(outputIn(outcome)).toEqual([3, 3, 3])
    expect([config, input, parents]).toEqual([given(), given(), { p: given() }])
  })

  it("J8 the idempotency key is the same for every attempt at a node", async () => {
    const keys = defineHandler({ name: "keys", run: (_, ctx) => [ctx.idempotencyKey, ctx.attempt] })
    const { run } = worker([keys])
    const first = await run(task("keys", { jobId: "j", nodeId: "pay" }))
    const second = await run(task("keys", { jobId: "j", nodeId: "pay", attempt: 2, shownAttempt: 2 }))
    expect([outputIn(first), outputIn(second)]).toEqual([
      ["j/pay", 1],
      ["j/pay", 2],
    ])
  })

  it("J7 parents are read on first use, input is there", async () => {
    let reads = 0
    const parents = () => ({ a: reads++ })
    const lazy = defineHandler({
      name: "lazy",
      run: (config, ctx) =>
        (config as { use?: boolean }).use ? [ctx.parents, ctx.parents, ctx.input] : null,
    })
    const { run } = worker([lazy])
    await run(task("lazy", { parents }))
    expect(reads).toBe(0)
    expect(outputIn(await run(task("lazy", { parents, input: 7, config: { use: true } })))).toEqual([
      { a: 0 },
      { a: 0 },
      7,
    ])
  })

  it("the context can be taken apart; J15 previews, progress and J22 usage are reported", async () => {
    const busy = defineHandler({
      name: "busy",
      run(_, { progress, preview, usage, log }) {
        progress(50, "half")
        progress(1000)
        progress(null, "unknown")
        preview({ partial: [1] })
        usage({ tokens: 3, usd: 0.5 })
        usage({ tokens: 4 })
        log.info({ step: 1 }, "working")
        log.child({ part: "x" }).warn({ step: 2 })
      },
    })
    const { run, of } = worker([busy])
    const outcome = await run(task("busy", { jobId: "j" }))
    expect(outcome).toMatchObject({ type: "completed", usage: { tokens: 7, usd: 0.5 } })
    expect(of("progress").map(({ data }) => data)).toEqual([
      { percent: 50, message: "half" },
      { percent: 100, message: null },
      { percent: null, message: "unknown" },
    ])
    expect(of("preview").map(({ data }) => data)).toEqual([{ partial: [1] }])
    const own = { job_id: "j", node_id: "node", attempt: 1, handler: "busy" }
    expect(of("log").map(({ data }) => data)).toEqual([
      { level: "info", fields: { ...own, step: 1 }, message: "working" },
      { level: "warn", fields: { ...own, part: "x", step: 2 }, message: undefined },
    ])
  })

  it("nothing is reported after the end", async () => {
    const { promise, open } = gate()
    const late = defineHandler({
      name: "late",
      run(_, { progress, preview }) {
        promise.then(() => {
          progress(99)
          preview({})
        })
      },
    })
    const { run, of } = worker([late])
    await run(task("late"))
    open()
    await settled()
    expect([of("progress"), of("preview")]).toEqual([[], []])
  })

  it("a handler can wait for a time or a signal without holding its slot", async () => {
    const timer = defineHandler({ name: "timer", run: () => waitUntil(new Date(5_000), { woke: true }) })
    const signal = defineHandler({ name: "signal", run: async () => waitForSignal("approval", { until: 9 }) })
    const { run, broker } = worker([timer, signal])
    expect(await run(task("timer"))).toEqual({
      type: "waiting",
      waiting: { kind: "timer", until: 5_000, output: { woke: true } },
    })
    expect(await run(task("signal"))).toEqual({
      type: "waiting",
      waiting: { kind: "signal", name: "approval", until: 9 },
    })
    expect(broker.running).toBe(0)
  })

  it.each([
    [1000.2, 1001],
    [1e300, 8.64e15],
  ])(
    "a time to wait for is a whole millisecond of the calendar, as it is stored: %d",
    async (time, until) => {
      const timer = defineHandler({ name: "timer", run: () => waitUntil(time) })
      const signal = defineHandler({ name: "signal", run: () => waitForSignal("go", { until: time }) })
      const { run } = worker([timer, signal])
      expect(await run(task("timer"))).toMatchObject({ waiting: { until } })
      expect(await run(task("signal"))).toMatchObject({ waiting: { until } })
    },
  )

  it("a signal to wait for has a name", async () => {
    const nameless = defineHandler({ name: "nameless", run: () => waitForSignal(5 as never) })
    const { run } = worker([nameless])
    expect(await run(task("nameless"))).toMatchObject({
      type: "failed",
      fault: { message: "waitForSignal expects the signal's name." },
    })
  })

  it.each([
    [
      "a string",
      () => {
        throw "plain text"
      },
      { code: "E401", message: "plain text", retryable: true },
    ],
    [
      "null",
      async () => {
        throw null
      },
      { code: "E401", message: "The handler threw null." },
    ],
    [
      "fail()",
      () => fail("declined", { code: "DECLINED", retryable: false, retryAfterSeconds: 3 }),
      { code: "DECLINED", retryable: false, retry_after_seconds: 3 },
    ],
    ["a promise-like that throws", () => thenable, { message: "then" }],
  ])("throwing %s is a fault", async (_, run, expected) => {
    const handler = defineHandler({ name: "throws", run: run as () => unknown })
    expect(faultIn(await worker([handler]).run(task("throws")))).toMatchObject(expected)
  })

  it("the stack goes to the log, not into the fault", async () => {
    const handler = defineHandler({
      name: "throws",
      run: () => {
        throw new Error("boom")
      },
    })
    const { run, of } = worker([handler])
    const outcome = await run(task("throws"))
    expect(JSON.stringify(outcome)).not.toContain("attempt.test")
    expect(JSON.stringify(of("log"))).toContain("attempt.test")
  })

  it("a handler may have its own rule about retries", async () => {
    const never = defineHandler({
      name: "never",
      retryable: false,
      run: () => {
        throw new Error("x")
      },
    })
    const rule = defineHandler({
      name: "rule",
      retryable: error => (error === "again" ? true : undefined),
      run: config => {
        throw (config as { what: unknown }).what
      },
    })
    const { run } = worker([never, rule])
    const retryable = async (name: string, what: unknown = null) =>
      faultIn(await run(task(name, { config: { what } as never }))).retryable
    expect([
      await retryable("never"),
      await retryable("rule", "again"),
      await retryable("rule", { status: 404 }),
    ]).toEqual([false, true, false])
  })

  it("wrong config and wrong output are final faults that name the path", async () => {
    const strict = defineHandler({
      name: "strict",
      config: z.object({ list: z.array(z.number()) }),
      output: z.object({ total: z.number() }),
      run: ({ list }) => ({ total: list.length > 1 ? (String(list.length) as never) : 1 }),
    })
    const { run } = worker([strict])
    const config = faultIn(await run(task("strict", { config: { list: [1, "2"] } })))
    expect(config).toMatchObject({
      code: "E403",
      retryable: false,
      details: { issues: [{ path: "list[1]" }] },
    })
    const output = faultIn(await run(task("strict", { config: { list: [1, 2] } })))
    expect(output).toMatchObject({ code: "E406", retryable: false, details: { issues: [{ path: "total" }] } })
  })

  it("schemas may be asynchronous", async () => {
    const slow = defineHandler({
      name: "slow",
      config: z.object({ n: z.number() }).refine(async ({ n }) => n > 0, "must be positive"),
      output: z.number().refine(async n => n < 10, "must be small"),
      run: ({ n }) => n * 2,
    })
    const { run } = worker([slow])
    expect(outputIn(await run(task("slow", { config: { n: 2 } })))).toBe(4)
    expect(faultIn(await run(task("slow", { config: { n: -1 } }))).code).toBe("E403")
    expect(faultIn(await run(task("slow", { config: { n: 50 } }))).code).toBe("E406")
  })

  it.each([
    ["that is not JSON", () => ({ at: new Date() }), "E404"],
    ["that is too large", () => "x".repeat(2_000), "E405"],
  ])("an output %s is a final fault", async (_, run, code) => {
    const handler = defineHandler({ name: "bad", run })
    const outcome = await worker([handler], { settings: { maxOutputBytes: 1_000 } }).run(task("bad"))
    expect(faultIn(outcome)).toMatchObject({ code, retryable: false })
  })

  it("a 50 MB result is refused with a clear fault and the worker continues", async () => {
    const huge = defineHandler({ name: "huge", run: () => ({ data: "x".repeat(50 * 1024 * 1024) }) })
    const { run, broker } = worker([huge])
    expect(faultIn(await run(task("huge")))).toMatchObject({
      code: "E405",
      details: { max_bytes: 16_777_216 },
    })
    expect(broker.running).toBe(0)
  })
})

describe("registration", () => {
  it("two handlers of one name are refused", () => {
    const one = defineHandler({ name: "one", run: () => null })
    expect(() => new HandlerRegistry([one, one])).toThrow(/two handlers named "one"/)
  })

  it("thread: true needs a module", () => {
    const one = defineHandler({ name: "one", thread: true, run: () => null })
    expect(() => new HandlerRegistry([one])).toThrow(/thread: import.meta.url/)
  })

  it.each([
    [{ name: "", run: nothing }, /name must be/],
    [{ name: "x" }, /needs a function run/],
    [{ name: "x", run: nothing, config: {} }, /config of handler "x" must be a zod schema/],
    [{ name: "x", run: nothing, concurrency: 0 }, /concurrency of handler "x"/],
  ])("a wrong definition is refused: %#", (definition, message) => {
    expect(() => defineHandler(definition as never)).toThrow(message)
  })
})
