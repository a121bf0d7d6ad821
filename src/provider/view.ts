import type { ProviderTerms } from "../engine/providers/providers.ts"
import type { ProviderOverview } from "../journal/port/providers.ts"

/** A provider as `GET /providers` shows it. */
export interface ProviderView {
  readonly name: string
  /** The owners whose jobs may use it; null: all owners. */
  readonly owners: readonly string[] | null
  readonly slots: {
    /** null: no limit. */
    readonly limit: number | null
    readonly limit_per_owner: number | null
    readonly held: readonly {
      readonly job_id: string
      readonly owner: string
      readonly granted_at: string
      readonly held_until: string
    }[]
    readonly waiting: number
    readonly oldest_asked_at: string | null
  }
  readonly rate: {
    /** Requests per second; null: no limit. */
    readonly limit: number | null
    readonly limit_per_owner: number | null
    /** The share of the rate in use: less than 1 after the provider has reported overload. */
    readonly pace: number
  }
  /** The number of operations that have not ended. */
  readonly operations: number
  /**
   * For jobs that have ended: submissions without an answer, so that an operation may be running unseen. They
   * hold slots.
   */
  readonly unseen_operations: readonly {
    readonly job_id: string
    readonly owner: string
    readonly since: string
    readonly held_until: string
  }[]
  /** Newest first. */
  readonly recent_errors: readonly {
    readonly at: string
    readonly what: string
    readonly code: string
    readonly message: string
  }[]
}

export function providerView(name: string, terms: ProviderTerms, overview: ProviderOverview): ProviderView {
  const { held, waiting, oldestAskedAt, operations, pace, errors } = overview
  return {
    name,
    owners: terms.owners,
    slots: {
      limit: terms.concurrency,
      limit_per_owner: terms.concurrencyPerOwner,
      held: held.map(({ jobId, owner, grantedAt, heldUntil }) => ({
        job_id: jobId,
        owner,
        granted_at: iso(grantedAt),
        held_until: iso(heldUntil),
      })),
      waiting,
      oldest_asked_at: oldestAskedAt === null ? null : iso(oldestAskedAt),
    },
    // Without a limit there is no share of it: nothing would ever restore it to 1.
    rate: { limit: terms.rate, limit_per_owner: terms.ratePerOwner, pace: terms.rate === null ? 1 : pace },
    operations,
    unseen_operations: overview.unseen.map(({ jobId, owner, since, slotUntil }) => ({
      job_id: jobId,
      owner,
      since: iso(since),
      held_until: iso(slotUntil),
    })),
    recent_errors: errors.map(error => ({ ...error, at: iso(error.at) })),
  }
}

function iso(at: number): string {
  return new Date(at).toISOString()
}
