/** Where a job page gets its job from: the server, or the file that it is part of. */

import type { JsonSource, JsonValue } from "./json-document.ts"
import type { Timeline } from "./timeline.ts"

/** ended: nothing more is expected. lost: `since` then there is no connection. hidden: closed while nobody looks. */
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
  subscribe(listener: () => void): () => void
  retryNow(): void
  /** A payload that a fact refers to; null: it is not available here. */
  payload(seq: number, field: string): JsonSource | null
  /** The values of a list from this index on; null: they are not available here. */
  items: ((node: string, from: number, limit: number) => Promise<readonly JsonValue[]>) | null
  /** The config of a node as rendered; null: it is not available here. */
  config: ((node: string, options: ConfigOptions) => Promise<RenderedConfig>) | null
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
