import { UmbraError } from "../../errors.ts"
import type { NewFire, ScheduleRow } from "../../journal/port/schedules.ts"
import { type Decision, fireTime, nextFire, nextTicks, type Rules } from "../../schedule/policy.ts"
import { atOnce } from "../../turns.ts"

const RETRY_MS = 1000
const MAX_RETRY_MS = 60_000
const MAX_LOOKED_AT = 1000
const OVER_LIMIT = "the limit of unfinished jobs was reached"

export type AdmitTicks = (owner: string) => (jobId: string, store: () => Promise<void>) => Promise<void>

interface Tick {
  readonly fire: NewFire
  /** When it was to fire. */
  readonly dueAt: number
  /** null: the tick starts none. */
  readonly job: object | null
}

/**
 * Ticks whose jobs are over a limit of their owner: they stay undecided, and are decided again later. `next_at` of the row
 * is then not the time of its next tick, which is all that a process needs to know about it.
 */
export class TickLimits {
  /** Stores a job of the owner if its limits allow one more; otherwise E646. Set by the server, which knows the limits. */
  admit: AdmitTicks = () => (_, store) => store()

  /** Calls `store` with the number of ticks before the first one whose job is over a limit. */
  async admitted(
    owner: string,
    ticks: readonly Tick[],
    store: (count: number) => Promise<void>,
  ): Promise<void> {
    const admit = this.admit(owner)
    const from = async (index: number): Promise<void> => {
      const next = ticks.findIndex(({ job }, at) => at >= index && job !== null)
      if (next === -1) return store(ticks.length)
      let isAllowed = false
      try {
        await admit(ticks[next]!.fire.jobId!, () => {
          isAllowed = true
          return from(next + 1)
        })
      } catch (error) {
        if (isAllowed || !(error instanceof UmbraError && error.code === "E646")) throw error
        await store(next)
      }
    }
    await from(0)
  }
}

type DecidedTick = Pick<NewFire, "tick" | "outcome" | "reason" | "count">

/** Was the next tick of the schedule over a limit? */
export function isOverLimit(row: ScheduleRow, rules: Rules): boolean {
  const { nextAt, lastTick, queuedTick } = row
  const next = nextFire(rules, lastTick)
  if (nextAt === null || nextAt === next) return false
  if (next !== null && nextAt > next) return true
  // The time of the retry of a queued tick; or that of a tick which was decided while the schedule was changed.
  return queuedTick !== null && !isFireTime(rules, nextAt)
}

function isFireTime(rules: Rules, at: number): boolean {
  const ticks = nextTicks(rules, at - rules.jitterMs - 1, { count: MAX_LOOKED_AT, to: at + 1 })
  return atOnce(ticks).some(tick => fireTime(rules, tick) === at)
}

/**
 * A tick that was over a limit starts late, or is refused instead of missed: an engine ran. The history has the first one as
 * queued, so it is not counted together with those after it.
 */
export function outcomesOverLimit(
  row: ScheduleRow,
  rules: Rules,
  { outcomes }: Decision,
): readonly DecidedTick[] {
  const firstMissed = outcomes.find(({ outcome }) => outcome === "missed")
  return outcomes.flatMap((decided): DecidedTick[] => {
    const { tick, outcome, count } = decided
    const isLate = outcome === "started" && (decided === outcomes[0] || tick === row.queuedTick)
    if (isLate) return [{ ...decided, reason: `started late: ${OVER_LIMIT}` }]
    if (outcome !== "missed") return [decided]
    const refused = { tick, outcome: "refused", reason: OVER_LIMIT, count } as const
    if (decided !== firstMissed || count === 1) return [refused]
    const [first] = atOnce(nextTicks(rules, row.lastTick, { count: 1 }))
    return [
      { ...refused, tick: first!, count: 1 },
      { ...refused, count: count - 1 },
    ]
  })
}

/**
 * The part of the decision for the first `count` ticks; the next one is over a limit. It is tried again after a second, then
 * after as long as it has waited, at most a minute. The history has it as queued.
 */
export function cutAtLimit<T extends Tick>(
  row: ScheduleRow,
  decision: Decision,
  ticks: readonly T[],
  { count, now, isOver }: { readonly count: number; readonly now: number; readonly isOver: boolean },
): { readonly decision: Decision; readonly ticks: readonly T[] } {
  const over = ticks[count]
  if (over === undefined) return { decision, ticks }
  const kept = ticks.slice(0, count)
  const fires = kept.map(({ fire }) => fire)
  const isNew = !isOver || count > 0
  const waits = {
    ...over,
    job: null,
    fire: { ...over.fire, outcome: "queued", jobId: null, reason: OVER_LIMIT },
  } as T
  const queued = fires.find(({ outcome }) => outcome === "queued")?.tick
  const isStarted = fires.some(({ tick }) => tick === row.queuedTick)
  const waitedMs = isNew ? 0 : now - over.dueAt
  return {
    ticks: isNew ? [...kept, waits] : kept,
    decision: {
      ...decision,
      lastTick: Math.max(row.lastTick, fires.at(-1)?.tick ?? 0),
      queuedTick: queued ?? (isStarted ? null : row.queuedTick),
      nextAt: now + Math.min(MAX_RETRY_MS, Math.max(RETRY_MS, waitedMs)),
    },
  }
}
