/** Pages of a job's events. A fact may expand to a hundred thousand events, so a page may end within one fact. */

import type { JobState } from "../core/state.ts"
import { expand, type JobEvent, type RecordedFact } from "../core/view/events.ts"
import type { Work } from "../turns.ts"

/** The position of an event: the seq of its fact, and its index among the events of that fact. */
export interface EventPlace {
  readonly seq: number
  readonly place: number
}

export interface EventPageQuery {
  /** Only events after this one. */
  readonly after: EventPlace
  readonly limit: number
  /** The event that exceeds this size is the last of the page: events contain outputs, which may be large. */
  readonly maxBytes: number
}

export interface EventPage {
  readonly events: readonly JobEvent[]
  /** `after` of the next page. */
  readonly next: EventPlace | null
}

/** `state`: the job before its first fact. */
export function* eventPage(
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
