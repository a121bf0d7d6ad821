import type { DecisionContext, Refusal, RefusalReason } from "../commands.ts"
import type { NodeFailed } from "../facts.ts"
import type { Fault } from "../faults.ts"
import type { JobState } from "../state.ts"
import { wholeTime } from "../whole-time.ts"
import { retryDelay, retryPolicy } from "./backoff.ts"

/** Facts that several rules share. */

type Failed = { readonly at: number } & NodeFailed

export function failure(state: JobState, node: number, fault: Fault, context: DecisionContext): Failed {
  const failed = { type: "node_failed", at: context.now, node, attempt: state.attempt[node]!, fault } as const
  const failures = state.tries[node]! + 1
  if (!fault.retryable || failures >= retryPolicy(state, node).maxAttempts) return failed
  return withRetry(state, failed, { ...context, failures })
}

/**
 * A provider has accepted nothing and asks for a pause: not a failure, so no try is used up. The job's time limit bounds
 * it. Each pause is an attempt of its own, and the delay grows with their number: a provider that never has capacity is
 * called, and a fact written, ever more rarely, and at most once a second even where it and the policy say 0.
 */
export function postponement(state: JobState, node: number, fault: Fault, context: DecisionContext): Failed {
  const attempt = state.attempt[node]!
  const failed = { type: "node_failed", at: context.now, node, attempt, fault, postponed: true } as const
  return withRetry(state, failed, { ...context, failures: attempt, leastMs: 1000 })
}

/** When a place becomes free the node is dispatched sooner; this is the fallback if the event is missed. */
const PLACE_RETRY_MS = 30_000

/** The node's pipeline has no place yet: not a failure, so no try is used up, and the retry policy does not apply. */
export function waitForPlace(state: JobState, node: number, fault: Fault, context: DecisionContext): Failed {
  const attempt = state.attempt[node]!
  const retry_at = wholeTime(context.now + PLACE_RETRY_MS)
  return { type: "node_failed", at: context.now, node, attempt, fault, postponed: true, retry_at }
}

/** After the delay of the policy, or the requested one if that is longer. */
function withRetry(
  state: JobState,
  failed: Failed,
  context: DecisionContext & { readonly failures: number; readonly leastMs?: number },
): Failed {
  const { now, random, failures, leastMs = 0 } = context
  const asked = (failed.fault.retry_after_seconds ?? 0) * 1000
  const planned = retryDelay(retryPolicy(state, failed.node), failures, random)
  return { ...failed, retry_at: wholeTime(now + Math.max(asked, planned, leastMs)) }
}

export function refuse(refused: RefusalReason): Refusal {
  return { refused }
}
