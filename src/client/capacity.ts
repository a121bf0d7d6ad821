/** Workers, engines and providers of a server. They serve all owners, so the scope admin is required. */
import type { EnginesView, WorkerView } from "../engine/workers.ts"
import type { Http } from "./http.ts"
import { segment } from "./requests.ts"
import type { Signalled } from "./types.ts"

/** An external service, its slots, and the jobs that hold them. */
export interface Provider {
  readonly name: string
  /** The owners whose jobs may use it; null: all owners. */
  readonly owners: readonly string[] | null
  readonly slots: {
    /** null: no limit. */
    readonly limit: number | null
    readonly limit_per_owner: number | null
    readonly held: readonly SlotHolder[]
    readonly waiting: number
    readonly oldest_asked_at: string | null
  }
  readonly rate: {
    /** Requests per second; null: no limit. */
    readonly limit: number | null
    readonly limit_per_owner: number | null
    /** The share of the limit in use: less than 1 after a 429. */
    readonly pace: number
  }
  readonly operations: number
  readonly recent_errors: readonly {
    readonly at: string
    readonly what: string
    readonly code: string
    readonly message: string
  }[]
}

interface SlotHolder {
  readonly job_id: string
  readonly owner: string
  readonly granted_at: string
  readonly held_until: string
}

/** A webhook that a provider sent. */
export interface Webhook {
  readonly event_id: string | null
  readonly external_id: string | null
  readonly received_at: string
  /** parked: its operation is not known yet. late: the operation had ended. */
  readonly verdict: "parked" | "delivered" | "late" | "refused"
  /** Why it was rejected, or why its operation failed. */
  readonly reason: string | null
  readonly bytes: number
}

export class RemoteCapacity {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** Those that died are listed for some minutes. */
  async workers({ signal }: Signalled = {}): Promise<readonly WorkerView[]> {
    return (await this.#http.ask<{ workers: readonly WorkerView[] }>("/workers", { signal })).workers
  }

  /** The processes that own partitions, or may. */
  engines({ signal }: Signalled = {}): Promise<EnginesView> {
    return this.#http.ask("/engines", { signal })
  }

  /** Providers that the answering process has defined, with their slots and the jobs that hold them. */
  async providers({ signal }: Signalled = {}): Promise<readonly Provider[]> {
    return (await this.#http.ask<{ providers: readonly Provider[] }>("/providers", { signal })).providers
  }

  /** The latest webhooks of a provider, rejected ones included; newest first. */
  async webhooks(provider: string, { signal }: Signalled = {}): Promise<readonly Webhook[]> {
    const path = `/providers/${segment(provider)}/webhooks`
    return (await this.#http.ask<{ webhooks: readonly Webhook[] }>(path, { signal })).webhooks
  }
}
