/** The messages between the worker and one of its threads. */
import type { Outcome } from "../../broker/port.ts"
import type { Json, JsonObject } from "../../core/json.ts"
import type { Progress } from "../../core/view/view.ts"
import type { LogLevel } from "../../log.ts"
import type { Secret } from "../redact.ts"

export interface RunMessage {
  readonly type: "run"
  /** URL of the module that exports the handler. */
  readonly module: string
  readonly handler: string
  readonly jobId: string
  readonly nodeId: string
  readonly item?: number | undefined
  readonly attempt: number
  readonly shownAttempt: number
  readonly input: Json
  readonly parents: JsonObject
  readonly provider?: string | undefined
  readonly operation?: number | undefined
  readonly config: Json
  readonly secrets: readonly Secret[]
  /** Of the span in which the attempt runs. */
  readonly traceparent: string | undefined
  readonly maxOutputBytes: number
  readonly maxPreviewBytes: number
}

export interface AbortMessage {
  readonly type: "abort"
  readonly name: string
  readonly message: string
}

export type ToThread = RunMessage | AbortMessage

/** An output is sent as its text: it is serialized once, and parsed once where it is used. */
export type ThreadOutcome =
  | Exclude<Outcome, { readonly type: "completed" }>
  | { readonly type: "completed"; readonly text: string; readonly usage?: JsonObject | undefined }

export type FromThread =
  /** The module is loaded: the handler begins. */
  | { readonly type: "begun" }
  | { readonly type: "heartbeat" }
  | { readonly type: "progress"; readonly progress: Progress }
  | { readonly type: "preview"; readonly data: Json }
  | { readonly type: "usage"; readonly usage: JsonObject }
  | {
      readonly type: "log"
      readonly level: LogLevel
      readonly fields: Record<string, unknown>
      readonly message: string | undefined
    }
  | { readonly type: "ended"; readonly outcome: ThreadOutcome }
