import type { JobState } from "../../core/state.ts"
import {
  resetEarliestTimer,
  takeDueItemPolls,
  takeDueItemRetries,
  takeDuePolls,
  takeDueRetries,
} from "../../core/timers.ts"

interface Place {
  readonly node: number
  readonly item?: number
}

/** What a job has to do when its alarm fires, removed from its timers. */
export interface Due {
  /** Tasks to dispatch again. */
  readonly tasks: readonly Place[]
  /** Operations to poll. */
  readonly polls: readonly Place[]
}

export function takeDue(state: JobState, now: number): Due {
  const hasLists = state.lists.size > 0
  const retries = takeDueRetries(state, now).map(node => ({ node }))
  const items = hasLists ? takeDueItemRetries(state, now) : []
  const polls = takeDuePolls(state, now).map(node => ({ node }))
  const itemPolls = hasLists ? takeDueItemPolls(state, now) : []
  resetEarliestTimer(state)
  return { tasks: [...retries, ...items], polls: [...polls, ...itemPolls] }
}
