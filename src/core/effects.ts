/** What the shell must do once the facts that caused it are durable. Data, not calls. */
export interface Effects {
  /** Hand this node's current attempt, or that of one of its items, to a worker. */
  dispatch(node: number, attempt: number, item?: number): void
  /** This attempt is not wanted any more: take it out of the queue or abort it. */
  abort(node: number, attempt: number, item?: number): void
  /** The job has ended. */
  end(): void
}

/** For folding what has already happened. */
export const noEffects: Effects = { dispatch() {}, abort() {}, end() {} }
