import type { JobState } from "../../core/state.ts"
import {
  resetEarliestTimer,
  takeDueItems,
  takeDueLooks,
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
  readonly looks: readonly Place[]
}

export function takeDue(state: JobState, now: number): Due {
  const hasLists = state.lists.size > 0
  const retries = takeDueRetries(state, now).map(node => ({ node }))
  const items = hasLists ? takeDueItems(state, now) : []
  const polls = takeDuePolls(state, now).map(node => ({ node }))
  const itemLooks = hasLists ? takeDueLooks(state, now) : []
  resetEarliestTimer(state)
  return { tasks: [...retries, ...items], looks: [...polls, ...itemLooks] }
}
