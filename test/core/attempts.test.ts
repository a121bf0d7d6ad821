import { describe, expect, it } from "vitest"
import type { Command } from "../../src/core/commands.ts"
import type { RunningAttempt } from "../../src/core/facts.ts"
import { takeDueItemRetries } from "../../src/core/timers.ts"
import { attemptHistory } from "../../src/core/view/attempt-history.ts"
import { expandJobFacts } from "../../src/core/view/events.ts"
import { graphView } from "../../src/core/view/view.ts"
import { atOnce } from "../../src/turns.ts"
import { chain, graphOf } from "./graphs.ts"
import { final, Job, passing } from "./job.ts"
import { scenarios } from "./scenarios.ts"

const times = (ranMs: number, { heldMs = 0, worker = "w1" } = {}) => ({ worker, heldMs, ranMs })

const complete = (job: Job, id: string, more: Partial<Extract<Command, { type: "completed" }>> = {}) =>
  job.send({
    ...{ type: "completed", node: job.node(id), attempt: job.attemptOf(id), output: 1 },
    ...more,
  } as Command)

const fail = (job: Job, id: string, more: Partial<Extract<Command, { type: "failed" }>> = {}) =>
  job.send({
    ...{ type: "failed", node: job.node(id), attempt: job.attemptOf(id), fault: passing },
    ...more,
  } as Command)

const historyOf = (job: Job, id: string, item?: number, begunAt: number | null = null) => {
  const of = item === undefined ? { node: job.node(id) } : { node: job.node(id), item }
  const facts = job.facts.map(fact => ({ fact }))
  return atOnce(attemptHistory(graphOf(job.specs), facts, of, { now: job.now, begunAt }))
}

const eventsFor = (job: Job) => [
  ...expandJobFacts(
    "job-1",
    graphOf(job.specs),
    job.facts.map((fact, index) => ({ seq: 100 + index, fact })),
  ),
]

const viewOf = (job: Job, id: string) => graphView(job.state, { now: job.now }).nodes[job.node(id)]!

describe("the times of an attempt", () => {
  it("are those of the run, also if it began after the job was cancelled, before that was stored", () => {
    const job = new Job(chain("a"))
    job.now += 1000
    job.send({ type: "cancel" } as Command)
    const cancelledAt = job.now
    job.now += 200
    job.send({ type: "aborted", node: job.node("a"), attempt: 1, times: times(150) } as Command)
    const times150 = { started_at: cancelledAt, duration_ms: 150 }
    expect(viewOf(job, "a")).toMatchObject({ status: "CANCELLED", ...times150 })
    expect(historyOf(job, "a").attempts).toMatchObject([{ outcome: "cancelled", ...times150 }])
    expect(eventsFor(job).at(-1)).toMatchObject({ type: "attempt.aborted", payload: times150 })
  })

  it("are reckoned backwards from the owner's clock: start, run time and queue time", () => {
    const job = new Job(chain("a"))
    const queuedAt = job.now
    job.now += 1000
    complete(job, "a", { times: times(300.4, { heldMs: 20.6 }) })
    expect(job.facts.at(-1)).toMatchObject({ ran_ms: 300, held_ms: 21, worker: "w1" })
    expect(viewOf(job, "a")).toMatchObject({
      queued_at: queuedAt,
      started_at: queuedAt + 700,
      finished_at: queuedAt + 1000,
      duration_ms: 300,
      queued_ms: 700,
      waited_ms: null,
      worker: "w1",
    })
  })

  it("begin with an announced start only after a second: the start is stored before the handler runs", () => {
    const job = new Job(chain("a"))
    const announcedAt = job.now
    job.send({ type: "started", ...job.task("a"), worker: "w1", announced: true })
    expect(job.facts.at(-1)).toMatchObject({ type: "node_started", announced: true })
    job.now += 999
    expect(viewOf(job, "a")).toMatchObject({
      ...{ status: "QUEUED", started_at: null, worker: null },
      waiting_on: { kind: "worker" },
    })
    job.now += 1
    expect(viewOf(job, "a")).toMatchObject({
      ...{ status: "RUNNING", started_at: announcedAt, worker: "w1", waiting_on: null },
    })
  })

  it("are clamped to the attempt's interval, whatever a worker says", () => {
    const job = new Job(chain("a"))
    const queuedAt = job.now
    job.now += 50
    complete(job, "a", { times: times(9_999_999) })
    expect(viewOf(job, "a")).toMatchObject({ started_at: queuedAt, duration_ms: 50, queued_ms: 0 })
  })

  it("do not count the wait for a retry as time in the queue", () => {
    const job = new Job(chain("a"))
    job.now += 10
    fail(job, "a", { times: times(10) })
    const failedAt = job.now
    expect(viewOf(job, "a").last_attempt).toEqual({
      outcome: "failed",
      started_at: failedAt - 10,
      ended_at: failedAt,
      duration_ms: 10,
      worker: "w1",
    })
    job.pass(15)
    job.now += 500
    complete(job, "a", { times: times(200) })
    expect(viewOf(job, "a")).toMatchObject({ duration_ms: 200, queued_ms: 300 })
  })

  it("separate the handler's time from the wait", () => {
    const job = new Job(chain("a"))
    job.now += 100
    const until = job.now + 60_000
    job.send({
      ...{ type: "waiting", node: 0, attempt: 1, waiting: { kind: "timer", until, output: null } },
      times: times(40),
    } as Command)
    job.pass(60)
    expect(viewOf(job, "a")).toMatchObject({
      status: "COMPLETED",
      duration_ms: 40,
      queued_ms: 60,
      waited_ms: 60_000,
    })
  })

  it("name the worker only when it is another one than before", () => {
    const job = new Job(chain("a", "b", "c", "d"))
    complete(job, "a", { times: times(1) })
    complete(job, "b", { times: times(1) })
    complete(job, "c", { times: times(1, { worker: "w2" }) })
    complete(job, "d", { times: times(1, { worker: "w2" }) })
    const named = job.facts.slice(1).map(fact => ("worker" in fact ? fact.worker : null))
    expect(named).toEqual(["w1", null, "w2", null])
    expect(graphView(job.state, { now: job.now }).nodes.map(({ worker }) => worker)).toEqual([
      "w1",
      "w1",
      "w2",
      "w2",
    ])
    const added = JSON.stringify({ ran_ms: 123_456, held_ms: 123_456 }).length
    expect(added).toBeLessThanOrEqual(40)
  })

  it("are unknown, not guessed, for facts that lack them", () => {
    const job = new Job(chain("a"))
    job.now += 50
    job.complete("a")
    expect(viewOf(job, "a")).toMatchObject({ started_at: null, duration_ms: null, queued_ms: null })
  })
})

describe("what ran for less than a second", () => {
  /** As the owner does: it knows what runs at the moment of the decision. */
  const sendWhile = (job: Job, running: readonly RunningAttempt[], command: Command) => {
    job.running = () => running
    job.send(command)
    return job.facts.at(-1)
  }
  const two = () => new Job(["ran", "queued"].map(id => ({ id, dependencies: [] })))
  const eventsOf = (job: Job, id: string) =>
    eventsFor(job)
      .filter(({ node }) => node === id)
      .map(({ type, at }) => `${type} ${at - 1_000_000}`)

  it("and was cancelled with its job is shown to have run, since when and where", () => {
    const job = two()
    job.now += 400
    sendWhile(job, [{ node: 0, ran_ms: 300, worker: "w7" }], { type: "cancel" })
    expect(eventsOf(job, "ran")).toEqual(["node.queued 0", "node.running 100", "node.cancelled 400"])
    expect(eventsOf(job, "queued")).toEqual(["node.queued 0", "node.cancelled 400"])
    expect(viewOf(job, "ran")).toMatchObject({ status: "CANCELLED", duration_ms: 300, worker: "w7" })
    expect(viewOf(job, "queued")).toMatchObject({ status: "CANCELLED", started_at: null, worker: null })
    expect(historyOf(job, "ran").attempts).toMatchObject([
      { outcome: "cancelled", started_at: 1_000_100, ended_at: 1_000_400, worker: "w7" },
    ])
  })

  it("and failed permanently is shown to have run before it failed; so is its sibling", () => {
    const job = two()
    job.now += 400
    sendWhile(job, [{ node: 1, ran_ms: 50, worker: "w7" }], {
      ...{ type: "failed", node: 0, attempt: 1, fault: final, times: times(250) },
    })
    expect(eventsOf(job, "ran")).toEqual(["node.queued 0", "node.running 150", "node.failed 400"])
    expect(eventsOf(job, "queued")).toEqual(["node.queued 0", "node.running 350", "node.cancelled 400"])
  })

  it("and was lost with its worker is shown to have run", () => {
    const job = two()
    job.now += 400
    sendWhile(job, [{ node: 0, ran_ms: 300, worker: "w7" }], {
      type: "recover",
      only: [{ node: 0, attempt: 1 }],
    })
    expect(eventsOf(job, "ran")).toEqual([
      "node.queued 0",
      "node.running 100",
      "attempt.lost 400",
      "node.queued 400",
    ])
    expect(viewOf(job, "ran").last_attempt).toMatchObject({
      outcome: "lost",
      duration_ms: null,
      worker: "w7",
    })
  })

  it("is named in the fact that ends it, at most 1,000 of them", () => {
    const job = two()
    const many = Array.from({ length: 3000 }, () => ({ node: 0, ran_ms: 1, worker: "w" }))
    const fact = sendWhile(job, many, { type: "cancel" })
    expect((fact as { running?: readonly unknown[] }).running).toHaveLength(1000)
  })

  it("and had used something is always named, so that its usage counts, and only once", () => {
    const job = two()
    const idle = Array.from({ length: 2000 }, () => ({ node: 0, ran_ms: 1, worker: "w" }))
    const used = [{ node: 1, ran_ms: 1, worker: "w", usage: { tokens: 2 } }]
    sendWhile(job, [...idle, ...used], { type: "recover" })
    expect(viewOf(job, "queued").usage).toEqual({ tokens: 2 })
    expect(graphView(job.state, { now: job.now }).usage).toEqual({ tokens: 2 })
    expect(historyOf(job, "queued").attempts[0]).toMatchObject({ outcome: "lost", usage: { tokens: 2 } })
  })
})

describe("the history of attempts", () => {
  it("ends the waits of an attempt with the attempt, and leaves its owner's changes before its begin out", () => {
    const job = new Job(chain("a"))
    const start = job.now
    fail(job, "a", { times: times(0) })
    job.now += 1000
    job.send({ type: "cancel" })
    const { attempts } = historyOf(job, "a")
    expect(attempts[1]).toMatchObject({
      outcome: "cancelled",
      ended_at: start + 1000,
      waits: [{ kind: "retry", from: start, until: start + 1000 }],
    })
    const handedOver = new Job(chain("a"))
    handedOver.now += 500
    handedOver.send({ type: "recover" })
    handedOver.now += 500
    complete(handedOver, "a", { times: times(100) })
    expect(historyOf(handedOver, "a")).toMatchObject({
      total: 1,
      attempts: [{ outcome: "completed", queued_at: start, queued_ms: 900, duration_ms: 100 }],
    })
    expect(viewOf(handedOver, "a")).toMatchObject({ queued_at: start, queued_ms: 900 })
    const retried = new Job(chain("a"))
    fail(retried, "a", { times: times(0) })
    retried.pass(15)
    retried.send({ type: "recover" })
    retried.now += 500
    complete(retried, "a", { times: times(100) })
    // Not since it failed: since its retry was due.
    expect(viewOf(retried, "a")).toMatchObject({ queued_ms: 400 })
  })

  it("has each with times, worker, outcome, error, usage and what it waited for", () => {
    const job = new Job([{ id: "a", dependencies: [], provider: "acme" }])
    const start = job.now
    job.send({ type: "await_slot", node: 0, attempt: 1, provider: "acme" })
    job.now += 1000
    job.send({ type: "grant_slot", node: 0 })
    job.now += 100
    fail(job, "a", { times: times(60, { heldMs: 5 }), usage: { tokens: 3 } })
    job.pass(15)
    job.now += 100
    complete(job, "a", { times: times(40, { worker: "w2" }), usage: { tokens: 4 } })
    const failedAt = start + 1100
    const due = failedAt + 15_000
    expect(historyOf(job, "a")).toEqual({
      total: 2,
      attempts: [
        {
          attempt: 1,
          outcome: "failed",
          queued_at: start,
          started_at: failedAt - 60,
          ended_at: failedAt,
          duration_ms: 60,
          queued_ms: 1040,
          held_ms: 5,
          worker: "w1",
          error: { code: passing.code, message: passing.message },
          reason: null,
          usage: { tokens: 3 },
          waits: [{ kind: "slot", provider: "acme", from: start, until: start + 1000 }],
        },
        {
          attempt: 2,
          outcome: "completed",
          queued_at: failedAt,
          started_at: due + 60,
          ended_at: due + 100,
          duration_ms: 40,
          queued_ms: 60,
          held_ms: 0,
          worker: "w2",
          error: null,
          reason: null,
          usage: { tokens: 4 },
          waits: [{ kind: "retry", from: failedAt, until: due }],
        },
      ],
    })
  })

  it("does not end the wait for a retry before its time, nor after the handler began", () => {
    const job = new Job(chain("a"))
    const start = job.now
    fail(job, "a", { times: times(0) })
    const waitOf = (begunAt: number | null = null) =>
      historyOf(job, "a", undefined, begunAt).attempts[1]?.waits[0]
    expect(waitOf()).toEqual({ kind: "retry", from: start, until: null })
    job.pass(15)
    expect(waitOf()).toEqual({ kind: "retry", from: start, until: start + 15_000 })
    expect(waitOf(start + 14_000)).toEqual({ kind: "retry", from: start, until: start + 14_000 })
  })

  it("has the current attempt too, and what a wait came to", () => {
    const job = new Job(chain("a", "b"))
    expect(historyOf(job, "a").attempts).toMatchObject([{ outcome: null, started_at: null, ended_at: null }])
    expect(historyOf(job, "b")).toEqual({ attempts: [], total: 0 })
    job.now += 10
    job.awaitSignal("a", "go")
    job.now += 100
    job.send({ type: "signal", name: "go", data: 1 })
    const waits = [{ kind: "signal", name: "go", from: 1_000_010, until: 1_000_110 }]
    expect(historyOf(job, "a").attempts).toMatchObject([{ outcome: "completed", waits }])
  })

  it("numbers what was lost by itself, and what was handed over like the attempt that follows", () => {
    const job = new Job(chain("a"))
    job.start("a")
    job.send({ type: "recover" })
    job.start("a")
    job.send({ type: "hand_over" })
    fail(job, "a", { times: times(1) })
    const eventsOf = historyOf(job, "a").attempts.map(({ attempt, outcome }) => `${attempt} ${outcome}`)
    expect(eventsOf).toEqual(["1 lost", "2 handed_over", "2 failed", "3 null"])
    expect(viewOf(job, "a")).toMatchObject({ attempt: 3, max_attempts: 4, losses: 1 })
  })

  it("continues over a retry of the job, which gives the node as many attempts again", () => {
    const job = new Job(chain("a"))
    job.fail("a", final)
    job.send({ type: "retry" })
    complete(job, "a", { times: times(1) })
    const eventsOf = historyOf(job, "a").attempts.map(({ attempt, outcome }) => `${attempt} ${outcome}`)
    expect(eventsOf).toEqual(["1 failed", "2 completed"])
    expect(viewOf(job, "a")).toMatchObject({ attempt: 2, max_attempts: 4, losses: 0 })
  })

  it("gives the newest hundred and says how many there were", () => {
    const job = new Job(chain("a"))
    for (let n = 0; n < 150; n++) {
      job.fail("a", final)
      job.send({ type: "retry" })
    }
    const { attempts, total } = historyOf(job, "a")
    expect([attempts.length, total, attempts.at(-1)?.outcome]).toEqual([100, 151, null])
  })

  it("has the attempts of an item", () => {
    const job = new Job(chain("a"))
    job.send({ type: "expand", node: 0, attempt: 1, items: ["x", "y"] })
    job.now += 10
    job.send({ type: "failed", node: 0, item: 1, attempt: 1, fault: passing, times: times(10) })
    job.now += 15_000
    takeDueItemRetries(job.state, job.now)
    job.send({ type: "completed", node: 0, item: 1, attempt: 2, output: 1, times: times(0) })
    expect(historyOf(job, "a", 1).attempts).toMatchObject([
      { attempt: 1, outcome: "failed", duration_ms: 10, worker: "w1" },
      { attempt: 2, outcome: "completed", worker: "w1" },
    ])
    expect(historyOf(job, "a", 0).attempts).toMatchObject([{ attempt: 1, outcome: null }])
    expect(historyOf(job, "a").attempts).toMatchObject([{ waits: [{ kind: "items" }], outcome: null }])
  })
})

describe("graph, history and events", () => {
  it.each(Object.keys(scenarios))("say the same of each node: %s", name => {
    const job = scenarios[name]!()
    const events = eventsFor(job)
    for (const { id } of job.specs) {
      const view = viewOf(job, id)
      const eventsOf = events.findLast(
        ({ node, item, type }) => node === id && item === undefined && type.startsWith("node."),
      )
      if (eventsOf !== undefined && view.items === undefined)
        expect({ attempt: eventsOf.attempt, status: eventsOf.to }).toEqual({
          attempt: view.attempt,
          status: view.status,
        })
      const { attempts } = historyOf(job, id)
      const last = attempts.at(-1)
      if (last === undefined || view.status === "PENDING") continue
      const { started_at, worker, reason = null } = view
      // An attempt that was cancelled before it began is listed; the node counts those that began.
      const isUnbegun = view.status === "CANCELLED" && last.started_at === null && attempts.length > 1
      const attempt = isUnbegun ? view.attempt + 1 : view.attempt
      expect({ ...last, waits: [] }).toMatchObject({ attempt, started_at, worker, reason })
      expect(last.outcome === null).toBe(view.finished_at === null)
      // A list has what its items used.
      if (view.items !== undefined) continue
      const used = attempts.flatMap(({ usage }) => (usage === null ? [] : [usage.tokens ?? 0]))
      expect(view.usage?.tokens ?? 0).toBe(used.reduce((sum, tokens) => sum + tokens, 0))
    }
  })
})
