import { expect, it } from "vitest"
import { parseSchedule, scheduleRules } from "../../src/schedule/document.ts"
import {
  type Decision,
  decideTicks,
  fireTime,
  nextFire,
  nextTicks,
  type Rules,
} from "../../src/schedule/policy.ts"
import { atOnce } from "../../src/turns.ts"
import fc from "../support/property.ts"
import { NaiveCalendar } from "./naive-calendar.ts"

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const noon = Date.parse("2026-11-17T12:00:00Z")

function rules(document: object): Rules {
  return scheduleRules("s", parseSchedule({ workflow: "w", ...document }))
}

function shown({ outcomes }: Decision): string[] {
  return outcomes.map(({ tick, outcome, count }) => {
    const many = count === 1 ? "" : ` ×${count}`
    return `${new Date(tick).toISOString().slice(11, 16)} ${outcome}${many}`
  })
}

it("an engine that was down for hours fires the last tick, all within the window, or none", () => {
  const decide = (catch_up: string) => {
    const given = rules({ every: "1h", catch_up, catch_up_seconds: 3 * 3600, overlap: "allow" })
    return shown(
      decideTicks(
        given,
        { lastTick: noon - 6 * HOUR, queuedTick: null },
        { now: noon + 30 * MINUTE, isRunning: false },
      ),
    )
  }
  expect(decide("last")).toEqual(["09:00 missed ×3", "11:00 missed ×2", "12:00 started"])
  expect(decide("all")).toEqual(["09:00 missed ×3", "10:00 started", "11:00 started", "12:00 started"])
  expect(decide("none")).toEqual(["09:00 missed ×3", "12:00 missed ×3"])
})

it("a tick while a job runs is skipped, queued once, or cancels it", () => {
  const decide = (overlap: string) => {
    const given = rules({ every: "1h", overlap, catch_up: "all" })
    const decision = decideTicks(
      given,
      { lastTick: noon - 2 * HOUR, queuedTick: null },
      { now: noon, isRunning: true },
    )
    return [...shown(decision), decision.cancelsRunning, decision.queuedTick]
  }
  expect(decide("allow")).toEqual(["11:00 started", "12:00 started", false, null])
  expect(decide("skip")).toEqual(["11:00 skipped", "12:00 skipped", false, null])
  expect(decide("queue_one")).toEqual(["11:00 queued", "12:00 skipped", false, noon - HOUR])
  expect(decide("cancel_running")).toEqual(["11:00 skipped", "12:00 started", true, null])
})

it("of several ticks that would cancel each other the last one starts, also if nothing runs", () => {
  const decide = (isRunning: boolean, queuedTick: number | null = null) => {
    const given = rules({ every: "1h", overlap: "cancel_running", catch_up: "all" })
    const decision = decideTicks(given, { lastTick: noon - 2 * HOUR, queuedTick }, { now: noon, isRunning })
    return [...shown(decision), decision.cancelsRunning, decision.queuedTick]
  }
  expect(decide(false)).toEqual(["11:00 skipped", "12:00 started", false, null])
  // It was queued before the overlap was changed.
  const queued = ["10:00 skipped", "11:00 skipped", "12:00 started"]
  expect(decide(false, noon - 2 * HOUR)).toEqual([...queued, false, null])
  expect(decide(true, noon - 2 * HOUR)).toEqual([...queued, true, null])
})

it.each(["none", "last"])(
  "no tick is missed because another one has more jitter (catch_up: %s)",
  catch_up => {
    const given = rules({ every: "1m", jitter_seconds: 3600, catch_up, overlap: "allow" })
    let progress: { lastTick: number; queuedTick: number | null } = { lastTick: noon, queuedTick: null }
    const ticks: number[] = []
    for (let now = noon; ticks.length < 1000; now = nextFire(given, progress.lastTick)!) {
      const decision = decideTicks(given, progress, { now, isRunning: false })
      for (const { tick, outcome } of decision.outcomes) {
        expect([tick, outcome]).toEqual([noon + (ticks.length + 1) * MINUTE, "started"])
        expect(now - tick).toBeLessThan(HOUR)
        ticks.push(tick)
      }
      progress = decision
    }
  },
)

it("what is too much for one decision follows in the next ones", () => {
  const given = rules({ every: "1s", catch_up: "last" })
  let progress: Decision | { lastTick: number; queuedTick: null } = {
    lastTick: noon - 2 * HOUR,
    queuedTick: null,
  }
  const outcomes = new Map<string, number>()
  for (let nextAt: number | null = 0; nextAt !== null && nextAt <= noon; ) {
    const decision: Decision = decideTicks(given, progress, { now: noon, isRunning: false })
    for (const { outcome, count } of decision.outcomes)
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + count)
    progress = decision
    nextAt = decision.nextAt
  }
  // Those of the last minute are not late; the last of them started, and the others met a job that runs.
  expect([...outcomes.values()].reduce((sum, count) => sum + count)).toBe(7200)
  expect(outcomes.get("missed")).toBe(7200 - 61)
  expect(progress.lastTick).toBe(noon)
})

it("the jitter of a tick is the same everywhere, below its limit, and differs between ticks and schedules", () => {
  const document = parseSchedule({ workflow: "w", every: "1h", jitter_seconds: 600 })
  const jitters = (id: string) =>
    atOnce(nextTicks(scheduleRules(id, document), noon, { count: 50 })).map(
      tick => nextFire(scheduleRules(id, document), tick - 1)! - tick,
    )
  expect(jitters("a")).toEqual(jitters("a"))
  expect(jitters("a")).not.toEqual(jitters("b"))
  expect(new Set(jitters("a")).size).toBeGreaterThan(40)
  expect(Math.min(...jitters("a"))).toBeGreaterThanOrEqual(0)
  expect(Math.max(...jitters("a"))).toBeLessThan(600_000)
})

it("ticks are not before start, nor from end on; every counts from start", () => {
  const given = rules({ every: "7h", start: "2026-11-17T13:30:00Z", end: "2026-11-18T03:30:00Z" })
  expect(atOnce(nextTicks(given, noon, { count: 20 })).map(tick => new Date(tick).toISOString())).toEqual([
    "2026-11-17T13:30:00.000Z",
    "2026-11-17T20:30:00.000Z",
  ])
  expect(nextFire(given, Date.parse("2026-11-17T20:30:00Z"))).toBeNull()
})

it("other work may run after each tick that is computed", () => {
  const work = nextTicks(rules({ cron: "0 0 29 2 *", zone: "Europe/Berlin" }), noon, { count: 20 })
  let pieces = 0
  while (!work.next().done) pieces++
  expect(pieces).toBe(20)
})

it("no tick comes from the year 10000 on", () => {
  const given = rules({ every: "999999d" })
  const ticks = atOnce(nextTicks(given, noon, { count: 200 }))
  expect(ticks.map(tick => new Date(tick).toISOString().slice(0, 4))).toEqual(["4707", "7445"])
  expect(nextFire(rules({ cron: "0 0 1 1 *", start: "9999-06-01T00:00:00Z" }), noon)).toBeNull()
})

it.each([
  [{}, 'Give either "cron" or "every"'],
  [{ cron: "0 2 * * *", every: "1h" }, 'Give either "cron" or "every"'],
  [{ every: "0s" }, "at least 1s"],
  [{ every: "1w" }, "must be a number followed by s, m, h or d"],
  [{ cron: "0 25 * * *" }, "not a valid hour"],
  [{ cron: "0 2 * * *", zone: "Nowhere" }, "not an IANA time zone"],
  [{ every: "1h", input: { at: "{{ schedule.time" } }, '"input"'],
  [{ every: "1h", input: { at: "{{ job.id }}" } }, 'reads "job"'],
  [{ every: "1h", overlap: "maybe" }, '"overlap"'],
  [{ every: "1h", unknown: 1 }, "unknown"],
])("the document %j is refused", (document, message) => {
  expect(() => rules(document)).toThrow(message)
})

interface Tick {
  readonly tick: number
  /** With its jitter. */
  readonly fires: number
}

/** The same rules once more, told tick by tick, over a list of all ticks. */
class Model {
  last: number
  queued: number | null = null
  #next = 0
  readonly #ticks: readonly Tick[]
  readonly #document: { overlap: string; catch_up: string; catch_up_seconds: number; jitter_seconds: number }

  constructor(ticks: readonly Tick[], document: Model["document"], from: number) {
    this.#ticks = ticks
    this.#document = document
    this.last = from
  }

  get document() {
    return this.#document
  }

  /** The outcomes of one moment, missed ones counted. */
  at(now: number, isRunning: boolean): { fired: string[]; missed: number; cancels: boolean } {
    const { overlap, catch_up, catch_up_seconds, jitter_seconds } = this.#document
    const fired: string[] = []
    let runs = isRunning
    let cancels = false
    let missed = 0
    // In their order: none before one that is not due yet.
    const due: number[] = []
    for (; this.#next < this.#ticks.length; this.#next++) {
      const { tick, fires } = this.#ticks[this.#next]!
      if (tick <= this.last) continue
      if (fires > now) break
      due.push(tick)
    }
    this.last = due.at(-1) ?? this.last
    const wanted = due.filter(tick => {
      const late = now - tick - jitter_seconds * 1000
      if (late <= MINUTE) return true
      if (late > catch_up_seconds * 1000 || catch_up === "none") return false
      return catch_up === "all" || tick === due.at(-1)
    })
    missed = due.length - wanted.length
    if (this.queued !== null && overlap === "cancel_running" && wanted.length > 0) {
      fired.push(`${this.queued} skipped`)
      this.queued = null
    } else if (this.queued !== null && !runs) {
      fired.push(`${this.queued} started`)
      this.queued = null
      runs = true
    }
    for (const tick of wanted) {
      if (overlap === "cancel_running") {
        if (tick !== wanted.at(-1)) fired.push(`${tick} skipped`)
        else {
          cancels = isRunning
          fired.push(`${tick} started`)
        }
      } else if (!runs || overlap === "allow") {
        fired.push(`${tick} started`)
        runs = true
      } else if (overlap === "queue_one" && this.queued === null) {
        this.queued = tick
        fired.push(`${tick} queued`)
      } else fired.push(`${tick} skipped`)
    }
    return { fired, missed, cancels }
  }
}

const zones = ["Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe"] as const
/** Ten years, in which Sao Paulo gave up summer time. */
const [from, to] = [Date.UTC(2012, 6, 1), Date.UTC(2022, 6, 1)]
const calendars = new Map(zones.map(zone => [zone, new NaiveCalendar(zone, from, to, 15 * MINUTE)]))
const lists = new Map<string, readonly Tick[]>()

function allTicks(document: {
  zone: (typeof zones)[number]
  cron: string
  jitter_seconds: number
}): readonly Tick[] {
  const { zone, cron, jitter_seconds } = document
  const key = `${zone} ${cron} ${jitter_seconds}`
  const given = rules(document)
  const known =
    lists.get(key) ??
    calendars
      .get(zone)!
      .ticks(cron)
      .map(tick => ({ tick, fires: fireTime(given, tick) }))
  lists.set(key, known)
  return known
}

const crons = ["30 2 * * *", "0 0 * * *", "15 1,2 * * 0", "0 */6 * * *", "45 23 * * 1-5", "30 * * * 6"]

it("ten years of ticks, outages, pauses, edits and jobs of any duration give the outcomes of the model", () => {
  const documents = fc.record({
    cron: fc.constantFrom(...crons),
    zone: fc.constantFrom(...zones),
    overlap: fc.constantFrom("allow", "skip", "queue_one", "cancel_running"),
    catch_up: fc.constantFrom("none", "last", "all"),
    catch_up_seconds: fc.constantFrom(60, 3600, 86_400, 604_800),
    // Ticks are at least 15 minutes apart, and most of them an hour or a day.
    jitter_seconds: fc.constantFrom(0, 0, 300, 7200, 86_400),
  })
  // What happens, and after how many minutes.
  const step = fc.tuple(
    fc.oneof(
      { weight: 6, arbitrary: fc.constant("wake") },
      { weight: 2, arbitrary: fc.constant("outage") },
      fc.constant("pause"),
      fc.constant("edit"),
    ),
    fc.integer({ min: 1, max: 50_000 }),
    // How long a job runs.
    fc.integer({ min: 1, max: 5000 }),
    documents,
  )
  let [started, others, years] = [0, 0, 0]
  fc.assert(
    fc.property(documents, fc.array(step, { minLength: 250, maxLength: 300 }), (first, steps) => {
      let document = first
      let given = rules(document)
      let now = from
      let model = new Model(allTicks(document), document, now)
      let progress: { lastTick: number; queuedTick: number | null } = { lastTick: now, queuedTick: null }
      let runsUntil = 0
      const decideAt = (at: number, minutes: number) => {
        const isRunning = runsUntil > at
        const decision = decideTicks(given, progress, { now: at, isRunning })
        const expected = model.at(at, isRunning)
        const fired = decision.outcomes.filter(({ outcome }) => outcome !== "missed")
        expect(fired.map(({ tick, outcome }) => `${tick} ${outcome}`)).toEqual(expected.fired)
        expect(
          decision.outcomes.reduce((sum, { outcome, count }) => sum + (outcome === "missed" ? count : 0), 0),
        ).toBe(expected.missed)
        expect(decision.cancelsRunning).toBe(expected.cancels)
        expect(decision.queuedTick).toBe(model.queued)
        expect(decision.lastTick).toBeGreaterThanOrEqual(progress.lastTick)
        expect(decision.nextAt === null || decision.nextAt > at).toBe(true)
        if (fired.some(({ outcome }) => outcome === "started")) runsUntil = at + minutes * MINUTE
        started += fired.filter(({ outcome }) => outcome === "started").length
        others += decision.outcomes.length - fired.length
        progress = decision
        return decision.nextAt
      }
      for (const [what, minutes, duration, edited] of steps) {
        const until = Math.min(now + minutes * MINUTE, to - HOUR)
        if (what === "pause" || what === "edit") {
          // A resumed or changed schedule begins with the next tick.
          now = what === "pause" ? until : now
          if (what === "edit") document = edited
          given = rules(document)
          // A pause drops a queued tick.
          const queued = what === "pause" ? null : model.queued
          model = new Model(allTicks(document), document, Math.max(model.last, now))
          model.queued = queued
          progress = { lastTick: Math.max(progress.lastTick, now), queuedTick: queued }
        }
        if (what !== "wake") {
          now = until
          decideAt(now, duration)
          continue
        }
        // The alarm: each tick in time, and a queued one when the job ends.
        for (;;) {
          const tick = nextFire(given, progress.lastTick)
          const end = progress.queuedTick === null ? Number.POSITIVE_INFINITY : Math.max(runsUntil, now)
          const at = Math.min(tick ?? Number.POSITIVE_INFINITY, end)
          if (at > until) break
          now = at
          decideAt(at, duration)
        }
        now = until
      }
      years += (now - from) / (365 * 24 * HOUR)
    }),
    { numRuns: 12 },
  )
  expect(years).toBeGreaterThan(100)
  expect(started).toBeGreaterThan(10_000)
  expect(others).toBeGreaterThan(500)
})
