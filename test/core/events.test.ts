import { describe, expect, it } from "vitest"
import { fold } from "../../src/core/apply/apply.ts"
import { LargeOutput } from "../../src/core/state.ts"
import { expand, expandJobFacts } from "../../src/core/view/events.ts"
import { chain, graphOf } from "./graphs.ts"
import { final, Job, passing, usualPolls } from "./job.ts"
import { scenarios } from "./scenarios.ts"

const eventsFor = (job: Job) => [
  ...expandJobFacts(
    "job-1",
    graphOf(job.specs),
    job.facts.map((fact, index) => ({ seq: 100 + index, fact })),
  ),
]

/** `type node#attempt source`, of an item `type node[item]#attempt source` */
const eventTypes = (job: Job, since = 0) =>
  eventsFor(job)
    .filter(({ seq }) => seq >= 100 + since)
    .map(({ type, node, item, attempt, source }) => {
      const which = item === undefined ? node : `${node}[${item}]`
      return [type, ...(node === undefined ? [] : [`${which}#${attempt}`]), source].join(" ")
    })

describe("J18 every transition can be read as an event", () => {
  it("a chain of two, derived and implied ones included", () => {
    const job = new Job(chain("a", "b"))
    job.complete("a")
    job.complete("b")
    expect(eventTypes(job)).toEqual([
      "job.pending command",
      "job.queued command",
      "job.dispatching command",
      "node.queued a#1 engine",
      "job.processing engine",
      "node.running a#1 worker",
      "node.completed a#1 worker",
      "node.queued b#1 engine",
      "node.running b#1 worker",
      "node.completed b#1 worker",
      "job.completed engine",
    ])
  })

  it("each has type, source, payload, correlation id, idempotency key, time, seq", () => {
    for (const play of Object.values(scenarios)) {
      const job = play()
      const events = eventsFor(job)
      for (const event of events) {
        expect(event.type).toMatch(
          /^(job|node|item)\.[a-z]+$|^attempt\.lost$|^signal\.received$|^slot\.|^operation\.polled$/,
        )
        expect(["command", "worker", "timer", "signal", "provider", "engine"]).toContain(event.source)
        expect(event.correlation_id).toBe("job-1")
        expect(event.idempotency_key).toMatch(/^job-1:\d+:\d+$/)
        const { at } = job.facts[event.seq - 100]!
        if (event.type.endsWith(".running")) expect(event.at).toBeLessThanOrEqual(at)
        else expect(event.at).toBe(at)
        expect(JSON.parse(JSON.stringify(event.payload))).toEqual(event.payload)
        if (event.type.startsWith("node.") || event.type === "attempt.lost")
          expect(event).toMatchObject({ node: expect.any(String), attempt: expect.any(Number) })
      }
      expect(new Set(events.map(event => event.idempotency_key)).size).toBe(events.length)
      expect(eventsFor(job)).toEqual(events)
    }
  })

  it("continues from a folded state with the same events", () => {
    const job = scenarios["failed-then-partially-retried"]!()
    const graph = graphOf(job.specs)
    const half = job.facts.length >> 1
    const state = fold(graph, job.facts.slice(0, half))
    const rest = job.facts
      .slice(half)
      .flatMap((fact, i) => expand(state, "job-1", { seq: 100 + half + i, fact }))
    expect(rest).toEqual(eventsFor(job).filter(({ seq }) => seq >= 100 + half))
  })

  it("a retry has the attempt that failed and the one that follows, and when", () => {
    const job = new Job(chain("a"))
    job.fail("a")
    expect(eventTypes(job, 1)).toEqual(["node.running a#1 worker", "node.queued a#2 worker"])
    expect(eventsFor(job).at(-1)?.payload).toEqual({
      reason: "retry",
      fault: passing,
      retry_at: job.now + 15_000,
    })
  })

  it("a failure is followed by the nodes that it cancelled, then by the job's end", () => {
    const job = new Job([...chain("a", "b"), { id: "beside", dependencies: [] }])
    job.start("a")
    job.fail("a", final)
    expect(eventTypes(job, 2)).toEqual([
      "node.failed a#1 worker",
      "node.failed b#1 engine",
      "node.cancelled beside#1 engine",
      "job.failed engine",
    ])
    const [, b, beside, end] = eventsFor(job).slice(-4)
    expect(b?.payload).toEqual({ fault: final, cause: "a" })
    expect(beside?.payload).toEqual({ reason: "job_failed", message: 'Node "a" failed: never' })
    expect(end?.payload).toEqual({ fault: final, node: "a" })
  })

  it("a cause precedes what follows from it, also among items", () => {
    const specs = ["list", "beside"].map(id => ({ id, dependencies: [] }))
    const times = { worker: "w", heldMs: 0, ranMs: 0 }
    const expanded = () => {
      const job = new Job(specs)
      job.send({ type: "expand", node: 0, attempt: 1, items: [1, 2] })
      return job
    }
    const ofNode = expanded()
    const failed = { type: "failed", attempt: 1, fault: final, times } as const
    ofNode.send({ ...failed, node: 1 })
    expect(eventTypes(ofNode, 2)).toEqual([
      "node.running beside#1 worker",
      "node.failed beside#1 worker",
      "item.cancelled list[0]#1 engine",
      "item.cancelled list[1]#1 engine",
      "node.cancelled list#1 engine",
      "job.failed engine",
    ])
    const ofItem = expanded()
    ofItem.send({ ...failed, node: 0, item: 1 })
    expect(eventTypes(ofItem, 2)).toEqual([
      "item.running list[1]#1 worker",
      "item.failed list[1]#1 worker",
      "node.failed list#1 worker",
      "item.cancelled list[0]#1 engine",
      "node.cancelled beside#1 engine",
      "job.failed engine",
    ])
    ofItem.send({ type: "retry" })
    expect(eventTypes(ofItem, 3)).toEqual([
      "job.queued command",
      "job.dispatching command",
      "node.queued list#1 worker",
      "node.running list#1 worker",
      "node.waiting list#1 engine",
      "node.queued beside#1 engine",
      "item.queued list[0]#1 engine",
      "item.queued list[1]#2 engine",
      "job.processing engine",
    ])
  })

  it("a lost attempt whose start was not recorded is no event, one that ran is", () => {
    const job = new Job(["ran", "queued"].map(id => ({ id, dependencies: [] })))
    job.start("ran")
    job.send({ type: "recover" })
    expect(eventTypes(job, 2)).toEqual(["attempt.lost ran#1 engine", "node.queued ran#2 engine"])
  })

  it("X4 has the end of an operation that was no longer needed", () => {
    const job = new Job(chain("a"))
    job.submitted("a", "op-1")
    job.news("a", "op-1", { type: "error", fault: passing }, { poll: { ...usualPolls, maxErrors: 0 } })
    const before = job.facts.length
    job.news("a", "op-1", { type: "completed", output: "film" }, { source: "webhook" })
    expect(eventTypes(job, before)).toEqual([
      "node.running a#2 provider",
      "node.completed a#2 provider",
      "job.completed engine",
    ])
  })

  it("names what resumed a waiting node: its timer, a signal, an early signal", () => {
    const job = new Job(["nap", "late", "early"].map(id => ({ id, dependencies: [] })))
    job.send({ type: "signal", name: "b", data: 1 })
    job.sleep("nap", 5)
    job.awaitSignal("late", "a")
    job.awaitSignal("early", "b")
    job.send({ type: "signal", name: "a", data: 2 })
    job.pass(5)
    const completions = eventTypes(job).filter(text => text.startsWith("node.completed"))
    expect(completions).toEqual([
      "node.completed early#1 signal",
      "node.completed late#1 signal",
      "node.completed nap#1 timer",
    ])
  })

  it("a second preview goes through PROCESSING", () => {
    const job = new Job(chain("a"))
    job.preview("a", 1)
    job.preview("a", 2)
    expect(eventTypes(job, 2)).toEqual(["job.processing engine", "job.preview worker"])
    expect(eventsFor(job).at(-1)?.payload).toEqual({ node: "a", data: 2 })
  })

  it("an explicit retry queues what can run and puts the rest back", () => {
    const job = new Job(chain("a", "b"))
    job.send({ type: "cancel", reason: "why" })
    job.send({ type: "retry" })
    job.send({ type: "cancel" })
    job.send({ type: "delete" })
    expect(eventTypes(job, 2).slice(0, 4)).toEqual([
      "job.queued command",
      "job.dispatching command",
      "node.queued a#1 engine",
      "node.pending b#1 engine",
    ])
    expect(eventTypes(job).at(-1)).toBe("job.deleted command")
  })

  it("an output that is not in memory shows by its size", () => {
    const job = new Job(chain("a"))
    job.complete("a", new LargeOutput(7, 300_000) as never)
    const completed = eventsFor(job).find(({ type }) => type === "node.completed")
    expect(completed?.payload).toEqual({ output: { $large: { bytes: 300_000, seq: 7 } } })
  })
})
