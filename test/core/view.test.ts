import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { jobOutput } from "../../src/core/job-output.ts"
import { LargeOutput, shownOutput } from "../../src/core/state.ts"
import { graphView } from "../../src/core/view.ts"
import { actions } from "./actions.ts"
import { chain, dags, fan } from "./graphs.ts"
import { final, Job, passing } from "./job.ts"
import { Simulation } from "./simulation.ts"

const idle = { isRunning: () => false }
const apart = (...ids: readonly string[]) => ids.map(id => ({ id, dependencies: [] }))
const nodeOf = (job: Job, id: string, live?: Parameters<typeof graphView>[1]) =>
  graphView(job.state, live).nodes[job.node(id)]!

describe("J19 the graph of a job", () => {
  it("shows nodes, edges, incoming counts, ready queue, operations", () => {
    const job = new Job(fan(2))
    job.complete("first")
    const view = graphView(job.state, idle)
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
    const view = graphView(job.state, idle)
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

  it("takes from the overlay what runs and how far it is", () => {
    const job = new Job(apart("a", "b"))
    const live = {
      isRunning: (node: number) => node === 0,
      progress: () => ({ percent: 40, message: "half" }),
    }
    expect(nodeOf(job, "a", live)).toMatchObject({
      status: "RUNNING",
      waiting_on: null,
      progress: { percent: 40 },
    })
    expect(nodeOf(job, "b", live)).toMatchObject({ status: "QUEUED", progress: null })
    expect(graphView(job.state, live).ready_queue).toEqual(["b"])
  })
})

describe("J19 workflow_status", () => {
  const statusOf = (job: Job, live?: Parameters<typeof graphView>[1]) =>
    graphView(job.state, live).workflow_status

  it("RUNNING while a worker has a node, or may have one for all that is known", () => {
    const job = new Job(apart("a", "b"))
    expect(statusOf(job)).toBe("RUNNING")
    job.start("a")
    expect(statusOf(job, idle)).toBe("RUNNING")
  })

  it("WAITING_SINGLE, WAITING_PARALLEL, then READY_TO_RESUME when what it waited for has come", () => {
    const job = new Job([...apart("a", "b"), { id: "c", dependencies: ["a"] }])
    job.awaitSignal("a", "go")
    job.sleep("b", 60)
    expect(statusOf(job, idle)).toBe("WAITING_PARALLEL")
    job.pass(60)
    expect(statusOf(job, idle)).toBe("WAITING_SINGLE")
    job.send({ type: "signal", name: "go", data: null })
    expect(statusOf(job, idle)).toBe("READY_TO_RESUME")
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
          const { progress_pct, status } = graphView(simulation.state)
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
    job.send({ type: "completed", node: 0, attempt: 1, output: "node's", jobOutput: "rendered" })
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
