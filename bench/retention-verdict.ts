/** Whether a run of `bench -- retention` reached its targets. */

export interface Period {
  /** Seconds since the measurement began. */
  readonly until: number
  readonly rate: number
  readonly p50: number
  readonly p99: number
  readonly bytes: ReadonlyMap<string, number>
  readonly blocked: number
  readonly backlog: number
}

export interface Targets {
  /** Jobs per second that are offered. */
  readonly rate: number
  /** The p99 that the others are compared with, in milliseconds. */
  readonly baseline: number
  /** From this second on sizes must be constant. */
  readonly steadyFrom: number
}

export interface Verdict {
  readonly target: string
  readonly isMet: boolean
  readonly found: string
}

const MAX_RATIO = 3
const MIN_RATE_SHARE = 0.98
/** How much larger a table or an index may be in the second half of the steady state than in the first. */
const SIZE_TOLERANCE = 0.25
/** Smaller tables and indexes grow by pages, and prove nothing. */
const SMALL_BYTES = 4 * 2 ** 20
/** Jobs that may wait to be removed, in seconds of the offered rate. */
const BACKLOG_SECONDS = 10

/** `periods` are those that are judged: after the ones that gave the baseline. */
export function judge(periods: readonly Period[], targets: Targets): Verdict[] {
  const { rate, baseline, steadyFrom } = targets
  const worst = Math.max(...periods.map(({ p99 }) => p99))
  const slowest = Math.min(...periods.map(period => period.rate))
  const blocked = periods.reduce((sum, period) => sum + period.blocked, 0)
  const steady = periods.filter(({ until }) => until > steadyFrom)
  const backlog = Math.max(0, ...steady.map(period => period.backlog))
  const grown = growth(steady)
  return [
    {
      target: `the offered rate is reached (${percent(MIN_RATE_SHARE)})`,
      isMet: slowest >= rate * MIN_RATE_SHARE,
      found: `${slowest.toFixed(0)} of ${rate} per second in the slowest period`,
    },
    {
      target: `p99 of a period is at most ${MAX_RATIO} × that of the beginning`,
      isMet: worst <= MAX_RATIO * baseline,
      found: `${worst.toFixed(1)} ms, ${(worst / baseline).toFixed(2)} × ${baseline.toFixed(1)} ms`,
    },
    {
      target: `tables and indexes keep their size (within ${percent(SIZE_TOLERANCE)} from second ${steadyFrom} on)`,
      isMet: steady.length >= 2 && grown.ratio <= 1 + SIZE_TOLERANCE,
      found:
        steady.length < 2 ? "the run was too short" : `${grown.name} grew most: × ${grown.ratio.toFixed(2)}`,
    },
    {
      target: `at most ${BACKLOG_SECONDS} s of jobs wait to be removed`,
      isMet: backlog <= BACKLOG_SECONDS * rate,
      found: `${backlog}`,
    },
    {
      target: "no append waits for a lock of a sweep or a vacuum",
      isMet: blocked === 0,
      found: `${blocked} samples with one`,
    },
  ]
}

/** The table or index that grew most from the first half of the periods to the second. */
export function growth(periods: readonly Pick<Period, "bytes">[]): { name: string; ratio: number } {
  const half = periods.length >> 1
  const most = (of: readonly Pick<Period, "bytes">[], name: string) =>
    Math.max(0, ...of.map(({ bytes }) => bytes.get(name) ?? 0))
  const names = new Set(periods.flatMap(({ bytes }) => [...bytes.keys()]))
  let found = { name: "none", ratio: 1 }
  for (const name of names) {
    const [first, second] = [most(periods.slice(0, half), name), most(periods.slice(half), name)]
    if (second < SMALL_BYTES) continue
    const ratio = second / Math.max(first, SMALL_BYTES)
    if (ratio > found.ratio) found = { name, ratio }
  }
  return found
}

export function percent(share: number): string {
  return `${Math.round(share * 100)} %`
}

/** The value below which this share of the sorted numbers lies. */
export function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
}
