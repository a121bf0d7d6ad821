import { isRunningAt, lostAttempts, maxAttempts, readyAt, shownAttempt } from "../attempt-times.ts"
import { executionsFullIn, lostTooOften } from "../faults.ts"
import { type EndedAttempt, isInFlight, type JobState, RUNNING } from "../state.ts"

/** The fields of a node, and of an item, about its attempts: numbers, and the times of the current attempt or of the last one. */
export interface AttemptFields {
  /** Counts the attempts that have begun and were not handed over; before the first, or between two, the next one. */
  readonly attempt: number
  /** The maximum number of attempts: those of the retry policy, and one more for each that did not count against it. */
  readonly max_attempts: number
  /** Attempts among them that were running when their process died: they do not count against the retry policy. */
  readonly losses: number
  /** The usage of all its attempts, failed ones included; absent: nothing. */
  readonly usage?: { readonly [key: string]: number }
  readonly queued_at: number | null
  /** When its handler began. For an attempt that has not ended: recorded only if it runs longer than a second. */
  readonly started_at: number | null
  readonly finished_at: number | null
  readonly worker: string | null
  /** How long its handler ran, without the time that the node waited afterwards; null: not known, or it still runs. */
  readonly duration_ms: number | null
  /** From when it was ready, or a retry was due, until its handler began. */
  readonly queued_ms: number | null
  /** From when its handler returned a wait, or its items began, until the node ended. */
  readonly waited_ms: number | null
  /** For a node that is retried: the attempt before the current one. */
  readonly last_attempt?: LastAttempt
}

/** The last attempt that has ended, of a node that is in flight again. */
export interface LastAttempt {
  readonly outcome: EndedAttempt["outcome"]
  readonly started_at: number | null
  readonly ended_at: number
  readonly duration_ms: number | null
  readonly worker: string | null
}

function usageField(
  { nodeUsage }: JobState,
  node: number,
): { readonly usage?: { readonly [key: string]: number } } {
  const usage = nodeUsage.get(node)
  return usage === undefined ? {} : { usage: { ...usage } }
}

/** `now`: of an attempt that has not ended, when it is shown. */
export function attemptFields(state: JobState, node: number, now: number): AttemptFields {
  const queued_at = state.queuedAt[node] || null
  const hasBegun = state.nodeStatus[node] !== RUNNING || isRunningAt(state, node, now)
  const started_at = (hasBegun && state.startedAt[node]) || null
  const finished_at = state.endedAt[node] || null
  const waitingSince = state.waitingSince.get(node)
  const ranUntil = waitingSince ?? finished_at
  const last = isInFlight(state, node) ? lastBegun(state, node) : undefined
  return {
    attempt: shownAttempt(state, node),
    max_attempts: maxAttempts(state, node),
    losses: lostAttempts(state, node),
    ...usageField(state, node),
    queued_at,
    started_at,
    finished_at,
    worker: hasBegun ? (state.workers[node] ?? null) : null,
    duration_ms:
      started_at === null || ranUntil === null || isLost(state, node)
        ? null
        : (abortedMs(state, node) ?? ranUntil - started_at),
    queued_ms: started_at === null ? null : started_at - Math.min(started_at, readyAt(state, node)),
    waited_ms: waitingSince === undefined || finished_at === null ? null : finished_at - waitingSince,
    ...(last === undefined ? {} : { last_attempt: lastAttempt(last) }),
  }
}

/** How long the handler of an aborted attempt ran until its abort, or in total, if its worker has reported that. */
function abortedMs({ abortedRuns, attempt }: JobState, node: number): number | undefined {
  const run = abortedRuns.size === 0 ? undefined : abortedRuns.get(node)
  return run?.attempt === attempt[node] ? run?.ranMs : undefined
}

/** undefined: there is none, its owner changed before it began, or it found no place among the executions. */
function lastBegun({ lastAttempts, faults }: JobState, node: number): EndedAttempt | undefined {
  const last = lastAttempts.get(node)
  if (last?.outcome === "lost" && last.startedAt === null) return undefined
  const hadNoPlace = last?.outcome === "postponed" && executionsFullIn(faults.get(node)?.fault) !== null
  return hadNoPlace ? undefined : last
}

/** Did the node fail because its process died too often? When it died is not known. */
function isLost({ faults }: JobState, node: number): boolean {
  return faults.get(node)?.fault.code === lostTooOften
}

function lastAttempt({ outcome, startedAt, endedAt, worker }: EndedAttempt): LastAttempt {
  const duration_ms = startedAt === null || outcome === "lost" ? null : endedAt - startedAt
  return { outcome, started_at: startedAt, ended_at: endedAt, duration_ms, worker }
}
