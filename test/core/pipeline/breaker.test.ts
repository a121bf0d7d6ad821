import { describe, expect, it } from "vitest"
import { Breaker } from "../../../src/core/pipeline/breaker.ts"
import fc from "../../support/property.ts"

const policy = { failureRate: 0.5, minCalls: 10, windowSeconds: 30, openSeconds: 15, trialCalls: 3 }

const call = (breaker: Breaker, isFailure: boolean, at: number) =>
  breaker.ended(breaker.begin(at), isFailure, at)

function opened(at = 0): Breaker {
  const breaker = new Breaker(policy)
  for (let i = 0; i < policy.minCalls; i++) call(breaker, true, at)
  return breaker
}

describe("a circuit breaker", () => {
  it("P4 opens at its failure rate, and not before there were enough calls", () => {
    const breaker = new Breaker(policy)
    for (let i = 0; i < 9; i++) expect(call(breaker, true, 0)).toBeNull()
    expect(breaker.mayCallAt(0)).toBe(0)
    expect(call(breaker, true, 0)).toBe("open")
    expect(breaker.mayCallAt(0)).toBe(15_000)
  })

  it("stays closed below the rate", () => {
    const breaker = new Breaker(policy)
    for (let i = 0; i < 100; i++) expect(call(breaker, i % 3 === 0, 0)).toBeNull()
    expect(breaker.state(0)).toBe("closed")
  })

  it("drops calls that are older than its window", () => {
    const breaker = new Breaker(policy)
    for (let i = 0; i < 9; i++) call(breaker, true, 0)
    for (let i = 0; i < 9; i++) expect(call(breaker, true, 40_000)).toBeNull()
    expect(call(breaker, true, 41_000)).toBe("open")
  })

  it("half opens by time alone, lets a few calls through, and closes when all of them succeed", () => {
    const breaker = opened()
    expect(breaker.state(14_999)).toBe("open")
    expect(breaker.state(15_000)).toBe("half_open")
    const calls = Array.from({ length: 3 }, () => {
      expect(breaker.mayCallAt(15_000)).toBe(0)
      return breaker.begin(15_000)
    })
    expect(breaker.mayCallAt(15_000)).toBe(30_000)
    expect(calls.map(trial => breaker.ended(trial, false, 15_000))).toEqual([null, null, "closed"])
    expect(breaker.mayCallAt(15_000)).toBe(0)
  })

  it("opens again with the first trial that fails", () => {
    const breaker = opened()
    const [first, second] = [breaker.begin(15_000), breaker.begin(15_000)]
    expect(breaker.ended(first, true, 15_100)).toBe("open")
    expect(breaker.ended(second, false, 15_200)).toBeNull()
    expect(breaker.mayCallAt(15_200)).toBe(30_100)
  })

  it("a call that was begun before it opened says nothing about the trial", () => {
    const breaker = new Breaker(policy)
    const early = Array.from({ length: 3 }, () => breaker.begin(0))
    for (let i = 0; i < policy.minCalls; i++) call(breaker, true, 0)
    breaker.begin(15_000)
    for (const each of early) expect(breaker.ended(each, false, 15_000)).toBeNull()
    expect(breaker.state(15_000)).toBe("half_open")
  })

  it("a trial that was not made returns its place; one without a result is not waited for", () => {
    const breaker = opened()
    const trials = Array.from({ length: 3 }, () => breaker.begin(15_000))
    breaker.forget(trials[0]!)
    expect(breaker.mayCallAt(15_000)).toBe(0)
    breaker.begin(15_000)
    expect(breaker.mayCallAt(29_999)).toBe(30_000)
    breaker.begin(30_000)
    expect(breaker.mayCallAt(30_000)).toBe(0)
  })

  it("never refuses for ever: there is always a time at which a call may be made", () => {
    const step = fc.record({
      wait: fc.nat(20_000),
      ends: fc.constantFrom("fails", "succeeds", "forgotten", "never"),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), steps => {
        const breaker = new Breaker({ ...policy, minCalls: 3 })
        let now = 0
        for (const { wait, ends } of steps) {
          now += wait
          const at = breaker.mayCallAt(now)
          expect(at).toBeLessThanOrEqual(now + policy.openSeconds * 1000)
          if (at > now) continue
          const made = breaker.begin(now)
          if (ends === "forgotten") breaker.forget(made)
          else if (ends !== "never") breaker.ended(made, ends === "fails", now)
        }
      }),
    )
  })
})

describe("the window of a circuit breaker", () => {
  it("drops calls part by part, not all at once", () => {
    const breaker = new Breaker(policy)
    for (let second = 0; second < 30; second += 3) call(breaker, false, second * 1000)
    // Ten calls, one in each part of the window. Each that fails now takes the place of an old one that did not.
    const failed = [30, 33, 36, 39].map(second => call(breaker, true, second * 1000))
    expect(failed).toEqual([null, null, null, null])
    expect(call(breaker, true, 42_000)).toBe("open")
  })

  it("drops failures as it drops calls", () => {
    const breaker = new Breaker(policy)
    for (let part = 0; part < 10; part++) call(breaker, part < 4, part * 3000)
    for (let part = 10; part < 14; part++) call(breaker, false, part * 3000)
    // None of the ten calls in the window failed.
    const failed = [14, 15, 16, 17].map(part => call(breaker, true, part * 3000))
    expect(failed).toEqual([null, null, null, null])
    expect(call(breaker, true, 18 * 3000)).toBe("open")
  })
})
