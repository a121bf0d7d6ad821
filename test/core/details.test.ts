/** Rules of the core that concern one field each. */
import { describe, expect, it } from "vitest"
import type { Command } from "../../src/core/commands.ts"
import { decide } from "../../src/core/decide/decide.ts"
import { WHOLE_BYTES } from "../../src/core/payloads.ts"
import { newJobState } from "../../src/core/state.ts"
import { jobMetrics } from "../../src/core/statistics/job-metrics.ts"
import { isBusy, resetEarliestTimer, takeDueRetries } from "../../src/core/timers.ts"
import { attemptHistory } from "../../src/core/view/attempt-history.ts"
import { expandJobFacts } from "../../src/core/view/events.ts"
import { withLive } from "../../src/core/view/live-view.ts"
import { parentReason } from "../../src/core/view/reasons.ts"
import { graphView, progressPercent } from "../../src/core/view/view.ts"
import { atOnce } from "../../src/turns.ts"
import { chain, graphOf } from "./graphs.ts"
import { final, Job, passing, usualPolls } from "./job.ts"

const context = { now: 1_000_000, random: 0, lossLimit: 3, running: () => [] }
const apart = (...ids: string[]) => ids.map(id => ({ id, dependencies: [] }))
const times = (worker: string, heldMs: number) => ({ worker, heldMs, ranMs: 5 })

describe("what a submission records", () => {
  const recorded = (more: object): object => {
    const command = {
      ...{ type: "submit", owner: "ada", workflow: "flow", workflowVersion: 3, input: null },
      ...{ ttlSeconds: null, priority: 0, ...more },
    } as Command
    return (decide(newJobState(graphOf(chain("a"))), command, context) as object[])[0]!
  }

  it.each([
    [{ labels: { team: "core" } }, { labels: { team: "core" } }],
    [{ traceparent: "00-1-2-01" }, { traceparent: "00-1-2-01" }],
    [{ submittedBy: "token-1" }, { submitted_by: "token-1" }],
  ])("is %j, and nothing where it was not given", (given, expected) => {
    expect(recorded(given)).toMatchObject(expected)
    expect(Object.keys(recorded({}))).not.toContain(Object.keys(expected)[0])
  })
})

describe("the times of an attempt in its fact", () => {
  it.each(["completed", "failed"] as const)("leave out a hold of nothing when it has %s", type => {
    const job = new Job(apart("a", "b", "c", "d"))
    const ran = (id: string, worker: string, heldMs: number) => {
      const result = { output: 1, fault: passing, times: times(worker, heldMs) }
      job.send({ type, ...job.task(id), ...result } as Command)
      const fact = job.facts.at(-1) as { ran_ms?: number; held_ms?: number; worker?: string }
      return [fact.ran_ms, fact.held_ms, fact.worker]
    }
    expect(ran("a", "w1", 0)).toEqual([5, undefined, "w1"])
    expect(ran("b", "w1", 7)).toEqual([5, 7, undefined])
    expect(ran("c", "w2", 7)).toEqual([5, 7, "w2"])
    expect(ran("d", "w2", 0)).toEqual([5, undefined, undefined])
  })
})

describe("J21 places of a list", () => {
  it("an item that fails for good leaves its place to the next, and the list continues", () => {
    const job = new Job([{ id: "a", dependencies: [], maxParallel: 1, failFast: false }])
    job.send({ type: "expand", node: 0, attempt: 1, items: [1, 2, 3] })
    const list = job.state.lists.get(0)!.state
    const queued = () => [...list.nodeStatus].filter((_, item) => list.queuedAt[item] !== 0).length
    expect(queued()).toBe(1)
    job.send({ type: "failed", node: 0, item: 0, attempt: 1, fault: final })
    expect(queued()).toBe(2)
    job.send({ type: "failed", node: 0, item: 1, attempt: 1, fault: final })
    expect(queued()).toBe(3)
    job.send({ type: "completed", node: 0, item: 2, attempt: 1, output: 1 })
    expect(job.state.status).toBe("FAILED")
  })

  it("counts the items in flight as in flight in the job", () => {
    const job = new Job([{ id: "a", dependencies: [], maxParallel: 2 }])
    job.send({ type: "expand", node: 0, attempt: 1, items: [1, 2, 3] })
    expect(job.state.active).toBe(2)
    job.send({ type: "completed", node: 0, item: 0, attempt: 1, output: 1 })
    job.send({ type: "completed", node: 0, item: 1, attempt: 1, output: 1 })
    expect(job.state.active).toBe(1)
    job.send({ type: "completed", node: 0, item: 2, attempt: 1, output: 1 })
    expect([job.state.active, job.state.status]).toEqual([0, "COMPLETED"])
  })
})

describe("X4 a result that overtakes the next attempt", () => {
  it("aborts it, and says that a submission of it may have no answer", () => {
    const job = new Job(chain("a"))
    job.submitted("a", "op-1")
    job.news("a", "op-1", { type: "error", fault: passing }, { poll: { ...usualPolls, maxErrors: 0 } })
    job.pass(15)
    job.news("a", "op-1", { type: "completed", output: "film" }, { source: "webhook" })
    expect([job.state.status, job.aborted, job.unanswered]).toEqual(["COMPLETED", ["a#2"], ["a#2"]])
  })

  it("has nothing to abort while the next attempt waits for its time", () => {
    const job = new Job(chain("a"))
    job.submitted("a", "op-1")
    job.news("a", "op-1", { type: "error", fault: passing }, { poll: { ...usualPolls, maxErrors: 0 } })
    job.news("a", "op-1", { type: "completed", output: "film" }, { source: "webhook" })
    expect([job.state.status, job.aborted, job.unanswered]).toEqual(["COMPLETED", [], []])
  })
})

describe("the history of attempts", () => {
  const historyOf = (job: Job) =>
    atOnce(
      attemptHistory(
        graphOf(job.specs),
        job.facts.map(fact => ({ fact })),
        { node: 0 },
        { now: job.now, begunAt: null },
      ),
    ).attempts

  it("an attempt that changed its owner before it began was queued when it first was", () => {
    const job = new Job(chain("a"))
    const queuedAt = job.now
    job.now += 3000
    job.send({ type: "recover" })
    job.now += 3000
    job.send({ type: "hand_over" })
    expect(historyOf(job)).toMatchObject([{ queued_at: queuedAt, outcome: null }])
  })

  it("an attempt that waits has what its handler reported before: its hold and its usage", () => {
    const job = new Job(chain("a"))
    job.now += 100
    job.send({
      ...{ type: "waiting", ...job.task("a"), waiting: { kind: "signal", name: "go" } },
      ...{ times: times("w1", 30), usage: { tokens: 4 } },
    })
    expect(historyOf(job)).toMatchObject([{ held_ms: 30, usage: { tokens: 4 }, outcome: null }])
  })

  it("an attempt that waited ran until it waited, not until its wait ended", () => {
    const job = new Job(chain("a"))
    job.now += 100
    const waiting = { kind: "signal", name: "go" } as const
    job.send({ type: "waiting", ...job.task("a"), waiting, times: times("w1", 0) } as Command)
    job.now += 5000
    job.send({ type: "signal", name: "go", data: 1 })
    expect(historyOf(job)).toMatchObject([{ outcome: "completed", duration_ms: 5 }])
  })

  it("the last attempt that ended has the usage of its child, which was cancelled later", () => {
    const job = new Job(apart("a", "b"))
    job.fail("a")
    job.pass(15)
    const child = { kind: "child", job_id: "c1", workflow: "inner", workflow_version: 1 } as const
    job.send({ type: "waiting", ...job.task("a"), waiting: child })
    job.fail("b", final)
    job.send({ type: "settle", used: [{ node: 0, job_id: "c1", usage: { tokens: 4 } }] })
    expect(historyOf(job).map(({ usage }) => usage)).toEqual([null, { tokens: 4 }])
  })
})

describe("the source of a result", () => {
  const sourceOf = (job: Job) =>
    [
      ...expandJobFacts(
        "job-1",
        graphOf(job.specs),
        job.facts.map((fact, seq) => ({ seq, fact })),
      ),
    ].find(({ type }) => type === "node.completed")?.source

  it("is the provider for an operation, also one whose time is over as well", () => {
    const job = new Job([{ id: "a", dependencies: [], provider: "acme" }])
    job.submitted("a", "op-1", { ttlSeconds: 10 })
    job.now += 10_000
    job.news("a", "op-1", { type: "completed", output: 1 })
    expect(sourceOf(job)).toBe("provider")
  })

  it("is a timer that is over, and the worker otherwise", () => {
    const job = new Job(chain("a"))
    job.sleep("a", 5)
    job.pass(5)
    expect(sourceOf(job)).toBe("timer")
    const plain = new Job(chain("a"))
    plain.complete("a")
    expect(sourceOf(plain)).toBe("worker")
  })
})

describe("the percentage of a job", () => {
  it("is of nodes and of the items of a list that has not ended, rounded down", () => {
    const job = new Job(apart("a", "b", "c"))
    job.complete("a")
    expect(progressPercent(job.state)).toBe(33)
    job.send({ type: "expand", ...job.task("b"), items: [1, 2] })
    job.send({ type: "completed", node: 1, item: 0, attempt: 1, output: 1 })
    expect(progressPercent(job.state)).toBe(50)
  })

  it("of a job that was deleted is that of its end: 100 only when it had completed", () => {
    const done = new Job(chain("a"))
    done.complete("a")
    expect(progressPercent(done.state)).toBe(100)
    done.send({ type: "delete" })
    const cancelled = new Job(apart("a", "b"))
    cancelled.complete("a")
    cancelled.send({ type: "cancel" })
    cancelled.send({ type: "delete" })
    expect(progressPercent(cancelled.state)).toBe(50)
  })
})

describe("J19 the overlay of a list", () => {
  it("moves items from queued to running, and leaves out what is none", () => {
    const job = new Job([{ id: "a", dependencies: [] }])
    job.send({ type: "expand", node: 0, attempt: 1, items: [1, 2, 3] })
    const graph = graphView(job.state, { now: job.now })
    const task = { id: "a", worker: null, started_at: null, progress: null, waiting_on: null }
    const merged = (running: number) => {
      const live = { at: job.now, nodes: [{ ...task, status: "RUNNING" as const, items: { running } }] }
      return withLive({ ...graph, live }).nodes[0]!.items
    }
    expect(merged(2)).toEqual({ total: 3, queued: 1, running: 2 })
    expect(merged(1)).toEqual({ total: 3, queued: 2, running: 1 })
    expect(merged(3)).toEqual({ total: 3, running: 3 })
    expect(merged(0)).toEqual({ total: 3, queued: 3 })
  })
})

describe("the next timer of a job", () => {
  it("is the earliest of all that are left, of every kind", () => {
    const job = new Job(apart("a", "b", "c", "d"), { ttlSeconds: 600 })
    job.fail("a")
    job.now += 1000
    job.fail("b")
    job.sleep("c", 60)
    job.submitted("d", "op-1")
    const timers = [15_000, 16_000, 31_000, 61_000].map(ms => 1_000_000 + ms)
    resetEarliestTimer(job.state)
    expect(job.state.earliestTimer).toBe(timers[0])
    takeDueRetries(job.state, timers[0]!)
    resetEarliestTimer(job.state)
    expect(job.state.earliestTimer).toBe(timers[1])
    takeDueRetries(job.state, timers[1]!)
    resetEarliestTimer(job.state)
    expect(job.state.earliestTimer).toBe(timers[2])
  })
})

describe("a state without facts", () => {
  it("is of no workflow and no version", () => {
    expect(newJobState(graphOf(chain("a")))).toMatchObject({
      status: "PENDING",
      workflow: "",
      workflowVersion: 0,
    })
  })

  it("of a large job has its times in one allocation, of a small one on the heap", () => {
    const buffersOf = (nodes: number) => {
      const ids = Array.from({ length: nodes }, (_, n) => `n${n}`)
      const { queuedAt, startedAt, endedAt } = newJobState(graphOf(apart(...ids)))
      return new Set([queuedAt, startedAt, endedAt].map(({ buffer }) => buffer)).size
    }
    expect([buffersOf(8), buffersOf(9)]).toEqual([3, 1])
  })
})

describe("a busy job", () => {
  it("has a node in flight; a job that waits for a signal is not one", () => {
    const job = new Job(apart("a"))
    expect(isBusy(job.state)).toBe(true)
    job.awaitSignal("a", "go")
    expect(isBusy(job.state)).toBe(false)
  })
})

describe("the reason of a child that ends with its parent", () => {
  it("stays short in deep families: 1,000 characters", () => {
    const job = new Job(chain("a"))
    job.send({ type: "cancel", reason: "x".repeat(2000) } as Command)
    const reason = parentReason("job-1", job.state)
    expect(reason).toHaveLength(1000)
    expect(reason).toContain("Its parent job job-1 was cancelled: xxx")
  })
})

describe("an operation at a provider", () => {
  it("is shown with the time by which it has to be done", () => {
    const job = new Job(apart("a", "b"))
    job.submitted("a", "op-1", { ttlSeconds: 10 })
    job.submitted("b", "op-2")
    const waits = graphView(job.state, { now: job.now }).nodes.map(({ waiting_on }) => waiting_on)
    expect(waits).toMatchObject([{ until: job.now + 10_000 }, { until: null }])
  })
})

describe("a report on an attempt that was aborted", () => {
  const aborted = (job: Job, ranMs: number, usage?: object) =>
    job.send({
      type: "aborted",
      node: 0,
      attempt: 1,
      times: { worker: "w1", heldMs: 0, ranMs },
      usage,
    } as Command)

  it("is refused once the job is deleted", () => {
    const job = new Job(chain("a"))
    job.send({ type: "cancel" })
    job.send({ type: "delete" })
    expect(aborted(job, 5)).toBe("job_final")
  })

  it("says when the handler began only the first time", () => {
    const job = new Job(chain("a"))
    job.now += 1000
    job.send({ type: "cancel" })
    aborted(job, 600)
    const startedAt = job.state.startedAt[0]
    expect(aborted(job, 600)).toBe("duplicate")
    expect(aborted(job, 900, { tokens: 1 })).toBeNull()
    expect(job.state.startedAt[0]).toBe(startedAt)
  })
})

describe("a shutdown that hands items over", () => {
  it("names those whose handlers run, also where no fact says that they began", () => {
    const job = new Job(chain("a"))
    job.send({ type: "expand", node: 0, attempt: 1, items: [1, 2] })
    job.running = () => [{ node: 0, item: 1, ran_ms: 5, worker: "w1" }]
    expect(job.send({ type: "hand_over" })).toBeNull()
    expect(job.facts.at(-1)).toMatchObject({ type: "items_lost", items: [1], handed_over: true })
  })
})

describe("the metrics of a job", () => {
  it("of a node with items have the losses of all its items, and how long the whole list took", () => {
    const job = new Job(apart("a", "b"))
    job.now += 500
    job.send({ type: "expand", node: 0, attempt: 1, items: [1, 2] })
    for (const item of [0, 1]) job.send({ type: "started", node: 0, item, attempt: 1, worker: "w1" })
    job.now += 1000
    job.send({ type: "recover" })
    job.now += 1000
    for (const item of [0, 1])
      job.send({ type: "completed", node: 0, item, attempt: 2, output: 1, times: times("w1", 0) } as Command)
    job.send({ type: "completed", ...job.task("b"), output: 1, times: times("w1", 0) } as Command)
    const [list, plain] = jobMetrics(job.state).nodes
    expect(list).toMatchObject({ node: "a", losses: 2, attempts: 4, durationMs: 2500 })
    expect(plain).toMatchObject({ node: "b", losses: 0, durationMs: 5 })
  })
})

describe("the metrics of a job that was retried", () => {
  it("have what was used since, and how long job and node were queued", () => {
    const job = new Job(chain("a"))
    job.now += 100
    job.send({
      ...{ type: "failed", ...job.task("a"), fault: final, times: times("w1", 0), usage: { tokens: 3 } },
    } as Command)
    expect(jobMetrics(job.state)).toMatchObject({
      queuedMs: 95,
      nodes: [{ queuedMs: 95, usage: { tokens: 3 } }],
    })
    job.send({ type: "retry" })
    job.now += 200
    job.send({
      ...{ type: "completed", ...job.task("a"), output: 1, times: times("w1", 0), usage: { tokens: 4 } },
    } as Command)
    expect(jobMetrics(job.state)).toMatchObject({
      queuedMs: 195,
      nodes: [{ queuedMs: 195, usage: { tokens: 4 } }],
    })
  })
})

describe("a job that ran for its parent", () => {
  it("has nothing to settle once it is retried", () => {
    const job = new Job(chain("a"), { parent: { job_id: "p", node: 0, path: ["outer"] } })
    job.fail("a", final)
    expect(job.state.unsettled).toBe(true)
    job.send({ type: "retry" })
    expect(job.state.unsettled).toBe(false)
    expect(job.send({ type: "settle" })).toBe("settled")
  })
})

describe("payloads of events", () => {
  const payloadOf = (job: Job, type: string, id: string) =>
    [
      ...expandJobFacts(
        "job-1",
        graphOf(job.specs),
        job.facts.map((fact, seq) => ({ seq, fact })),
      ),
    ].findLast(event => event.type === type && event.node === id)?.payload as Record<string, unknown>

  it("of a node that is queued again say that the job was retried", () => {
    const job = new Job(chain("a"))
    expect(payloadOf(job, "node.queued", "a")).toMatchObject({ reason: "dependencies_done" })
    job.fail("a", final)
    job.send({ type: "retry" })
    expect(payloadOf(job, "node.queued", "a")).toMatchObject({ reason: "job_retried" })
  })

  it("of a failed operation say how its end was reported", () => {
    const job = new Job(apart("a"))
    job.submitted("a", "op-1")
    job.news("a", "op-1", { type: "failed", fault: final }, { source: "webhook" })
    expect(payloadOf(job, "node.failed", "a")).toMatchObject({ via: "webhook" })
  })

  it("of a node that fails with another one have no report of its own", () => {
    const job = new Job([
      { id: "a", dependencies: [], failFast: false },
      { id: "b", dependencies: ["a"] },
    ])
    job.send({ type: "failed", ...job.task("a"), fault: final, times: times("w1", 0) } as Command)
    expect(payloadOf(job, "node.failed", "a")).toHaveProperty("duration_ms")
    const consequence = payloadOf(job, "node.failed", "b")
    expect(consequence).toMatchObject({ cause: "a" })
    expect(consequence).not.toHaveProperty("duration_ms")
  })
})

describe("a fact that ends the job beside one that does not", () => {
  it("names what ran until then", () => {
    const job = new Job(apart("sleeps", "waits", "runs"))
    job.sleep("sleeps", 5)
    job.awaitSignal("waits", "go", 5)
    const running = { node: 2, ran_ms: 50, worker: "w7" }
    job.running = () => [running]
    job.pass(5)
    const [completed, failed] = job.facts.slice(-2)
    expect(completed).toMatchObject({ type: "node_completed", node: 0 })
    expect(completed).not.toHaveProperty("running")
    expect(failed).toMatchObject({ type: "node_failed", node: 1, running: [running] })
  })
})

describe("payloads that are given whole", () => {
  it("have up to 1 KiB, as docs/reference/server.md promises", () => {
    expect(WHOLE_BYTES).toBe(1024)
  })
})
