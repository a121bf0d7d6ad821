import { afterEach, describe, expect, it } from "vitest"
import type { Json } from "../../src/core/json.ts"
import type { WorkflowSource } from "../../src/jobs/register.ts"
import type { Adapter } from "../../src/pipeline/adapter.ts"
import { emission } from "../../src/pipeline/adapter.ts"
import { openUmbra, type Umbra, type UmbraOptions } from "../../src/umbra.ts"
import { adapter, numbers, recorder, route } from "./scene.ts"

let umbra: Umbra | undefined
afterEach(async () => {
  await umbra?.close()
  umbra = undefined
})

async function open(adapters: readonly Adapter[], options: UmbraOptions = {}): Promise<Umbra> {
  umbra = await openUmbra("memory:", { ...options, adapters })
  return umbra
}

async function run(pipeline: object, input: Json = null) {
  const job = await umbra!.submit(pipeline as WorkflowSource, input)
  const ended = await umbra!.wait(job.id, { timeoutMs: 60_000 })
  return { ...ended, jobId: job.id, totals: ended.output as { routes: { [name: string]: Json } } | null }
}

describe("an execution", () => {
  it("P2 P3 takes its messages through all routes and completes when they have drained", async () => {
    const store = recorder()
    const double = adapter("double", ({ body }) => ({ n: (body as { n: number }).n * 2 }))
    await open([numbers, double, store])
    const { status, totals } = await run({
      name: "two",
      init: { body: { count: 2500 } },
      routes: [
        route("source", ["numbers"], { outbound: "work" }),
        route("work", ["double", "double"], { outbound: "store" }),
        route("store", ["record"]),
      ],
    })
    expect(status).toBe("COMPLETED")
    expect(store.seen.map(each => (each as { n: number }).n).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 2500 }, (_, i) => (i + 1) * 4),
    )
    expect(totals!.routes.source).toEqual({
      ...{ messages: 3, done: 3, failed: 0, failed_tries: 0, dead_lettered: 0 },
    })
    expect(totals!.routes.store).toEqual({
      ...{ messages: 2500, done: 2500, failed: 0, failed_tries: 0, dead_lettered: 0 },
    })
  })

  it("stops when it is paused, also long after its start, and continues with the messages that are left", async () => {
    const store = recorder()
    let release = () => {}
    const held = new Promise<void>(resolve => (release = resolve))
    const gate = adapter("gate", async ({ body }) => {
      if ((body as { n: number }).n === 2) await held
      return body
    })
    await open([numbers, gate, store])
    const pipeline = {
      name: "paused",
      init: { body: { count: 5 } },
      routes: [
        route("source", ["numbers"], { outbound: "work" }),
        route("work", ["gate", "record"], { concurrency: 1 }),
      ],
    }
    const job = await umbra!.submit(pipeline as WorkflowSource, null)
    const types = async () => {
      const { facts } = await umbra!.queries.facts.page(job.id, { limit: 100 })
      return facts.map(({ type }) => type)
    }
    await expect.poll(types).toContain("node_started")
    await expect.poll(() => store.seen.length).toBe(1)
    await job.pause()
    release()
    expect((await job.why()).reasons.map(({ kind }) => kind)).toEqual(["paused"])
    await job.resume()
    expect(await umbra!.wait(job.id, { timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED" })
    expect(new Set(store.seen.map(body => (body as { n: number }).n))).toEqual(new Set([1, 2, 3, 4, 5]))
  })

  it("begins with its input if it has no init", async () => {
    const store = recorder()
    await open([store])
    await run({ name: "one", routes: [route("only", ["record"])] }, { a: 1 })
    expect(store.seen).toEqual([{ a: 1 }])
  })

  it("P3 ends the chain with nothing, emits by kind, and what a generator yields", async () => {
    const [odd, even] = [recorder("odd"), recorder("even")]
    const sort = adapter("sort", async function* ({ body }) {
      for (const n of (body as { list: number[] }).list)
        yield emission({ n }, { kind: n % 2 ? "odd" : "even" })
    })
    const never = recorder("never")
    await open([sort, odd, even, never])
    await run(
      {
        name: "kinds",
        routes: [
          route("sort", ["sort", "never"], { outbound: { odd: "odd", even: "even" } }),
          route("odd", ["odd"]),
          route("even", ["even"]),
        ],
      },
      { list: [1, 2, 3, 4, 5] },
    )
    expect(odd.seen).toEqual([{ n: 1 }, { n: 3 }, { n: 5 }])
    expect(even.seen).toEqual([{ n: 2 }, { n: 4 }])
    expect(never.seen).toEqual([])
  })

  it("P4 tries a message again with a pause, keeps what fails permanently, and replays it in a new execution", async () => {
    let isMended = false
    const tries = new Map<number, number>()
    const flaky = adapter("flaky", ({ body }) => {
      const { n } = body as { n: number }
      tries.set(n, (tries.get(n) ?? 0) + 1)
      if (n === 3 && !isMended) throw new Error("three is not liked")
      if (n === 2 && tries.get(2)! < 3) throw new Error("not yet")
      return body
    })
    const store = recorder()
    await open([numbers, flaky, store])
    const pipeline = {
      name: "flaky",
      init: { body: { count: 4 } },
      routes: [
        route("source", ["numbers"], { outbound: "work" }),
        route("work", ["flaky"], {
          outbound: "store",
          error_handling: {
            retries: 2,
            backoff: { initial_seconds: 0.01, max_seconds: 0.02 },
            circuit_breaker: false,
          },
        }),
        route("store", ["record"]),
      ],
    }
    const first = await run(pipeline)
    expect(first.status).toBe("COMPLETED")
    expect(first.totals!.routes.work).toEqual({
      ...{ messages: 4, done: 3, failed: 1, failed_tries: 5, dead_lettered: 1 },
    })
    expect(tries).toEqual(
      new Map([
        [1, 1],
        [2, 3],
        [3, 3],
        [4, 1],
      ]),
    )
    const { dead_letters } = await umbra!.pipelines.deadLetters(first.jobId)
    expect(dead_letters).toMatchObject([
      {
        id: "work:3",
        route: "work",
        attempts: 3,
        body: { n: 3 },
        replayed_by: null,
        error: { message: "three is not liked" },
      },
    ])
    isMended = true
    const replay = await umbra!.pipelines.replay(first.jobId)
    expect(replay.replayed).toBe(1)
    const second = await umbra!.wait(replay.jobId, { timeoutMs: 60_000 })
    expect(second.status).toBe("COMPLETED")
    expect(store.seen).toContainEqual({ n: 3 })
    expect((await umbra!.pipelines.deadLetters(first.jobId)).dead_letters[0]!.replayed_by).toBe(replay.jobId)
    await expect(umbra!.pipelines.replay(first.jobId)).rejects.toMatchObject({ code: "E708" })
    await expect(umbra!.pipelines.replay(first.jobId, { messages: ["work:3"] })).rejects.toThrow(
      "has none of these dead letters, or they have been replayed",
    )
  })

  it("fails where dead letters are not kept, and continues from there when it is retried", async () => {
    let isMended = false
    const store = recorder()
    const picky = adapter("picky", ({ body }) => {
      if (!isMended && (body as { n: number }).n === 5)
        throw Object.assign(new Error("five"), { retryable: false })
      return body
    })
    await open([numbers, picky, store])
    const { status, error, jobId } = await run({
      name: "picky",
      init: { body: { count: 10 } },
      routes: [
        route("source", ["numbers"], { outbound: "work" }),
        route("work", ["picky"], {
          outbound: "store",
          error_handling: { retries: 0, dead_letter: false, circuit_breaker: false },
        }),
        route("store", ["record"]),
      ],
    })
    expect(status).toBe("FAILED")
    expect(error?.message).toMatch(/^Message \w+:\d+ failed permanently: .*five/)
    const work = async () => (await umbra!.graph(jobId)).routes![1]
    expect(await work()).toMatchObject({ waiting: 0, failed: 1, failed_tries: 1, dead_lettered: 0 })
    isMended = true
    await umbra!.retry(jobId)
    expect((await umbra!.wait(jobId, { timeoutMs: 60_000 })).status).toBe("COMPLETED")
    expect(store.seen.length).toBe(10)
    expect(new Set(store.seen.map(each => JSON.stringify(each))).size).toBe(10)
    expect(await work()).toMatchObject({ waiting: 0, done: 10, failed: 0, failed_tries: 1 })
  })

  it("P5 every output can be traced to its inputs, and back", async () => {
    await open([
      numbers,
      recorder(),
      adapter("fan", ({ body }, { emit }) => {
        emit({ of: body })
        emit({ of: body })
      }),
    ])
    const { jobId } = await run({
      name: "lineage",
      init: { body: { count: 3 } },
      routes: [
        route("source", ["numbers"], { outbound: "fan" }),
        route("fan", ["record", "fan"], { outbound: "store" }),
        route("store", ["record"]),
      ],
    })
    const output = await umbra!.pipelines.lineage(jobId, "store:6")
    expect(output.inputs.map(({ id }) => id)).toEqual(["fan:3", "source:1"])
    expect(output.message).toMatchObject({
      status: "completed",
      parent: "fan:3",
      correlation_id: `${jobId}/1`,
    })
    const input = await umbra!.pipelines.lineage(jobId, "source:1")
    expect(input.outputs.map(({ id }) => id)).toEqual([
      ...["fan:1", "fan:2", "fan:3"],
      ...["store:1", "store:2", "store:3", "store:4", "store:5", "store:6"],
    ])
    expect(input.outputs[0]!.invocations.map(({ adapter, emitted }) => [adapter, emitted])).toEqual([
      ["record", 0],
      ["fan", 2],
    ])
    await expect(umbra!.pipelines.lineage(jobId, "store:99")).rejects.toMatchObject({ code: "E706" })
    await expect(umbra!.pipelines.lineage(jobId, "nothing")).rejects.toThrow("write ROUTE:NUMBER")
    await expect(umbra!.pipelines.lineage(jobId, "nothing:1")).rejects.toMatchObject({
      code: "E706",
      message: expect.stringContaining('The pipeline has no route "nothing". It has '),
    })
  })

  it("gathers messages by count and time, and acknowledges them together", async () => {
    const store = recorder()
    const gather = adapter(
      "gather",
      ({ body }) => body,
      () => ({ count: 4, seconds: 0.5 }),
    )
    await open([numbers, gather, store])
    const { status, totals, jobId } = await run({
      name: "gather",
      init: { body: { count: 10 } },
      routes: [
        route("source", ["numbers"], { outbound: "gather" }),
        route("gather", ["gather"], { outbound: "store" }),
        route("store", ["record"]),
      ],
    })
    expect(status).toBe("COMPLETED")
    expect(store.seen.map(list => (list as Json[]).length)).toEqual([4, 4, 2])
    expect(totals!.routes.gather).toMatchObject({ done: 10 })
    const { inputs } = await umbra!.pipelines.lineage(jobId, "store:2")
    expect(inputs.map(({ id }) => id).slice(0, 4)).toEqual(["gather:5", "gather:6", "gather:7", "gather:8"])
    const { outputs } = await umbra!.pipelines.lineage(jobId, "gather:6")
    expect(outputs.map(({ id }) => id)).toEqual(["gather:5", "store:2"])
  })

  it("keeps what goes round too often as a dead letter, and loses nothing else", async () => {
    const store = recorder()
    await open([store])
    const { status, jobId } = await run(
      { name: "round", max_hops: 5, routes: [route("round", ["record"], { outbound: "round" })] },
      { a: 1 },
    )
    expect(status).toBe("COMPLETED")
    expect(store.seen.length).toBe(6)
    expect((await umbra!.pipelines.deadLetters(jobId)).dead_letters).toMatchObject([
      {
        ...{ id: "round:7", attempts: 0 },
        error: { code: "E704", message: expect.stringContaining("has passed 5 routes") },
      },
    ])
    const { message, outputs } = await umbra!.pipelines.lineage(jobId, "round:6")
    expect([message!, ...outputs].map(({ id, status }) => `${id} ${status}`)).toEqual([
      "round:6 completed",
      "round:7 failed",
    ])
  })

  it("keeps values for its messages: what is claimed is claimed once, what fails gives it back", async () => {
    let fails = 2
    const seen: string[] = []
    const once = adapter("once", async ({ body }, { storage }) => {
      const { url } = body as { url: string }
      if (!(await storage.claim(url))) return undefined
      if (url === "b" && fails-- > 0) throw new Error("try again")
      storage.put("last", url)
      seen.push(url)
      return body
    })
    const each = adapter("each", ({ body }, { emit }) => {
      for (const url of body as string[]) emit({ url })
    })
    await open([once, each])
    const { status } = await run(
      {
        name: "claims",
        routes: [
          route("each", ["each"], { outbound: "once" }),
          route("once", ["once"], {
            concurrency: 4,
            error_handling: { retries: 5, backoff: { initial_seconds: 0.01, max_seconds: 0.01 } },
          }),
        ],
      },
      ["a", "b", "a", "c", "b", "a"],
    )
    expect(status).toBe("COMPLETED")
    expect(seen.sort()).toEqual(["a", "b", "c"])
  })

  it("renders the config of adapters with the message, and checks it", async () => {
    const seen: unknown[] = []
    await open([adapter("see", (_, { config }) => void seen.push(config))])
    await run(
      {
        name: "config",
        routes: [route("see", [{ type: "see", config: { who: "{{ message.name }} {{ input.greeting }}" } }])],
      },
      { name: "Ada", greeting: "hello" },
    )
    expect(seen).toEqual([{ who: "Ada hello" }])
  })

  it("is cancelled at once, and what is in flight is notified", async () => {
    let begun!: () => void
    const isBegun = new Promise<void>(resolve => (begun = resolve))
    const aborted: unknown[] = []
    const slow = adapter("slow", (_, { signal }) => {
      begun()
      return new Promise((_resolve, reject) =>
        signal.addEventListener("abort", () => {
          aborted.push(signal.reason)
          reject(signal.reason)
        }),
      )
    })
    await open([slow])
    const job = await umbra!.submit({
      name: "slow",
      routes: [route("slow", ["slow"])],
    } as unknown as WorkflowSource)
    await isBegun
    await umbra!.cancel(job.id)
    expect((await umbra!.wait(job.id)).status).toBe("CANCELLED")
    expect(aborted.length).toBe(1)
  })

  it("P1 is refused when too many are under way, and may begin when one has ended", async () => {
    let release!: () => void
    const isReleased = new Promise<void>(resolve => (release = resolve))
    await open([adapter("wait", () => isReleased)], { pipeline: { maxExecutions: 2 } })
    const pipeline = { name: "wait", routes: [route("wait", ["wait"])] } as unknown as WorkflowSource
    const jobs = [await umbra!.submit(pipeline), await umbra!.submit(pipeline)]
    await expect(umbra!.submit(pipeline)).rejects.toMatchObject({
      code: "E702",
      name: "TooManyConcurrentExecutionsError",
    })
    release()
    for (const { id } of jobs) expect((await umbra!.wait(id, { timeoutMs: 60_000 })).status).toBe("COMPLETED")
    await umbra!.submit(pipeline)
  })

  it("shows its routes in the graph", async () => {
    await open([numbers, recorder()])
    const { jobId } = await run({
      name: "shown",
      init: { body: { count: 3 } },
      routes: [route("source", ["numbers"], { outbound: "store" }), route("store", ["record"])],
    })
    const { routes } = await umbra!.graph(jobId)
    expect(routes).toMatchObject([
      { name: "source", outbound: { default: "store" }, done: 1, queued: 0, in_flight: 0 },
      { name: "store", done: 3, failed: 0, failed_tries: 0, dead_lettered: 0, waiting: 0, concurrency: null },
    ])
  })

  it("P7 never sees a message of another", async () => {
    const store = recorder()
    await open([
      numbers,
      adapter("stamp", ({ body }, { jobId }) => ({ ...(body as object), jobId }) as Json),
      store,
      adapter("check", ({ body }, { jobId }) => {
        if ((body as { jobId: string }).jobId !== jobId) throw new Error("a stranger")
        return body
      }),
    ])
    const pipeline = {
      name: "apart",
      init: { body: { count: "{{ input.count }}" } },
      routes: [
        route("source", ["numbers"], { outbound: "stamp" }),
        route("stamp", ["stamp"], { outbound: "check" }),
        route("check", ["check", "record"], { error_handling: { retries: 0, dead_letter: false } }),
      ],
    }
    const all = await Promise.all([100, 200, 300].map(count => run(pipeline, { count })))
    for (const { status } of all) expect(status).toBe("COMPLETED")
    const counts = all.map(
      ({ jobId }) => store.seen.filter(each => (each as { jobId: string }).jobId === jobId).length,
    )
    expect(counts).toEqual([100, 200, 300])
  })
})
