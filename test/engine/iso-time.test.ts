import fc from "fast-check"
import { expect, it } from "vitest"
import { isoTime } from "../../src/engine/clock.ts"
import { seed } from "../support/seed.ts"

it("writes every moment as `Date` does, also those before 1970 and after 9999", () => {
  const moments = fc.oneof(
    fc.integer({ min: -8.64e15, max: 8.64e15 }),
    fc.integer({ min: -5000, max: 5000 }),
    fc.double({ min: 0, max: 1e13, noNaN: true }),
  )
  fc.assert(
    fc.property(fc.array(moments), list => {
      for (const ms of list) expect(isoTime(ms)).toBe(new Date(ms).toISOString())
    }),
    { numRuns: 300, seed },
  )
})

it("refuses what is no moment", () => {
  for (const ms of [Number.NaN, Number.POSITIVE_INFINITY, 8.64e15 + 1000])
    expect(() => isoTime(ms)).toThrow(RangeError)
})
