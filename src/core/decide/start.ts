import type { Command, Refusal, Reschedule, StartTime } from "../commands.ts"
import type { Fact, JobStarted } from "../facts.ts"
import { isDelayed, type JobState } from "../state.ts"
import { expiry, refuse, wholeTime } from "./backoff.ts"

/** The start of delayed jobs. */

/** When a job that is submitted now starts; null: at once. */
export function startTime({ startAt, delayMs }: StartTime, now: number): number | null {
  if (startAt === undefined && delayMs === undefined) return null
  const at = wholeTime(startAt ?? now + delayMs!)
  return at > now ? at : null
}

/** Starts a delayed job whose time has come. While the job is paused it waits. */
export function start(
  state: JobState,
  { queued }: Extract<Command, { type: "wake" }>,
  now: number,
): readonly Fact[] | Refusal {
  if (state.startAt! > now || state.paused !== null) return refuse("nothing_due")
  const fact: JobStarted = { type: "job_started", expires_at: expiry(state.ttlSeconds, now) }
  return [{ ...fact, at: now, queued: queued === true ? queued : undefined }]
}

/** A time that is not in the future is recorded as now: the job starts with its next timer, which is due. */
export function reschedule(state: JobState, command: Reschedule, now: number): readonly Fact[] | Refusal {
  if (!isDelayed(state)) return refuse("already_started")
  const start_at = startTime(command, now) ?? now
  if (start_at === state.startAt) return refuse("unchanged")
  const { by } = command
  return [{ type: "job_rescheduled", at: now, by, start_at }]
}

/** A job that never started is cancelled and hidden at once. */
export function removeDelayed(operation: { readonly operation?: string }, at: number): readonly Fact[] {
  return [
    { type: "job_cancelled", at, reason: "deleted before its start", ...operation },
    { type: "job_deleted", at, ...operation },
  ]
}
