import { describe, expect, it } from "vitest"
import { fold } from "../../src/core/apply/apply.ts"
import { pollDelay } from "../../src/core/decide/backoff.ts"
import { wakeAt } from "../../src/core/timers.ts"
import { graphView } from "../../src/core/view/view.ts"
import { chain, graphOf } from "./graphs.ts"
import { final, Job, passing, usualPolls } from "./job.ts"

const apart = (...ids: readonly string[]) => ids.map(id => ({ id, dependencies: [] }))
const made = (output = "film") => ({ type: "completed", output }) as const

describe("an operation at a provider", () => {
  it("X1 makes its node WAITING, and the job has nothing in flight", () => {
    const job = new Job(chain("a", "b"))
    expect(job.submitted("a", "op-1")).toBeNull()
    expect(job.statuses()).toEqual({ a: "WAITING", b: "PENDING" })
    expect(job.state.active).toBe(0)
    expect(graphView(job.state, { now: job.now })).toMatchObject({
      workflow_status: "WAITING_SINGLE",
      waiting_for: [
        {
          node: "a",
          kind: "external",
          provider: "acme",
          external_id: "op-1",
          next_poll_at: job.now + 30_000,
        },
      ],
    })
  })

  it("X1 waits side by side with another: WAITING_PARALLEL", () => {
    const job = new Job(apart("a", "b"))
    job.submitted("a", "op-1")
    job.submitted("b", "op-2")
    expect(graphView(job.state, { now: job.now }).workflow_status).toBe("WAITING_PARALLEL")
    job.news("a", "op-1", made())
    expect(graphView(job.state, { now: job.now }).workflow_status).toBe("WAITING_SINGLE")
  })

  it("X1 is READY_TO_RESUME when what it waited for has come and no worker has taken the next node", () => {
    const job = new Job(chain("a", "b"))
    job.submitted("a", "op-1")
    job.news("a", "op-1", made())
    expect(graphView(job.state, { now: job.now }).workflow_status).toBe("READY_TO_RESUME")
  })

  it("X1 changes the resume token with each resume, and a stale one is refused", () => {
    const job = new Job(apart("a", "b"))
    job.submitted("a", "op-1")
    job.submitted("b", "op-2")
    const token = graphView(job.state, { now: job.now }).resume_token
    expect(job.news("a", "op-1", made(), { resumeToken: token })).toBeNull()
    expect(graphView(job.state, { now: job.now }).resume_token).not.toBe(token)
    expect(job.news("b", "op-2", made(), { resumeToken: token })).toBe("stale_token")
    expect(job.send({ type: "signal", name: "go", data: 1, resumeToken: token })).toBe("stale_token")
    expect(job.news("b", "op-2", made())).toBeNull()
    expect(job.state.status).toBe("COMPLETED")
  })

  it("X4 completes once: the second news of its end is a duplicate", () => {
    const job = new Job(chain("a", "b"))
    job.submitted("a", "op-1")
    expect(job.news("a", "op-1", made("by webhook"), { source: "webhook" })).toBeNull()
    expect(job.news("a", "op-1", made("by poll"))).toBe("duplicate")
    expect(job.state.outputs[0]).toBe("by webhook")
    expect(job.dispatched).toEqual(["a#1", "b#1"])
  })

  it("X4 is not ended by a worker, nor by news of another operation", () => {
    const job = new Job(chain("a"))
    job.submitted("a", "op-1")
    expect(job.complete("a")).toBe("duplicate")
    expect(job.fail("a")).toBe("duplicate")
    expect(job.news("a", "op-0", made())).toBe("stale_operation")
    expect(job.status("a")).toBe("WAITING")
  })

  it("X4 that failed is submitted again as another operation, and the old one's late result is ignored", () => {
    const job = new Job(chain("a"))
    job.submitted("a", "op-1")
    job.news("a", "op-1", { type: "failed", fault: passing })
    expect(job.state.operations.get(0)).toBe(1)
    expect(job.news("a", "op-1", made())).toBe("stale_operation")
    job.pass(15)
    expect(job.dispatched).toEqual(["a#1", "a#2"])
    job.submitted("a", "op-2")
    expect(job.news("a", "op-1", made())).toBe("stale_operation")
    expect(job.news("a", "op-2", made())).toBeNull()
  })

  it("X3 is polled after 30 s, 60 s, 120 s and then every 120 s", () => {
    const job = new Job(chain("a"))
    job.submitted("a", "op-1")
    for (const seconds of [30, 60, 120, 120]) {
      job.pass(seconds - 1)
      expect(job.polled).toEqual([])
      job.pass(1)
      expect(job.polled.splice(0)).toEqual(["a"])
      job.news("a", "op-1", { type: "running" })
    }
    expect([0, 1, 2, 9].map(polls => pollDelay({ ...usualPolls, jitter: 0.1 }, polls, 0.5))).toEqual([
      28_500, 57_000, 114_000, 114_000,
    ])
  })

  it("X3 has at most one poll in flight, and a crash in between loses nothing", () => {
    const job = new Job(chain("a"))
    job.submitted("a", "op-1")
    job.pass(30)
    job.pass(30)
    expect(job.polled).toEqual(["a"])
    expect(wakeAt(job.state)).toBe(0)
    expect(wakeAt(fold(graphOf(job.specs), job.facts))).toBeLessThanOrEqual(job.now)
  })

  it("X3 survives polls that fail until the policy's limit", () => {
    const poll = { ...usualPolls, maxErrors: 2 }
    const job = new Job([{ id: "a", dependencies: [], retry: { maxAttempts: 1 } }])
    job.submitted("a", "op-1")
    const fault = { ...passing, retry_after_seconds: 500 }
    job.news("a", "op-1", { type: "error", fault }, { poll })
    expect(job.state.pollAt.get(0)).toBe(job.now + 500_000)
    job.news("a", "op-1", { type: "running" }, { poll })
    for (const _ of [1, 2]) job.news("a", "op-1", { type: "error", fault: passing }, { poll })
    expect(job.state.status).toBe("PROCESSING")
    job.news("a", "op-1", { type: "error", fault: passing }, { poll })
    expect(job.state.status).toBe("FAILED")
    expect(job.abandoned).toEqual(["a:op-1"])
  })

  it("X3 that can never be polled fails its node at the first poll, and the provider is notified", () => {
    const job = new Job(chain("a"))
    job.submitted("a", "op-1")
    job.news("a", "op-1", { type: "error", fault: final, isFinal: true })
    expect(job.state.status).toBe("FAILED")
    expect(job.abandoned).toEqual(["a:op-1"])
  })

  it("X3 that cannot be followed is submitted again as the same operation: it may still run", () => {
    const job = new Job(chain("a"))
    job.submitted("a", "op-1")
    job.news("a", "op-1", { type: "error", fault: passing }, { poll: { ...usualPolls, maxErrors: 0 } })
    expect(job.state.operations.get(0)).toBeUndefined()
    expect(job.abandoned).toEqual([])
  })

  it("X4 that could not be followed is completed by its webhook all the same, before it is submitted again", () => {
    const job = new Job(chain("a"))
    job.submitted("a", "op-1")
    job.news("a", "op-1", { type: "error", fault: passing }, { poll: { ...usualPolls, maxErrors: 0 } })
    expect(job.status("a")).toBe("QUEUED")
    expect(job.news("a", "op-2", made(), { source: "webhook" })).toBe("stale_operation")
    expect(job.news("a", "op-1", { type: "running" }, { source: "webhook" })).toBe("stale_operation")
    expect(job.news("a", "op-1", made(), { source: "webhook" })).toBeNull()
    expect(job.state.status).toBe("COMPLETED")
    expect(fold(graphOf(job.specs), job.facts).status).toBe("COMPLETED")
    expect(job.news("a", "op-1", made(), { source: "webhook" })).toBe("job_ended")
    expect(job.aborted).toEqual([])
  })

  it("X4 that is being submitted again is completed by its webhook, and the attempt is taken back", () => {
    const job = new Job(chain("a", "b"))
    job.submitted("a", "op-1")
    job.news("a", "op-1", { type: "error", fault: passing }, { poll: { ...usualPolls, maxErrors: 0 } })
    job.pass(15)
    expect(job.news("a", "op-1", made(), { source: "webhook" })).toBeNull()
    expect(job.aborted).toEqual(["a#2"])
    expect(job.submitted("a", "op-1")).toBe("duplicate")
    expect(job.statuses()).toEqual({ a: "COMPLETED", b: "QUEUED" })
  })

  it("J16 that could not be followed is cancelled when its job ends before it is submitted again", () => {
    const job = new Job(chain("a"))
    job.submitted("a", "op-1")
    job.news("a", "op-1", { type: "error", fault: passing }, { poll: { ...usualPolls, maxErrors: 0 } })
    job.send({ type: "cancel" })
    expect(job.abandoned).toEqual(["a:op-1"])
    job.send({ type: "retry" })
    expect(job.state.operations.get(0)).toBe(1)
  })

  it("J15 shows partial results once each, and the job stays in PREVIEW until something happens to a node", () => {
    const job = new Job(apart("a", "b"))
    job.submitted("a", "op-1")
    job.news("a", "op-1", { type: "running", preview: "half" })
    expect(job.state.status).toBe("PREVIEW")
    const before = job.facts.length
    job.news("a", "op-1", { type: "running", preview: "half" }, { source: "webhook" })
    expect(job.facts.length).toBe(before)
    job.complete("b")
    expect(job.state.status).toBe("PROCESSING")
  })

  it("J16 is abandoned when its job is cancelled or fails, and what comes later changes nothing", () => {
    const job = new Job(apart("a", "b"))
    job.submitted("a", "op-1")
    job.fail("b", final)
    expect(job.abandoned).toEqual(["a:op-1"])
    expect(job.news("a", "op-1", made())).toBe("job_ended")
    job.send({ type: "retry" })
    expect(job.state.operations.get(0)).toBe(1)
  })

  it("J17 that takes longer than its provider's time expires the job", () => {
    const job = new Job(chain("a"))
    job.submitted("a", "op-1", { ttlSeconds: 60 })
    job.pass(60)
    expect(job.state.status).toBe("EXPIRED")
    expect(job.abandoned).toEqual(["a:op-1"])
  })

  it("is polled at once when a webhook is only a hint", () => {
    const job = new Job(chain("a"))
    job.submitted("a", "op-1")
    job.news("a", "op-1", { type: "hint" }, { source: "webhook" })
    job.pass(0)
    expect(job.polled).toEqual(["a"])
  })
})

describe("a provider that requests a pause (429)", () => {
  const busy = { code: "E409", message: "too many", retryable: true, details: { status: 429 } } as const
  const atProvider = [{ id: "a", dependencies: [], provider: "acme", retry: { maxAttempts: 2 } }]

  it("X6 has used up no try, however often it says so", () => {
    const job = new Job(atProvider)
    for (let n = 0; n < 20; n++) {
      expect(job.fail("a", { ...busy, retry_after_seconds: n })).toBeNull()
      job.pass(300)
    }
    expect(job.state.tries[0]).toBe(0)
    expect(job.attemptOf("a")).toBe(21)
    expect(fold(graphOf(job.specs), job.facts).tries[0]).toBe(0)
    job.fail("a")
    job.pass(300)
    job.fail("a", busy)
    job.pass(300)
    expect(job.state.tries[0]).toBe(1)
    job.fail("a")
    expect(job.state.status).toBe("FAILED")
  })

  it("X6 is polled less and less often: after the time that it names, and at least after a wait that grows to the policy's maximum", () => {
    const job = new Job(atProvider)
    const waits = [0, 0, 0, 1000, 0, 0, 0].map(retry_after_seconds => {
      job.fail("a", { ...busy, retry_after_seconds })
      const wait = job.state.retryAt.get(0)! - job.now
      job.pass(wait / 1000)
      return wait / 1000
    })
    expect(waits).toEqual([15, 30, 60, 1000, 240, 300, 300])
  })

  it("X6 is polled at most once a second, whatever it and the policy say", () => {
    const job = new Job([{ ...atProvider[0]!, retry: { initialSeconds: 0 } }])
    for (let n = 0; n < 1100; n++) {
      job.fail("a", { ...busy, retry_after_seconds: 0 })
      expect(job.state.retryAt.get(0)).toBe(job.now + 1000)
      job.pass(1)
    }
  })

  it("J17 is waited for until the job's time is over", () => {
    const job = new Job(atProvider, { ttlSeconds: 100 })
    job.fail("a", { ...busy, retry_after_seconds: 3600 })
    job.pass(100)
    expect(job.state.status).toBe("EXPIRED")
  })

  it("J13 uses up a try where no provider is named, or where it is said to be final", () => {
    const job = new Job(apart("a"))
    job.fail("a", busy)
    expect(job.state.tries[0]).toBe(1)
    const finally_ = new Job(atProvider)
    finally_.fail("a", { ...busy, retryable: false })
    expect(finally_.state.status).toBe("FAILED")
  })

  it("X3 X6 is polled again at the time that it names, and that is no failed poll", () => {
    const poll = { ...usualPolls, maxErrors: 0 }
    const job = new Job(atProvider)
    job.submitted("a", "op-1")
    for (const _ of [1, 2, 3])
      job.news("a", "op-1", { type: "error", fault: { ...busy, retry_after_seconds: 500 } }, { poll })
    expect(job.status("a")).toBe("WAITING")
    expect(job.state.pollAt.get(0)).toBe(job.now + 500_000)
    expect(job.facts.at(-1)).toMatchObject({ because: "postponed", fault: { code: "E409" } })
  })
})

describe("a node without a slot of its provider", () => {
  const slot = (node = 0) => ({ type: "await_slot", node, attempt: 1, provider: "acme" }) as const

  it("X5 stays QUEUED without a worker, and starts when the slot is granted", () => {
    const job = new Job(chain("a"))
    expect(job.send(slot())).toBeNull()
    expect(job.state.active).toBe(0)
    expect(job.complete("a")).toBe("stale_attempt")
    const view = graphView(job.state, { now: job.now })
    expect(view.waiting_for).toEqual([{ node: "a", kind: "slot", provider: "acme", position: null }])
    expect(job.send({ type: "grant_slot", node: 0 })).toBeNull()
    expect(job.send({ type: "grant_slot", node: 0 })).toBe("duplicate")
    expect(job.dispatched).toEqual(["a#1", "a#1"])
    expect(job.complete("a")).toBeNull()
  })

  it("X5 is not lost with a process, since no process had it", () => {
    const job = new Job(chain("a"))
    job.send(slot())
    expect(job.send({ type: "recover" })).toBe("nothing_due")
  })

  it("J16 never starts once its job is cancelled", () => {
    const job = new Job(chain("a"))
    job.send(slot())
    job.send({ type: "cancel" })
    expect(job.aborted).toEqual([])
    expect(job.send({ type: "grant_slot", node: 0 })).toBe("job_ended")
  })
})
