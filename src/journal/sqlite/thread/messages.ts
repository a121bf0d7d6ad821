/** What the thread of the embedded database is asked and what it answers. */
import type { SentError } from "../errors.ts"
import type { StoreName } from "../ports.ts"
import type { Synchronous } from "../settings.ts"

export interface ThreadData {
  readonly file: string
  /** In messages. */
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

/** The id of the first reply: the database is open, or why it is not. */
export const OPENED = 0
