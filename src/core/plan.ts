/** The part of a compiled workflow that the rules of a job need. Nodes are named by position in the document. */

import type { JsonObject } from "./json.ts"

/** Lists of node positions, one per node, in one typed array: those of node `i` are `items[starts[i] … starts[i + 1])`. */
export interface Adjacency {
  readonly starts: Int32Array
  readonly items: Int32Array
}

export interface RetryPolicy {
  readonly maxAttempts: number
  readonly initialSeconds: number
  readonly maxSeconds: number
  readonly multiplier: number
  /** Share of the wait that is random, 0 … 1. */
  readonly jitter: number
}

/** When an operation at a provider is polled (X3): after each of these intervals, and then always after the last one. */
export interface PollPolicy {
  readonly seconds: readonly number[]
  /** Share of the wait that is random, 0 … 1. */
  readonly jitter: number
  /** Polls in a row that may fail; null: only the job's time limit ends the wait. */
  readonly maxErrors: number | null
}

export interface RuleNode {
  readonly id: string
  readonly handler: string
  readonly provider?: string | null
  readonly timeoutSeconds: number | null
  readonly heartbeatSeconds?: number | null
  readonly retry: RetryPolicy
  /** The part of `retry` that the definition sets; the rest may be overridden by the job's defaults. Absent: all of it. */
  readonly writtenRetry?: Partial<RetryPolicy> | undefined
  /** Set for a node with `for_each`. */
  readonly forEach?: unknown
  /** Items of `for_each` that may run at once; null: all. */
  readonly maxParallel?: number | null
  /** false: the other items of `for_each` continue when one has failed. */
  readonly failFast?: boolean
  /** Its work resumes where it was when its process died: the death does not count against the node. */
  readonly resumes?: boolean
  /** It waits for this signal, whose data must fit the schema. */
  readonly signal?: SignalSchema | undefined
}

export interface SignalSchema {
  readonly name: string
  /** JSON Schema of the data. */
  readonly schema: JsonObject
}

export interface Graph {
  readonly nodes: readonly RuleNode[]
  readonly inDegrees: Int32Array
  readonly successors: Adjacency
  readonly dependencies: Adjacency
  /** A topological order of positions. */
  readonly order: Int32Array
}
