/**
 * How many jobs an owner has that have not ended, for the limit `max_unfinished_jobs`. The jobs themselves are the
 * truth; what is counted here is what was last seen of them, so nothing leaks when one ends, is cancelled, or its
 * process dies.
 *
 * 1. Nobody is refused before the store has been looked at: a job that has ended makes room at once.
 * 2. What this process accepts is counted at once; what others accept, at the latest after `LOOK_AGAIN_MS`. So the limit
 *    is exact with one process, and with several it can be passed by what they accept within that time.
 */
import { FreshAnswers } from "../engine/fresh.ts"
import { firstIdOf } from "../engine/ids.ts"
import { UmbraError } from "../errors.ts"
import type { Journal } from "../journal/port.ts"

const LOOK_AGAIN_MS = 1000
/** Ids are made before they are stored, by clocks that differ a little. */
const MARGIN_MS = 10_000
const MANY_OWNERS = 10_000

type Look = Journal["unfinishedJobs"]

interface Seen {
  /** Not ended when last looked at, or accepted since. */
  ids: Set<string>
  /** On their way to the store. */
  readonly pending: Set<string>
  lookedAt: number
}

export class Unfinished {
  readonly #max: number
  readonly #look: Look
  readonly #now: () => number
  readonly #owners = new Map<string, Seen>()
  readonly #looks = new FreshAnswers<void>()

  constructor(parts: { readonly max: number; readonly look: Look; readonly now?: () => number }) {
    this.#max = parts.max
    this.#look = parts.look
    this.#now = parts.now ?? Date.now
  }

  /** Stores a new job if there is room for it; E646 if there is none. */
  async admit(owner: string, jobId: string, store: () => Promise<void>): Promise<void> {
    const seen = this.#seen(owner)
    if (this.#isFull(seen) || this.#now() - seen.lookedAt >= LOOK_AGAIN_MS) {
      await this.#looks.ask(owner, () => this.#lookAgain(owner, seen))
      // Others came along and may have been faster: there is no await between this and taking the place.
      if (this.#isFull(seen)) throw this.#tooMany()
    }
    seen.pending.add(jobId)
    try {
      await store()
    } finally {
      seen.pending.delete(jobId)
      // Also when it failed: whether it is there the next look tells.
      seen.ids.add(jobId)
    }
  }

  #seen(owner: string): Seen {
    const seen = this.#owners.get(owner) ?? { ids: new Set(), pending: new Set(), lookedAt: -MARGIN_MS }
    if (this.#owners.size >= MANY_OWNERS && !this.#owners.has(owner))
      this.#owners.delete(this.#owners.keys().next().value!)
    this.#owners.set(owner, seen)
    return seen
  }

  #isFull({ ids, pending }: Seen): boolean {
    return ids.size + pending.size >= this.#max
  }

  async #lookAgain(owner: string, seen: Seen): Promise<void> {
    const at = this.#now()
    const known = [...seen.ids]
    const after = firstIdOf(Math.max(0, seen.lookedAt - MARGIN_MS))
    const found = await this.#look({ owner, known, after, limit: Math.ceil(this.#max) })
    const asked = new Set(known)
    const ids = new Set(found.filter(id => !seen.pending.has(id)))
    // What was accepted while the store was being asked.
    for (const id of seen.ids) if (!asked.has(id)) ids.add(id)
    seen.ids = ids
    seen.lookedAt = at
  }

  #tooMany(): UmbraError {
    return new UmbraError(
      "E646",
      `You have ${this.#max} jobs that have not ended, which is the limit. Wait until one has, or cancel one.`,
    )
  }
}
