import { afterEach, describe, expect, it } from "vitest"
import type { Json } from "../../src/core/json.ts"
import type { WorkflowSource } from "../../src/jobs/register.ts"
import { logTo } from "../../src/log.ts"
import type { Adapter } from "../../src/pipeline/adapter.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { openUmbra, type Umbra, type UmbraOptions } from "../../src/umbra.ts"
import { until } from "../engine/stage.ts"
import { adapter, numbers, recorder, route } from "./scene.ts"

let umbra: Umbra
afterEach(() => umbra.close())

async function run(adapters: readonly Adapter[], routes: readonly object[], options: UmbraOptions = {}) {
  umbra = await openUmbra("memory:", { ...options, adapters })
  const job = await umbra.submit({ name: "bounds", routes } as unknown as WorkflowSource, { count: 40 })
  const { status, error, output } = await umbra.wait(job.id, { timeoutMs: 60_000 })
  const letters = await umbra.pipelines.deadLetters(job.id)
  const codes = letters.dead_letters.map(letter => (letter.error as { code: string }).code)
  return { id: job.id, status, error, codes, routes: (output as { routes: Json } | null)?.routes }
}

const source = route("source", ["numbers"], { outbound: "work" })
const once = { error_handling: { retries: 0, circuit_breaker: false } }

describe("bounds of a route", () => {
  it("P4 concurrency: no more messages are in flight at once", async () => {
    let inHand = 0
    let most = 0
    const count = adapter("count", async () => {
      most = Math.max(most, ++inHand)
      await new Promise(resolve => setTimeout(resolve, 1))
      inHand -= 1
    })
    const options = { concurrency: 5, backpressure: { adaptive: false } }
    expect((await run([numbers, count], [source, route("work", ["count"], options)])).status).toBe(
      "COMPLETED",
    )
    expect(most).toBe(5)
  })

  it("P4 rate: messages are begun evenly", async () => {
    const clock = new VirtualClock()
    const times: number[] = []
    const note = adapter("note", () => void times.push(clock.now()))
    let isOver = false
    const over = run([numbers, note], [source, route("work", ["note"], { rate: 100 })], { clock }).finally(
      () => {
        isOver = true
      },
    )
    await until("it is over", () => {
      clock.advance(1)
      return isOver
    })
    await over
    expect(times.length).toBe(40)
    expect(times.at(-1)! - times[0]!).toBeGreaterThan(330)
    for (let i = 10; i < times.length; i++) expect(times[i]! - times[i - 10]!).toBeGreaterThan(60)
  })

  it("P4 a queue that is full makes routes that write to it wait", async () => {
    let written = 0
    let read = 0
    let most = 0
    const write = adapter("write", ({ body }) => {
      written += 1
      most = Math.max(most, written - read)
      return body
    })
    const slow = adapter("slow", async () => {
      await new Promise(resolve => setTimeout(resolve, 1))
      read += 1
    })
    const { status } = await run(
      [numbers, write, slow],
      [
        source,
        route("work", ["write"], { outbound: "slow", concurrency: 1, prefetch: 1 }),
        route("slow", ["slow"], { concurrency: 1, backpressure: { adaptive: false, max_queued: 5 } }),
      ],
      { pipeline: { maxUncommitted: 2 } },
    )
    expect(status).toBe("COMPLETED")
    expect(read).toBe(40)
    expect(most).toBeLessThan(12)
  })

  it("P4 a breaker opens, no try is spent while it is open, and it closes when the service is back", async () => {
    let calls = 0
    const down = adapter("down", ({ body }) => {
      calls += 1
      if (calls <= 6) throw new Error("away")
      return body
    })
    const store = recorder()
    const breaker = {
      failure_rate: 0.5,
      min_calls: 4,
      window_seconds: 10,
      open_seconds: 0.05,
      trial_calls: 2,
    }
    const { status, codes, routes } = await run(
      [numbers, down, store],
      [
        source,
        route("work", ["down", "record"], {
          concurrency: 1,
          error_handling: {
            retries: 3,
            backoff: { initial_seconds: 0, max_seconds: 0 },
            circuit_breaker: breaker,
          },
        }),
      ],
    )
    expect(status).toBe("COMPLETED")
    expect(codes).toEqual([])
    expect(store.seen.length).toBe(40)
    expect(routes, "every failure was a call that was made").toMatchObject({
      work: { done: 40, failed_tries: 6 },
    })
  })

  it("P4 a breaker that opened in the middle of a chain puts messages back", async () => {
    let calls = 0
    const first = adapter("first", async ({ body }) => {
      await new Promise(resolve => setTimeout(resolve, 2))
      return body
    })
    const down = adapter("down", ({ body }) => {
      if (++calls <= 4) throw new Error("away")
      return body
    })
    const { status, routes } = await run(
      [numbers, first, down],
      [
        source,
        route("work", ["first", "down"], {
          concurrency: 20,
          backpressure: { adaptive: false },
          error_handling: {
            retries: 1,
            backoff: { initial_seconds: 0, max_seconds: 0 },
            circuit_breaker: { failure_rate: 0.5, min_calls: 4, open_seconds: 0.05, trial_calls: 2 },
          },
        }),
      ],
    )
    expect(status).toBe("COMPLETED")
    expect(routes).toMatchObject({ work: { done: 40, failed: 0, failed_tries: 4, dead_lettered: 0 } })
  })
})

describe("what one message may emit", () => {
  it("a kind without a queue is refused, with the message kept", async () => {
    const odd = adapter("odd", (_, { emit }) => emit({}, { kind: "nowhere" }))
    const { status, codes } = await run([odd], [route("odd", ["odd"], once)])
    expect([status, codes]).toEqual(["COMPLETED", ["E703"]])
  })

  it("is bounded, in number and in size", async () => {
    const many = adapter("many", (_, { emit }) => {
      for (let n = 0; n < 11; n++) emit({ n })
    })
    const large = adapter("large", () => ({ text: "x".repeat(2000) }))
    const options = { pipeline: { maxEmitted: 10, maxMessageBytes: 1000 } }
    const [first, second] = [
      route("many", ["many"], { ...once, outbound: "large" }),
      route("large", ["large"], once),
    ]
    const { codes } = await run([many, large], [first, second], options)
    expect(codes).toEqual(["E705"])
    await umbra.close()
    const sized = [route("large", ["large"], { ...once, outbound: "many" }), route("many", ["many"], once)]
    expect((await run([many, large], sized, options)).codes).toEqual(["E405"])
  })

  it("after the adapter's end nothing is sent, and the log says so once", async () => {
    const warnings: string[] = []
    const log = logTo((level, _, message) => {
      if (level === "warn") warnings.push(message ?? "")
    })
    let late = () => {}
    const hasty = adapter("hasty", (_, { emit, continueWith }) => {
      late = () => {
        emit({ n: 1 })
        continueWith({ n: 2 })
      }
      return {}
    })
    const then = adapter("then", () => late())
    const routes = [route("hasty", ["hasty"], { ...once, outbound: "then" }), route("then", ["then"], once)]
    const { status } = await run([hasty, then], routes, { log })
    expect([status, warnings]).toEqual([
      "COMPLETED",
      [expect.stringContaining("context.emit was called after")],
    ])
  })

  it("what is no JSON fails the message, and says where", async () => {
    const odd = adapter("odd", (_, { emit }) => emit({ at: new Date() } as never))
    const { id, codes } = await run(
      [odd],
      [route("odd", ["odd"], { ...once, outbound: "sink" }), route("sink", ["odd"])],
    )
    expect(codes.length).toBe(1)
    const { dead_letters } = await umbra.pipelines.deadLetters(id)
    expect(JSON.stringify(dead_letters[0]!.error)).toContain("at")
  })

  it.each<[string, () => unknown]>([
    ["a Map", () => new Map([["a", 1]])],
    ["a Set", () => new Set([1, 2])],
    ["a Buffer", () => Buffer.from("two")],
  ])("%s is a value that is no JSON, and not a generator of messages", async (_, value) => {
    const odd = adapter("odd", () => value() as Json)
    const routes = [route("odd", ["odd"], { ...once, outbound: "sink" }), route("sink", ["odd"])]
    expect(await run([odd], routes)).toMatchObject({ codes: ["E404"], routes: { sink: { messages: 0 } } })
  })

  it("what is read once is a generator of messages, also without the word", async () => {
    const words = adapter("words", () => ["a", "b", "c"].values())
    const sink = recorder()
    await run([words, sink], [route("words", ["words"], { outbound: "sink" }), route("sink", ["record"])])
    expect(sink.seen).toEqual(["a", "b", "c"])
  })
})
