import type { DecisionContext, JobResult, Refusal, RefusalReason } from "../commands.ts"
import type { NodeFailed } from "../facts.ts"
import type { Fault } from "../faults.ts"
import type { Json } from "../json.ts"
import type { JobState } from "../state.ts"
import { wholeTime } from "../whole-time.ts"
import { retryDelay, retryPolicy } from "./backoff.ts"

/** What several rules come to. */

export function jobResult({ jobOutput, jobFault }: JobResult): { job_output?: Json; job_fault?: Fault } {
  if (jobFault !== undefined) return { job_fault: jobFault }
  return jobOutput === undefined ? {} : { job_output: jobOutput }
}

type Failed = { readonly at: number } & NodeFailed

export function failure(state: JobState, node: number, fault: Fault, given: DecisionContext): Failed {
  const failed = { type: "node_failed", at: given.now, node, attempt: state.attempt[node]!, fault } as const
  const failures = state.tries[node]! + 1
  if (!fault.retryable || failures >= retryPolicy(state, node).maxAttempts) return failed
  return triedAgain(state, failed, { ...given, failures })
}

/**
 * A provider that has taken nothing and asks for time: no failure, so no try is used up. The job's time bounds it. Each
 * time is an attempt of its own, and with their number the wait grows: a provider that never has time is asked, and a
 * fact written, ever more seldom, and at most once a second even where it and the policy say 0.
 */
export function postponement(state: JobState, node: number, fault: Fault, given: DecisionContext): Failed {
  const attempt = state.attempt[node]!
  const failed = { type: "node_failed", at: given.now, node, attempt, fault, postponed: true } as const
  return triedAgain(state, failed, { ...given, failures: attempt, leastMs: 1000 })
}

/** Whoever notices that a place is free dispatches the node sooner; this is for when nobody does. */
const PLACE_RETRY_MS = 30_000

/** The node's pipeline has no place yet: no failure, so no try is used up, and the policy says nothing about it. */
export function waitForPlace(state: JobState, node: number, fault: Fault, given: DecisionContext): Failed {
  const attempt = state.attempt[node]!
  const retry_at = wholeTime(given.now + PLACE_RETRY_MS)
  return { type: "node_failed", at: given.now, node, attempt, fault, postponed: true, retry_at }
}

/** After the wait of the policy, or what was asked for if that is longer. */
function triedAgain(
  state: JobState,
  failed: Failed,
  given: DecisionContext & { readonly failures: number; readonly leastMs?: number },
): Failed {
  const { now, random, failures, leastMs = 0 } = given
  const asked = (failed.fault.retry_after_seconds ?? 0) * 1000
  const planned = retryDelay(retryPolicy(state, failed.node), failures, random)
  return { ...failed, retry_at: wholeTime(now + Math.max(asked, planned, leastMs)) }
}

export function refuse(refused: RefusalReason): Refusal {
  return { refused }
}
