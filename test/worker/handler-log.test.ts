/** What a handler may give to its logger: anything. */
import { describe, expect, it, onTestFinished } from "vitest"
import type { HandlerLog, LoggedLines, StoredLine } from "../../src/log.ts"
import { silentLog } from "../../src/log.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { LogBuffer } from "../../src/worker/logs/buffer.ts"
import { complains } from "./fixtures/threads.ts"
import { gate, settled, task, type WorkerOptions, worker } from "./support.ts"

interface Logged {
  /** Level, message and fields. */
  readonly stored: readonly (readonly unknown[])[]
  /** The entries of the process log. */
  readonly printed: readonly { readonly fields: Record<string, unknown>; readonly message?: string }[]
}

function logging(options: WorkerOptions = {}) {
  const rows: LoggedLines[] = []
  const logs = new LogBuffer({
    ...{ maxBytes: 10_000_000, log: silentLog, delayMs: 1 },
    sink: async batch => void rows.push(...batch),
  })
  onTestFinished(() => logs.close())
  const lines = async () => {
    await logs.close()
    return rows.flatMap(({ lines: text }) => JSON.parse(text) as StoredLine[])
  }
  return { ...options, logs, lines }
}

/** What an attempt that calls `use` has logged; it must complete. */
async function logged(use: (log: HandlerLog) => void): Promise<Logged> {
  const { lines, ...options } = logging()
  const handler = defineHandler({
    name: "uses",
    run: (_, ctx) => {
      use(ctx.log)
      return "done"
    },
  })
  const { run, of } = worker([handler], options)
  expect(await run(task("uses"))).toMatchObject({ type: "completed", output: "done" })
  const printed = of("log").map(({ data }) => data as never)
  return { stored: (await lines()).map(([, ...line]) => line), printed }
}

function circular() {
  const error = Object.assign(new Error("request failed"), { code: "ECONNRESET", request: {} })
  error.request = { error, host: "x.test" }
  return error
}

function nested(levels: number): object {
  let outer: object = {}
  for (let level = 0; level < levels; level++) outer = { a: outer }
  return outer
}

const itself: Record<string, unknown> = { n: 1 }
itself.itself = itself

const getter = {
  get odd(): never {
    throw new Error("getter")
  },
  n: 1,
}
const toJson = {
  toJSON() {
    throw new Error("toJSON")
  },
}
const refuses = () => {
  throw new Error("proxy")
}
const proxy = new Proxy({}, { ownKeys: refuses, get: refuses, getPrototypeOf: refuses })
const revoked = Proxy.revocable({}, {})
revoked.revoke()

describe("a call of the log never fails an attempt, and stores what it can, given", () => {
  it.each<[string, object, unknown]>([
    ["a circular object", itself, { n: 1, itself: "[Circular]" }],
    ["a large integer", { id: 10n }, { id: "10" }],
    ["a getter that throws", getter, { odd: "[Throws]", n: 1 }],
    ["toJSON that throws", { a: toJson, n: 1 }, { a: "[Throws]", n: 1 }],
    ["only toJSON that throws", toJson, { fields: "[Throws]" }],
    ["a proxy that throws", { proxy, n: 1 }, { proxy: "[Throws]", n: 1 }],
    ["only a proxy that throws", proxy, { fields: "[Throws]" }],
    ["a revoked proxy", revoked.proxy, { fields: "[Throws]" }],
    [
      "values that JSON does not have",
      { u: undefined, f: () => 1, nan: Number.NaN, l: [() => 1] },
      { nan: null, l: [null] },
    ],
    [
      "a date, a URL and bytes",
      { at: new Date(0), url: new URL("http://x.test"), b: Buffer.from("a") },
      {
        at: "1970-01-01T00:00:00.000Z",
        url: "http://x.test/",
        b: { type: "Buffer", data: [97] },
      },
    ],
    [
      "an object whose toJSON returns it",
      {
        o: {
          n: 1,
          toJSON() {
            return this
          },
        },
      },
      { o: { n: 1 } },
    ],
    [
      "names of the prototype",
      JSON.parse('{"__proto__":{"a":1},"constructor":2}'),
      JSON.parse('{"__proto__":{"a":1},"constructor":2}'),
    ],
    ["a list", [1, "b"], { "0": 1, "1": "b" }],
  ])("%s", async (_, given, fields) => {
    const { stored, printed } = await logged(log => log.info(given, "text"))
    expect(stored).toEqual([[1, "text", fields]])
    expect(printed).toMatchObject([{ message: "text", fields: fields as object }])
  })

  it("objects of great depth, width and size, as much as fits", async () => {
    const wide = Object.fromEntries(Array.from({ length: 50_000 }, (_, n) => [`k${n}`, n]))
    const shared = Array.from({ length: 40 }).reduce<object>(inner => ({ a: inner, b: inner }), {})
    for (const given of [
      nested(20_000),
      wide,
      shared,
      { list: new Array(1e9) },
      { text: "x".repeat(1e6) },
      { bytes: Buffer.alloc(1e8) },
    ]) {
      const { stored, printed } = await logged(log => log.info(given, "text"))
      expect(stored[0]!.slice(0, 2)).toEqual([1, "text"])
      for (const text of [JSON.stringify(stored[0]![2]), JSON.stringify(printed[0]!.fields)]) {
        expect(text).toContain("[Truncated]")
        expect(Buffer.byteLength(text)).toBeLessThan(70_000)
      }
    }
  })

  it("a child with such fields, and no fields at all", async () => {
    const { stored, printed } = await logged(log => {
      log.child({ itself, id: 1n }).child({ a: 1 }).warn({ a: 2 }, "child")
      log.child(null as never).info(undefined as never)
      log.info(null as never)
      ;(log.info as () => void)()
      log.info(Symbol("s") as never)
    })
    expect(stored).toEqual([
      [2, "child", { itself: { n: 1, itself: "[Circular]" }, id: "1", a: 2 }],
      [1, ""],
      [1, ""],
      [1, ""],
      [1, "Symbol(s)"],
    ])
    expect(printed[0]!.fields).toMatchObject({ id: "1", a: 2 })
  })

  it("a process log that throws", async () => {
    const { lines, ...options } = logging()
    const log = { ...silentLog, info: refuses, child: refuses }
    const handler = defineHandler({ name: "says", run: (_, ctx) => ctx.log.info("text") })
    expect((await worker([handler], { ...options, log }).run(task("says"))).type).toBe("completed")
    expect((await lines()).map(([, , message]) => message)).toEqual(["text"])
  })
})

describe("the log is called as one of pino", () => {
  it("an error is the message and the field err, whose stack only the process log has", async () => {
    const err = {
      type: "Error",
      message: "request failed",
      code: "ECONNRESET",
      request: { error: "[Circular]", host: "x.test" },
    }
    const { stored, printed } = await logged(log => {
      log.error(circular())
      log.error(circular(), "call of %s", "x")
      log.error({ err: circular() })
      log.error({ err: circular(), n: 1 }, "text")
    })
    expect(stored).toEqual([
      [3, "request failed", { err }],
      [3, "call of x", { err }],
      [3, "request failed", { err }],
      [3, "text", { err, n: 1 }],
    ])
    expect(printed.map(({ message }) => message)).toEqual([
      "request failed",
      "call of x",
      "request failed",
      "text",
    ])
    for (const { fields } of printed)
      expect(fields.err).toMatchObject({ ...err, stack: expect.stringContaining("handler-log.test") })
  })

  it("causes and errors of an error are bounded", async () => {
    const deep = Array.from({ length: 50 }).reduce<Error>(
      (cause, _, n) => new Error(`e${n}`, { cause }),
      new Error("first"),
    )
    const ring = new Error("ring")
    ring.cause = ring
    const many = new AggregateError(
      Array.from({ length: 1000 }, (_, n) => new TypeError(`e${n}`)),
      "many",
    )
    const { stored, printed } = await logged(log => {
      for (const error of [deep, ring, many]) log.error(error)
    })
    const causes = [49, 48, 47, 46, 45, 44].map(n => ({ type: "Error", message: `e${n}` }))
    const chain = causes.reduceRight<unknown>((cause, error) => ({ ...error, cause }), "[Truncated]")
    const errors = Array.from({ length: 10 }, (_, n) => ({ type: "TypeError", message: `e${n}` }))
    expect(stored.map(([, , fields]) => fields)).toEqual([
      { err: chain },
      { err: { type: "Error", message: "ring", cause: "[Circular]" } },
      { err: { type: "AggregateError", message: "many", errors: [...errors, "[Truncated]"] } },
    ])
    for (const entry of printed) expect(JSON.stringify(entry).length).toBeLessThan(30_000)
  })

  it.each<[string, unknown[], string]>([
    ["%s %d %i %f", ["a", 1.5, 1.5, 1.5], "a 1.5 1 1.5"],
    ["%j %o %O", [{ a: 1 }, [1], { n: 10n }], '{"a":1} [1] {"n":"10"}'],
    ["%o %o", ["text", function named() {}], "'text' named"],
    ["100%% of %s", ["x"], "100% of x"],
    ["%s and %s", ["one"], "one and %s"],
    ["%s", ["one", "two", { a: 1 }], "one"],
    ["none", [{ a: 1 }], "none"],
    ["%d %o", [null, undefined], "%d %o"],
    ["%s %d %o", [proxy, proxy, itself], '[Throws] [Throws] {"n":1,"itself":"[Circular]"}'],
    ["%%", [], "%%"],
  ])("a text with values: %j", async (text, values, message) => {
    const { stored, printed } = await logged(log => {
      log.info(text, ...values)
      log.info({ n: 1 }, text, ...values)
    })
    expect(stored).toEqual([
      [1, message],
      [1, message, { n: 1 }],
    ])
    expect(printed.map(entry => entry.message)).toEqual([message, message])
  })

  it("also in a thread", async () => {
    const { lines, ...options } = logging()
    const { run, of, broker } = worker([complains], options)
    expect((await run(task("complains", { jobId: "j" }))).type).toBe("completed")
    const err = { type: "RangeError", message: "no answer", request: { error: "[Circular]" } }
    await expect.poll(() => of("log").length).toBe(3)
    const own = { job_id: "j", node_id: "node" }
    expect(of("log").map(({ data }) => data)).toMatchObject([
      {
        message: "no answer",
        fields: { ...own, err: { ...err, stack: expect.stringContaining("threads") } },
      },
      { message: "one of 2", fields: { ...own, odd: "10" } },
      { message: "too late", fields: { ...own, n: 1, after_end: true } },
    ])
    expect((await lines()).map(([, ...line]) => line)).toEqual([
      [3, "no answer", { err }],
      [1, "one of 2", { odd: "10" }],
    ])
    await broker.drain(1000)
  })
})

it("what is logged after the end of an attempt is only in the process log, with its job and node", async () => {
  const { lines, ...options } = logging()
  const later = gate()
  const ends = defineHandler({
    name: "ends",
    run: (_, ctx) => {
      ctx.log.info("in time")
      later.promise.then(() => ctx.log.info({ n: 1 }, "too late"))
      return null
    },
  })
  const { run, of } = worker([ends], options)
  await run(task("ends", { jobId: "j" }))
  later.open()
  await settled()
  expect((await lines()).map(([, , message]) => message)).toEqual(["in time"])
  expect(of("log").at(-1)!.data).toMatchObject({
    message: "too late",
    fields: { job_id: "j", node_id: "node", handler: "ends", n: 1, after_end: true },
  })
})

it("the stack of what a handler threw is in the process log, and is not stored", async () => {
  const { lines, ...options } = logging()
  const throws = defineHandler({
    name: "throws",
    run: () => {
      throw Object.assign(new TypeError("boom", { cause: new Error("inner") }), { code: "BOOM", token: "t" })
    },
  })
  const { run, of } = worker([throws], options)
  expect((await run(task("throws"))).type).toBe("failed")
  const err = { type: "TypeError", message: "boom", code: "BOOM", cause: { type: "Error", message: "inner" } }
  expect((await lines()).map(([, ...line]) => line)).toEqual([
    [0, "the handler threw", { code: "BOOM", err }],
  ])
  const { fields } = of("log")[0]!.data as { fields: { err: { stack: string; cause: { stack: string } } } }
  expect(fields).toMatchObject({ code: "BOOM", err })
  for (const { stack } of [fields.err, fields.err.cause]) expect(stack).toContain("handler-log.test")
})

describe("a line is cut at 64,000 bytes, and not before", () => {
  const bytesOf = ([level, message, fields]: readonly unknown[]) =>
    Buffer.byteLength(JSON.stringify([Date.now(), level, message, ...(fields === undefined ? [] : [fields])]))

  it.each(["x", "ä", "€", "😀", "\u0001", '"', "\ud800"])("a message of %j", async unit => {
    const size = Buffer.byteLength(JSON.stringify(unit)) - 2
    const fits = unit.repeat(Math.floor(63_900 / size))
    const { stored } = await logged(log => {
      log.info(fits)
      log.info(unit.repeat(Math.ceil(64_100 / size)))
      log.info({ n: 1 }, unit.repeat(100_000))
    })
    expect(stored[0]).toEqual([1, fits])
    for (const line of stored.slice(1)) {
      expect(bytesOf(line)).toBeLessThanOrEqual(64_000)
      expect(bytesOf(line)).toBeGreaterThan(64_000 - 12)
      expect(line[1]).toMatch(/ … \(cut: the line has \d+ bytes\)$/)
      expect((line[1] as string).startsWith(unit.repeat(10))).toBe(true)
    }
    expect(stored[2]![2]).toEqual({ n: 1 })
  })

  it.each(["x", "€", "\u0001"])("fields of %j", async unit => {
    const { stored } = await logged(log => {
      log.info({ n: 1, f: unit.repeat(64_100), z: 1 }, "text")
      log.info({ list: Array.from({ length: 40_000 }, () => unit) }, "text")
      log.info({ f: unit.repeat(64_100) }, unit.repeat(64_100))
    })
    for (const line of stored) {
      expect(bytesOf(line)).toBeLessThanOrEqual(64_000)
      expect(bytesOf(line)).toBeGreaterThan(62_000)
      expect(JSON.stringify(line[2])).toContain("[Truncated]")
    }
    expect(stored[0]).toMatchObject([1, "text", { n: 1 }])
    expect(stored[2]![1]).toMatch(/ … \(cut: the line has \d+ bytes\)$/)
  })
})

it("no part of a secret is left where a line is cut", async () => {
  const { lines, ...options } = logging()
  const secret = "tea-and-coffee-4711"
  const leaks = defineHandler({
    name: "leaks",
    run: (_, ctx) => {
      for (let at = 63_930; at < 64_010; at++) {
        ctx.log.info({ f: "x".repeat(at) + secret }, "%o", "y".repeat(at) + secret)
        ctx.log.info("%o", { f: "y".repeat(at) + secret })
      }
      ctx.log.error(Object.assign(new Error(secret), { [secret]: [secret] }))
      return null
    },
  })
  const { run, of } = worker([leaks], {
    ...options,
    secrets: () => secret,
    settings: { maxLogBytes: 2 ** 30 },
  })
  const late = [{ path: ["key"], source: "{{ secrets.KEY }}", names: {}, nodes: {} }]
  await run(task("leaks", { config: { key: null }, late }))
  expect(JSON.stringify([await lines(), of("log").map(({ data }) => data)])).not.toContain("tea-")
})
