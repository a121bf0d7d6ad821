/**
 * Cron expressions in a time zone. The rule for changes of the clock:
 *
 * 1. A local time that does not exist fires at the first instant after the gap; one that exists twice, at the first.
 * 2. An expression for every hour (`*`) follows elapsed time instead: it fires whenever the clock shows a time that matches.
 */
import { findZone, type Zone } from "./zone.ts"

const SECOND = 1000
const DAY = 86_400_000
/** A 29 February on a given day of the week is at most forty years away: 2100 is no leap year. What does not match for longer never does. */
const SEARCH_MS = (40 * 366 + 1) * DAY

export class CronError extends Error {}

interface FieldRule {
  readonly name: string
  readonly min: number
  readonly max: number
  readonly names?: readonly string[]
}

const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
const WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
const FIELDS: readonly FieldRule[] = [
  { name: "second", min: 0, max: 59 },
  { name: "minute", min: 0, max: 59 },
  { name: "hour", min: 0, max: 23 },
  { name: "day of the month", min: 1, max: 31 },
  { name: "month", min: 1, max: 12, names: MONTHS },
  // 7 is Sunday too.
  { name: "day of the week", min: 0, max: 7, names: WEEKDAYS },
]

export class Cron {
  readonly #zone: Zone
  readonly #seconds: readonly number[]
  readonly #minutes: readonly number[]
  readonly #hours: readonly number[]
  readonly #days: ReadonlySet<number>
  readonly #months: ReadonlySet<number>
  readonly #weekdays: ReadonlySet<number>
  /** Both days are restricted: one that matches either of them matches, as in every cron. */
  readonly #isEitherDay: boolean

  /** Throws a CronError that says what is wrong with the expression or the zone. */
  constructor(expression: string, zone: string) {
    const fields = expression.split(/\s+/).filter(text => text !== "")
    if (fields.length !== 5 && fields.length !== 6)
      throw new CronError(
        `"${expression}" has ${fields.length === 1 ? "1 field" : `${fields.length} fields`}; write five (minute, hour, day of the month, month, day of the week), or six with seconds first.`,
      )
    const texts = fields.length === 5 ? ["0", ...fields] : fields
    const [seconds, minutes, hours, days, months, weekdays] = FIELDS.map((rule, index) =>
      parseField(texts[index]!, rule),
    )
    this.#seconds = seconds!
    this.#minutes = minutes!
    this.#hours = hours!
    this.#days = new Set(days)
    this.#months = new Set(months)
    this.#weekdays = new Set(weekdays!.map(day => day % 7))
    this.#isEitherDay = !texts[3]!.startsWith("*") && !texts[5]!.startsWith("*")
    try {
      this.#zone = findZone(zone)
    } catch {
      throw new CronError(`"${zone}" is not an IANA time zone; write one like "Europe/Berlin" or "UTC".`)
    }
    if (this.#nextLocal(Date.UTC(2000, 0, 1)) === null)
      throw new CronError(`"${expression}" never fires: no month has such a day.`)
  }

  /** The first tick after this instant. */
  next(after: number): number {
    return this.#hours.length === 24 ? this.#nextInRealTime(after) : this.#nextInLocalTime(after)
  }

  #nextInLocalTime(after: number): number {
    return this.#zone.firstInstant(this.#nextLocal(this.#zone.highest(after) + 1)!)
  }

  #nextInRealTime(after: number): number {
    for (let from = after + 1; ; ) {
      // No clock is more than a day from UTC: what matches next matches at the earliest a day before UTC shows it.
      from = Math.max(from, this.#nextLocal(from - DAY)! - DAY)
      const { end, offset } = this.#zone.segment(from)
      const at = this.#nextLocal(from + offset)! - offset
      if (at < end) return at
      from = end
    }
  }

  /** The first local time from this one on that matches; null: none does. */
  #nextLocal(from: number): number | null {
    const first = Math.ceil(from / SECOND) * SECOND
    const day = Math.floor(first / DAY) * DAY
    if (this.#matchesDay(new Date(day))) {
      const time = this.#nextTime((first - day) / SECOND)
      if (time !== null) return day + time * SECOND
    }
    const date = new Date(day + DAY)
    for (let at = day + DAY; at <= day + SEARCH_MS; at = date.getTime()) {
      if (!this.#months.has(date.getUTCMonth() + 1)) date.setUTCMonth(date.getUTCMonth() + 1, 1)
      else if (this.#matchesDay(date)) return at + this.#nextTime(0)! * SECOND
      else date.setTime(at + DAY)
    }
    return null
  }

  #matchesDay(date: Date): boolean {
    if (!this.#months.has(date.getUTCMonth() + 1)) return false
    const isDay = this.#days.has(date.getUTCDate())
    const isWeekday = this.#weekdays.has(date.getUTCDay())
    return this.#isEitherDay ? isDay || isWeekday : isDay && isWeekday
  }

  /** The first second of the day from this one on that matches; null: none does. */
  #nextTime(from: number): number | null {
    for (const hour of this.#hours) {
      if (hour * 3600 + 3599 < from) continue
      for (const minute of this.#minutes) {
        const start = hour * 3600 + minute * 60
        if (start + 59 < from) continue
        const second = this.#seconds.find(value => start + value >= from)
        if (second !== undefined) return start + second
      }
    }
    return null
  }
}

/** The values of one field, ascending. */
function parseField(text: string, rule: FieldRule): readonly number[] {
  const values = new Set<number>()
  for (const part of text.split(",")) {
    const [, from, to, step] = /^(\*|\w+)(?:-(\w+))?(?:\/(\d+))?$/.exec(part) ?? []
    if (from === undefined || (from === "*" && to !== undefined)) throw invalid(part, rule)
    const first = from === "*" ? rule.min : parseValue(from, rule)
    // `5/15` is 5-59/15.
    const last =
      to !== undefined ? parseValue(to, rule) : from === "*" || step !== undefined ? rule.max : first
    const by = Number(step ?? 1)
    if (by < 1 || last < first) throw invalid(part, rule)
    for (let value = first; value <= last; value += by) values.add(value)
  }
  return [...values].sort((a, b) => a - b)
}

function parseValue(text: string, rule: FieldRule): number {
  const named = rule.names?.indexOf(text.toLowerCase()) ?? -1
  if (named >= 0) return named + rule.min
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN
  if (!(value >= rule.min && value <= rule.max)) throw invalid(text, rule)
  return value
}

function invalid(text: string, { name, min, max }: FieldRule): CronError {
  return new CronError(
    `"${text}" is not a valid ${name}; write numbers from ${min} to ${max}, lists (1,2), ranges (1-5), steps (*/5) or *.`,
  )
}
