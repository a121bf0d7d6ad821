import type { LineageRow, MessageKey } from "../../journal/port/pipelines.ts"

/** A query for what the process that runs an execution knows of its messages. */
export interface MessagesQuery {
  readonly jobId: string
  readonly keys: readonly MessageKey[]
}

/** By the position of the key; null: the message is not in flight. */
export type LiveMessages = readonly (LiveMessage | null)[]

/** What the process that runs an execution knows of a message before it is stored. */
export interface LiveMessage {
  /** Calls of its delivery that have ended. */
  readonly rows: readonly LineageRow[]
  /** The current call; null: the delivery has ended, or a remote worker holds the message. */
  readonly running: RunningCall | null
}

interface RunningCall {
  readonly adapter: number
  readonly attempt: number
  readonly at: number
  readonly durationUs: number
  readonly emitted: number
}
