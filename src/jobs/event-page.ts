/**
 * Pages of a job's events. A fact may expand to a hundred thousand events, so a page may end within one fact. A page
 * reads its own facts, and the state before them from the history of the job.
 */

import type { Fact } from "../core/facts.ts"
import type { Json } from "../core/json.ts"
import { type JobState, LargeOutput, newJobState } from "../core/state.ts"
import { expand, type JobEvent, type RecordedFact } from "../core/view/events.ts"
import { decodeRows, type LoadParts } from "../engine/recovery/fold.ts"
import { inTurns, type Work } from "../turns.ts"
import { factPages } from "./fact-records.ts"
import { type History, LeftOut } from "./history.ts"
import { Fences } from "./logs/fences.ts"

/** The position of an event: the seq of its fact, and its index among the events of that fact; Infinity: after all of them. */
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
  /** The page has `fences`. */
  readonly withFences?: boolean
}

export interface EventPage {
  readonly events: readonly JobEvent[]
  /** `after` of the next page. */
  readonly next: EventPlace | null
  /** Of each event that is about an attempt: the fence that facts and rows of its log have. */
  readonly fences?: readonly (number | undefined)[]
}

/** Facts that are read at once: they may be large. */
const PAGE = 200

export async function eventPage(
  parts: LoadParts,
  history: History,
  jobId: string,
  query: EventPageQuery,
): Promise<EventPage> {
  const { journal, largeOutputBytes: inlineBytes } = parts
  const { seq, place } = query.after
  const before = place === Number.POSITIVE_INFINITY ? seq : seq - 1
  const { plan, state, seq: from } = await history.state(jobId, { seq: before })
  const page = new Page(jobId, from === -1 ? newJobState(plan) : state, query)
  for (let after = from; ; ) {
    const limit = Math.min(PAGE, query.limit)
    const rows = await journal.readFactPage({ jobId, after, limit, inlineBytes })
    const facts = await decodeRows(parts, rows)
    for (let next = 0; next < facts.length; ) {
      const { fact } = facts[next]!
      if (completesList(page.state, fact)) await readListOutputs(parts, jobId, page.state, fact)
      const reached = await inTurns(page.add(facts, next))
      if (reached === null) return page.cut()
      next = reached
    }
    if (rows.length < limit) return { ...page.found, next: null }
    after = rows.at(-1)!.seq
  }
}

class Page {
  readonly #events: JobEvent[] = []
  readonly #fences: (number | undefined)[] = []
  readonly state: JobState
  readonly #jobId: string
  readonly #query: EventPageQuery
  #last: EventPlace
  #bytes = 0
  /** The first event that has no room is of the same fact as the last one that has. */
  #isWithin = false

  constructor(jobId: string, state: JobState, query: EventPageQuery) {
    this.#jobId = jobId
    this.state = state
    this.#query = query
    this.#last = query.after
  }

  /** Adds the events of facts up to one that completes a list; returns its index. null: there is no room for more. */
  *add(facts: readonly RecordedFact[], from: number): Work<number | null> {
    const { after, limit, maxBytes } = this.#query
    for (let next = from; next < facts.length; next++) {
      const recorded = facts[next]!
      if (next > from && completesList(this.state, recorded.fact)) return next
      const { seq } = recorded
      const fences = this.#query.withFences === true ? new Fences(this.state, recorded.fact) : null
      for (const [place, event] of expand(this.state, this.#jobId, recorded).entries()) {
        if (seq < after.seq || (seq === after.seq && place <= after.place)) continue
        if (this.#events.length === limit || this.#bytes > maxBytes) {
          this.#isWithin = seq === this.#last.seq
          return null
        }
        this.#events.push(event)
        if (fences !== null) this.#fences.push(fences.of(event))
        this.#bytes += JSON.stringify(event.payload).length
        this.#last = { seq, place }
      }
      yield
    }
    return facts.length
  }

  get found(): Pick<EventPage, "events" | "fences"> {
    const events = this.#events
    return this.#query.withFences === true ? { events, fences: this.#fences } : { events }
  }

  cut(): EventPage {
    const { seq, place } = this.#last
    return { ...this.found, next: { seq, place: this.#isWithin ? place : Number.POSITIVE_INFINITY } }
  }
}

/** The event of a completed list contains the outputs of all its items. */
function completesList(state: JobState, fact: Fact): fact is Fact & { readonly node: number } {
  if (fact.type !== "item_completed" && fact.type !== "signal_received") return false
  if (fact.node === undefined || fact.item === undefined) return false
  return state.lists.get(fact.node)?.state.unfinished === 1
}

/** Reads the outputs that the state of the past does not contain. Those that are too large for memory stay out. */
async function readListOutputs(
  { journal, largeOutputBytes: inlineBytes }: LoadParts,
  jobId: string,
  state: JobState,
  { node }: { readonly node: number },
): Promise<void> {
  const { outputs } = state.lists.get(node)!.state
  const items = new Map<number, number>()
  for (const [item, output] of (outputs as readonly unknown[]).entries())
    if (output instanceof LeftOut || (output instanceof LargeOutput && output.bytes <= inlineBytes))
      items.set(output.seq, item)
  if (items.size === 0) return
  const seqs = [...items.keys()].sort((a, b) => a - b)
  const query = { jobId, after: seqs[0]! - 1, upTo: seqs.at(-1)!, limit: PAGE, inlineBytes }
  for await (const { seq, data } of factPages(journal, query)) {
    const item = items.get(seq)
    if (item === undefined || data === null) continue
    const { output, data: given } = JSON.parse(data) as { readonly output?: Json; readonly data?: Json }
    outputs[item] = output ?? given ?? null
  }
}
