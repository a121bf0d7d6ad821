/** A second implementation of cron, slow and plain: it looks at every minute, or at every quarter of an hour if no expression needs more. */
const MINUTE = 60_000

export class NaiveCalendar {
  readonly from: number
  readonly to: number
  /** Every minute that exists in the zone, in order. */
  readonly #instants: { readonly at: number; readonly local: number }[] = []
  /** The first instant of each local minute. */
  readonly #first = new Map<number, number>()

  readonly #step: number

  constructor(zone: string, from: number, to: number, step = MINUTE) {
    this.#step = step
    this.from = from
    this.to = to
    const format = new Intl.DateTimeFormat("sv-SE", {
      timeZone: zone,
      dateStyle: "short",
      timeStyle: "medium",
    })
    // Every change of an offset since 1970 was at a full quarter of an hour.
    for (let quarter = from - 3 * 86_400_000; quarter < to; quarter += 15 * MINUTE) {
      const offset = Date.parse(`${format.format(quarter).replace(" ", "T")}Z`) - quarter
      for (let at = quarter; at < quarter + 15 * MINUTE; at += step) {
        const local = at + offset
        this.#instants.push({ at, local })
        if (!this.#first.has(local)) this.#first.set(local, at)
      }
    }
  }

  ticks(expression: string): number[] {
    const matches = matcher(expression)
    const isRealTime = expand(expression.split(" ")[1]!, 0, 23).size === 24
    const ticks = new Set<number>()
    let previous = this.#instants[0]!.local
    for (const { at, local } of this.#instants) {
      if (isRealTime) {
        if (matches(local)) ticks.add(at)
        continue
      }
      if (matches(local) && this.#first.get(local) === at) ticks.add(at)
      for (let skipped = previous + this.#step; skipped < local; skipped += this.#step)
        if (!this.#first.has(skipped) && matches(skipped)) ticks.add(at)
      previous = local
    }
    return [...ticks].filter(at => at >= this.from).sort((a, b) => a - b)
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
