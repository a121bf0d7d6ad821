import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { Breaker } from "../../../src/core/pipeline/breaker.ts"

const policy = { failureRate: 0.5, minCalls: 10, windowSeconds: 30, openSeconds: 15, trialCalls: 3 }

function opened(at = 0): Breaker {
  const breaker = new Breaker(policy)
  for (let i = 0; i < policy.minCalls; i++) {
    breaker.begin(at)
    breaker.ended(true, at)
  }
  return breaker
}

describe("a circuit breaker", () => {
  it("P4 opens at its failure rate, and not before there were enough calls", () => {
    const breaker = new Breaker(policy)
    for (let i = 0; i < 9; i++) expect(breaker.ended(true, 0)).toBeNull()
    expect(breaker.mayCallAt(0)).toBe(0)
    expect(breaker.ended(true, 0)).toBe("open")
    expect(breaker.mayCallAt(0)).toBe(15_000)
  })

  it("stays closed below the rate", () => {
    const breaker = new Breaker(policy)
    for (let i = 0; i < 100; i++) expect(breaker.ended(i % 3 === 0, 0)).toBeNull()
    expect(breaker.state(0)).toBe("closed")
  })

  it("forgets what is older than its window", () => {
    const breaker = new Breaker(policy)
    for (let i = 0; i < 9; i++) breaker.ended(true, 0)
    for (let i = 0; i < 9; i++) expect(breaker.ended(true, 40_000)).toBeNull()
    expect(breaker.ended(true, 41_000)).toBe("open")
  })

  it("half opens by time alone, lets a few calls through, and closes when all of them succeed", () => {
    const breaker = opened()
    expect(breaker.state(14_999)).toBe("open")
    expect(breaker.state(15_000)).toBe("half_open")
    for (let i = 0; i < 3; i++) {
      expect(breaker.mayCallAt(15_000)).toBe(0)
      breaker.begin(15_000)
    }
    expect(breaker.mayCallAt(15_000)).toBe(Number.POSITIVE_INFINITY)
    expect(breaker.ended(false, 15_000)).toBeNull()
    expect(breaker.ended(false, 15_000)).toBeNull()
    expect(breaker.ended(false, 15_000)).toBe("closed")
    expect(breaker.mayCallAt(15_000)).toBe(0)
  })

  it("opens again with the first trial that fails", () => {
    const breaker = opened()
    breaker.begin(15_000)
    breaker.begin(15_000)
    expect(breaker.ended(true, 15_100)).toBe("open")
    expect(breaker.ended(false, 15_200), "begun before it opened").toBeNull()
    expect(breaker.mayCallAt(15_200)).toBe(30_100)
  })

  it("a trial that was not made gives its place back", () => {
    const breaker = opened()
    for (let i = 0; i < 3; i++) breaker.begin(15_000)
    breaker.forget()
    expect(breaker.mayCallAt(15_000)).toBe(0)
  })

  it("never refuses for ever: whatever happens, a call may be made or one is under way", () => {
    const step = fc.record({ wait: fc.nat(20_000), fails: fc.boolean(), forgets: fc.boolean() })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), steps => {
        const breaker = new Breaker({ ...policy, minCalls: 3 })
        let now = 0
        let underWay = 0
        for (const { wait, fails, forgets } of steps) {
          now += wait
          const at = breaker.mayCallAt(now)
          if (at === Number.POSITIVE_INFINITY) expect(underWay).toBeGreaterThan(0)
          if (at === 0) {
            breaker.begin(now)
            underWay += 1
          }
          if (underWay === 0) continue
          if (fails && underWay % 2 === 0) continue
          underWay -= 1
          if (forgets) breaker.forget()
          else breaker.ended(fails, now)
        }
      }),
    )
  })
})
