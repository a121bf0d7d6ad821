import type { ExternalWaiting } from "./facts.ts"

/** What the engine must do once the facts that caused it are durable. Data, not calls. */
export interface Effects {
  /** Dispatch the current attempt of this node, or of one of its items. */
  dispatch(node: number, attempt: number, item?: number): void
  /** This attempt is no longer wanted: remove it from the queue or abort it. */
  abort(node: number, attempt: number, item?: number): void
  /** This operation is no longer wanted: its provider is to cancel it. */
  abandon(node: number, operation: ExternalWaiting, item?: number): void
  /** A submission of this attempt, or of an earlier one, may have begun an operation with an unknown id, which is not wanted. */
  unanswered(node: number, attempt: number, item?: number): void
  /** The provider itself reports that the operation of this node, or item, failed. */
  operationFailed(node: number, item?: number): void
  /** The job has ended. */
  end(): void
}

/** For folding facts that are already durable. */
export const noEffects: Effects = {
  dispatch() {},
  abort() {},
  abandon() {},
  unanswered() {},
  operationFailed() {},
  end() {},
}
