/**
 * Counts unfinished jobs of an owner, or submitted with a token, to enforce the limits on them. The jobs in the store are
 * the truth; this class counts what it last read of them, so nothing leaks when a job ends, is cancelled, or its process
 * dies.
 *
 * 1. No job is rejected before the store has been queried: a job that has ended makes room at once.
 * 2. Jobs accepted by this process are counted at once; those accepted by others at the latest after `LOOK_AGAIN_MS`. So a
 *    limit is exact with one process; with several, they can exceed it by what they accept within that time.
 */

import { firstIdAt } from "../../engine/ids.ts"
import { SingleFlight } from "../../engine/single-flight.ts"
import { UmbraError } from "../../errors.ts"
import type { ForkLimits } from "../../jobs/bulk/forks.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { Caller } from "../auth/caller.ts"
import type { ServerSettings } from "../settings.ts"

const LOOK_AGAIN_MS = 1000
/** Ids are created before they are stored, by clocks that differ a little. */
const MARGIN_MS = 10_000
/** An id may be much older than its job: a job that waited for room keeps its id. So a full query is needed at times. */
const LOOK_AT_ALL_MS = 60_000
/** Number of owners and tokens that are remembered. */
const MANY = 10_000

type Look = Journal["unfinishedJobs"]

/** A limit on the jobs of an owner, or on those submitted by `submittedBy`. */
export interface Bound {
  readonly owner: string
  readonly submittedBy?: string
  readonly max: number
}

interface Seen {
  /** Unfinished at the last query, or accepted since. */
  ids: Set<string>
  /** Being stored. */
  readonly pending: Set<string>
  lookedAt: number
  lookedAtAllAt: number
}

/** The limit for a job that an execution of a pipeline submits: that of the owner, if there is one. */
export function ownerBounds(owner: string, { maxUnfinishedJobs: max }: ServerSettings): Bound[] {
  return max === null ? [] : [{ owner, max }]
}

/** The limit of the caller's token; null: it has none. */
function limitOfToken({ limits }: Caller, { maxUnfinishedJobsPerToken }: ServerSettings): number | null {
  return limits === null ? null : (limits.maxUnfinishedJobs ?? maxUnfinishedJobsPerToken)
}

/** The limits for a caller's next job: those of the owner and of the token, if they exist. */
export function callerBounds(caller: Caller, settings: ServerSettings): Bound[] {
  const { owner, name } = caller
  const ofToken = limitOfToken(caller, settings)
  if (ofToken === null) return ownerBounds(owner, settings)
  return [...ownerBounds(owner, settings), { owner, submittedBy: name, max: ofToken }]
}

/** Who starts jobs with a request, and what stores each of them within the limits. */
export function createSubmitter(
  caller: Caller,
  { unfinished, settings }: { readonly unfinished: Unfinished; readonly settings: ServerSettings },
) {
  const bounds = callerBounds(caller, settings)
  return {
    submittedBy: caller.limits === null ? undefined : caller.name,
    maxUnfinished: limitOfToken(caller, settings) ?? undefined,
    admit: (jobId: string, store: () => Promise<void>) => unfinished.admit(bounds, jobId, store),
  }
}

/** The limits for a fork that a bulk operation makes. */
export function forkBounds(limits: ForkLimits, settings: ServerSettings): Bound[] {
  const { owner, submittedBy, maxUnfinished: max } = limits
  const ofToken = submittedBy === undefined || max === null ? [] : [{ owner, submittedBy, max }]
  return [...ownerBounds(owner, settings), ...ofToken]
}

export class Unfinished {
  readonly #look: Look
  readonly #now: () => number
  readonly #seen = new Map<string, Seen>()
  readonly #looks = new SingleFlight<void>()

  constructor(parts: { readonly look: Look; readonly now?: () => number }) {
    this.#look = parts.look
    this.#now = parts.now ?? Date.now
  }

  /** Stores a new job if every limit allows it; otherwise E646. */
  async admit([bound, ...more]: readonly Bound[], jobId: string, store: () => Promise<void>): Promise<void> {
    if (bound === undefined) return store()
    const key = boundKey(bound)
    const seen = this.#ensureSeen(key)
    if (isFull(seen, bound) || this.#now() - seen.lookedAt >= LOOK_AGAIN_MS) {
      await this.#looks.run(key, () => this.#lookAgain(bound, seen))
      // Other submissions may have taken the room meanwhile: there is no await between this check and the count.
      if (isFull(seen, bound)) throw tooMany(bound)
    }
    seen.pending.add(jobId)
    try {
      await this.admit(more, jobId, store)
    } finally {
      seen.pending.delete(jobId)
      // Also after a failure: the next query shows whether the job was stored.
      seen.ids.add(jobId)
    }
  }

  #ensureSeen(key: string): Seen {
    const never = { lookedAt: -MARGIN_MS, lookedAtAllAt: -LOOK_AT_ALL_MS }
    const seen = this.#seen.get(key) ?? { ids: new Set(), pending: new Set(), ...never }
    if (this.#seen.size >= MANY && !this.#seen.has(key)) this.#seen.delete(this.#seen.keys().next().value!)
    this.#seen.set(key, seen)
    return seen
  }

  async #lookAgain({ owner, submittedBy, max }: Bound, seen: Seen): Promise<void> {
    const at = this.#now()
    const known = [...seen.ids]
    const looksAtAll = at - seen.lookedAtAllAt >= LOOK_AT_ALL_MS
    const after = firstIdAt(looksAtAll ? 0 : Math.max(0, seen.lookedAt - MARGIN_MS))
    const found = await this.#look({ owner, submittedBy, known, after, limit: Math.ceil(max) })
    const asked = new Set(known)
    const ids = new Set(found.filter(id => !seen.pending.has(id)))
    // Jobs that were accepted while the query was in flight.
    for (const id of seen.ids) if (!asked.has(id)) ids.add(id)
    seen.ids = ids
    seen.lookedAt = at
    if (looksAtAll) seen.lookedAtAllAt = at
  }
}

/** A separator that cannot occur: owner names have no control characters. */
function boundKey({ owner, submittedBy }: Bound): string {
  return submittedBy === undefined ? owner : `${owner}\n${submittedBy}`
}

function isFull({ ids, pending }: Seen, { max }: Bound): boolean {
  return ids.size + pending.size >= max
}

function tooMany({ submittedBy, max }: Bound): UmbraError {
  const who = submittedBy === undefined ? "You have" : "This token has"
  return new UmbraError(
    "E646",
    `${who} reached the limit of ${max} unfinished ${max === 1 ? "job" : "jobs"}. Wait until a job has ended, or cancel one.`,
  )
}
