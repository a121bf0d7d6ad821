import { retryDelay } from "./backoff.ts"
import type { Circumstances, JobResult, Refusal, RefusalReason } from "./commands.ts"
import type { NodeFailed } from "./facts.ts"
import type { Fault } from "./faults.ts"
import type { Json } from "./json.ts"
import type { JobState } from "./state.ts"
import { wholeTime } from "./whole-time.ts"

/** What several rules come to. */

export function jobResult({ jobOutput, jobFault }: JobResult): { job_output?: Json; job_fault?: Fault } {
  if (jobFault !== undefined) return { job_fault: jobFault }
  return jobOutput === undefined ? {} : { job_output: jobOutput }
}

export function failure(
  state: JobState,
  node: number,
  fault: Fault,
  given: Circumstances,
): { readonly at: number } & NodeFailed {
  const policy = state.graph.nodes[node]!.retry
  const failures = state.tries[node]! + 1
  const base = { type: "node_failed", at: given.now, node, attempt: state.attempt[node]!, fault } as const
  if (!fault.retryable || failures >= policy.maxAttempts) return base
  const asked = (fault.retry_after_seconds ?? 0) * 1000
  const delay = Math.max(asked, retryDelay(policy, failures, given.random))
  return { ...base, retry_at: wholeTime(given.now + delay) }
}

/** A provider that has taken nothing and asks for time: no failure, so no try is used up. The job's time bounds it. */
export function postponement(
  state: JobState,
  node: number,
  fault: Fault,
  given: Circumstances,
): { readonly at: number } & NodeFailed {
  const asked = (fault.retry_after_seconds ?? 0) * 1000
  const delay = Math.max(
    asked,
    retryDelay(state.graph.nodes[node]!.retry, state.tries[node]! + 1, given.random),
  )
  const retry_at = wholeTime(given.now + delay)
  return {
    ...{ type: "node_failed", at: given.now, node, attempt: state.attempt[node]!, fault, retry_at },
    postponed: true,
  }
}

export function refuse(refused: RefusalReason): Refusal {
  return { refused }
}
