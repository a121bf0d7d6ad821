import { describe, expect, it } from "vitest"
import { tasksInFlight } from "../../src/core/item-list.ts"
import { jobOutput } from "../../src/core/job-output.ts"
import { LargeOutput, shownOutput } from "../../src/core/state.ts"
import { itemViews } from "../../src/core/view/item-view.ts"
import { type LiveGraph, type LiveNode, withLive, withLiveItems } from "../../src/core/view/live-view.ts"
import { graphView } from "../../src/core/view/view.ts"
import fc from "../support/property.ts"
import { actions } from "./actions.ts"
import { chain, dags, fan } from "./graphs.ts"
import { final, Job, passing } from "./job.ts"
import { Simulation } from "./simulation.ts"

const apart = (...ids: readonly string[]) => ids.map(id => ({ id, dependencies: [] }))
const viewOf = (job: Job) => graphView(job.state, { now: job.now })
const nodeOf = (job: Job, id: string) => viewOf(job).nodes[job.node(id)]!
const live = (...nodes: readonly LiveNode[]): LiveGraph => ({ at: 0, nodes })
const none = { worker: null, started_at: null, progress: null, waiting_on: null }

describe("J19 the graph of a job", () => {
  it("shows nodes, edges, incoming counts, ready queue, operations", () => {
    const job = new Job(fan(2))
    job.complete("first")
    const view = viewOf(job)
    expect(view.edges).toEqual([
      { from: "first", to: "p0" },
      { from: "first", to: "p1" },
      { from: "p0", to: "join" },
      { from: "p1", to: "join" },
    ])
    expect(view.nodes.map(({ id, status, incoming }) => [id, status, incoming])).toEqual([
      ["first", "COMPLETED", 0],
      ["p0", "QUEUED", 0],
      ["p1", "QUEUED", 0],
      ["join", "PENDING", 2],
    ])
    expect(view).toMatchObject({ ready_queue: ["p0", "p1"], pending_operations: 2, completed_operations: 1 })
    expect(JSON.parse(JSON.stringify(view))).toEqual(view)
  })

  it("says why each node does not run", () => {
    const job = new Job([
      ...apart("retries", "naps", "asks", "ready"),
      { id: "later", dependencies: ["naps", "asks"] },
    ])
    job.fail("retries")
    job.sleep("naps", 60)
    job.awaitSignal("asks", "approve", 90)
    const view = viewOf(job)
    expect(view.nodes.map(node => node.waiting_on)).toEqual([
      { kind: "retry", at: job.now + 15_000 },
      { kind: "timer", until: job.now + 60_000 },
      { kind: "signal", name: "approve", until: job.now + 90_000 },
      { kind: "worker", handler: "work" },
      { kind: "dependencies", nodes: ["naps", "asks"] },
    ])
    expect(view.waiting_for.map(({ node, kind }) => `${node} ${kind}`)).toEqual([
      "retries retry",
      "naps timer",
      "asks signal",
    ])
  })

  it("shows attempts, losses, timings and the error of the last try until the node is done", () => {
    const job = new Job(chain("a"))
    job.fail("a")
    expect(nodeOf(job, "a").error).toEqual({ code: passing.code, message: passing.message })
    job.pass(15)
    job.start("a")
    job.send({ type: "recover" })
    job.start("a")
    expect(nodeOf(job, "a")).toMatchObject({
      attempt: 3,
      max_attempts: 4,
      losses: 1,
      started_at: job.now,
      worker: "w1",
    })
    job.now += 500
    job.complete("a")
    expect(nodeOf(job, "a")).toMatchObject({ queued_at: job.now - 500, finished_at: job.now, error: null })
  })

  it("names the node whose failure brought another down", () => {
    const job = new Job(chain("a", "b"))
    job.fail("a", final)
    expect(nodeOf(job, "b").error).toEqual({ code: final.code, message: final.message, node: "a" })
  })

  it("counts a retry whose time has come as ready for a worker", () => {
    const job = new Job(chain("a"))
    job.fail("a")
    const at = job.now + 15_000
    expect(graphView(job.state, { now: at - 1 }).nodes[0]!.waiting_on).toEqual({ kind: "retry", at })
    expect(graphView(job.state, { now: at })).toMatchObject({
      workflow_status: "READY_TO_RESUME",
      ready_queue: ["a"],
      nodes: [{ waiting_on: { kind: "worker", handler: "work" } }],
    })
  })

  it("shows a node with items as they are: RUNNING only once the start of one is recorded", () => {
    const job = new Job([{ id: "a", dependencies: [], maxParallel: 2 }])
    job.send({ type: "expand", node: 0, attempt: 1, items: [1, 2, 3] })
    expect(nodeOf(job, "a")).toMatchObject({ status: "QUEUED", waiting_on: { kind: "worker" } })
    job.send({ type: "started", node: 0, item: 0, attempt: 1, worker: "w1" })
    expect(nodeOf(job, "a")).toMatchObject({ status: "RUNNING", waiting_on: null })
  })
})

describe("J21 the items of a node", () => {
  it("are read in pages: each begins after the one before, and the last ends with the list", () => {
    const job = new Job([{ id: "a", dependencies: [] }])
    expect(itemViews(job.state, 0, { after: -1, limit: 2, now: job.now })).toEqual([])
    job.send({ type: "expand", node: 0, attempt: 1, items: ["x", "y", "z"] })
    const page = (after: number) =>
      itemViews(job.state, 0, { after, limit: 2, now: job.now }).map(({ index }) => index)
    expect([page(-1), page(1), page(2)]).toEqual([[0, 1], [2], []])
  })

  it("are in a worker's hand until their list has failed", () => {
    const job = new Job([
      { id: "a", dependencies: [] },
      { id: "b", dependencies: [] },
    ])
    job.send({ type: "expand", node: 0, attempt: 1, items: [1, 2] })
    expect(tasksInFlight(job.state, job.now)).toEqual([
      { node: 1, attempt: 1 },
      { node: 0, attempt: 1, item: 0 },
      { node: 0, attempt: 1, item: 1 },
    ])
    job.send({ type: "failed", node: 0, item: 0, attempt: 1, fault: final })
    expect(tasksInFlight(job.state, job.now)).toEqual([])
  })
})

describe("J19 the live overlay", () => {
  it("makes RUNNING what runs, and says how far it is", () => {
    const job = new Job(apart("a", "b"))
    const running = { ...none, status: "RUNNING", worker: "w1", started_at: job.now } as const
    const overlay = live({ ...running, id: "a", progress: { percent: 40, message: "half" } })
    const merged = withLive({ ...viewOf(job), live: overlay })
    expect(merged.nodes).toMatchObject([
      {
        status: "RUNNING",
        worker: "w1",
        started_at: job.now,
        waiting_on: null,
        progress: { percent: 40, message: "half" },
      },
      { status: "QUEUED", progress: null, waiting_on: { kind: "worker" } },
    ])
    expect(merged).toMatchObject({ workflow_status: "RUNNING", ready_queue: ["b"], pending_operations: 2 })
  })

  it("makes QUEUED again what is on record as started and does not run", () => {
    const job = new Job(chain("a"))
    job.start("a")
    const waiting_on = { kind: "worker", handler: "work", reason: "none", last_worker: "w1" } as const
    const merged = withLive({
      ...viewOf(job),
      live: live({ ...none, id: "a", status: "QUEUED", waiting_on }),
    })
    expect(merged).toMatchObject({
      workflow_status: "READY_TO_RESUME",
      ready_queue: ["a"],
      nodes: [{ status: "QUEUED", worker: null, started_at: null, waiting_on }],
    })
  })

  it("leaves alone what is done, or pending, by the facts", () => {
    const job = new Job(chain("a", "b"))
    job.complete("a")
    const view = viewOf(job)
    const late = live({ ...none, id: "a", status: "RUNNING" })
    expect(withLive({ ...view, live: late }).nodes).toEqual(view.nodes)
    expect(withLive({ ...view, live: null }).nodes).toEqual(view.nodes)
    expect(withLive(view)).toBe(view)
  })

  it("has the position of a node in the queue for a slot", () => {
    const job = new Job(chain("a"))
    job.send({ type: "await_slot", node: 0, attempt: 1, provider: "acme" })
    const waiting_on = { kind: "slot", provider: "acme", position: 3 } as const
    const overlay = live({ ...none, id: "a", status: "QUEUED", waiting_on })
    expect(viewOf(job).waiting_for).toEqual([{ node: "a", ...waiting_on, position: null }])
    expect(withLive({ ...viewOf(job), live: overlay }).waiting_for).toEqual([{ node: "a", ...waiting_on }])
  })

  it("shows which items run, on their page and in the counts of their node", () => {
    const page = {
      items: [
        { index: 0, status: "QUEUED", waiting_on: { kind: "worker" }, progress: null },
        { index: 1, status: "QUEUED", waiting_on: { kind: "worker" }, progress: null },
      ],
      live: { at: 0, items: [{ ...none, index: 1, status: "RUNNING" }] },
    } as const
    expect(withLiveItems(page).items).toMatchObject([
      { status: "QUEUED", waiting_on: { kind: "worker" } },
      { status: "RUNNING", waiting_on: null },
    ])
    const node = { ...nodeOf(new Job(chain("a")), "a"), items: { total: 5, queued: 3, completed: 2 } }
    const graph = { ...viewOf(new Job(chain("a"))), nodes: [node] }
    const overlay = live({ ...none, id: "a", status: "RUNNING", items: { running: 2 } })
    expect(withLive({ ...graph, live: overlay }).nodes[0]!.items).toEqual({
      total: 5,
      queued: 1,
      running: 2,
      completed: 2,
    })
  })
})

describe("J19 workflow_status", () => {
  const statusOf = (job: Job) => viewOf(job).workflow_status

  it("RUNNING once the start of a node is on record, READY_TO_RESUME while one is ready", () => {
    const job = new Job(apart("a", "b"))
    expect(statusOf(job)).toBe("READY_TO_RESUME")
    job.start("a")
    expect(statusOf(job)).toBe("RUNNING")
  })

  it("WAITING_SINGLE, WAITING_PARALLEL, then READY_TO_RESUME when what it waited for has come", () => {
    const job = new Job([...apart("a", "b"), { id: "c", dependencies: ["a"] }])
    job.awaitSignal("a", "go")
    job.sleep("b", 60)
    expect(statusOf(job)).toBe("WAITING_PARALLEL")
    job.pass(60)
    expect(statusOf(job)).toBe("WAITING_SINGLE")
    job.send({ type: "signal", name: "go", data: null })
    expect(statusOf(job)).toBe("READY_TO_RESUME")
  })

  it("null once the job has ended", () => {
    const job = new Job(chain("a"))
    job.send({ type: "cancel" })
    expect(statusOf(job)).toBeNull()
  })
})

describe("progress_pct", () => {
  it("never falls, and is 100 only for a job that completed", () => {
    const script = fc.array(actions, { minLength: 5, maxLength: 40, size: "max" })
    fc.assert(
      fc.property(dags(7), script, (specs, steps) => {
        const simulation = new Simulation(specs)
        let shown = 0
        let completed = false
        for (const step of steps) {
          simulation.act(step)
          const { progress_pct, status } = graphView(simulation.state, { now: 0 })
          completed ||= status === "COMPLETED"
          expect(progress_pct).toBeGreaterThanOrEqual(shown)
          expect(progress_pct === 100).toBe(completed)
          shown = progress_pct
        }
      }),
      { numRuns: 100 },
    )
  })
})

describe("J3 the job's output", () => {
  it("is the rendered template, if there is one", () => {
    const job = new Job([{ id: "a", dependencies: [], handler: "output" }])
    job.send(
      { type: "completed", node: 0, attempt: 1, output: "node's" },
      { result: { job_output: "rendered" } },
    )
    expect(jobOutput(job.state, shownOutput)).toBe("rendered")
  })

  it("else that of the node with handler `output`", () => {
    const job = new Job([
      ...chain("a"),
      { id: "out", dependencies: ["a"], handler: "output" },
      ...apart("other"),
    ])
    for (const id of ["a", "out", "other"]) job.complete(id)
    expect(jobOutput(job.state, shownOutput)).toBe("out done")
  })

  it("else a map of the exit nodes' outputs", () => {
    const job = new Job([...chain("a", "b"), ...apart("skipped")])
    job.complete("a")
    job.skip("skipped")
    job.complete("b")
    expect(jobOutput(job.state, shownOutput)).toEqual({ b: "b done", skipped: { skipped: true } })
  })

  it("marks what is not in memory, unless the caller reads it", () => {
    const job = new Job(chain("a"))
    job.complete("a", new LargeOutput(7, 300_000) as never)
    expect(jobOutput(job.state, shownOutput)).toEqual({ a: { $large: { bytes: 300_000, seq: 7 } } })
    expect(jobOutput(job.state, () => "read")).toEqual({ a: "read" })
  })
})
