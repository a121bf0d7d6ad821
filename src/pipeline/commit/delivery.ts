import type { Fault } from "../../core/faults.ts"
import type { LineageRow, MessageKey, MessageRow } from "../../journal/port/pipelines.ts"

/** A message in the memory of whoever owns its execution, and what is known of its deliveries. */
export interface Delivery extends MessageRow {
  /** Deliveries of it that failed. */
  readonly attempts: number
  /** It waited for this try in the store, until then; null: it comes from the queue. */
  readonly dueAt: number | null
  /** Nothing else is in hand: it is not gathered with others. */
  readonly isAlone: boolean
}

/** One call of an adapter, as it becomes a row; what it emitted has its numbers only when the message is acknowledged. */
export type Invocation = Omit<LineageRow, keyof MessageKey | "attempt" | "emitted">

export interface Emitted {
  readonly route: number
  readonly adapter: number
  /** JSON */
  readonly body: string
  /** The message itself goes on under another number: no hop. */
  readonly isContinuation: boolean
}

/** What came of a delivery. */
export interface Ending {
  readonly delivery: Delivery
  readonly invocations: readonly Invocation[]
  /** Messages that were gathered into it, and whose end is the same. */
  readonly members: readonly Member[]
  readonly result: Acknowledged | Failed
}

export interface Member {
  readonly delivery: Delivery
  readonly invocations: readonly Invocation[]
  /** Before it was gathered; sent if the whole is acknowledged. */
  readonly emitted: readonly Emitted[]
}

export interface Acknowledged {
  readonly emitted: readonly Emitted[]
  readonly stored: readonly { readonly key: string; readonly value: string }[]
}

export interface Failed {
  readonly fault: Fault
}
