/** Where a job page gets its job from: the server, or the file that it is part of. */

import type { ArtifactMention } from "../../../src/core/index.ts"
import type { JsonSource, JsonValue } from "./json/document.ts"
import type { Timeline } from "./timeline.ts"

/** ended: nothing more is expected. lost: `since` then there is no connection. hidden: closed while the tab is hidden. */
export type Connection =
  | { readonly kind: "loading" | "live" | "ended" | "hidden" | "file" }
  | { readonly kind: "lost"; readonly since: number; readonly tries: number; readonly nextAt: number }

export interface JobSource {
  readonly jobId: string
  readonly timeline: Timeline | null
  readonly connection: Connection
  readonly error: unknown
  /** By the clock of the server. */
  readonly now: number
  /** Rises with each change. */
  readonly version: number
  /** Whether what handlers logged can be read here. */
  readonly hasLogs: boolean
  subscribe(listener: () => void): () => void
  retryNow(): void
  /** A payload that a fact refers to; null: it is not available here. */
  payload(seq: number, field: string): JsonSource | null
  /** The values of a list from this index on; null: they are not available here. */
  items: ((node: string, from: number, limit: number) => Promise<readonly JsonValue[]>) | null
  /** The config of a node as rendered; null: it is not available here. */
  config: ((node: string, options: ConfigOptions) => Promise<RenderedConfig>) | null
  /** Why the job makes no progress, as the server explains it; null: it is not available here. */
  why: ((options: WhyOptions) => Promise<WhyAnswer>) | null
  /** The routes of a pipeline, after the fact with this seq or now; null: they are not available here. */
  routes: ((seq: number | null, signal: AbortSignal) => Promise<Routes>) | null
  /** The artifacts that the job refers to now, after this one; null: they are not available here. */
  artifacts: ((after: string | null, signal: AbortSignal) => Promise<ArtifactPage>) | null
}

/** Of `GET /jobs/{job}/artifacts`. */
export interface ArtifactPage {
  readonly artifacts: readonly (Required<ArtifactMention> & {
    readonly created_at: string
    /** null: it has its content. */
    readonly removed_at: string | null
  })[]
  readonly next: string | null
}

/** Of `GET /jobs/{job}/graph`. */
export interface Routes {
  /** null: not recorded for this moment, or not kept any more. */
  readonly routes: readonly Route[] | null
  /** null: not known for a past moment. */
  readonly dead_letters: {
    readonly count: number
    readonly first: {
      readonly message: string
      readonly error: { readonly code: string; readonly message: string }
    } | null
  } | null
}

/** What is not recorded of a past moment is null. */
export interface Route {
  readonly name: string
  readonly inbound: string
  readonly outbound: { readonly [kind: string]: string }
  readonly adapters: readonly { readonly type: string; readonly breaker: string | null }[]
  readonly queued: number
  readonly in_flight: number | null
  readonly waiting: number
  readonly done: number
  readonly failed: number
  readonly dead_lettered: number
  readonly rate: number | null
  readonly latency_ms: number | null
  readonly concurrency: number | null
  readonly max_queued: number
  readonly held_up_by: string | null
}

export interface WhyOptions {
  /** null: the whole job. */
  readonly node: string | null
  /** The moment after the fact with this seq; null: now. */
  readonly seq: number | null
  readonly signal: AbortSignal
}

/** `GET /jobs/{job}/why`, as far as it is shown. */
export interface WhyAnswer {
  readonly at: string
  readonly sentence: string
  readonly action: string | null
  readonly reasons: readonly WhyReason[]
  readonly chain: readonly { readonly job_id: string; readonly node: string; readonly sentence: string }[]
  readonly routes?:
    | readonly { readonly route: string; readonly sentence: string; readonly action: string | null }[]
    | null
  readonly unknown: readonly string[]
}

export interface WhyReason {
  readonly kind: string
  readonly count: number
  readonly sentence: string
  /** Since when the first of its nodes waits; null: not known. */
  readonly since: string | null
  readonly details: {
    /** Jobs that hold slots of the provider. */
    readonly holders?: readonly { readonly job_id: string; readonly slots: number; readonly since: string }[]
  }
  readonly usual: { readonly count: number; readonly p50: number; readonly p99: number } | null
}

export interface ConfigOptions {
  readonly item?: number | undefined
  readonly attempt?: number | undefined
}

/** The config of one attempt, computed again from the facts before it. Secrets are masked. */
export interface RenderedConfig {
  readonly config: JsonValue
  /** null: the node has no condition. */
  readonly when: boolean | null
  readonly error: { readonly code: string; readonly message: string } | null
}
