import { describe, expect, it } from "vitest"
import type { JobState } from "../../src/core/state.ts"
import { chain, fan } from "./graphs.ts"
import { final, Job, passing } from "./job.ts"

/** Maps that are empty until something is added have private fields, which a clone would lose. */
function copyOf(state: JobState): unknown {
  const fields = Object.entries({ ...state, graph: null })
  return structuredClone(
    fields.map(([name, value]) => [
      name,
      value instanceof Object && "keys" in value && "get" in value
        ? new Map(value as Map<unknown, unknown>)
        : value,
    ]),
  )
}

describe("J2 the job's state follows from its nodes", () => {
  it("J1 is PROCESSING from its submission on, since its first nodes were handed out, then COMPLETED", () => {
    const job = new Job(chain("a", "b"))
    expect(job.state.status).toBe("PROCESSING")
    job.complete("a")
    expect(job.state.status).toBe("PROCESSING")
    job.complete("b")
    expect(job.state.status).toBe("COMPLETED")
    expect(job.ends).toBe(1)
  })

  it("is COMPLETED when every node is COMPLETED or SKIPPED", () => {
    const job = new Job(chain("a", "b"))
    job.skip("a")
    job.complete("b")
    expect(job.state.status).toBe("COMPLETED")
  })

  it("is FAILED when the job's own output does not render although every node is done", () => {
    const job = new Job(chain("a"))
    job.send({ type: "completed", node: 0, attempt: 1, output: 1 }, { result: { job_fault: final } })
    expect(job.state).toMatchObject({ status: "FAILED", fault: { fault: final } })
    expect(job.status("a")).toBe("COMPLETED")
    expect(job.send({ type: "retry" })).toBe("nothing_to_retry")
  })
})

describe("J15 a job that expires says why", () => {
  const expired = (options: ConstructorParameters<typeof Job>[1]) => {
    const job = new Job(chain("a"), options)
    job.pass(100)
    return job.state
  }
  const parent = { job_id: "p", node: 0, path: ["above"] }

  it("its own time to live, with or without a parent", () => {
    const own = {
      status: "EXPIRED",
      endReason: "It was not done within its time to live of 60 s (ttl_seconds).",
    }
    expect(expired({ ttlSeconds: 60 })).toMatchObject(own)
    expect(expired({ ttlSeconds: 60, parent })).toMatchObject(own)
    expect(expired({ ttlSeconds: 60, parent, expiresBy: 1_060_000 })).toMatchObject(own)
  })

  it("the time of its parent's node, where that ends first", () => {
    const endReason = "It was not done within the time that its parent's node has for it."
    for (const ttl of [{}, { ttlSeconds: 60 }])
      expect(expired({ ...ttl, parent, expiresBy: 1_059_999 })).toMatchObject({
        status: "EXPIRED",
        endReason,
      })
  })
})

describe("J6 one action is one fact with all that follows", () => {
  it("one completion is one fact, whatever it sets free", () => {
    const job = new Job(fan(100))
    const before = job.facts.length
    job.complete("first")
    expect(job.facts.length - before).toBe(1)
    expect(job.dispatched).toHaveLength(101)
  })

  it("a refused command changes nothing", () => {
    const job = new Job(chain("a", "b"))
    const before = copyOf(job.state)
    expect(job.complete("b")).toBe("duplicate")
    expect(job.send({ type: "retry" })).toBe("job_not_ended")
    expect(job.send({ type: "delete" })).toBe("job_not_ended")
    expect(job.send({ type: "wake" })).toBe("nothing_due")
    expect(job.send({ type: "completed", node: 9, attempt: 1, output: 1 })).toBe("no_such_node")
    expect(copyOf(job.state)).toEqual(before)
  })

  it("a job is submitted once", () => {
    const job = new Job(chain("a"))
    const again = { owner: "ada", workflow: "flow", workflowVersion: 3, input: null, priority: 0 }
    expect(job.send({ type: "submit", ...again, ttlSeconds: null })).toBe("job_exists")
  })
})

describe("J7 fan-out and fan-in", () => {
  it("fan-in fires once, with the last parent, in any order", () => {
    const job = new Job(fan(3))
    job.complete("first")
    for (const id of ["p2", "p0", "p1"]) {
      expect(job.dispatched).not.toContain("join#1")
      job.complete(id)
    }
    expect(job.dispatched.filter(task => task === "join#1")).toHaveLength(1)
    expect(job.state.outputs.slice(1, 4)).toEqual(["p0 done", "p1 done", "p2 done"])
  })
})

describe("J8 exactly-once bookkeeping", () => {
  it("a second result of the same attempt is a duplicate, also after the job has ended", () => {
    const job = new Job(chain("a", "b"))
    job.complete("a", 1)
    expect(job.complete("a", 2)).toBe("duplicate")
    job.complete("b")
    expect(job.complete("a", 3)).toBe("duplicate")
    expect(job.state.outputs[0]).toBe(1)
  })

  it("a stale attempt's result is refused, and so is one that comes before its retry is due", () => {
    const job = new Job(chain("a"))
    job.fail("a")
    expect(job.complete("a", "late", 1)).toBe("stale_attempt")
    expect(job.complete("a", "early", 2)).toBe("stale_attempt")
    job.pass(15)
    expect(job.complete("a", "right", 2)).toBeNull()
  })

  it("a start is recorded once per attempt", () => {
    const job = new Job(chain("a"))
    expect(job.start("a")).toBeNull()
    expect(job.start("a")).toBe("duplicate")
  })
})

describe("J9 fail-fast", () => {
  const specs = [
    ...chain("a", "b", "c"),
    { id: "beside", dependencies: [] },
    { id: "after_beside", dependencies: ["beside"] },
  ]

  it("downstream fails with the cause named, the rest is cancelled, running work is aborted", () => {
    const job = new Job(specs)
    job.fail("a", final)
    expect(job.state.status).toBe("FAILED")
    expect(job.statuses()).toEqual({
      a: "FAILED",
      b: "FAILED",
      c: "FAILED",
      beside: "CANCELLED",
      after_beside: "CANCELLED",
    })
    expect(job.state.faults.get(job.node("c"))).toEqual({ fault: final, cause: job.node("a") })
    expect(job.state.fault).toEqual({ fault: final, node: job.node("a") })
    expect(job.aborted).toEqual(["beside#1"])
  })

  it("late completions are ignored, and nothing but a retry leaves FAILED", () => {
    const job = new Job(specs)
    job.fail("a", final)
    expect(job.complete("beside")).toBe("job_ended")
    expect(job.send({ type: "cancel" })).toBe("job_ended")
    expect(job.send({ type: "recover" })).toBe("job_ended")
    expect(job.state.status).toBe("FAILED")
  })

  it("a signal that does not come in time fails the job, and what else was due stays undone", () => {
    const job = new Job([
      { id: "ask", dependencies: [] },
      { id: "nap", dependencies: [] },
      { id: "work", dependencies: ["nap"] },
    ])
    job.awaitSignal("ask", "approve", 5)
    job.sleep("nap", 5)
    job.pass(5)
    expect(job.state.fault?.fault.code).toBe("E416")
    expect(job.statuses()).toEqual({ ask: "FAILED", nap: "CANCELLED", work: "CANCELLED" })
    expect(job.dispatched).not.toContain("work#1")
  })
})

describe("J10 partial retry", () => {
  it("runs exactly what is not COMPLETED or SKIPPED, each with a new attempt and all its tries", () => {
    const job = new Job([
      ...chain("a", "b", "c"),
      { id: "s", dependencies: [] },
      { id: "x", dependencies: [] },
    ])
    job.complete("a", "kept")
    job.skip("s")
    job.fail("b", final)
    job.dispatched.length = 0
    expect(job.send({ type: "retry" })).toBeNull()
    expect(job.state.status).toBe("PROCESSING")
    expect(job.dispatched).toEqual(["b#2", "x#2"])
    expect(job.statuses()).toEqual({ a: "COMPLETED", b: "QUEUED", c: "PENDING", s: "SKIPPED", x: "QUEUED" })
    expect(job.state.tries[job.node("b")]).toBe(0)
    expect(job.state.outputs[0]).toBe("kept")
    expect(job.complete("x", "of the aborted attempt", 1)).toBe("stale_attempt")
    for (const id of ["b", "c", "x"]) job.complete(id)
    expect(job.state.status).toBe("COMPLETED")
  })

  it("a COMPLETED job is not retried, a DELETED one neither", () => {
    const job = new Job(chain("a"))
    job.complete("a")
    expect(job.send({ type: "retry" })).toBe("job_final")
    expect(job.send({ type: "delete" })).toBeNull()
    expect(job.send({ type: "retry" })).toBe("job_final")
    expect(job.send({ type: "delete" })).toBe("job_final")
    expect(job.state.status).toBe("DELETED")
  })
})

describe("J12 skip", () => {
  it("the output says so, and dependents continue", () => {
    const job = new Job(chain("a", "b"))
    job.skip("a")
    expect(job.status("a")).toBe("SKIPPED")
    expect(job.state.outputs[0]).toEqual({ skipped: true })
    expect(job.dispatched).toContain("b#1")
  })

  it("a node that runs is not skipped any more", () => {
    const started = new Job(chain("a"))
    started.start("a")
    expect(started.skip("a")).toBe("node_running")
    const previewed = new Job(chain("a"))
    previewed.preview("a", 1)
    expect(previewed.skip("a")).toBe("node_running")
  })
})

describe("J15 PREVIEW", () => {
  it("shows partial results and goes back to PROCESSING with the next node event", () => {
    const job = new Job(chain("a", "b"))
    job.preview("a", { half: true })
    expect(job.state.status).toBe("PREVIEW")
    expect(job.status("a")).toBe("RUNNING")
    expect(job.state.previews.get(0)).toEqual({ half: true })
    job.complete("a")
    expect(job.state.status).toBe("PROCESSING")
  })
})

describe("J16 cancellation", () => {
  it("aborts what is queued or running, cancels what waits, drops late results", () => {
    const job = new Job(["run", "queued", "nap", "tries"].map(id => ({ id, dependencies: [] })))
    job.start("run")
    job.sleep("nap", 10)
    job.fail("tries", passing)
    job.send({ type: "cancel", reason: "changed my mind" })
    expect(job.state).toMatchObject({ status: "CANCELLED", endReason: "changed my mind", active: 0 })
    expect(job.aborted.sort()).toEqual(["queued#1", "run#1"])
    expect(Object.values(job.statuses())).toEqual(Array(4).fill("CANCELLED"))
    expect(job.complete("run")).toBe("job_ended")
    job.pass(100)
    expect(job.dispatched).toHaveLength(4)
  })
})

describe("J17 expiry", () => {
  it("a job past its TTL is EXPIRED, even if other timers are due", () => {
    const job = new Job(chain("a"), { ttlSeconds: 60 })
    job.sleep("a", 60)
    job.pass(59)
    expect(job.state.status).toBe("PROCESSING")
    job.pass(1)
    expect(job.state.status).toBe("EXPIRED")
    expect(job.status("a")).toBe("CANCELLED")
  })

  it("its time is a whole millisecond of the calendar, as it is stored", () => {
    expect(new Job([{ id: "a", dependencies: [] }], { ttlSeconds: 0.00025 }).state.expiresAt).toBe(1_000_001)
    expect(new Job([{ id: "a", dependencies: [] }], { ttlSeconds: 1e300 }).state.expiresAt).toBe(8.64e15)
  })

  it("a retry gives it a whole TTL again", () => {
    const job = new Job(chain("a"), { ttlSeconds: 60 })
    job.pass(60)
    job.pass(1000)
    expect(job.send({ type: "retry" })).toBeNull()
    expect(job.state.expiresAt).toBe(job.now + 60_000)
  })
})

describe("signals and timers", () => {
  it("a signal that arrives early is kept for the first node that waits for it", () => {
    const job = new Job(["one", "two"].map(id => ({ id, dependencies: [] })))
    job.send({ type: "signal", name: "go", data: "first" })
    job.awaitSignal("one", "go")
    expect(job.status("one")).toBe("COMPLETED")
    job.awaitSignal("two", "go")
    expect(job.status("two")).toBe("WAITING")
    job.send({ type: "signal", name: "go", data: "second" })
    expect(job.state.outputs).toEqual(["first", "second"])
  })

  it("the last node of a job brings the job's output, also when a timer or a signal completes it", () => {
    const bySignal = new Job(chain("a"))
    bySignal.awaitSignal("a", "go")
    bySignal.send({ type: "signal", name: "go", data: 1 }, { result: { job_output: "rendered" } })
    expect(bySignal.state).toMatchObject({ status: "COMPLETED", output: "rendered" })
    const byTimer = new Job(["a", "b"].map(id => ({ id, dependencies: [] })))
    byTimer.sleep("a", 5)
    byTimer.sleep("b", 5)
    byTimer.now += 5000
    byTimer.send({ type: "wake" })
    expect(byTimer.statuses()).toEqual({ a: "COMPLETED", b: "WAITING" })
    byTimer.send({ type: "wake" }, { result: { job_output: "rendered" } })
    expect(byTimer.state).toMatchObject({ status: "COMPLETED", output: "rendered" })
  })
})
