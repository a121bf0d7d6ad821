/** A second implementation of cron, slow and plain: it looks at every minute, or at every quarter of an hour if no expression needs more. */
const MINUTE = 60_000
/** Every change of an offset since 1970 was at a full quarter of an hour. */
const QUARTER = 15 * MINUTE
/** No clock was set twice within this time, so that its offset is the same throughout if it is at both ends. */
const UNCHANGED = 24 * QUARTER
const DAY = 86_400_000

export class NaiveCalendar {
  readonly from: number
  readonly to: number
  readonly #step: number
  /** The first instant; there is one for each step, in order. */
  readonly #start: number
  /** By instant: the local time. */
  readonly #local: Float64Array
  /** By instant: 1 if it is the first with its local time. */
  readonly #isFirst: Uint8Array
  /** 1 for each local time that exists, by steps since `#earliest`. */
  readonly #exists: Uint8Array
  readonly #earliest: number

  constructor(zone: string, from: number, to: number, step = MINUTE) {
    this.#step = step
    this.from = from
    this.to = to
    this.#start = from - 3 * DAY
    // No clock is more than a day from UTC.
    this.#earliest = this.#start - DAY
    const count = (to - this.#start) / step
    this.#local = new Float64Array(count)
    this.#isFirst = new Uint8Array(count)
    this.#exists = new Uint8Array(count + (2 * DAY) / step)
    let index = 0
    for (const { until, offset } of offsets(zone, this.#start, to))
      for (; this.#start + index * step < until; index++) {
        const local = this.#start + index * step + offset
        this.#local[index] = local
        this.#isFirst[index] = this.#doesExist(local) ? 0 : 1
        this.#exists[(local - this.#earliest) / step] = 1
      }
  }

  ticks(expression: string): number[] {
    const matches = matcher(expression)
    const isRealTime = expand(expression.split(" ")[1]!, 0, 23).size === 24
    const ticks = new Set<number>()
    let previous = this.#local[0]!
    for (let index = 0; index < this.#local.length; index++) {
      const local = this.#local[index]!
      const at = this.#start + index * this.#step
      if (isRealTime) {
        if (matches(local)) ticks.add(at)
        continue
      }
      if (this.#isFirst[index] === 1 && matches(local)) ticks.add(at)
      for (let skipped = previous + this.#step; skipped < local; skipped += this.#step)
        if (!this.#doesExist(skipped) && matches(skipped)) ticks.add(at)
      previous = local
    }
    return [...ticks].filter(at => at >= this.from)
  }

  #doesExist(local: number): boolean {
    return this.#exists[(local - this.#earliest) / this.#step] === 1
  }
}

/** The offsets of a zone in order, each with the time until which it is known. */
function* offsets(zone: string, from: number, to: number): Iterable<{ until: number; offset: number }> {
  const format = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" })
  const offsetAt = (at: number) => Date.parse(`${format.format(at).replace(" ", "T")}Z`) - at
  let offset = offsetAt(from)
  for (let start = from; start < to; start += UNCHANGED) {
    const after = offsetAt(start + UNCHANGED)
    if (after === offset) yield { until: Math.min(start + UNCHANGED, to), offset }
    else
      for (let at = start; at < Math.min(start + UNCHANGED, to); at += QUARTER)
        yield { until: at + QUARTER, offset: offsetAt(at) }
    offset = after
  }
}

function matcher(expression: string): (local: number) => boolean {
  const [minute, hour, day, month, weekday] = expression.split(" ") as [
    string,
    string,
    string,
    string,
    string,
  ]
  const minutes = expand(minute, 0, 59)
  const hours = expand(hour, 0, 23)
  const isTime = Array.from(
    { length: 1440 },
    (_, at) => minutes.has(at % 60) && hours.has(Math.floor(at / 60)),
  )
  const days = expand(day, 1, 31)
  const months = expand(month, 1, 12)
  const weekdays = expand(weekday, 0, 7)
  return local => {
    if (!isTime[Math.floor(local / MINUTE) % 1440]) return false
    const date = new Date(local)
    if (!months.has(date.getUTCMonth() + 1)) return false
    const isDay = days.has(date.getUTCDate())
    const isWeekday = weekdays.has(date.getUTCDay()) || (date.getUTCDay() === 0 && weekdays.has(7))
    if (day[0] !== "*" && weekday[0] !== "*") return isDay || isWeekday
    return isDay && isWeekday
  }
}

function expand(text: string, min: number, max: number): Set<number> {
  const all = Array.from({ length: max - min + 1 }, (_, index) => min + index)
  if (text === "*") return new Set(all)
  const [, step] = /^\*\/(\d+)$/.exec(text) ?? []
  if (step !== undefined) return new Set(all.filter(value => (value - min) % Number(step) === 0))
  const [, from, to] = /^(\d+)-(\d+)$/.exec(text) ?? []
  if (from !== undefined) return new Set(all.filter(value => value >= Number(from) && value <= Number(to)))
  return new Set(text.split(",").map(Number))
}
