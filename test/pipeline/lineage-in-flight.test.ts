/** P5: lineage of messages in flight, and across replays of dead letters. */
import { describe, expect, it } from "vitest"
import type { WorkflowSource } from "../../src/jobs/register.ts"
import { createMemoryStore } from "../../src/journal/sqlite/memory.ts"
import type { Delivery, Ending } from "../../src/pipeline/commit/delivery.ts"
import { RemoteChain } from "../../src/pipeline/execution/remote-chain.ts"
import type { MessageView } from "../../src/pipeline/lineage.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import type { Umbra } from "../../src/umbra.ts"
import { openOn, until } from "../engine/stage.ts"
import { adapter, numbers, recorder, route } from "./scene.ts"

describe("lineage of a message in flight", () => {
  it("shows the calls that have ended and the one that runs, in every process", async () => {
    const store = createMemoryStore()
    const inside: (() => void)[] = []
    let tries = 0
    const first = adapter("first", ({ body }) => body)
    const slow = adapter("slow", ({ body }, { emit }) => {
      tries += 1
      if (tries === 1) throw new Error("not yet")
      emit({ extra: true })
      return new Promise(resolve => inside.push(() => resolve(body)))
    })
    const options = { adapters: [first, slow, recorder()], pipeline: { metricsSeconds: 0.01 } }
    const umbra = await openOn(store, options)
    const other = await openOn(store, { ...options, roles: ["api"] })
    const handling = { backoff: { initial_seconds: 0.01 }, circuit_breaker: false }
    const definition = {
      name: "slow",
      routes: [
        route("work", ["first", "slow"], { outbound: "store", error_handling: handling }),
        route("store", ["record"]),
      ],
    } as WorkflowSource
    const job = await umbra.submit(definition)
    await until("the second try runs", () => inside.length === 1)
    for (const process of [umbra, other]) {
      let shown!: MessageView
      // Another process shows what is stored if the owner does not answer in time.
      await until("the owner answers", async () => {
        shown = (await process.pipelines.lineage(job.id, "work:1")).message!
        return shown.status === "running"
      })
      expect(shown).toMatchObject({
        job_id: job.id,
        invocations: [
          { adapter: "first", attempt: 1, status: "completed" },
          { adapter: "slow", attempt: 1, status: "failed" },
          { adapter: "first", attempt: 2, status: "completed", emitted: 0 },
          { adapter: "slow", attempt: 2, status: "running", emitted: 1, error: null },
        ],
      })
      const running = shown.invocations.at(-1)!
      expect(running.duration_ms).toBeGreaterThan(0)
      expect(Math.abs(running.at + running.duration_ms - Date.now())).toBeLessThan(60_000)
    }
    // A message in its second try is in flight in the route's counts too, and not waiting any more.
    await expect
      .poll(async () => (await umbra.graph(job.id)).routes![0])
      .toMatchObject({ queued: 0, in_flight: 1, waiting: 0, done: 0, failed: 0, failed_tries: 1 })
    inside[0]!()
    await job.wait()
    for (const process of [umbra, other]) {
      const { message: ended, outputs } = await process.pipelines.lineage(job.id, "work:1")
      expect(ended!.status).toBe("completed")
      expect(ended!.invocations.map(({ status }) => status)).toEqual([
        "completed",
        "failed",
        "completed",
        "completed",
      ])
      expect(outputs).toHaveLength(2)
    }
  })

  it("a message that waits to be gathered is at the adapter that gathers", async () => {
    const gatherer = adapter(
      "gatherer",
      ({ body }) => body,
      () => ({ count: 2, seconds: 600 }),
    )
    const umbra = await openOn(createMemoryStore(), { adapters: [gatherer] })
    const definition = { name: "gathers", routes: [route("only", ["gatherer"])] } as WorkflowSource
    const job = await umbra.submit(definition)
    await until("it waits", async () => {
      const { routes } = await umbra.graph(job.id)
      return routes?.[0]?.in_flight === 1 || (await live(umbra, job.id)) === "running"
    })
    expect((await umbra.pipelines.lineage(job.id, "only:1")).message).toMatchObject({
      status: "running",
      invocations: [{ adapter: "gatherer", status: "running" }],
    })
    await umbra.cancel(job.id)
  })

  it("has nothing to show before the execution begins, and says so without an error", async () => {
    const umbra = await openOn(createMemoryStore(), { adapters: [recorder()], runsPipelines: false })
    const job = await umbra.submit({ name: "later", routes: [route("only", ["record"])] } as WorkflowSource)
    const nothing = { message: null, inputs: [], outputs: [], is_cut: false }
    expect(await umbra.pipelines.lineage(job.id, "only:1")).toEqual(nothing)
    expect(await umbra.pipelines.deadLetters(job.id)).toEqual({ dead_letters: [], next: null })
    await expect(umbra.pipelines.replay(job.id)).rejects.toMatchObject({ code: "E708" })
    await expect(umbra.pipelines.lineage(job.id, "other:1")).rejects.toMatchObject({ code: "E706" })
    await umbra.cancel(job.id)
    await expect(umbra.pipelines.lineage(job.id, "only:1")).rejects.toMatchObject({ code: "E706" })
  })

  it("`at` of a call is when it began, whether it runs, has ended or was gathered", async () => {
    // This clock stands still: what has taken a while began before its time.
    const clock = new VirtualClock()
    const inside: (() => void)[] = []
    const slow = adapter("slow", ({ body }) => new Promise(resolve => inside.push(() => resolve(body))))
    const gatherer = adapter(
      "gatherer",
      ({ body }) => new Promise(resolve => setTimeout(resolve, 20, body)),
      () => ({ count: 2, seconds: 600 }),
    )
    const umbra = await openOn(createMemoryStore(), { adapters: [slow, gatherer], clock })
    const job = await umbra.submit({
      name: "times",
      init: [{ body: 1 }, { body: 2 }],
      routes: [route("work", ["slow"], { outbound: "gather" }), route("gather", ["gatherer"])],
    } as WorkflowSource)
    await until("both run", () => inside.length === 2)
    const callOf = async (message: string) =>
      (await umbra.pipelines.lineage(job.id, message)).message!.invocations.at(-1)!
    const mustHaveBegun = ({ at, duration_ms }: { at: number; duration_ms: number }) =>
      expect(Math.abs(at + duration_ms - clock.now())).toBeLessThanOrEqual(1)
    await until("the first has run for a while", async () => (await callOf("work:1")).duration_ms >= 20)
    mustHaveBegun(await callOf("work:1"))
    for (const answer of inside) answer()
    await job.wait()
    const ended = await callOf("work:1")
    expect(ended.duration_ms).toBeGreaterThanOrEqual(20)
    mustHaveBegun(ended)
    const [first, member] = [await callOf("gather:1"), await callOf("gather:2")]
    mustHaveBegun(first)
    expect(member).toMatchObject({ at: first.at, duration_ms: 0, into: "gather:1" })
  })

  it("times of calls in a worker are given by the clock of the execution's owner", async () => {
    const invocations = [1_000, 1_500].map((at, adapter) => ({
      ...{ adapter, at, durationUs: 100_000, status: "completed", into: null, error: null },
    }))
    const answer = { type: "completed", output: { invocations, result: { emitted: [], stored: [] } } }
    const endings: Ending[] = []
    const scene = {
      ...{ now: () => 9_000, formatKey: () => "only:1", jobId: "j", pipeline: "p" },
      input: null,
    }
    const chain = new RemoteChain(
      {
        ...{ position: 0, queue: "adapters", owner: "local", job: {}, lossLimit: 3 },
        plan: { name: "only", adapters: [], outbound: new Map(), rules: 1, breaker: null } as never,
        context: { ...scene, signal: new AbortController().signal } as never,
        workers: () => ({ call: async () => answer }) as never,
      },
      { ended: (_: unknown, ending: Ending) => endings.push(ending) } as never,
    )
    chain.deliver({ ...{ route: 0, seq: 1, attempts: 0 }, parent: null } as Delivery)
    await until("the worker has answered", () => endings.length === 1)
    expect(endings[0]!.invocations.map(({ at }) => at)).toEqual([8_500, 9_000])
  })
})

async function live(umbra: Umbra, jobId: string): Promise<string> {
  return (await umbra.pipelines.lineage(jobId, "only:1")).message?.status ?? "not there"
}

describe("lineage across a replay", () => {
  const picky = (refuses: (n: number) => boolean) =>
    adapter("picky", ({ body }) => {
      const { n } = body as { n: number }
      if (refuses(n)) throw Object.assign(new Error(`not ${n}`), { retryable: false })
      return body
    })
  const definition = {
    name: "picky",
    init: { body: { count: 6 } },
    routes: [
      route("source", ["numbers"], { outbound: "work" }),
      route("work", ["picky"], { outbound: "store", error_handling: { circuit_breaker: false } }),
      route("store", ["record"]),
    ],
  } as WorkflowSource
  const names = (list: readonly { job_id: string; id: string }[]) =>
    list.map(({ job_id, id }) => `${job_id} ${id}`)

  it("a replayed message and its dead letter name each other, and walks continue in both directions", async () => {
    let refuses = (n: number) => n % 2 === 0
    const umbra = await openOn(createMemoryStore(), {
      adapters: [numbers, picky(n => refuses(n)), recorder()],
    })
    const first = (await (await umbra.submit(definition)).wait()).job_id
    // 2, 4 and 6 are dead letters; of 4 and 6, 6 fails once more.
    refuses = n => n === 6
    const { jobId: second } = await umbra.pipelines.replay(first, { messages: ["work:4", "work:6"] })
    await umbra.wait(second)
    refuses = () => false
    const { jobId: third } = await umbra.pipelines.replay(second)
    await umbra.wait(third)

    const letter = await umbra.pipelines.lineage(first, "work:6")
    expect(letter.message).toMatchObject({
      job_id: first,
      status: "failed",
      replay_of: null,
      replayed_by: { job_id: second, message: "work:2" },
    })
    expect(names(letter.inputs)).toEqual([`${first} source:1`])
    expect(names(letter.outputs)).toEqual([`${second} work:2`, `${third} work:1`, `${third} store:1`])

    const last = await umbra.pipelines.lineage(third, "store:1")
    expect(last.message!.body).toEqual({ n: 6 })
    expect(names(last.inputs)).toEqual([
      `${third} work:1`,
      `${second} work:2`,
      `${first} work:6`,
      `${first} source:1`,
    ])
    expect(last.inputs.map(({ replay_of }) => replay_of)).toEqual([
      { job_id: second, message: "work:2" },
      { job_id: first, message: "work:6" },
      null,
      null,
    ])
    expect((await umbra.pipelines.lineage(second, "work:1")).message).toMatchObject({
      body: { n: 4 },
      replay_of: { job_id: first, message: "work:4" },
      replayed_by: null,
    })
    // From the very beginning to all that came of it, in three jobs.
    const all = await umbra.pipelines.lineage(first, "source:1")
    expect(names(all.outputs)).toEqual(expect.arrayContaining([`${second} store:1`, `${third} store:1`]))
    expect((await umbra.pipelines.lineage(first, "work:2")).message!.replayed_by).toBeNull()
  })

  it("a job whose dead letters are gone, and one that never began, end the walk without an error", async () => {
    const umbra = await openOn(createMemoryStore(), {
      adapters: [numbers, picky(n => n === 1), recorder()],
    })
    const first = (await (await umbra.submit(definition)).wait()).job_id
    const { jobId } = await umbra.pipelines.replay(first)
    await umbra.wait(jobId)
    await umbra.delete(first)
    expect((await umbra.pipelines.lineage(jobId, "work:1")).message!.id).toBe("work:1")
  })
})
