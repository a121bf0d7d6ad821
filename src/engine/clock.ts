import { JournalUnavailableError } from "../journal/errors.ts"

/** Time and randomness are arguments, so that tests never sleep and a whole fleet can be simulated from a seed. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number
  /** In [0, 1). */
  random(): number
  /** Calls `fire` once after `ms`; the returned function cancels it. */
  after(ms: number, fire: () => void): () => void
}

/** Longer delays overflow setTimeout and would fire at once. */
export const LONGEST_WAIT = 2 ** 31 - 1

export const systemClock: Clock = {
  now: Date.now,
  random: Math.random,
  after(ms, fire) {
    const timer = setTimeout(fire, Math.min(Math.max(ms, 0), LONGEST_WAIT))
    return () => clearTimeout(timer)
  },
}

/** Upper bound of the delay of a timer of `atTime` after the system clock was set forward. */
const LONGEST_TIMER_MS = 10_000

/**
 * Calls `fire` once when the clock shows `at`; the returned function cancels it. Timers do not notice that the system clock
 * was set, or that the computer was suspended.
 */
export function atTime(clock: Clock, at: number, fire: () => void): () => void {
  let cancel = () => {}
  const wait = () => {
    cancel = clock.after(Math.min(at - clock.now(), LONGEST_TIMER_MS), () => {
      if (clock.now() < at) wait()
      else fire()
    })
  }
  wait()
  return () => cancel()
}

const RETRY_MS = 1000

/** Repeats a request while the store is unavailable: what waits for it has no fault of its own. */
export async function untilStoreAnswers<T>(
  ask: () => Promise<T>,
  { pause, isOver = () => false }: { pause: (ms: number) => Promise<unknown>; isOver?: () => boolean },
): Promise<T> {
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      if (!(error instanceof JournalUnavailableError) || error.final || isOver()) throw error
      await pause(RETRY_MS)
    }
  }
}

export function sleep(clock: Clock, ms: number): Promise<void> {
  return new Promise(resolve => clock.after(ms, resolve))
}

/** Waits for the work, for at most this long. */
export async function within(clock: Pick<Clock, "after">, ms: number, work: Promise<unknown>): Promise<void> {
  let cancel = () => {}
  const late = new Promise<void>(resolve => {
    cancel = clock.after(ms, resolve)
  })
  await Promise.race([work, late])
  cancel()
}

/** Reads an ISO 8601 time with its zone; null: it is none. */
export function parseIsoTime(text: string): number | null {
  const [, year, month, day] =
    /^(\d{4})-(\d{2})-(\d{2})T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})$/i.exec(text) ?? []
  const time = day === undefined ? Number.NaN : Date.parse(text)
  // `Date.parse` reads February 31st as a day of March.
  const hasDay = Number(day) <= new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate()
  return Number.isNaN(time) || !hasDay ? null : time
}

const MAX_SECONDS = 64
const seconds = new Map<number, string>()

/** Caches the texts of some seconds: many jobs have few different ones, and `Date` shows in profiles. */
export function isoTime(ms: number): string {
  const whole = Math.trunc(ms)
  const second = Math.floor(whole / 1000)
  let text = seconds.get(second)
  if (text === undefined) {
    text = new Date(second * 1000).toISOString().slice(0, -4)
    if (seconds.size >= MAX_SECONDS) seconds.clear()
    seconds.set(second, text)
  }
  const rest = whole - second * 1000
  return `${text}${rest < 10 ? "00" : rest < 100 ? "0" : ""}${rest}Z`
}

export function maybeTime(ms: number | null): string | null {
  return ms === null ? null : isoTime(ms)
}
