import { ARTIFACT_MARK, artifactsInText } from "../../core/artifacts.ts"
import type { Fault } from "../../core/faults.ts"
import type { Invocation, MessageRow } from "../../journal/port/pipelines.ts"

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

/** The hashes of the artifacts that emitted messages refer to. */
export function referencesIn(emitted: readonly Pick<Emitted, "body">[]): readonly string[] {
  const hashes = new Set<string>()
  for (const { body } of emitted)
    if (body.includes(ARTIFACT_MARK)) for (const hash of artifactsInText(body)) hashes.add(hash)
  return [...hashes]
}

/** The last call has failed, because of what was emitted. */
export function failedCalls(calls: readonly Invocation[], fault: Fault): readonly Invocation[] {
  const last = calls.at(-1)
  return last === undefined
    ? calls
    : [...calls.slice(0, -1), { ...last, status: "failed", error: JSON.stringify(fault) }]
}

interface Failed {
  readonly fault: Fault
}
