import { describe, expect, it } from "vitest"
import { Concurrency } from "../../../src/core/pipeline/concurrency.ts"

const bounds = { min: 1, max: 64, tolerance: 2, adaptive: true }

/** A service that does `capacity` at once: what comes on top waits its turn. */
function load(concurrency: Concurrency, capacity: number, messages: number): void {
  for (let i = 0; i < messages; i++) {
    const inFlight = concurrency.limit
    concurrency.ended(10 * Math.max(1, inFlight / capacity), inFlight)
  }
}

describe("adaptive concurrency", () => {
  it("P4 grows to its bound while messages take as long as ever", () => {
    const concurrency = new Concurrency(bounds)
    load(concurrency, 1000, 5000)
    expect(concurrency.limit).toBe(64)
  })

  it.each([2, 5, 20])(
    "settles where messages take about twice as long as with few in flight: a service of %i",
    capacity => {
      const concurrency = new Concurrency({ ...bounds, max: 256 })
      for (let i = 0; i < 20; i++) {
        load(concurrency, capacity, 2000)
        expect(concurrency.limit / capacity).toBeGreaterThan(i === 0 ? 1 : 0.5)
        expect(concurrency.limit / capacity).toBeLessThan(6)
      }
    },
  )

  it("follows a service that can do less than before, and one that can do more", () => {
    const concurrency = new Concurrency({ ...bounds, max: 256 })
    load(concurrency, 40, 10_000)
    const before = concurrency.limit
    load(concurrency, 4, 2000)
    expect(concurrency.limit).toBeLessThan(before / 3)
    load(concurrency, 40, 10_000)
    expect(concurrency.limit).toBeGreaterThan(before / 2)
  })

  it("adapts to a service that is slow permanently, not only under load", () => {
    const concurrency = new Concurrency(bounds)
    for (let i = 0; i < 5000; i++) concurrency.ended(10, concurrency.limit)
    for (let i = 0; i < 50_000; i++) concurrency.ended(100, concurrency.limit)
    expect(concurrency.limit).toBe(64)
  })

  it("goes down when the other side says that it is full, never below its lower bound", () => {
    const concurrency = new Concurrency({ ...bounds, min: 3 })
    load(concurrency, 1000, 5000)
    concurrency.overloaded()
    expect(concurrency.limit).toBe(57)
    for (let i = 0; i < 100; i++) concurrency.overloaded()
    expect(concurrency.limit).toBe(3)
  })

  it("does not grow while half of its places are empty", () => {
    const concurrency = new Concurrency(bounds)
    for (let i = 0; i < 2000; i++) concurrency.ended(10, 1)
    expect(concurrency.limit).toBe(4)
  })

  it("is the route's own value where it is not adaptive", () => {
    const concurrency = new Concurrency({ ...bounds, adaptive: false })
    expect(concurrency.limit).toBe(64)
    concurrency.overloaded()
    expect(concurrency.limit).toBe(64)
  })

  it("changes after every twentieth message, and after none between", () => {
    const concurrency = new Concurrency(bounds)
    // 4 grows to 4.4, 4.8 and 5.3.
    for (let i = 0; i < 59; i++) concurrency.ended(10, 4)
    expect(concurrency.limit).toBe(4)
    concurrency.ended(10, 4)
    expect(concurrency.limit).toBe(5)
  })
})
