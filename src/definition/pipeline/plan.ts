import type { RetryPolicy } from "../../core/plan.ts"
import type { ValueTemplate } from "../../template/types.ts"

/** A compiled pipeline. Everything that a definition left out has its default here. A queue is the inbound of one route. */
export interface PipelinePlan {
  readonly routes: readonly RoutePlan[]
  /** Positions of routes by their name … */
  readonly positions: ReadonlyMap<string, number>
  /** … and by the queue that they read. */
  readonly readers: ReadonlyMap<string, number>
  /** Rendered with `input` when the execution starts. */
  readonly init: readonly InitPlan[]
  /** How many routes a message and its predecessors may pass after an initial message; null: the routes have no cycle. */
  readonly maxHops: number | null
  /**
   * With more dead letters the execution fails. 0, and from 1 on: a number for the whole execution; below 1: a share of
   * the messages of any one route. null: no limit.
   */
  readonly maxDeadLetters: number | null
}

/** The output of a pipeline's job. */
export type PipelineTotals = {
  readonly routes: { readonly [route: string]: RouteTotals }
}

export type RouteTotals = {
  readonly messages: number
  readonly done: number
  /** Messages that failed permanently: `messages` is the sum of `done` and `failed`. */
  readonly failed: number
  /** Failed deliveries, including those of messages that were retried. */
  readonly failed_tries: number
  readonly dead_lettered: number
}

export interface InitPlan {
  readonly route: number
  readonly body: ValueTemplate
}

export interface RoutePlan {
  readonly name: string
  readonly inbound: string
  readonly adapters: readonly AdapterPlan[]
  /** Queues for emitted messages, by kind; a message without a kind has the kind "default". */
  readonly outbound: ReadonlyMap<string, number>
  readonly runOn: "engine" | "workers"
  /** Messages in flight at the same time, at most. */
  readonly concurrency: number
  /** Messages kept ready in memory, besides those in flight. */
  readonly prefetch: number
  /** Messages started per second; null: no limit. */
  readonly rate: number | null
  readonly backpressure: BackpressurePlan
  readonly retry: RetryPolicy
  /** false: a message that cannot be processed fails the execution. */
  readonly deadLetter: boolean
  /** null: none. */
  readonly breaker: BreakerPlan | null
  /** The rules of definitions under which the pipeline was stored. */
  readonly rules: number
}

export interface AdapterPlan {
  readonly type: string
  /** May read `message`, `input`, `job` and `secrets`. */
  readonly config: ValueTemplate
}

export interface BackpressurePlan {
  /** true: concurrency is adapted between `minConcurrency` and the route's `concurrency`; false: it is always the latter. */
  readonly adaptive: boolean
  readonly minConcurrency: number
  /** Concurrency is lowered if a message takes this many times its usual latency. */
  readonly tolerance: number
  /** With this many messages queued, the routes that write to the queue wait. */
  readonly maxQueued: number
}

export interface BreakerPlan {
  /** Share of failed calls, 0 … 1, at which it opens … */
  readonly failureRate: number
  /** … once there have been this many … */
  readonly minCalls: number
  /** … in this time. */
  readonly windowSeconds: number
  readonly openSeconds: number
  /** Calls let through while it is half open; all must succeed for it to close. */
  readonly trialCalls: number
}
