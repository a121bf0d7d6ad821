import type { ExternalWaiting } from "./facts.ts"

/**
 * What follows from a fact, besides the change of the state: `apply` adds it to the list it is given. `item` is undefined
 * for the node itself. The engine performs `dispatch`, `abort` and `end` once the fact is durable; the others become rows
 * of the same commit.
 */
export type Effect =
  /** Dispatch the current attempt of the node; or: this attempt is not wanted any more, dequeue or abort it. */
  | { readonly type: "dispatch" | "abort"; node: number; item: number | undefined; readonly attempt: number }
  /** This operation is not wanted any more: its provider is to cancel it. */
  | { readonly type: "abandon"; node: number; item: number | undefined; readonly operation: ExternalWaiting }
  | Unanswered
  /** The node became ready while its job is paused: it is dispatched when the job is resumed. */
  | { readonly type: "hold"; node: number; item: number | undefined }
  /** The node is held, and needs no slot of its provider meanwhile. */
  | { readonly type: "release_slot"; node: number; item: number | undefined }
  /** The provider itself reports that the operation failed. */
  | { readonly type: "operation_failed"; node: number; item: number | undefined }
  /** The job has ended. */
  | { readonly type: "end" }

/** A submission may have begun an operation with an unknown id, which is not wanted any more. */
export interface Unanswered {
  readonly type: "unanswered"
  node: number
  item: number | undefined
  readonly attempt: number
  /** How many operations of the node had ended before. */
  readonly operation: number
  /** An earlier attempt ended without an answer. False: it depends on whether this attempt was dispatched. */
  readonly isSubmitted: boolean
}

/** undefined: the facts are already durable, and nothing follows from them. */
export type Effects = Effect[] | undefined
