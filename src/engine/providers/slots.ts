import { valueIn } from "../../core/maps.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { SlotKey, SlotRequest } from "../../journal/port/providers.ts"
import type { Log } from "../../log.ts"
import type { Clock } from "../clock.ts"
import type { OwnerEngine } from "../owner/owner-parts.ts"
import { type Providers, usesSlots } from "./providers.ts"

export interface SlotsParts {
  readonly journal: Journal
  readonly clock: Clock
  readonly log: Log
  readonly providers: Providers
  readonly leaseMs: number
  readonly engine: Pick<OwnerEngine, "inboxChanged">
}

interface Waiting {
  readonly request: SlotRequest
  readonly resolve: (isHeld: boolean) => void
  readonly reject: (error: unknown) => void
}

/**
 * Requests slots of providers in groups: while one query is in flight the next one collects, as facts do for a commit.
 * One by one, a hundred nodes that become ready at once would each count the slots, and all but one in vain.
 */
export class Slots {
  readonly #parts: SlotsParts
  readonly #queues = new Map<string, { waiting: Waiting[]; isToGrant: boolean; isBusy: boolean }>()

  constructor(parts: SlotsParts) {
    this.#parts = parts
  }

  /** false: the request is queued. */
  request(provider: string, request: SlotRequest): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#queue(provider).waiting.push({ request, resolve, reject })
      void this.#serve(provider)
    })
  }

  /** Grants slots that may have become free. */
  async grant(provider: string): Promise<void> {
    const terms = this.#parts.providers.terms(provider)
    if (terms === undefined || !usesSlots(terms)) return
    this.#queue(provider).isToGrant = true
    await this.#serve(provider)
  }

  #queue(provider: string) {
    return valueIn(this.#queues, provider, () => ({ waiting: [], isToGrant: false, isBusy: false }))
  }

  /** Never rejects: each caller gets its own error, and the next sweep grants free slots. */
  async #serve(provider: string): Promise<void> {
    const queue = this.#queue(provider)
    if (queue.isBusy) return
    queue.isBusy = true
    try {
      while (queue.waiting.length > 0 || queue.isToGrant) {
        const waiting = queue.waiting.splice(0, MAX_AT_ONCE)
        queue.isToGrant = false
        if (waiting.length > 0) await this.#requestAll(provider, waiting)
        else await this.#grant(provider)
      }
    } finally {
      queue.isBusy = false
    }
  }

  async #requestAll(provider: string, waiting: readonly Waiting[]): Promise<void> {
    try {
      const requests = waiting.map(({ request }) => request)
      const terms = this.#terms(provider)
      const { held, notified } = await this.#parts.journal.providers.requestSlots(terms, requests)
      const names = new Set(held.map(slotName))
      for (const { request, resolve } of waiting) resolve(names.has(slotName(request)))
      this.#parts.engine.inboxChanged(notified)
    } catch (error) {
      for (const { reject } of waiting) reject(error)
    }
  }

  async #grant(provider: string): Promise<void> {
    const { journal, log, engine } = this.#parts
    try {
      const terms = this.#terms(provider)
      if (terms.limit > 0) engine.inboxChanged(await journal.providers.grantSlots(terms))
    } catch (error) {
      log.warn({ provider, error: String(error) }, "could not grant slots; the next sweep retries")
    }
  }

  #terms(provider: string) {
    const { clock, leaseMs, providers } = this.#parts
    const terms = providers.terms(provider)
    const { concurrency = 0, concurrencyPerOwner: limitPerOwner = null } = terms ?? {}
    return { provider, limit: concurrency ?? NO_LIMIT, limitPerOwner, leaseMs, at: clock.now() }
  }
}

const MAX_AT_ONCE = 500
/** For a provider that limits each owner but not the total. */
const NO_LIMIT = 2 ** 31 - 1

function slotName({ jobId, node, item }: SlotKey): string {
  return `${jobId}/${node}/${item}`
}
