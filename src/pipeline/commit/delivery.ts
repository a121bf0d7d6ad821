import type { Fault } from "../../core/faults.ts"
import type { LineageRow, MessageKey, MessageRow } from "../../journal/port/pipelines.ts"

/** A message that an execution begins with. */
export interface InitialMessage {
  readonly route: number
  /** JSON */
  readonly body: string
}

/** A message in the memory of the process that owns its execution, and what is known of its deliveries. */
export interface Delivery extends MessageRow {
  /** The number of failed deliveries. */
  readonly attempts: number
  /**
   * When the message was due for this try, for which it was parked in the store; null: it comes from the
   * queue.
   */
  readonly dueAt: number | null
  /** No other message is in flight: this one is not gathered with others. */
  readonly isAlone: boolean
}

/**
 * One adapter call, as it is stored in a row. The messages that it emitted get their numbers only when the
 * message is acknowledged.
 */
export type Invocation = Omit<LineageRow, keyof MessageKey | "attempt" | "emitted">

export interface Emitted {
  readonly route: number
  readonly adapter: number
  /** JSON */
  readonly body: string
  /** The message itself continues under another number, which does not count as a hop. */
  readonly isContinuation: boolean
}

/** The result of a delivery. */
export interface Ending {
  readonly delivery: Delivery
  readonly invocations: readonly Invocation[]
  /** Messages that were gathered into it, and that end in the same way. */
  readonly members: readonly Member[]
  readonly result: Acknowledged | Failed
}

export interface Member {
  readonly delivery: Delivery
  readonly invocations: readonly Invocation[]
  /** Emitted before it was gathered; sent if the group is acknowledged. */
  readonly emitted: readonly Emitted[]
}

export interface Acknowledged {
  readonly emitted: readonly Emitted[]
  readonly stored: readonly { readonly key: string; readonly value: string }[]
}

interface Failed {
  readonly fault: Fault
}
