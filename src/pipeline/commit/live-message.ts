import type { LineageRow } from "../../journal/port/pipelines.ts"

/** What the process that runs an execution knows of a message, and the store does not know yet. */
export interface LiveMessage {
  /** Calls of its delivery that have ended. */
  readonly rows: readonly LineageRow[]
  /** The call that runs; null: the delivery has ended, or a worker elsewhere has the message. */
  readonly running: RunningCall | null
}

export interface RunningCall {
  readonly adapter: number
  readonly attempt: number
  readonly at: number
  readonly durationUs: number
  readonly emitted: number
}
