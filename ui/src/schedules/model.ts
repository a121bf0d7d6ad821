/** Schedules as the API answers them, their times in words, and times in zones. */
import { queryOptions } from "@tanstack/react-query"
import type { Json } from "../../../src/core/index.ts"
import { ask } from "../api/http.ts"
import { duration } from "../model/format.ts"
import type { IconName, Status } from "../shell/icons.tsx"

export interface ScheduleDocument {
  readonly workflow: string
  readonly cron?: string
  readonly zone?: string
  readonly every?: string
  readonly input?: Json
  readonly labels?: { readonly [name: string]: string }
  readonly priority?: number
  readonly ttl_seconds?: number
  readonly start?: string
  readonly end?: string
  readonly jitter_seconds: number
  readonly overlap: string
  readonly catch_up: string
  readonly catch_up_seconds: number
}

export interface ScheduleSummary extends ScheduleDocument {
  readonly name: string
  readonly paused_at: string | null
  readonly next_at: string | null
  readonly queued_tick: string | null
  readonly last_job: string | null
  /** Why no tick fires: this release does not accept the stored document. */
  readonly problem?: string
  /** The newest first. */
  readonly fires?: readonly Fire[]
}

export interface Schedule extends ScheduleSummary {
  readonly next_ticks: readonly string[]
}

export type Outcome = "started" | "skipped" | "missed" | "queued" | "refused" | "planned"

export interface Fire {
  readonly tick: string
  readonly kind: "tick" | "run" | "backfill"
  readonly at: string
  readonly outcome: Outcome
  readonly job_id: string | null
  readonly reason: string | null
  readonly count: number
}

/** Shape and colour of an outcome. Whether a job that was started has succeeded is shown on its page. */
export const outcomes: {
  readonly [outcome in Outcome]: { readonly icon?: IconName; readonly status?: Status; readonly text: string }
} = {
  started: { icon: "play", text: "started" },
  skipped: { status: "SKIPPED", text: "skipped" },
  queued: { status: "QUEUED", text: "queued" },
  missed: { status: "EXPIRED", text: "missed" },
  refused: { status: "FAILED", text: "refused" },
  planned: { status: "PENDING", text: "planned" },
}

export function schedulePath(name: string): string {
  return `/schedules/${encodeURIComponent(name)}`
}

export function scheduleQuery(name: string) {
  return queryOptions({
    queryKey: ["schedules", "one", name],
    queryFn: ({ signal }) => ask<Schedule>(schedulePath(name), { signal }),
    staleTime: 0,
  })
}

/** `0 2 * * * in Europe/Berlin`, `every 15m`. */
export function timesText({ cron, zone = "UTC", every }: ScheduleDocument): string {
  return cron === undefined ? `every ${every}` : `${cron} in ${zone}`
}

/** `7 d`, `24 h`, `1 h 30 min`: without a last part of zero. */
export function spanText(ms: number): string {
  return duration(ms).replace(/ 0+ (h|min|s)$/, "")
}

/** The zone in which times of a schedule are shown: its own, or that of the browser. */
export function shownZone({ zone, cron }: Pick<ScheduleDocument, "zone" | "cron">): string {
  return cron === undefined ? browserZone : (zone ?? "UTC")
}

export const browserZone = Intl.DateTimeFormat().resolvedOptions().timeZone

const formats = new Map<string, Intl.DateTimeFormat>()

function dateFormat(zone: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = `${zone} ${JSON.stringify(options)}`
  const known = formats.get(key)
  if (known !== undefined) return known
  const made = new Intl.DateTimeFormat("en-GB", { timeZone: zone, hourCycle: "h23", ...options })
  formats.set(key, made)
  return made
}

/** `Wed 18 Nov 02:00`, with the year if it is another one, and with seconds if it, or another one of its list, has some. */
export function zonedText(at: number, zone: string, hasSeconds = at % 60_000 !== 0): string {
  const localYear = (time: number) => localTime(time, zone).day.slice(0, 4)
  return dateFormat(zone, {
    ...{ weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" },
    ...(localYear(at) === localYear(Date.now()) ? {} : { year: "numeric" }),
    ...(hasSeconds ? { second: "2-digit" } : {}),
  })
    .format(at)
    .replaceAll(",", "")
}

export function haveSeconds(ticks: readonly string[]): boolean {
  return ticks.some(tick => Date.parse(tick) % 60_000 !== 0)
}

export function isZone(zone: string): boolean {
  try {
    new Intl.DateTimeFormat("en-GB", { timeZone: zone })
    return zone !== ""
  } catch {
    return false
  }
}

export interface LocalTime {
  /** `2026-11-18` */
  readonly day: string
  readonly hour: number
  readonly minute: number
}

export function localTime(at: number, zone: string): LocalTime {
  const parts = dateFormat(zone, {
    ...{ year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit" },
  }).formatToParts(at)
  const of = (type: string) => parts.find(part => part.type === type)!.value
  return {
    // A year that is being typed has one digit at first.
    day: `${of("year").padStart(4, "0")}-${of("month")}-${of("day")}`,
    hour: Number(of("hour")),
    minute: Number(of("minute")),
  }
}

/** For a field of type `datetime-local`. */
export function fieldTime(at: number, zone: string): string {
  const { day, hour, minute } = localTime(at, zone)
  return `${day}T${String(hour).padStart(2, "0")}:${String(minute).padStart(2, "0")}`
}

/** The last time of such a field: years of five digits are none for the API. */
export const lastTime = "9999-12-31T23:59"

/** The instant at which a clock in this zone shows the time of such a field; of a time that exists twice the first. undefined: no time. */
export function parseLocalTime(local: string, zone: string): string | undefined {
  const wanted = Date.parse(`${local}Z`)
  if (Number.isNaN(wanted)) return undefined
  const shown = (at: number) => Date.parse(`${fieldTime(at, zone)}Z`)
  let at = wanted
  for (let n = 0; n < 2; n++) at += wanted - shown(at)
  const before = at - 3_600_000
  return new Date(shown(before) === wanted ? before : at).toISOString()
}

/** `Wed 18 Nov` */
export function dayText(day: string): string {
  return dateFormat("UTC", { weekday: "short", day: "numeric", month: "short" })
    .format(Date.parse(`${day}T00:00:00Z`))
    .replaceAll(",", "")
}
