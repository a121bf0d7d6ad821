/** What the embedded database's thread is asked and what it answers. */
import type { Parameters, Row, Statement } from "./database.ts"

export type ThreadRequest = { readonly id: number } & (
  | { readonly kind: "query"; readonly statement: Statement; readonly parameters: Parameters }
  | { readonly kind: "script"; readonly text: string }
  | { readonly kind: "close" }
)

export type ThreadReply =
  | { readonly kind: "ready" }
  | { readonly kind: "done"; readonly id: number; readonly rows: Row[] }
  | { readonly kind: "failed"; readonly id: number; readonly error: ThreadFailure }

/** `code` and `severity` only when PostgreSQL itself said no. */
export interface ThreadFailure {
  readonly message: string
  readonly code?: string
  readonly severity?: string
}

export interface ThreadData {
  readonly folder: string
}
