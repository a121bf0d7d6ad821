import type { ExternalWaiting } from "./facts.ts"

/** What the shell must do once the facts that caused it are durable. Data, not calls. */
export interface Effects {
  /** Hand this node's current attempt, or that of one of its items, to a worker. */
  dispatch(node: number, attempt: number, item?: number): void
  /** This attempt is not wanted any more: take it out of the queue or abort it. */
  abort(node: number, attempt: number, item?: number): void
  /** Nobody wants this operation any more: its provider is to cancel it. */
  abandon(node: number, operation: ExternalWaiting, item?: number): void
  /** A submission of this attempt, or of one before, may have begun an operation whose id nobody knows, and nobody wants it. */
  unanswered(node: number, attempt: number, item?: number): void
  /** The provider itself says that the operation of this node, or item, failed. */
  operationFailed(node: number, item?: number): void
  /** The job has ended. */
  end(): void
}

/** For folding what has already happened. */
export const noEffects: Effects = {
  dispatch() {},
  abort() {},
  abandon() {},
  unanswered() {},
  operationFailed() {},
  end() {},
}
