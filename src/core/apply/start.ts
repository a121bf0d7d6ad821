import type { Effect, Effects } from "../effects.ts"
import type { JobRescheduled, JobStarted } from "../facts.ts"
import type { JobState } from "../state.ts"
import { resetEarliestTimer, setExpiry } from "../timers.ts"
import { startAll } from "./apply.ts"

/** The part of `apply` for delayed jobs. Until a delayed job starts it is PENDING, and so are all its nodes. */

/** The job is stored, and nothing of it begins. Its time to live begins with its start. */
export function delayed(state: JobState, startAt: number): void {
  state.startAt = startAt
  resetEarliestTimer(state)
}

export function rescheduled(state: JobState, { start_at }: JobRescheduled): void {
  state.startAt = start_at
  resetEarliestTimer(state)
}

export function started(state: JobState, fact: JobStarted & { readonly at: number }, effects: Effects): void {
  const begun: Effect[] = []
  startAll(state, fact.at, begun)
  setExpiry(state, fact.expires_at)
  if (fact.queued === true) state.status = "QUEUED"
  // Nodes of a job that waits in the store are dispatched when its queue has room.
  for (const effect of begun)
    effects?.push(fact.queued === true && effect.type === "dispatch" ? held(effect) : effect)
  resetEarliestTimer(state)
}

function held({ node, item }: Extract<Effect, { type: "dispatch" | "abort" }>): Effect {
  return { type: "hold", node, item }
}
