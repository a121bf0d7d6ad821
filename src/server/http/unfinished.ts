/**
 * How many jobs an owner has, or somebody's token has submitted, that have not ended: for the limits on them. The jobs
 * themselves are the truth; what is counted here is what was last seen of them, so nothing leaks when one ends, is
 * cancelled, or its process dies.
 *
 * 1. Nobody is refused before the store has been looked at: a job that has ended makes room at once.
 * 2. What this process accepts is counted at once; what others accept, at the latest after `LOOK_AGAIN_MS`. So a limit
 *    is exact with one process, and with several it can be passed by what they accept within that time.
 */

import { firstIdAt } from "../../engine/ids.ts"
import { SingleFlight } from "../../engine/single-flight.ts"
import { UmbraError } from "../../errors.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { Caller } from "../auth/caller.ts"
import type { ServerSettings } from "../settings.ts"

const LOOK_AGAIN_MS = 1000
/** Ids are made before they are stored, by clocks that differ a little. */
const MARGIN_MS = 10_000
/** An id may be much older than its job: one that waited for room keeps it. So all are looked at once in a while. */
const LOOK_AT_ALL_MS = 60_000
/** Owners and tokens. */
const MANY = 10_000

type Look = Journal["unfinishedJobs"]

/** At most so many of an owner; of those that were submitted by somebody, if that is given. */
export interface Bound {
  readonly owner: string
  readonly submittedBy?: string
  readonly max: number
}

interface Seen {
  /** Not ended when last looked at, or accepted since. */
  ids: Set<string>
  /** On their way to the store. */
  readonly pending: Set<string>
  lookedAt: number
  lookedAtAllAt: number
}

/** What counts for a job that an execution of a pipeline submits: the owner's limit, if there is one. */
export function ownerBounds(owner: string, { maxUnfinishedJobs: max }: ServerSettings): Bound[] {
  return max === null ? [] : [{ owner, max }]
}

/** What counts for a caller's next job: the owner's limit and the token's, as far as there are such. */
export function boundsOf({ owner, name, limits }: Caller, settings: ServerSettings): Bound[] {
  const { maxUnfinishedJobsPerToken } = settings
  const ofToken = limits === null ? null : (limits.maxUnfinishedJobs ?? maxUnfinishedJobsPerToken)
  return [
    ...ownerBounds(owner, settings),
    ...(ofToken === null ? [] : [{ owner, submittedBy: name, max: ofToken }]),
  ]
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

  /** Stores a new job if there is room for it within every bound; E646 if there is none. */
  async admit([bound, ...more]: readonly Bound[], jobId: string, store: () => Promise<void>): Promise<void> {
    if (bound === undefined) return store()
    const key = keyOf(bound)
    const seen = this.#seenOf(key)
    if (isFull(seen, bound) || this.#now() - seen.lookedAt >= LOOK_AGAIN_MS) {
      await this.#looks.run(key, () => this.#lookAgain(bound, seen))
      // Others came along and may have been faster: there is no await between this and taking the place.
      if (isFull(seen, bound)) throw tooMany(bound)
    }
    seen.pending.add(jobId)
    try {
      await this.admit(more, jobId, store)
    } finally {
      seen.pending.delete(jobId)
      // Also when it failed: whether it is there the next look tells.
      seen.ids.add(jobId)
    }
  }

  #seenOf(key: string): Seen {
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
    // What was accepted while the store was being asked.
    for (const id of seen.ids) if (!asked.has(id)) ids.add(id)
    seen.ids = ids
    seen.lookedAt = at
    if (looksAtAll) seen.lookedAtAllAt = at
  }
}

/** Owners' names have no control characters. */
function keyOf({ owner, submittedBy }: Bound): string {
  return submittedBy === undefined ? owner : `${owner}\n${submittedBy}`
}

function isFull({ ids, pending }: Seen, { max }: Bound): boolean {
  return ids.size + pending.size >= max
}

function tooMany({ submittedBy, max }: Bound): UmbraError {
  const who = submittedBy === undefined ? "You have" : "This token has"
  return new UmbraError(
    "E646",
    `${who} ${max === 1 ? "a job that has" : `${max} jobs that have`} not ended, which is the limit. Wait until one has, or cancel one.`,
  )
}
