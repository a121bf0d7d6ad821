/** The requests to the thread of the embedded database, and its replies. */
import type { SentError } from "../errors.ts"
import type { StoreName } from "../ports.ts"
import type { Synchronous } from "../settings.ts"

export interface ThreadData {
  readonly file: string
  /** The name of the store in messages. */
  readonly label: string
  readonly synchronous: Synchronous
}

export type ThreadRequest =
  | {
      readonly id: number
      readonly store: StoreName
      readonly verb: string
      readonly args: readonly unknown[]
    }
  | { readonly id: number; readonly store: "close" }

export type ThreadReply =
  | { readonly id: number; readonly result: unknown }
  | { readonly id: number; readonly error: SentError }

/** The id of the first reply: the database is open, or the error. */
export const OPENED = 0
