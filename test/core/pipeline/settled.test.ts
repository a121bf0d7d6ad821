import { describe, expect, it } from "vitest"
import {
  decodeProgress,
  encodeProgress,
  newProgress,
  unsettled,
} from "../../../src/core/pipeline/progress.ts"
import { Settled } from "../../../src/core/pipeline/settled.ts"
import fc from "../../support/property.ts"

describe("which messages are settled", () => {
  it("P2 is what a set of their numbers says, in whatever order they come", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 60 })), seqs => {
        const settled = new Settled()
        const known = new Set<number>()
        for (const seq of seqs) {
          settled.add(seq)
          known.add(seq)
        }
        let upTo = 0
        while (known.has(upTo + 1)) upTo++
        expect(settled.upTo).toBe(upTo)
        for (let seq = 1; seq <= 61; seq++) expect(settled.has(seq)).toBe(known.has(seq))
        for (let seq = 0; seq <= 60; seq++) {
          let next = seq + 1
          while (known.has(next)) next++
          expect(settled.nextUnsettled(seq)).toBe(next)
        }
        const { beyond } = settled
        for (let i = 0; i < beyond.length; i++)
          expect(beyond[i]! - (beyond[i - 1] ?? upTo), "ranges neither touch nor overlap").toBeGreaterThan(
            i % 2 === 0 ? 1 : -1,
          )
      }),
    )
  })

  it("is a few numbers however many pass one that takes its time", () => {
    const settled = new Settled()
    for (let seq = 2; seq <= 100_000; seq++) settled.add(seq)
    expect(settled.beyond).toEqual([2, 100_000])
    settled.add(1)
    expect(settled.upTo).toBe(100_000)
    expect(settled.beyond).toEqual([])
  })

  it("comes back from its text as it was, with the number that is left", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 40 })), seqs => {
        const progress = newProgress(1)
        const route = progress.routes[0]!
        route.tail = 40
        for (const seq of seqs) route.settled.add(seq)
        expect(unsettled(route)).toBe(40 - new Set(seqs).size)
        const { live, ...read } = decodeProgress(encodeProgress(progress, { a: 1 }))
        expect(live).toEqual({ a: 1 })
        expect(encodeProgress(read, null)).toBe(encodeProgress(progress, null))
      }),
    )
  })

  it("comes back with how many messages failed the job for good", () => {
    const progress = newProgress(2)
    progress.routes[1]!.fatal = 3
    const read = decodeProgress(encodeProgress(progress, null))
    expect(read.routes.map(({ fatal }) => fatal)).toEqual([0, 3])
  })
})
