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
  | {
      readonly kind: "external"
      readonly provider: string
      readonly external_id: string
      readonly next_poll_at?: number
      readonly until?: number
    }

export interface ModelChild {
  readonly kind: "child"
  readonly job_id: string
  readonly workflow: string
  readonly workflow_version: number
  readonly until?: undefined
}

export interface ModelNews {
  readonly externalId: string
  readonly byPoll: boolean
  readonly token?: string
  readonly poll: { readonly jitter: number; readonly maxErrors: number | null } | null
  readonly result:
    | { readonly type: "completed"; readonly output: Json }
    | { readonly type: "failed" | "error"; readonly fault: ModelFault; readonly isFinal?: true }
    | { readonly type: "running"; readonly preview?: Json }
    | { readonly type: "hint" }
    | { readonly type: "postponed"; readonly until: number }
}

/** What the model wants a worker to do after a step: `id#attempt`. */
export interface Wanted {
  readonly dispatched: string[]
  readonly aborted: string[]
  /** `id:external id` */
  readonly abandoned: string[]
}

export interface JobResult {
  readonly jobOutput?: Json
  readonly jobFault?: ModelFault
}

export interface ModelOptions {
  readonly ttlSeconds: number | null
  readonly now: number
  readonly isChild?: boolean
  /** null: it starts at once. */
  readonly startAt?: number | null
}

export function expiry(ttlSeconds: number | null, now: number): number | null {
  return ttlSeconds === null ? null : now + ttlSeconds * 1000
}

export interface ModelNode {
  readonly spec: NodeSpec
  state: NodeSummary["status"]
  attempt: number
  failures: number
  losses: number
  startKnown: boolean
  /** Of the start that is known. */
  startedAt: number
  alone: boolean
  contested: boolean
  suspect: ModelSuspect | null
  notBefore: number | null
  waits: ModelWait | null
  awaitsSlot: string | null
  /** Ready, and the job is paused. */
  held: boolean
  pollAt: number | null
  polls: number
  pollErrors: number
  operations: number
  /** The operation that could not be looked at any more. */
  unfollowed: string | null
  output: Json | undefined
  fault: { readonly code: string; readonly cause: string | null } | null
  preview: Json | undefined
}

/** A node whose process died: what is held against it. */
export interface ModelSuspect {
  isolated: boolean
  deaths: number
  streak: number
  /** When it began the time it last died alone. */
  begunAt: number
}

export function newNode(spec: NodeSpec): ModelNode {
  return {
    spec,
    state: "PENDING",
    attempt: 1,
    failures: 0,
    losses: 0,
    startKnown: false,
    startedAt: 0,
    alone: false,
    contested: false,
    suspect: null,
    notBefore: null,
    waits: null,
    awaitsSlot: null,
    held: false,
    pollAt: null,
    polls: 0,
    pollErrors: 0,
    operations: 0,
    unfollowed: null,
    output: undefined,
    fault: null,
    preview: undefined,
  }
}

export function nodeSummary(node: ModelNode, at: { now: number; remaining: number }): NodeSummary {
  return {
    status: node.state,
    remaining: at.remaining,
    attempt: node.attempt,
    tries: node.failures,
    losses: node.losses,
    output: node.output ?? null,
    fault: node.fault,
    preview: node.preview ?? null,
    started: node.startKnown,
    suspect:
      node.suspect === null
        ? null
        : { isolated: node.suspect.isolated, deaths: node.suspect.deaths, streak: node.suspect.streak },
    retry_at: isLater(node, at.now) ? node.notBefore : null,
    waiting: node.waits,
    awaits_slot: node.awaitsSlot,
    ...(node.held ? { held: true } : {}),
    poll_at: node.pollAt,
    poll_errors: node.pollErrors,
    operations: node.operations,
  }
}

/** X7: 15 s, doubled with each failure, never over 300 s, less the random share. */
export function backoff(node: ModelNode, random: number): number {
  let seconds = 15
  for (let failure = 1; failure < node.failures; failure++) seconds = Math.min(300, seconds * 2)
  return Math.round(seconds * 1000 * (1 - (node.spec.retry?.jitter ?? 0) * random))
}

/** X3: 30 s, 60 s, 120 s and so on, less the random share. */
export function nextPollDelay(node: ModelNode, jitter: number, random: number): number {
  const seconds = node.polls === 0 ? 30 : node.polls === 1 ? 60 : 120
  return Math.round(seconds * 1000 * (1 - jitter * random))
}

export const isLater = (node: ModelNode, now: number) => node.notBefore !== null && node.notBefore > now
export const isDone = (state: string) => state === "COMPLETED" || state === "SKIPPED"
export const isInFlight = (state: string) => state === "QUEUED" || state === "RUNNING"

export function isDownstream(nodes: ReadonlyMap<string, ModelNode>, id: string, of: string): boolean {
  const { dependencies } = nodes.get(id)!.spec
  return dependencies.some(parent => parent === of || isDownstream(nodes, parent, of))
}
