/** One node of the model, and what can be said about it alone. */
import type { Json } from "../../src/core/json.ts"
import type { NodeSpec } from "./graphs.ts"
import type { NodeSummary } from "./summary.ts"

export interface ModelFault {
  readonly code: string
  readonly message: string
  readonly retryable: boolean
  readonly retry_after_seconds?: number
}

export type ModelWait =
  | { readonly kind: "timer"; readonly until: number; readonly output: Json }
  | { readonly kind: "signal"; readonly name: string; readonly until?: number; readonly default?: Json }
  | ModelChild

export interface ModelChild {
  readonly kind: "child"
  readonly job_id: string
  readonly workflow: string
  readonly workflow_version: number
  readonly until?: undefined
}

export interface JobResult {
  readonly jobOutput?: Json
  readonly jobFault?: ModelFault
}

export interface ModelNode {
  readonly spec: NodeSpec
  state: NodeSummary["status"]
  attempt: number
  failures: number
  losses: number
  startKnown: boolean
  notBefore: number | null
  waits: ModelWait | null
  output: Json | undefined
  fault: { readonly code: string; readonly cause: string | null } | null
  preview: Json | undefined
}

export function newNode(spec: NodeSpec): ModelNode {
  return {
    spec,
    state: "PENDING",
    attempt: 1,
    failures: 0,
    losses: 0,
    startKnown: false,
    notBefore: null,
    waits: null,
    output: undefined,
    fault: null,
    preview: undefined,
  }
}

/** X7: 15 s, doubled with each failure, never over 300 s, less the random share. */
export function backoff(node: ModelNode, random: number): number {
  let seconds = 15
  for (let failure = 1; failure < node.failures; failure++) seconds = Math.min(300, seconds * 2)
  return Math.round(seconds * 1000 * (1 - (node.spec.retry?.jitter ?? 0) * random))
}

export const isLater = (node: ModelNode, now: number) => node.notBefore !== null && node.notBefore > now
export const isDone = (state: string) => state === "COMPLETED" || state === "SKIPPED"
export const isInFlight = (state: string) => state === "QUEUED" || state === "RUNNING"
