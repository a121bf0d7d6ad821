import { describe, expect, it } from "vitest"
import {
  jobPositionText,
  positionText,
  readJobPosition,
  readPosition,
  storeMark,
} from "../../src/feed/position.ts"
import fc from "../support/property.ts"

const store = storeMark("0198c0de-7a11-7012-9abc-0123456789ab")
const seq = fc.oneof(
  fc.constant(0),
  fc
    .tuple(fc.integer({ min: 1, max: 2 ** 18 }), fc.integer({ min: 0, max: 2 ** 31 - 1 }))
    .map(([epoch, counter]) => epoch * 2 ** 34 + counter),
)

describe("positions", () => {
  it("S4 come back as they were", () => {
    fc.assert(
      fc.property(
        fc.array(seq, { minLength: 1, maxLength: 64 }),
        fc.nat(1e6),
        fc.nat(2 ** 31 - 1),
        (seqs, place, at) => {
          const partition = seqs.findIndex(value => value > 0)
          const position = { store, at: 1.7e12 + at, partition, place, seqs }
          const text = positionText(position)
          expect(text).toMatch(/^j1\.[A-Za-z0-9_-]+$/)
          expect(readPosition(text)).toEqual(position)
        },
      ),
    )
  })

  it("S4 of 64 partitions are short enough for a header", () => {
    const seqs = Array.from({ length: 64 }, () => 300 * 2 ** 34 + 2 ** 34 - 1)
    expect(positionText({ store, at: Date.now(), partition: 63, place: 9, seqs }).length).toBeLessThan(650)
  })

  it("S4 any other text is malformed or unknown, and never an exception", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.base64String().map(text => `j1.${text}`),
        ),
        text => {
          const read = readPosition(text)
          if (typeof read === "string") expect(["malformed", "unknown"]).toContain(read)
          else expect(read.seqs.every(value => Number.isSafeInteger(value) && value >= 0)).toBe(true)
        },
      ),
      { numRuns: 2000 },
    )
    expect(readPosition("j2.AAAA")).toBe("unknown")
  })

  it("S4 of one job are its fact and the place", () => {
    expect(readJobPosition(jobPositionText({ seq: 2 ** 34 + 7, place: 3 }))).toEqual({
      seq: 2 ** 34 + 7,
      place: 3,
    })
    for (const text of ["", "1", "1.", ".1", "a.b", "1.2.3", `${"9".repeat(17)}.0`, "9007199254740993.0"])
      expect(readJobPosition(text), text).toBe("malformed")
  })
})
