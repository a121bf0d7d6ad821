/** Times, durations, sizes and counts as people read them. */

const clockFormat = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" })
const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" })
const numbers = new Intl.NumberFormat("en-US")

/** `14:02:11`; with its date if it is not today. */
export function clock(at: number, now = Date.now()): string {
  const date = new Date(at)
  const time = clockFormat.format(date)
  return date.toDateString() === new Date(now).toDateString() ? time : `${dayFormat.format(date)} ${time}`
}

export const TIME = /\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/

/** A sentence of the server, with its first time as `clock` writes it. */
export function withClock(text: string): string {
  return text.replace(TIME, time => clock(Date.parse(time)))
}

/** With marks of the direction of writing as escapes: they would reorder what is beside them. */
export function visible(text: string): string {
  return text.replace(
    /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    mark => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`,
  )
}

export function fullTime(at: number): string {
  return new Date(at).toISOString().replace("T", " ").replace("Z", " UTC")
}

/** The full time, and how long ago that is. */
export function timeAgo(at: number): string {
  return `${fullTime(at)}, ${elapsed(Date.now() - at)} ago`
}

/** `40 ms`, `1.4 s`, `14 s`, `6 min 48 s`, `2 h 05 min`, `3 d 4 h`. */
export function duration(ms: number): string {
  if (ms < 1000) return ms < 1 ? "< 1 ms" : `${Math.floor(ms)} ms`
  if (ms < 10_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`
  const seconds = Math.floor(ms / 1000)
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min ${pad(seconds % 60)} s`
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? `${hours} h ${pad(minutes % 60)} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`
}

function pad(value: number): string {
  return String(value).padStart(2, "0")
}

/** For running figures: whole seconds, so that they change once a second. */
export function elapsed(ms: number): string {
  return ms < 10_000 ? `${Math.max(0, Math.floor(ms / 1000))} s` : duration(ms)
}

export function count(value: number): string {
  return numbers.format(value)
}

/** `v3`. A fork with a changed definition has no version: null, or 0 in its facts. */
export function versionText(version: number | null): string {
  return version ? `v${version}` : "own definition"
}

/** `1 node`, `2 nodes`. */
export function counted(value: number, one: string): string {
  return `${count(value)} ${one}${value === 1 ? "" : "s"}`
}

export function bytes(size: number): string {
  if (size < 1000) return `${size} B`
  if (size < 1e6) return `${(size / 1000).toFixed(1)} KB`
  return `${(size / 1e6).toFixed(1)} MB`
}

/** Usage named `cost` or in dollars is money; the rest are plain sums. */
export function amount(name: string, value: number): string {
  if (/(^|_)(usd|cost)(_|$)/.test(name))
    return `$${value > 0 && value < 0.01 ? value.toPrecision(2) : value.toFixed(value < 1 ? 3 : 2)}`
  return Number.isInteger(value) || value >= 1000 ? count(Math.round(value)) : value.toPrecision(4)
}

/** What a run usually uses; null: no data. */
export interface Used {
  readonly mean: number
  readonly p50: number | null
  readonly p90: number | null
}

/** Only what completed has percentiles. */
export function usageRange(name: string, { mean, p50, p90 }: Used): string {
  return p50 === null || p90 === null
    ? `mean ${amount(name, mean)}`
    : range(amount(name, p50), amount(name, p90))
}

export function range(low: string, high: string): string {
  return low === high ? low : `${low} – ${high}`
}

/** Jobs of the same minute begin with the same characters, so the end is shown too. */
export function shortId(id: string): string {
  return id.length > 13 ? `${id.slice(0, 8)}…${id.slice(-4)}` : id
}
