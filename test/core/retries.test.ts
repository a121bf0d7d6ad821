import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { retryDelay } from "../../src/core/backoff.ts"
import { nextTimer, wakeAt } from "../../src/core/timers.ts"
import { chain, usualRetry } from "./graphs.ts"
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

describe("losses have a limit of their own", () => {
  it("only attempts whose start was recorded count", () => {
    const job = new Job(chain("a"))
    for (let crash = 0; crash < 10; crash++) job.send({ type: "recover" })
    expect(job.state.losses[0]).toBe(0)
    expect(job.state.status).not.toBe("FAILED")
  })

  it("the third known loss fails the node with E417", () => {
    const job = new Job(chain("a"))
    for (let crash = 0; crash < 2; crash++) {
      job.start("a")
      job.send({ type: "recover" })
    }
    expect(job.state.losses[0]).toBe(2)
    job.start("a")
    job.send({ type: "recover" })
    expect(job.state).toMatchObject({ status: "FAILED", fault: { fault: { code: "E417" }, node: 0 } })
  })

  it("a node that lost an attempt is a suspect until it has a result", () => {
    const job = new Job([...chain("a"), { id: "b", dependencies: [] }])
    job.complete("b")
    job.send({ type: "recover" })
    expect([...job.state.suspects]).toEqual([0])
    job.fail("a")
    expect([...job.state.suspects]).toEqual([])
  })

  it("an explicit retry starts the count again", () => {
    const job = new Job(chain("a"))
    job.start("a")
    job.send({ type: "recover" })
    job.send({ type: "cancel" })
    job.send({ type: "retry" })
    expect(job.state.losses[0]).toBe(0)
  })
})
