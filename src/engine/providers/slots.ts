import type { Journal } from "../../journal/port/journal.ts"
import type { SlotKey, SlotRequest } from "../../journal/port/providers.ts"
import type { Log } from "../../log.ts"
import type { Clock } from "../clock.ts"
import type { Providers } from "./providers.ts"

export interface SlotsParts {
  readonly journal: Journal
  readonly clock: Clock
  readonly log: Log
  readonly providers: Providers
  readonly leaseMs: number
  /** There are messages in the inboxes of these partitions. */
  readonly inboxChanged: (partitions: readonly number[]) => void
}

interface Waiting {
  readonly request: SlotRequest
  readonly resolve: (isHeld: boolean) => void
  readonly reject: (error: unknown) => void
}

/**
 * Slots of providers, asked for together: while one question is under way the next collects, as facts do for a commit.
 * One by one, a hundred nodes that become ready at once would each count, and all but one of them in vain.
 */
export class Slots {
  readonly #parts: SlotsParts
  readonly #queues = new Map<string, { waiting: Waiting[]; isToGrant: boolean; isBusy: boolean }>()

  constructor(parts: SlotsParts) {
    this.#parts = parts
  }

  /** false: it stands in the queue. */
  request(provider: string, request: SlotRequest): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#queueOf(provider).waiting.push({ request, resolve, reject })
      void this.#serve(provider)
    })
  }

  /** Some may have come free. */
  grant(provider: string): Promise<void> {
    this.#queueOf(provider).isToGrant = true
    return this.#serve(provider)
  }

  #queueOf(provider: string) {
    let queue = this.#queues.get(provider)
    if (queue === undefined) {
      queue = { waiting: [], isToGrant: false, isBusy: false }
      this.#queues.set(provider, queue)
    }
    return queue
  }

  /** Never rejects: who asked is told by itself, and free slots are given by the next sweep. */
  async #serve(provider: string): Promise<void> {
    const queue = this.#queueOf(provider)
    if (queue.isBusy) return
    queue.isBusy = true
    try {
      while (queue.waiting.length > 0 || queue.isToGrant) {
        const waiting = queue.waiting.splice(0, MOST_AT_ONCE)
        queue.isToGrant = false
        if (waiting.length > 0) await this.#ask(provider, waiting)
        else await this.#grant(provider)
      }
    } finally {
      queue.isBusy = false
    }
  }

  async #ask(provider: string, waiting: readonly Waiting[]): Promise<void> {
    try {
      const requests = waiting.map(({ request }) => request)
      const terms = this.#terms(provider)
      const { held, notified: told } = await this.#parts.journal.providers.requestSlots(terms, requests)
      const names = new Set(held.map(nameOf))
      for (const { request, resolve } of waiting) resolve(names.has(nameOf(request)))
      this.#parts.inboxChanged(told)
    } catch (error) {
      for (const { reject } of waiting) reject(error)
    }
  }

  async #grant(provider: string): Promise<void> {
    const { journal, log, inboxChanged } = this.#parts
    try {
      const terms = this.#terms(provider)
      if (terms.limit > 0) inboxChanged(await journal.providers.grantSlots(terms))
    } catch (error) {
      log.warn({ provider, error: String(error) }, "could not grant slots; the next sweep tries again")
    }
  }

  #terms(provider: string) {
    const { clock, leaseMs, providers } = this.#parts
    const terms = providers.terms(provider)
    const { concurrency = 0, concurrencyPerOwner: limitPerOwner = null } = terms ?? {}
    return { provider, limit: concurrency ?? NO_LIMIT, limitPerOwner, leaseMs, at: clock.now() }
  }
}

const MOST_AT_ONCE = 500
/** Of a provider that limits each owner and not all of them together. */
const NO_LIMIT = 2 ** 31 - 1

function nameOf({ jobId, node, item }: SlotKey): string {
  return `${jobId}/${node}/${item}`
}
