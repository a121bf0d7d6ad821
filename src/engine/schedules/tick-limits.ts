import { UmbraError } from "../../errors.ts"
import type { NewFire, ScheduleRow } from "../../journal/port/schedules.ts"
import type { Decision, TickOutcome } from "../../schedule/policy.ts"

const RETRY_MS = 1000
const MAX_RETRY_MS = 60_000
const OVER_LIMIT = "the limit of unfinished jobs was reached"

export type AdmitTicks = (owner: string) => (jobId: string, store: () => Promise<void>) => Promise<void>

interface Tick {
  readonly fire: NewFire
  /** null: the tick starts none. */
  readonly job: object | null
}

/** Ticks whose jobs are over a limit of their owner: they stay undecided, and are decided again later. */
export class TickLimits {
  /** Stores a job of the owner if its limits allow one more; otherwise E646. Set by the server, which knows the limits. */
  admit: AdmitTicks = () => (_, store) => store()
  /** By schedule: the first tick that was over a limit, and how often it was tried. */
  readonly #over = new Map<string, { readonly tick: number; readonly tries: number }>()

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

  /** The part of the decision for the first `count` ticks; the next one is over a limit. It is retried after 1 s, 2 s, 4 s and so on. */
  cut(row: ScheduleRow, decision: Decision, ticks: readonly Tick[], count: number, now: number): Decision {
    if (count === ticks.length) {
      this.#over.delete(row.id)
      return decision
    }
    const { tick: first, tries } = this.#over.get(row.id) ?? { tick: ticks[count]!.fire.tick, tries: 0 }
    this.#over.set(row.id, { tick: first, tries: tries + 1 })
    const kept = ticks.slice(0, count).map(({ fire }) => fire)
    const queued = kept.find(({ outcome }) => outcome === "queued")?.tick
    const isStarted = kept.some(({ tick }) => tick === row.queuedTick)
    return {
      ...decision,
      lastTick: Math.max(row.lastTick, kept.at(-1)?.tick ?? 0),
      queuedTick: queued ?? (isStarted ? null : row.queuedTick),
      nextAt: now + Math.min(MAX_RETRY_MS, RETRY_MS * 2 ** Math.min(tries, 10)),
    }
  }

  /** A tick that was over a limit starts late, or is refused instead of missed: an engine ran. */
  outcome(id: string, { tick, outcome, reason }: TickOutcome): Pick<NewFire, "outcome" | "reason"> {
    const over = this.#over.get(id)
    if (over === undefined || tick < over.tick) return { outcome, reason }
    if (outcome === "missed") return { outcome: "refused", reason: OVER_LIMIT }
    const isLate = outcome === "started" && tick === over.tick
    return { outcome, reason: isLate ? `started late: ${OVER_LIMIT}` : reason }
  }

  /** Partitions were taken: other engines may have decided meanwhile. */
  clear(): void {
    this.#over.clear()
  }
}
