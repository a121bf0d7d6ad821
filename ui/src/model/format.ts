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

export function fullTime(at: number): string {
  return new Date(at).toISOString().replace("T", " ").replace("Z", " UTC")
}

/** The full time, and how long ago that is. */
export function timeAgo(at: number): string {
  return `${fullTime(at)}, ${elapsed(Date.now() - at)} ago`
}

/** `0.4 s`, `14 s`, `6 min 48 s`, `2 h 05 min`, `3 d 4 h`. */
export function duration(ms: number): string {
  if (ms < 10_000) return ms < 5 ? "0 s" : `${ms < 100 ? (ms / 1000).toFixed(2) : (ms / 1000).toFixed(1)} s`
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
  return duration(Math.max(0, ms < 10_000 ? Math.floor(ms / 1000) * 1000 : ms)).replace(".0 s", " s")
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
  if (/(^|_)(usd|cost)(_|$)/.test(name)) return `$${value < 1 ? value.toFixed(3) : value.toFixed(2)}`
  return Number.isInteger(value) ? count(value) : value.toPrecision(4)
}

/** Jobs of the same minute begin with the same characters, so the end is shown too. */
export function shortId(id: string): string {
  return id.length > 13 ? `${id.slice(0, 8)}…${id.slice(-4)}` : id
}
