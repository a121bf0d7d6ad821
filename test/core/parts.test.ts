/** Parts of the core that other rooms use more than the core itself does. */
import { describe, expect, it } from "vitest"
import { apply } from "../../src/core/apply/apply.ts"
import type { Command } from "../../src/core/commands.ts"
import { decide } from "../../src/core/decide/decide.ts"
import type { Fact } from "../../src/core/facts.ts"
import { encodeProgress, isDrained, newProgress } from "../../src/core/pipeline/progress.ts"
import { routeViews } from "../../src/core/pipeline/view.ts"
import {
  LargeOutput,
  ListOutput,
  newJobState,
  type Output,
  parseTaskKey,
  taskKey,
} from "../../src/core/state.ts"
import { jobMetrics } from "../../src/core/statistics/job-metrics.ts"
import { addJob, type Totals } from "../../src/core/statistics/totals.ts"
import { Checkpoint } from "../../src/core/view/checkpoints.ts"
import { graphView } from "../../src/core/view/view.ts"
import { chain, graphOf } from "./graphs.ts"
import { Job, passing } from "./job.ts"

describe("a checkpoint of a job", () => {
  const expanded = (count: number) => {
    const job = new Job(chain("a"))
    job.send({ type: "expand", node: 0, attempt: 1, items: Array.from({ length: count }, (_, n) => n) })
    return job
  }

  it("restores a list as it was, whatever happens afterwards", () => {
    const job = expanded(1500)
    const first = new Checkpoint(job.state)
    const then = structuredClone([...job.state.lists.get(0)!.state.nodeStatus])
    job.send({ type: "completed", node: 0, item: 1400, attempt: 1, output: "done" })
    const second = new Checkpoint(job.state, first)
    const statuses = (checkpoint: Checkpoint) => [...checkpoint.restore().lists.get(0)!.state.nodeStatus]
    expect(statuses(first)).toEqual(then)
    expect(statuses(second)).toEqual([...job.state.lists.get(0)!.state.nodeStatus])
    expect(second.restore().lists.get(0)!.state.outputs[1400]).toBe("done")
  })

  it("shares what did not change with the one before, and counts the entries of maps", () => {
    const job = expanded(5000)
    const counted = new Set<object>()
    const first = new Checkpoint(job.state)
    const whole = first.bytes(counted)
    const bare = new Checkpoint(job.state, first).bytes(counted)
    expect(bare).toBeLessThan(whole / 5)
    job.send({ type: "failed", node: 0, item: 7, attempt: 1, fault: passing })
    const changed = new Checkpoint(job.state, first)
    expect(changed.bytes(counted)).toBeGreaterThan(bare)
    const signalled = new Job(chain("a"))
    const before = new Checkpoint(signalled.state).bytes(new Set())
    signalled.send({ type: "signal", name: "go", data: 1 })
    expect(new Checkpoint(signalled.state).bytes(new Set()) - before).toBe(80)
  })
})

describe("a task as one number", () => {
  it.each([{ node: 0 }, { node: 7 }, { node: 7, item: 0 }, { node: 0, item: 99_999 }])(
    "is %j again",
    task => {
      expect(parseTaskKey(taskKey(task))).toEqual(task)
    },
  )
})

describe("the output of a list", () => {
  it("is read again when a part of it has left memory", () => {
    const parts: Output[] = ["a", "b"]
    const list = new ListOutput(parts)
    expect(list.whole(() => null)).toEqual(["a", "b"])
    parts[1] = new LargeOutput(4, 100)
    list.partLeft()
    expect(list.whole(({ seq }) => `of fact ${seq}`)).toEqual(["a", "of fact 4"])
    parts[0] = "c"
    parts[1] = "d"
    list.partLeft()
    expect(list.whole(() => null)).toEqual(["c", "d"])
    parts[0] = "e"
    list.partLeft()
    expect(list.whole(() => null)).toEqual(["e", "d"])
  })
})

describe("the progress of a pipeline", () => {
  it("is drained when it has begun, all is settled and nothing waits", () => {
    const progress = newProgress(1)
    const route = progress.routes[0]!
    expect(isDrained(progress)).toBe(false)
    progress.isBegun = true
    expect(isDrained(progress)).toBe(true)
    route.tail = 1
    expect(isDrained(progress)).toBe(false)
    route.settled.add(1)
    route.waiting = 1
    expect(isDrained(progress)).toBe(false)
  })

  it("is shown with what is queued, in flight and waiting; without a process nothing runs", () => {
    const progress = newProgress(1)
    Object.assign(progress.routes[0]!, { tail: 10, waiting: 2 })
    const live = { routes: [{ in_flight: 3, retrying: 1, rate: 5, latency_ms: 7 }] }
    const route = {
      ...{ name: "r", inbound: "q", adapters: [{ type: "echo" }], outbound: new Map() },
      backpressure: { maxQueued: 100 },
    }
    const [running] = routeViews([route], encodeProgress(progress, live), true)
    expect(running).toMatchObject({ queued: 8, in_flight: 3, waiting: 1, rate: 5, latency_ms: 7 })
    const [stopped] = routeViews([route], encodeProgress(progress, live), false)
    expect(stopped).toMatchObject({ queued: 10, in_flight: 0, waiting: 2, rate: 0, latency_ms: 0 })
  })
})

describe("a list whose items wait", () => {
  it("for their retry waits for items, and counts them by what they wait for", () => {
    const job = new Job(chain("a"))
    job.send({ type: "expand", node: 0, attempt: 1, items: [1, 2] })
    for (const item of [0, 1]) job.send({ type: "failed", node: 0, item, attempt: 1, fault: passing })
    const waits = () => graphView(job.state, { now: job.now }).nodes[0]!.waiting_on
    expect(waits()).toMatchObject({ kind: "items", waiting: 2, waits: { retry: 2 } })
    job.now += 15_000
    expect(waits()).toMatchObject({ kind: "worker" })
  })
})

describe("totals", () => {
  it("have how long jobs took that completed, and not how long the others did", () => {
    const totals = new Map<string, Totals>()
    const took = (ms: number, end: (job: Job) => void) => {
      const job = new Job(chain("a"))
      job.now += ms
      end(job)
      addJob(totals, jobMetrics(job.state))
    }
    took(15, job => job.complete("a"))
    took(5, job => job.send({ type: "cancel" }))
    const [ofJobs] = totals.values()
    expect(ofJobs).toMatchObject({ count: 2, cancelled: 1 })
    expect(ofJobs!.duration.quantiles([0, 1])).toEqual([15, 15])
  })
})

describe("a fork", () => {
  it("that takes over a whole list says from which job", () => {
    const graph = graphOf(chain("a", "b"))
    const state = newJobState(graph)
    const fork = {
      ...{ job_id: "origin", jobs: ["origin"] },
      nodes: [
        {
          node: 0,
          list: { count: 2, job: 0, seq: 4 },
          items: [
            [0, 0, 5],
            [1, 0, 6],
          ],
        },
      ],
    }
    const command = {
      ...{ type: "submit", owner: "ada", workflow: "flow", workflowVersion: 3, input: {} },
      ...{ ttlSeconds: null, priority: 0, fork },
    } as unknown as Command
    const decided = decide(state, command, { now: 1_000_000, random: 0, lossLimit: 3 })
    for (const fact of decided as readonly Fact[]) apply(state, fact, [])
    const [list, next] = graphView(state, { now: 1_000_000 }).nodes
    expect(list).toMatchObject({ status: "COMPLETED", reused_from: "origin" })
    expect(next).toMatchObject({ status: "QUEUED" })
  })
})
