import type { JsonObject } from "./json.ts"

/** Why an attempt failed, as it is stored and shown. What decides about a retry is `retryable` and `retry_after_seconds`. */
export interface Fault {
  /** A code of src/errors.ts, or the code of a user's own error. */
  readonly code: string
  readonly message: string
  readonly retryable: boolean
  /** What the other side asked for (`Retry-After`). */
  readonly retry_after_seconds?: number
  readonly details?: JsonObject
}
