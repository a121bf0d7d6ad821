/**
 * Jobs folded from their facts, without large values: inputs, outputs and other data are never kept here. Streams carry
 * states, and short previews, which are delivered once and not kept.
 */
import { apply } from "../core/apply/apply.ts"
import type { Fact, Waiting } from "../core/facts.ts"
import { type JobState, newJobState } from "../core/state.ts"
import type { Plan } from "../definition/plan.ts"
import { decodeFact } from "../engine/owner/live-job.ts"
import type { Plans } from "../engine/plans.ts"
import { UmbraError } from "../errors.ts"
import type { FactRow, Journal } from "../journal/port/journal.ts"
import type { Log } from "../log.ts"

export interface KnownJob {
  readonly id: string
  readonly plan: Plan
  readonly state: JobState
  /** The seq of its last fact. */
  seq: number
  at: number
  /** The latest progress message of any of its nodes. */
  message: string | null
}

export interface FoldParts {
  readonly journal: Journal
  readonly plans: Plans
  readonly log: Log
}

/** Larger facts are read one by one: a page of them must not fill the memory. */
export const INLINE_BYTES = 32 * 1024

/** The number of facts that are folded without a break: some milliseconds. */
const TURN = 500

/** Folds the jobs from these of their facts. A job whose facts or plan do not exist any more is left out. */
export async function foldJobs(
  parts: FoldParts,
  ids: readonly string[],
  isIncluded: (row: FactRow) => boolean,
): Promise<Map<string, KnownJob>> {
  const jobs = new Map<string, KnownJob>()
  const unreadable = new Set<string>()
  let folded = 0
  for (const row of await parts.journal.readFacts(ids, { inlineBytes: INLINE_BYTES })) {
    // A list of 100,000 items takes a second: other work runs in between.
    if (++folded % TURN === 0) await new Promise<void>(resolve => setImmediate(resolve))
    if (!isIncluded(row) || unreadable.has(row.jobId)) continue
    const fact = await readFact(parts.journal, row)
    const job = fact === null ? null : (jobs.get(row.jobId) ?? (await newKnownJob(parts, row.jobId, fact)))
    if (fact === null || job === null) {
      unreadable.add(row.jobId)
      jobs.delete(row.jobId)
      continue
    }
    jobs.set(row.jobId, job)
    apply(job.state, fact)
    job.seq = row.seq
    job.at = row.at
  }
  return jobs
}

/** A job before its first fact, which is `fact`; null: it cannot be streamed. */
export async function newKnownJob(parts: FoldParts, id: string, fact: Fact): Promise<KnownJob | null> {
  if (fact.type !== "job_submitted") return null
  try {
    const plan = await parts.plans.ofJob(fact)
    return { id, plan, state: newJobState(plan), seq: 0, at: fact.at, message: null }
  } catch (error) {
    if (!(error instanceof UmbraError && error.code === "E305")) throw error
    parts.log.warn(
      { job_id: id, error: error.message },
      "job not streamed: its workflow does not exist any more",
    )
    return null
  }
}

/** null: it has been removed. */
export async function readFact(journal: Journal, row: FactRow): Promise<Fact | null> {
  const data = row.data ?? (await journal.readFact(row.jobId, row.seq))
  if (data === null) return null
  const fact = decodeFact({ type: row.type, at: row.at, data })
  // Undefined: the data is left out of the stream.
  if (fact.type === "preview_published")
    return data.length <= MAX_PREVIEW ? fact : { ...fact, data: undefined as never }
  return withoutData(fact)
}

/** A client with too much pending output is dropped: it requests a larger preview separately (`GET /jobs/{job}`). */
const MAX_PREVIEW = 16 * 1024

const heavy = ["input", "output", "data", "job_output", "pinned"] as const

function withoutData(fact: Fact): Fact {
  const light: Record<string, unknown> = { ...fact }
  for (const key of heavy) if (key in light) light[key] = null
  if (fact.type === "node_waiting" || fact.type === "item_waiting")
    light.waiting = waitingWithoutData(fact.waiting)
  // The number of items is kept, the items are not.
  if (fact.type === "node_expanded" && fact.items !== undefined)
    light.items = new Array<null>(fact.items.length).fill(null)
  // The provider's message of a failed poll is not streamed.
  if (fact.type === "poll_scheduled") delete light.fault
  return light as unknown as Fact
}

function waitingWithoutData(waiting: Waiting): Waiting {
  if (waiting.kind === "timer") return { ...waiting, output: null }
  return waiting.kind === "signal" && waiting.default !== undefined ? { ...waiting, default: null } : waiting
}

/** A cache with a maximum size; the least recently used job is evicted. */
export class KnownJobs {
  readonly #jobs = new Map<string, KnownJob>()
  readonly #most: number

  constructor(most: number) {
    this.#most = most
  }

  get(id: string): KnownJob | undefined {
    return this.#jobs.get(id)
  }

  keep(job: KnownJob): void {
    for (const { previews } of [job.state, ...[...job.state.lists.values()].map(({ state }) => state)])
      previews.clear()
    this.#jobs.delete(job.id)
    this.#jobs.set(job.id, job)
    if (this.#jobs.size > this.#most) this.#jobs.delete(this.#jobs.keys().next().value!)
  }

  evict(id: string): void {
    this.#jobs.delete(id)
  }

  evictWhere(isEvicted: (job: KnownJob) => boolean): void {
    for (const job of this.#jobs.values()) if (isEvicted(job)) this.#jobs.delete(job.id)
  }
}
