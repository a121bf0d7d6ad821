/**
 * What a schedule does at a moment. Pure: the calendar, the time and whether a job runs are given.
 *
 * 1. Ticks are decided in their order, each once: `lastTick` only rises.
 * 2. A tick that has come fires, is skipped, queued or missed. Nothing else happens to it, except that a queued one
 *    starts later.
 */
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
/** What is decided at once; the rest follows in further decisions. */
const MAX_TICKS = 500

export function decideTicks(
  rules: Rules,
  progress: Progress,
  { now, isRunning }: { readonly now: number; readonly isRunning: boolean },
): Decision {
  const outcomes: TickOutcome[] = []
  let running = isRunning
  let queuedTick = progress.queuedTick
  let cancelsRunning = false
  const add = (tick: number, outcome: FireOutcome, reason: string | null = null) =>
    outcomes.push({ tick, outcome, reason, count: 1 })
  if (queuedTick !== null && !running) {
    add(queuedTick, "started")
    running = true
    queuedTick = null
  }
  const { due, lastTick, nextAt } = dueTicks(rules, progress.lastTick, now)
  const isWhole = nextAt === null || nextAt > now
  const firing: number[] = []
  for (const [index, tick] of due.entries()) {
    const isLast = isWhole && index === due.length - 1
    const reason = missedReason(rules, { tick, now, isLast })
    if (reason === null) firing.push(tick)
    else addMissed(outcomes, tick, reason)
  }
  for (const [index, tick] of firing.entries()) {
    if (rules.overlap === "allow" || !running) add(tick, "started")
    else if (rules.overlap === "skip") add(tick, "skipped", "the job before it had not ended")
    else if (rules.overlap === "queue_one") {
      if (queuedTick === null) add(tick, "queued", "the job before it had not ended")
      else add(tick, "skipped", "another tick was queued")
      queuedTick ??= tick
    } else if (index < firing.length - 1 || !isWhole) add(tick, "skipped", "a later tick was due too")
    else {
      cancelsRunning = true
      add(tick, "started")
    }
    running = true
  }
  return { outcomes, lastTick, queuedTick, cancelsRunning, nextAt }
}

/** When the next tick after `lastTick` fires; null: never. */
export function nextFire(rules: Rules, lastTick: number): number | null {
  const tick = nextTick(rules, lastTick)
  return tick === null ? null : tick + jitter(rules, tick)
}

/** The next ticks, without their jitter. */
export function nextTicks(rules: Rules, after: number, count: number): number[] {
  const ticks: number[] = []
  for (let tick = nextTick(rules, after); tick !== null && ticks.length < count; tick = nextTick(rules, tick))
    ticks.push(tick)
  return ticks
}

function nextTick({ next, start, end }: Rules, after: number): number | null {
  const tick = next(start === null ? after : Math.max(after, start - 1))
  return end !== null && tick >= end ? null : tick
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

/** null: it fires. */
function missedReason(
  { catchUp, windowMs, ...rules }: Rules,
  { tick, now, isLast }: { readonly tick: number; readonly now: number; readonly isLast: boolean },
): string | null {
  const late = now - tick - jitter(rules, tick)
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
