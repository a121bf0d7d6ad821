import { describe, expect, it } from "vitest"
import { fold } from "../../src/core/apply/apply.ts"
import { retryDelay } from "../../src/core/decide/backoff.ts"
import { readNodeStatus } from "../../src/core/state.ts"
import { taskIsolation } from "../../src/core/suspects.ts"
import { nextTimer, wakeAt } from "../../src/core/timers.ts"
import { graphView } from "../../src/core/view/view.ts"
import fc from "../support/property.ts"
import { chain, graphOf, usualRetry } from "./graphs.ts"
import { final, Job, passing } from "./job.ts"

const patient = chain("a").map(spec => ({ ...spec, retry: { maxAttempts: 9 } }))

describe("J13 backoff", () => {
  it("15 s → 30 s → 60 s and so on, never over 300 s", () => {
    const seconds = [1, 2, 3, 4, 5, 6, 7, 50].map(failures => retryDelay(usualRetry, failures, 0) / 1000)
    expect(seconds).toEqual([15, 30, 60, 120, 240, 300, 300, 300])
  })

  it("jitter takes off up to its share and never adds", () => {
    const share = fc.double({ min: 0, max: 1, noNaN: true })
    const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
    fc.assert(
      fc.property(share, chance, fc.integer({ min: 1, max: 100 }), (jitter, random, failures) => {
        const whole = retryDelay(usualRetry, failures, random)
        const delay = retryDelay({ ...usualRetry, jitter }, failures, random)
        expect(delay).toBeLessThanOrEqual(whole)
        expect(delay).toBeGreaterThanOrEqual(Math.floor(whole * (1 - jitter)))
      }),
    )
  })

  it("the retry comes when it is due, not before", () => {
    const job = new Job(chain("a"))
    job.fail("a")
    expect(nextTimer(job.state)).toBe(job.now + 15_000)
    expect(wakeAt(job.state)).toBe(job.now + 15_000)
    job.pass(14)
    expect(job.dispatched).toEqual(["a#1"])
    job.pass(1)
    expect(job.dispatched).toEqual(["a#1", "a#2"])
  })

  it("Retry-After counts when it is longer than the backoff", () => {
    const waits = [0, 10, 40].map(retry_after_seconds => {
      const job = new Job(chain("a"))
      job.fail("a", { ...passing, retry_after_seconds })
      return (nextTimer(job.state)! - job.now) / 1000
    })
    expect(waits).toEqual([15, 15, 40])
  })

  it("what is not retryable fails at the first try", () => {
    const job = new Job(chain("a"))
    job.fail("a", final)
    expect(job.state.status).toBe("FAILED")
  })

  it("three tries by default, then the job fails with the last fault", () => {
    const job = new Job(chain("a"))
    job.fail("a")
    job.pass(15)
    job.fail("a")
    job.pass(30)
    expect(job.state.status).toBe("PROCESSING")
    job.fail("a", { ...passing, message: "third" })
    expect(job.state.fault?.fault.message).toBe("third")
    expect(job.dispatched).toEqual(["a#1", "a#2", "a#3"])
  })
})

describe("tries count failures, attempts fence", () => {
  it("a lost process raises the attempt and spends no try", () => {
    const job = new Job(chain("a"))
    job.send({ type: "recover" })
    expect(job.dispatched).toEqual(["a#1", "a#2"])
    expect(job.state.tries[0]).toBe(0)
    expect(job.complete("a", "late", 1)).toBe("stale_attempt")
  })

  it("a process that ends in order hands over what runs: the next attempt, and no loss however often", () => {
    const job = new Job(chain("a"))
    for (let restart = 0; restart < 10; restart++) {
      job.start("a")
      job.send({ type: "hand_over" })
    }
    expect(job.state.losses[0]).toBe(0)
    expect(job.attemptOf("a")).toBe(11)
    expect(job.send({ type: "hand_over" })).toBe("nothing_due")
    job.start("a")
    job.send({ type: "recover" })
    expect(job.state.losses[0]).toBe(1)
  })

  it("J21 hands over items as it does nodes", () => {
    const job = new Job(chain("a"))
    job.send({ type: "expand", node: 0, attempt: 1, items: [1, 2] })
    for (let attempt = 1; attempt < 10; attempt++) {
      job.send({ type: "started", node: 0, item: 1, attempt, worker: "w" })
      job.send({ type: "hand_over" })
    }
    const list = job.state.lists.get(0)!.state
    expect([...list.losses]).toEqual([0, 0])
    expect([...list.attempt]).toEqual([1, 10])
    expect(job.facts.at(-1)).toMatchObject({ type: "items_lost", node: 0, items: [1], handed_over: true })
    expect(job.send({ type: "hand_over" })).toBe("nothing_due")
  })

  it("a failure after a loss waits as long as a first failure", () => {
    const job = new Job(chain("a"))
    job.send({ type: "recover" })
    job.fail("a")
    expect(nextTimer(job.state)).toBe(job.now + 15_000)
  })

  it("a retry time that has not come survives a crash, one that has come is a lost attempt", () => {
    const job = new Job(patient)
    job.fail("a")
    expect(job.send({ type: "recover" })).toBe("nothing_due")
    job.pass(15)
    job.send({ type: "recover" })
    expect(job.dispatched).toEqual(["a#1", "a#2", "a#3"])
    expect(job.state.tries[0]).toBe(1)
  })

  it("a waiting node has no process to lose", () => {
    const job = new Job(chain("a"))
    job.start("a")
    job.sleep("a", 60)
    expect(job.send({ type: "recover" })).toBe("nothing_due")
    expect(job.attemptOf("a")).toBe(1)
  })
})

/** The process dies while the node is the only isolated one that runs in it. */
function dieAlone(job: Job, otherDiedAt?: number): void {
  job.pass(1)
  job.send(
    { type: "started", ...job.task("a"), worker: "w1", alone: true },
    otherDiedAt === undefined ? {} : { otherDiedAt },
  )
  job.pass(1)
  job.send({ type: "recover" })
}

describe("losses have a limit of their own", () => {
  it("only attempts whose start was recorded count", () => {
    const job = new Job(chain("a"))
    for (let crash = 0; crash < 10; crash++) job.send({ type: "recover" })
    expect(job.state.losses[0]).toBe(0)
    expect(taskIsolation(job.state, 0)).toBeUndefined()
    expect(job.state.status).not.toBe("FAILED")
  })

  it("a node that is known to run when its process dies beside others is isolated, and never blamed for that", () => {
    const job = new Job(chain("a"))
    for (let crash = 0; crash < 10; crash++) {
      job.start("a")
      job.send({ type: "recover" })
    }
    expect(job.state.losses[0]).toBe(10)
    expect(taskIsolation(job.state, 0)).toEqual({ diedAt: 0, deaths: 0, seconds: 60 })
    expect(job.state.status).not.toBe("FAILED")
  })

  it("the third death alone fails the node with E417, and is one of its losses", () => {
    const job = new Job(chain("a"))
    dieAlone(job)
    dieAlone(job)
    expect(taskIsolation(job.state, 0)).toEqual({ diedAt: job.now, deaths: 2, seconds: 60 })
    dieAlone(job)
    expect(job.state).toMatchObject({ status: "FAILED", fault: { fault: { code: "E417" }, node: 0 } })
    expect(graphView(job.state, { now: job.now }).nodes[0]).toMatchObject({ attempt: 3, losses: 3 })
    job.send({ type: "retry" })
    expect(graphView(job.state, { now: job.now }).nodes[0]).toMatchObject({ attempt: 4, losses: 3 })
  })

  it("a node that is blamed ends its job: what was lost beside it is not handed out again", () => {
    const job = new Job([
      { id: "a", dependencies: [] },
      { id: "beside", dependencies: [] },
    ])
    for (let crash = 0; crash < 3; crash++) dieAlone(job)
    expect(job.state.status).toBe("FAILED")
    expect(job.facts.at(-1)).toMatchObject({ type: "node_failed", node: 0 })
    expect(job.dispatched.at(-1)).toBe("beside#3")
  })

  it("if another node died alone in between, it takes three times as many", () => {
    const job = new Job(chain("a"))
    for (let crash = 0; crash < 8; crash++) dieAlone(job, job.now)
    expect(job.state.status).not.toBe("FAILED")
    expect(job.state.suspects.get(0)).toMatchObject({ deaths: 8, streak: 1 })
    dieAlone(job, job.now)
    expect(job.state.fault).toMatchObject({ fault: { code: "E417", details: { deaths: 9 } } })
  })

  it("the other deaths that count are those since it last began alone: also one at the same time", () => {
    const job = new Job(chain("a"))
    dieAlone(job)
    const { begunAt } = job.state.suspects.get(0)!
    dieAlone(job, begunAt - 1)
    expect(job.state.suspects.get(0)!.streak).toBe(2)
    dieAlone(job, job.state.suspects.get(0)!.begunAt)
    expect(job.state.suspects.get(0)).toMatchObject({ deaths: 3, streak: 1 })
  })

  it("a suspect that another joined has not died alone; it may run alone twice as long the next time", () => {
    const job = new Job(chain("a"))
    job.start("a")
    job.send({ type: "recover" })
    for (let crash = 0; crash < 10; crash++) {
      job.send({ type: "started", ...job.task("a"), worker: "w1", alone: true })
      const { started_at } = graphView(job.state, { now: job.now }).nodes[0]!
      job.pass(60)
      job.send({ type: "started", ...job.task("a"), worker: "w1", alone: false })
      expect(graphView(job.state, { now: job.now }).nodes[0]!.started_at).toBe(started_at)
      job.send({ type: "recover" })
    }
    expect(job.state.status).not.toBe("FAILED")
    expect(taskIsolation(job.state, 0)).toEqual({ diedAt: 0, deaths: 0, seconds: 60 * 64 })
  })

  it.each<[string, (job: Job) => void]>([
    ["fails", job => job.fail("a")],
    ["waits", job => job.sleep("a", 60)],
    ["completes", job => job.complete("a")],
  ])("a node that lost an attempt is a suspect until an attempt of it %s", (_, end) => {
    const job = new Job([...chain("a"), { id: "b", dependencies: [] }])
    dieAlone(job)
    expect([...job.state.suspects.keys()]).toEqual([0, 1])
    end(job)
    expect([...job.state.suspects.keys()]).toEqual([1])
  })

  it("starts of 0.1.0, which do not say whether they were alone, isolate and do not blame", () => {
    const graph = graphOf(chain("a"))
    const submitted = new Job(chain("a")).facts[0]!
    const lives = Array.from({ length: 5 }, (_, life) => [
      { type: "node_started", at: life, node: 0, attempt: life + 1, worker: "local-1" } as const,
      { type: "tasks_lost", at: life, nodes: [0] } as const,
    ])
    const state = fold(graph, [submitted, ...lives.flat()])
    expect(state.suspects.get(0)).toMatchObject({ isolated: true, deaths: 0 })
  })

  it("J21 an item that is blamed in a list without fail_fast does not stop the other items and nodes", () => {
    const job = new Job([
      { id: "list", dependencies: [], failFast: false },
      { id: "beside", dependencies: [] },
    ])
    job.send({ type: "expand", node: 0, attempt: 1, items: [1, 2] })
    for (let attempt = 1; attempt <= 3; attempt++) {
      job.send({ type: "started", node: 0, item: 0, attempt, worker: "w", alone: true })
      job.send({ type: "recover" })
    }
    const list = job.state.lists.get(0)!.state
    expect(readNodeStatus(list, 0)).toBe("FAILED")
    expect([list.attempt[1], job.attemptOf("beside")]).toEqual([4, 4])
    expect(job.dispatched).toContain("beside#4")
    expect(job.state.status).toBe("PROCESSING")
  })

  it("a pipeline is never isolated or blamed; to others its death counts as another's", () => {
    const job = new Job([{ id: "a", dependencies: [], resumes: true }])
    for (let crash = 0; crash < 20; crash++) {
      job.start("a")
      job.send({ type: "recover" })
    }
    expect(job.state.status).not.toBe("FAILED")
    expect(taskIsolation(job.state, 0)).toBeUndefined()
    expect(job.state.suspects.get(0)!.diedAt).toBe(job.now)
  })

  it("a pause stops a node that its owner runs itself, after its start was recorded too", () => {
    const job = new Job([{ id: "a", dependencies: [], resumes: true }])
    job.start("a")
    job.send({ type: "pause" })
    expect(readNodeStatus(job.state, 0)).toBe("QUEUED")
    expect(job.state.held).toEqual(new Set([0]))
    const before = job.dispatched.length
    job.send({ type: "resume" })
    expect(job.dispatched.slice(before)).toEqual(["a#2"])
    expect(job.state.losses[0]).toBe(0)
    job.start("a")
    job.send({ type: "pause", kept: [{ node: 0 }] })
    expect(readNodeStatus(job.state, 0)).toBe("RUNNING")
  })

  it("an explicit retry starts the count again", () => {
    const job = new Job(chain("a"))
    job.start("a")
    job.send({ type: "recover" })
    job.send({ type: "cancel" })
    job.send({ type: "retry" })
    expect(job.state.losses[0]).toBe(0)
    expect(job.state.suspects.size).toBe(0)
  })
})
