/**
 * What a schedule does at a moment. Pure: the calendar, the time and whether a job runs are given.
 *
 * 1. Ticks are decided in their order, each once: `lastTick` only rises.
 * 2. A tick that is due fires, is skipped, queued or missed. Nothing else happens to it, except that a queued one
 *    starts later.
 */
import type { Work } from "../turns.ts"

export interface Rules {
  readonly id: string
  /** The first tick after this instant. */
  next(after: number): number
  readonly start: number | null
  readonly end: number | null
  readonly jitterMs: number
  readonly overlap: "allow" | "skip" | "queue_one" | "cancel_running"
  readonly catchUp: "none" | "last" | "all"
  readonly windowMs: number
}

export interface Progress {
  /** Every tick up to here is decided. */
  readonly lastTick: number
  /** A tick that starts when the latest job has ended. */
  readonly queuedTick: number | null
}

export type FireOutcome = "started" | "skipped" | "missed" | "queued"

export interface TickOutcome {
  readonly tick: number
  readonly outcome: FireOutcome
  readonly reason: string | null
  /** Ticks that were missed in a row are one outcome, under the last of them. */
  readonly count: number
}

export interface Decision extends Progress {
  readonly outcomes: readonly TickOutcome[]
  /** The latest job is cancelled first. */
  readonly cancelsRunning: boolean
  /** When the next tick fires; null: never. In the past if there was too much to decide at once. */
  readonly nextAt: number | null
}

/** A tick is late after this time: an engine that restarts has missed nothing. */
const LATE_MS = 60_000
/** No tick is later than the year 9999: times have years of four digits. */
const NEVER = Date.UTC(10_000, 0)
/** What is decided at once; the rest follows in further decisions. */
const MAX_TICKS = 500
const LATER_TICK = "a later tick was due too"
const NOT_ENDED = "the job before it had not ended"

export function decideTicks(
  rules: Rules,
  progress: Progress,
  { now, isRunning }: { readonly now: number; readonly isRunning: boolean },
): Decision {
  const outcomes: TickOutcome[] = []
  let running = isRunning
  let queuedTick = progress.queuedTick
  const add = (tick: number, outcome: FireOutcome, reason: string | null = null) =>
    outcomes.push({ tick, outcome, reason, count: 1 })
  const { due, lastTick, nextAt } = dueTicks(rules, progress.lastTick, now)
  const isWhole = nextAt === null || nextAt > now
  const reasons = due.map((tick, index) =>
    missedReason(rules, { tick, now, isLast: isWhole && index === due.length - 1 }),
  )
  const firing = due.filter((_, index) => reasons[index] === null)
  // Only the last of several ticks starts: it would cancel the others.
  const isCancelling = rules.overlap === "cancel_running"
  const isReplaced = isCancelling && firing.length > 0
  if (queuedTick !== null && (isReplaced || !running)) {
    if (isReplaced) add(queuedTick, "skipped", LATER_TICK)
    else add(queuedTick, "started")
    running ||= !isReplaced
    queuedTick = null
  }
  for (const [index, tick] of due.entries())
    if (reasons[index] !== null) addMissed(outcomes, tick, reasons[index]!)
  for (const [index, tick] of firing.entries()) {
    if (isCancelling && (index < firing.length - 1 || !isWhole)) add(tick, "skipped", LATER_TICK)
    else if (isCancelling || rules.overlap === "allow" || !running) {
      add(tick, "started")
      running = true
    } else if (rules.overlap === "skip") add(tick, "skipped", NOT_ENDED)
    else {
      if (queuedTick === null) add(tick, "queued", NOT_ENDED)
      else add(tick, "skipped", "another tick was queued")
      queuedTick ??= tick
    }
  }
  const cancelsRunning = isReplaced && isRunning && isWhole
  return { outcomes, lastTick, queuedTick, cancelsRunning, nextAt }
}

/** When the next tick after `lastTick` fires; null: never. */
export function nextFire(rules: Rules, lastTick: number): number | null {
  const tick = nextTick(rules, lastTick)
  return tick === null ? null : fireTime(rules, tick)
}

/** When a tick fires: with its jitter. */
export function fireTime(rules: Rules, tick: number): number {
  return tick + jitter(rules, tick)
}

/** The next ticks, without their jitter: at most `count`, and before `to`. */
export function* nextTicks(
  rules: Rules,
  after: number,
  { count, to = NEVER }: { readonly count: number; readonly to?: number },
): Work<number[]> {
  const ticks: number[] = []
  while (ticks.length < count) {
    const tick = nextTick(rules, ticks.at(-1) ?? after)
    if (tick === null || tick >= to) break
    ticks.push(tick)
    yield
  }
  return ticks
}

function nextTick({ next, start, end }: Rules, after: number): number | null {
  const from = start === null ? after : Math.max(after, start - 1)
  if (from >= NEVER) return null
  const tick = next(from)
  return tick >= (end ?? NEVER) || tick >= NEVER ? null : tick
}

function dueTicks(rules: Rules, from: number, now: number) {
  const due: number[] = []
  let lastTick = from
  for (;;) {
    const tick = nextTick(rules, lastTick)
    if (tick === null) return { due, lastTick, nextAt: null }
    const at = tick + jitter(rules, tick)
    if (at > now || due.length === MAX_TICKS) return { due, lastTick, nextAt: at }
    due.push(tick)
    lastTick = tick
  }
}

/**
 * null: it fires. Ticks fire in their order, so one whose predecessor has more jitter waits for it: a tick is late once all of the
 * time over which ticks are spread has passed, and never because of its jitter.
 */
function missedReason(
  { catchUp, windowMs, jitterMs }: Rules,
  { tick, now, isLast }: { readonly tick: number; readonly now: number; readonly isLast: boolean },
): string | null {
  const late = now - tick - jitterMs
  if (late <= LATE_MS) return null
  if (late > windowMs) return "no engine ran within the time for catching up"
  if (catchUp === "all" || (catchUp === "last" && isLast)) return null
  return catchUp === "last" ? "no engine ran, and only the last tick is caught up" : "no engine ran"
}

function addMissed(outcomes: TickOutcome[], tick: number, reason: string): void {
  const before = outcomes.at(-1)
  const isInRow = before?.outcome === "missed" && before.reason === reason
  if (isInRow) outcomes.pop()
  outcomes.push({ tick, outcome: "missed", reason, count: isInRow ? before.count + 1 : 1 })
}

/** The same for the same tick in every process: a hash (FNV-1a, mixed) of schedule and tick. */
function jitter({ id, jitterMs }: Pick<Rules, "id" | "jitterMs">, tick: number): number {
  if (jitterMs === 0) return 0
  let hash = 0x811c9dc5
  for (const char of `${id}/${tick}`) hash = Math.imul(hash ^ char.charCodeAt(0), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return Math.floor(((hash ^ (hash >>> 16)) >>> 0) % jitterMs)
}
