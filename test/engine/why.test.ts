/**
 * `why`: every reason is true. For each kind a driver brings a node to it, removes the cause, and the node leaves the
 * reason within a second of virtual time.
 */
import { describe, expect, it } from "vitest"
import { EngineMetrics } from "../../src/engine/metrics.ts"
import type { LiveJob } from "../../src/engine/owner/live-job.ts"
import { Plans } from "../../src/engine/plans.ts"
import { ReasonCheck } from "../../src/engine/reason-check.ts"
import { Queries } from "../../src/jobs/queries.ts"
import { type ReasonKind, reasonKinds } from "../../src/jobs/why/reasons.ts"
import { Why } from "../../src/jobs/why/why.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { defineProvider } from "../../src/provider/provider.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { deliver, fakeProvider, make, openWith, waiting } from "../provider/stage.ts"
import { collectLog, flow, gate, handler, open, openOn, soon, until } from "./stage.ts"
import { faultDrivers } from "./why-faults.ts"
import { driven, kindOf, leaves } from "./why-stage.ts"

const noop = handler("noop", () => "done")

/** Reasons that have no cause that a test could remove. */
const undriven: readonly ReasonKind[] = [
  // Only for past moments: what a ready task waited for is not recorded.
  "worker",
  // A defect of the engine: see below.
  "unexplained",
  // Reserved: no part of the engine gives them yet.
  "limit",
  "budget",
]

describe("a driver for each reason", () => {
  it("running, dependency, worker_busy", async () => {
    const clock = new VirtualClock()
    const work = gate()
    const umbra = await open({
      handlers: [work.handler, noop, handler("late", () => 1)],
      worker: { concurrency: 1 },
      clock,
    })
    const job = await umbra.submit(
      flow([
        { id: "a", handler: "gate" },
        { id: "b", handler: "noop" },
        { id: "c", handler: "noop", dependencies: ["a"] },
      ]),
    )
    await work.came()
    expect(await kindOf(umbra, job.id, "a")).toBe("running")
    const { chain, sentence } = await umbra.why(job.id, { node: "c" })
    expect(chain.map(({ node, kind }) => [node, kind])).toEqual([
      ["c", "dependency"],
      ["a", "running"],
    ])
    expect(sentence).toContain("waits for a")
    const stage = { umbra, clock }
    // One cause for all three.
    const release = () => work.open()
    await leaves(stage, { jobId: job.id, node: "a", kind: "running" }, () =>
      leaves(stage, { jobId: job.id, node: "c", kind: "dependency" }, () =>
        leaves(stage, { jobId: job.id, node: "b", kind: "worker_busy" }, release),
      ),
    )
    await until("all is done", async () => (await umbra.why(job.id)).reasons.length === 0)
    expect((await umbra.why(job.id)).sentence).toContain("COMPLETED")
  })

  it("no_worker, in a store whose workflow another process knows", async () => {
    const clock = new VirtualClock()
    const store = createMemoryStore()
    const other = await openOn(store, { handlers: [handler("rare", () => 1)] })
    await other.register(flow([{ id: "a", handler: "rare" }], { name: "rare" }))
    await other.close()
    const umbra = await openOn(store, { handlers: [noop] })
    const job = await umbra.submit("rare")
    // Without Redis a worker could not reach this store.
    await until("it waits", async () => (await umbra.why(job.id)).reasons[0]?.kind === "no_worker")
    expect((await umbra.why(job.id)).action).toContain("umbra serve --handlers FILE")
    await leaves({ umbra, clock }, { jobId: job.id, node: "a", kind: "no_worker" }, () =>
      umbra.addHandlers([handler("rare", () => 1)]),
    )
    expect((await job.wait()).status).toBe("COMPLETED")
  })

  it("timer, retry, signal, paused", async () => {
    const clock = new VirtualClock()
    let tries = 0
    const fails = handler("fails", () => {
      if (++tries === 1) throw new Error("not now")
      return "fine"
    })
    const umbra = await open({ handlers: [fails, noop], clock })
    const job = await umbra.submit(
      flow([
        { id: "slept", handler: "sleep", config: { seconds: 100 } },
        { id: "again", handler: "fails", retry: { ...soon, initial_seconds: 50, max_seconds: 50 } },
        { id: "asked", handler: "wait_for_signal", config: { signal: "go" } },
        { id: "end", handler: "noop", dependencies: ["asked"] },
      ]),
    )
    const of = (node: string, kind: ReasonKind) => ({ jobId: job.id, node, kind })
    const stage = { umbra, clock }
    await until("all wait", async () => (await umbra.graph(job.id)).waiting_for.length === 3)
    const all = await umbra.why(job.id)
    expect(all.reasons.map(({ kind }) => kind).sort()).toEqual(["dependency", "retry", "signal", "timer"])
    const retry = (await umbra.why(job.id, { node: "again" })).reasons[0]!
    expect(retry.sentence).toMatch(/attempt 2 of 3 at .*not now/)
    expect(retry.details).toMatchObject({ attempt: 2, max_attempts: 3, error: { code: "E401" } })
    await leaves(stage, of("again", "retry"), () => clock.advance(50_000))
    await leaves(stage, of("slept", "timer"), () => clock.advance(50_000))
    await job.pause({ by: "ada", reason: "lunch" })
    const both = await umbra.why(job.id)
    expect(both.reasons.map(({ kind, count }) => [kind, count])).toEqual([
      ["signal", 1],
      ["dependency", 1],
      ["paused", 0],
    ])
    expect(both.sentence).toMatch(
      /^Node asked waits for signal go\. The job has been paused since .* by ada: lunch\.$/,
    )
    expect(both.reasons[2]).toMatchObject({
      sentence: expect.stringMatching(/^The job has been paused since .* by ada: lunch\.$/),
      action: `umbra jobs resume ${job.id}`,
      details: { by: "ada", reason: "lunch" },
    })
    expect((await umbra.why(job.id, { node: "end" })).sentence).toContain(
      "Node end waits for asked. The cause: Node asked waits for signal go. The job has been paused",
    )
    expect((await umbra.waits()).groups.map(({ kind }) => kind)).toEqual(["signal"])
    await umbra.signal(job.id, "go")
    await leaves(stage, of("end", "paused"), () => umbra.resume(job.id))
    const other = await umbra.submit(
      flow([{ id: "asked", handler: "wait_for_signal", config: { signal: "go" } }], { name: "other" }),
    )
    const asked = { jobId: other.id, node: "asked", kind: "signal" } as const
    await until("it waits", async () => (await kindOf(umbra, other.id, "asked")) === "signal")
    expect((await other.why()).action).toContain(`umbra jobs signal ${other.id} go`)
    // The signal alone would not make a paused job go on.
    await other.pause({ by: "ada", reason: "lunch" })
    const alone = await other.why()
    expect(alone.reasons.map(({ kind }) => kind)).toEqual(["signal", "paused"])
    expect(alone.sentence).toMatch(
      /^Node asked waits for signal go\. The job has been paused since .* by ada: lunch\.$/,
    )
    expect(alone.action).toContain(`umbra jobs resume ${other.id}`)
    await umbra.resume(other.id)
    expect((await other.why()).sentence).toBe("Node asked waits for signal go.")
    await leaves(stage, asked, () => umbra.signal(other.id, "go"))
    // What was, from the facts alone.
    const past = await umbra.why(job.id, { at: { index: 1 } })
    expect(past.unknown.length).toBeGreaterThan(0)
    expect(past.reasons.some(({ kind }) => kind === "worker")).toBe(true)
  })

  it("start_time, by the clock and by another start time", async () => {
    const clock = new VirtualClock()
    const umbra = await open({ handlers: [noop], clock })
    const later = flow([
      { id: "a", handler: "noop" },
      { id: "b", handler: "noop", dependencies: ["a"] },
    ])
    const job = await umbra.submit(later, {}, { delaySeconds: 90 })
    const until = new Date(clock.now() + 90_000).toISOString()
    const why = await job.why()
    expect(why).toMatchObject({
      sentence: `Node a waits for the start time of the job, ${until}.`,
      action: expect.stringContaining(`umbra jobs reschedule ${job.id}`),
      reasons: [
        { kind: "start_time", nodes: ["a"], until, usual: null, details: { until } },
        { kind: "dependency", nodes: ["b"] },
      ],
    })
    const of = (jobId: string) => ({ jobId, node: "a", kind: "start_time" }) as const
    await leaves({ umbra, clock }, of(job.id), () => clock.advance(90_000))
    expect((await job.wait()).status).toBe("COMPLETED")
    const other = await umbra.submit(later, {}, { delaySeconds: 86_400 })
    await leaves({ umbra, clock }, of(other.id), () => umbra.reschedule(other.id, { delaySeconds: 0 }))
    expect((await other.wait()).status).toBe("COMPLETED")
  })

  it("child, with the reasons of the child; items", async () => {
    const clock = new VirtualClock()
    const umbra = await open({ handlers: [noop], clock })
    await umbra.register(
      flow([{ id: "ask", handler: "wait_for_signal", config: { signal: "go" } }], { name: "inner" }),
    )
    const job = await umbra.submit(
      flow(
        [
          { id: "run", handler: "workflow", config: { workflow: "inner" } },
          { id: "after", handler: "noop", dependencies: ["run"] },
          { id: "all", handler: "sleep", config: { seconds: "{{ item }}" }, for_each: "{{ [30, 40] }}" },
        ],
        { name: "outer" },
      ),
    )
    await until("the child waits", async () => (await umbra.why(job.id, { node: "run" })).chain.length === 2)
    const why = await umbra.why(job.id, { node: "run" })
    expect(why.chain.map(({ node, kind }) => [node, kind])).toEqual([
      ["run", "child"],
      ["ask", "signal"],
    ])
    const child = why.reasons[0]!.child!
    expect(why.action).toBe(child.action)
    const after = await umbra.why(job.id, { node: "after" })
    expect(after.chain.map(({ node }) => node)).toEqual(["after", "run", "ask"])
    expect(after.sentence).toMatch(
      /^Node after waits for run\. The cause: Node run waits for child .* Node ask waits for signal go\.$/,
    )
    expect(after.action).toBe(child.action)
    // The timers have nothing to do with the child.
    const whole = await umbra.why(job.id)
    const [first] = whole.reasons
    expect(whole.chain.map(({ node }) => node)).toEqual(first!.kind === "child" ? ["run", "ask"] : ["all"])
    await leaves({ umbra, clock }, { jobId: job.id, node: "run", kind: "child" }, () =>
      umbra.signal(child.job_id, "go"),
    )
    const items = { jobId: job.id, node: "all", kind: "items" } as const
    await leaves({ umbra, clock }, items, () => clock.advance(40_000))
  })

  it("slot and rate", async () => {
    const clock = new VirtualClock()
    const work = gate()
    const providers = [
      defineProvider({ name: "one", concurrency: 1, rate: null }),
      defineProvider({ name: "slow", concurrency: null, rate: 0.1 }),
    ]
    const umbra = await open({ handlers: [work.handler, noop], providers, clock })
    const job = await umbra.submit(
      flow([
        { id: "a", handler: "gate", provider: "one" },
        { id: "b", handler: "gate", provider: "one" },
      ]),
    )
    await work.came()
    const waiting = async () => {
      const { reasons } = await umbra.why(job.id)
      return reasons.find(({ kind }) => kind === "slot")
    }
    await until("one waits", async () => (await waiting()) !== undefined)
    const slot = (await waiting())!
    expect(slot.sentence).toContain(`slot one, 1 of 1 held, 1 by job ${job.id}`)
    expect(slot.details).toMatchObject({ provider: "one", held: 1, limit: 1, position: 1 })
    const of = { jobId: job.id, node: slot.nodes[0]!, kind: "slot" } as const
    await leaves({ umbra, clock }, of, () => work.open())
    const paced = await umbra.submit(
      flow(
        ["x", "y", "z"].map(id => ({ id, handler: "noop", provider: "slow" })),
        { name: "paced" },
      ),
    )
    await until("the others wait for the rate", async () => {
      const { reasons } = await umbra.why(paced.id)
      return reasons[0]?.kind === "rate" && reasons[0].count === 2
    })
    await until("the time of the next place is known", async () => {
      return (await umbra.why(paced.id)).reasons[0]!.until !== null
    })
    const { nodes, until: placeAt, sentence } = (await umbra.why(paced.id)).reasons[0]!
    const next = (1000 + 50) / 0.1
    expect(Date.parse(placeAt!) - clock.now()).toBe(next)
    expect(sentence).toContain(`the rate of provider slow, not before ${placeAt}`)
    const node = nodes[0]!
    await leaves({ umbra, clock }, { jobId: paced.id, node, kind: "rate" }, () => clock.advance(10_500))
  })

  it("provider", async () => {
    const clock = new VirtualClock()
    const fake = await fakeProvider()
    const umbra = await openWith(fake, { clock })
    const job = await umbra.submit(make())
    const id = await waiting(umbra, fake, job.id)
    const { sentence } = await umbra.why(job.id)
    expect(sentence).toContain(`operation ${id} at provider fake, no webhook yet`)
    fake.complete(id)
    await leaves({ umbra, clock }, { jobId: job.id, node: "film", kind: "provider" }, () =>
      deliver(umbra, fake, id),
    )
  })

  it("job_queue", async () => {
    const clock = new VirtualClock()
    const work = gate()
    const umbra = await open({ handlers: [work.handler, noop], worker: { concurrency: 1 }, clock })
    await umbra.submit(flow([{ id: "a", handler: "gate" }], { name: "held" }))
    await work.came()
    const results = await umbra.submitMany(
      flow([{ id: "a", handler: "noop" }], { name: "many" }),
      Array.from({ length: 1100 }, () => ({})),
    )
    const last = results.at(-1)!.job!
    expect((await umbra.why(last.id)).sentence).toMatch(/waits in the store for its turn, position \d+: jobs/)
    await leaves({ umbra, clock }, { jobId: last.id, node: "a", kind: "job_queue" }, () => work.open())
  })

  it.each(Object.entries(faultDrivers))("%s", (_kind, drive) => drive())

  it("and no reason is without a driver", () => {
    expect([...driven, ...undriven].sort()).toEqual([...reasonKinds].sort())
  })
})

describe("a job without a reason is a defect of the engine", () => {
  it("which is logged and counted when a caller asks why", async () => {
    const store = createMemoryStore()
    const umbra = await openOn(store, { handlers: [gate("other").handler] })
    const job = await umbra.submit(flow([{ id: "a", handler: "other" }]))
    const journal = openMemory(store)
    const plans = new Plans(journal)
    // An owner that has forgotten the job although a task of it is ready.
    const overlay = async () => ({ at: 0, nodes: [] })
    const now = () => Date.now()
    const queries = new Queries({
      journal,
      plans,
      largeOutputBytes: 1000,
      live: () => undefined,
      overlay,
      now,
    })
    const defects: unknown[] = []
    const why = new Why({ journal, plans, queries, now, defect: (...defect) => defects.push(defect) })
    const { reasons, sentence } = await why.why(job.id)
    expect(reasons[0]).toMatchObject({ kind: "unexplained", nodes: ["a"] })
    expect(sentence).toContain("defect")
    expect(defects).toEqual([[job.id, ["a"]]])
    // An owner that does not answer is another reason.
    const silent = new Queries({ journal, plans, largeOutputBytes: 1000, live: () => undefined, now })
    const away = await new Why({ journal, plans, queries: silent, now }).why(job.id)
    expect(away.reasons[0]).toMatchObject({ kind: "owner_away" })
  })

  it("and by the engine itself, for one job of each partition a minute", () => {
    const clock = new VirtualClock()
    const { log, lines } = collectLog()
    const metrics = new EngineMetrics()
    const job = (id: string, partition: number) => [id, { id, partition, evicted: false } as LiveJob] as const
    const jobs = new Map([job("j1", 1), job("j2", 1), job("j3", 2)])
    const asked: string[] = []
    const lost = ({ id }: LiveJob) => {
      asked.push(id)
      return id === "j3" ? ["a"] : []
    }
    const check = new ReasonCheck({ clock, log, metrics, jobs, lost })
    check.start()
    clock.advance(60_000)
    expect(asked).toEqual(["j1", "j3"])
    expect(metrics.jobsWithoutReason).toBe(0)
    clock.advance(1000)
    expect(metrics.jobsWithoutReason).toBe(1)
    expect(lines).toMatchObject([{ level: "error", fields: { job_id: "j3", nodes: ["a"] } }])
    check.stop()
    asked.length = 0
    clock.advance(600_000)
    expect(asked).toEqual([])
  })
})
