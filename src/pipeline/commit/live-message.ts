import type { LineageRow } from "../../journal/port/pipelines.ts"

/** What the process that runs an execution knows of a message before it is stored. */
export interface LiveMessage {
  /** Calls of its delivery that have ended. */
  readonly rows: readonly LineageRow[]
  /** The current call; null: the delivery has ended, or a remote worker holds the message. */
  readonly running: RunningCall | null
}

export interface RunningCall {
  readonly adapter: number
  readonly attempt: number
  readonly at: number
  readonly durationUs: number
  readonly emitted: number
}
