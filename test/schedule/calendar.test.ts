import { describe, expect, it } from "vitest"
import { Cron } from "../../src/schedule/cron.ts"
import fc from "../support/property.ts"
import { NaiveCalendar } from "./naive-calendar.ts"

function ticks(expression: string, zone: string, from: string, count: number): string[] {
  const cron = new Cron(expression, zone)
  const found: string[] = []
  for (let at = Date.parse(from); found.length < count; ) {
    at = cron.next(at)
    found.push(new Date(at).toISOString().replace(":00.000Z", ""))
  }
  return found
}

describe("a local time that the clock skips", () => {
  it("fires at the first instant after the gap, once", () => {
    expect(ticks("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", 2)).toEqual([
      "2026-03-29T01:00",
      "2026-03-30T00:30",
    ])
    expect(ticks("*/20 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", 2)).toEqual([
      "2026-03-29T01:00",
      "2026-03-30T00:00",
    ])
    expect(ticks("15,30,45 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00Z", 3)).toEqual([
      "2026-10-03T15:30",
      "2026-10-03T15:45",
      "2026-10-04T15:15",
    ])
    expect(ticks("30 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00Z", 2)).toEqual([
      "2018-11-04T03:00",
      "2018-11-05T02:30",
    ])
  })

  it("fires after a whole day that was left out", () => {
    expect(ticks("0 12 30 * *", "Pacific/Apia", "2011-12-20T00:00Z", 1)).toEqual(["2011-12-30T10:00"])
  })
})

describe("a local time that the clock shows twice", () => {
  it("fires at the first", () => {
    expect(ticks("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z", 2)).toEqual([
      "2026-10-25T00:30",
      "2026-10-26T01:30",
    ])
    expect(ticks("0 */2 * * *", "Europe/Berlin", "2026-10-24T21:30Z", 3)).toEqual([
      "2026-10-24T22:00",
      "2026-10-25T00:00",
      "2026-10-25T03:00",
    ])
    expect(ticks("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00Z", 2)).toEqual([
      "2026-04-04T14:45",
      "2026-04-05T15:15",
    ])
  })

  it("does not fire when the search begins between the two", () => {
    expect(ticks("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10Z", 1)).toEqual(["2026-10-26T01:30"])
  })
})

it("an expression for every hour follows real time", () => {
  expect(ticks("0 * * * *", "Europe/Berlin", "2026-03-28T23:30Z", 3)).toEqual([
    "2026-03-29T00:00",
    "2026-03-29T01:00",
    "2026-03-29T02:00",
  ])
  expect(ticks("30 * * * *", "Europe/Berlin", "2026-10-24T23:45Z", 3)).toEqual([
    "2026-10-25T00:30",
    "2026-10-25T01:30",
    "2026-10-25T02:30",
  ])
  expect(ticks("0 * * * *", "Australia/Lord_Howe", "2026-10-03T13:45Z", 3)).toEqual([
    "2026-10-03T14:30",
    "2026-10-03T16:00",
    "2026-10-03T17:00",
  ])
})

describe("an expression", () => {
  it("may have seconds, names, lists, ranges and steps", () => {
    expect(new Cron("10/25 0 0 1 JAN *", "UTC").next(Date.parse("2026-01-01T00:00:10Z"))).toBe(
      Date.parse("2026-01-01T00:00:35Z"),
    )
    expect(ticks("0 9 * * mon-wed,FRI", "UTC", "2026-11-17T10:00Z", 3)).toEqual([
      "2026-11-18T09:00",
      "2026-11-20T09:00",
      "2026-11-23T09:00",
    ])
  })

  it("with both days restricted matches either", () => {
    expect(ticks("0 0 13 * 5", "UTC", "2026-11-01T00:00Z", 4)).toEqual([
      "2026-11-06T00:00",
      "2026-11-13T00:00",
      "2026-11-20T00:00",
      "2026-11-27T00:00",
    ])
    expect(ticks("0 0 1 * 7", "UTC", "2026-11-23T00:00Z", 2)).toEqual([
      "2026-11-29T00:00",
      "2026-12-01T00:00",
    ])
  })

  it("finds a 29 February on a Sunday after forty years", () => {
    expect(ticks("0 0 29 2 */7", "UTC", "2088-03-01T00:00Z", 2)).toEqual([
      "2128-02-29T00:00",
      "2156-02-29T00:00",
    ])
  })

  it("finds 29 February across a century without it", () => {
    expect(ticks("0 0 29 2 *", "UTC", "2096-03-01T00:00Z", 1)).toEqual(["2104-02-29T00:00"])
  })

  it.each([
    ["* * * *", "has 4 fields"],
    [" ", "has 0 fields"],
    ["@daily", "has 1 field;"],
    ["60 * * * *", "not a valid minute"],
    ["* 24 * * *", "not a valid hour"],
    ["* * 0 * *", "not a valid day of the month"],
    ["* * * foo *", "not a valid month"],
    ["* * * * mon-sun", "not a valid day of the week"],
    ["*/0 * * * *", "not a valid minute"],
    ["*-5 * * * *", "not a valid minute"],
    ["1,, * * * *", "not a valid minute"],
    ["0 0 L * *", "not a valid day of the month"],
    ["0 0 30 2 *", "never fires"],
  ])("%s is refused", (expression, message) => {
    expect(() => new Cron(expression, "UTC")).toThrow(message)
  })

  it("in an unknown zone is refused", () => {
    expect(() => new Cron("0 0 * * *", "Europe/Atlantis")).toThrow(
      '"Europe/Atlantis" is not an IANA time zone',
    )
  })
})

/** How often `Intl` is asked for a time: that is what ticks cost. */
function countFormats(work: () => void): number {
  const { DateTimeFormat } = Intl
  let count = 0
  class Counting extends DateTimeFormat {
    override formatToParts(date?: Date | number) {
      count++
      return super.formatToParts(date)
    }
  }
  const { get } = Object.getOwnPropertyDescriptor(DateTimeFormat.prototype, "format")!
  Object.defineProperty(Counting.prototype, "format", {
    get() {
      const format = get!.call(this)
      return (date: Date | number) => {
        count++
        return format(date)
      }
    },
  })
  Intl.DateTimeFormat = Counting as typeof DateTimeFormat
  try {
    work()
  } finally {
    Intl.DateTimeFormat = DateTimeFormat
  }
  return count
}

// No other test uses these zones: their times are not known yet.
it.each([
  ["0 0 29 2 *", "Asia/Beirut"],
  ["0 * 29 2 *", "Africa/Cairo"],
  ["0 0 1 1 *", "America/Havana"],
])("%s in %s: what is far away costs what is near", (expression, zone) => {
  const count = countFormats(() => void ticks(expression, zone, "3000-01-01T00:00Z", 20))
  expect(count).toBeGreaterThan(0)
  // Each tick is in a year of its own, or there are 20 in one: at most four chunks of four days, and a change of the clock.
  expect(count).toBeLessThan(20 * 60)
})

/** Not every minute: the naive search of years would be slow. */
const minutes = fc.oneof(
  fc.integer({ min: 0, max: 59 }).map(String),
  fc.constantFrom("*/15", "0,30", "15,45", "10-12"),
)
const field = (min: number, max: number) =>
  fc.oneof(
    { weight: 3, arbitrary: fc.constant("*") },
    fc.integer({ min, max }).map(String),
    fc.integer({ min: 2, max: 7 }).map(step => `*/${step}`),
    fc.uniqueArray(fc.integer({ min, max }), { minLength: 2, maxLength: 4 }).map(values => values.join()),
    fc
      .tuple(fc.integer({ min, max }), fc.integer({ min, max }))
      .map(pair => pair.sort((a, b) => a - b).join("-")),
  )
const expressions = fc
  .tuple(
    minutes,
    // The clock is set at night.
    fc.oneof(field(0, 23), field(0, 3)),
    fc.oneof({ weight: 3, arbitrary: fc.constant("*") }, field(1, 28)),
    field(1, 12),
    fc.oneof({ weight: 3, arbitrary: fc.constant("*") }, field(0, 7)),
  )
  .map(fields => fields.join(" "))

// Opposite seasons, a shift of half an hour, and zones that changed their rules: Sao Paulo gave up summer time in 2019,
// Apia moved across the date line in 2011, Casablanca has standard time only in Ramadan since 2018.
it.each([
  ["Europe/Berlin", 2025, 2027],
  ["America/Sao_Paulo", 2017, 2020],
  ["Australia/Lord_Howe", 2024, 2027],
  ["Pacific/Apia", 2010, 2013],
  ["Africa/Casablanca", 2017, 2020],
])("%s: all ticks of %i to %i are those of a naive search, minute by minute", (zone, from, to) => {
  const naive = new NaiveCalendar(zone, Date.UTC(from, 0, 1), Date.UTC(to, 0, 1))
  fc.assert(
    fc.property(expressions, expression => {
      const cron = new Cron(expression, zone)
      const found: number[] = []
      for (let at = cron.next(naive.from - 1); at < naive.to; at = cron.next(at)) found.push(at)
      const expected = naive.ticks(expression)
      const differs = found.findIndex((at, index) => at !== expected[index])
      expect({ first: found[differs], count: found.length }).toEqual({
        first: expected[differs],
        count: expected.length,
      })
    }),
    { numRuns: 12 },
  )
})
