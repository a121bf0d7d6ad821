/** Pages of a job's events. A fact may stand for a hundred thousand of them, so a page may end within one. */

import type { JobState } from "../core/state.ts"
import { expand, type JobEvent, type RecordedFact } from "../core/view/events.ts"
import type { Work } from "../turns.ts"

/** The place of an event: the seq of its fact, and which of that fact's events it is. */
export interface EventPlace {
  readonly seq: number
  readonly place: number
}

export interface EventPageQuery {
  /** Only what comes behind it. */
  readonly after: EventPlace
  readonly limit: number
  /** An event that makes the page larger than this is its last: outputs are in events, and may be large. */
  readonly maxBytes: number
}

export interface EventPage {
  readonly events: readonly JobEvent[]
  /** `after` of the next page. */
  readonly next: EventPlace | null
}

/** `state`: the job before its first fact. */
export function* pageOfEvents(
  jobId: string,
  state: JobState,
  facts: readonly RecordedFact[],
  { after, limit, maxBytes }: EventPageQuery,
): Work<EventPage> {
  const events: JobEvent[] = []
  let last = after
  let bytes = 0
  for (const recorded of facts) {
    const { seq } = recorded
    for (const [place, event] of expand(state, jobId, recorded).entries()) {
      if (seq < after.seq || (seq === after.seq && place <= after.place)) continue
      if (events.length === limit || bytes > maxBytes) return { events, next: last }
      events.push(event)
      bytes += JSON.stringify(event.payload).length
      last = { seq, place }
    }
    yield
  }
  return { events, next: null }
}
