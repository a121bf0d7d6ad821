import type { DecisionContext, Refusal, RefusalReason } from "../commands.ts"
import type { NodeFailed, RecordedRetryPolicy } from "../facts.ts"
import type { Fault } from "../faults.ts"
import type { PollPolicy, RetryPolicy } from "../plan.ts"
import type { JobState } from "../state.ts"

/** The policy in force for a node of a job: the settings of its definition, and for the rest those recorded with the job. */
export function retryPolicy({ graph, retryDefaults }: JobState, node: number): RetryPolicy {
  const { retry, writtenRetry } = graph.nodes[node]!
  return retryDefaults === null || writtenRetry === undefined ? retry : { ...retryDefaults, ...writtenRetry }
}

export function recordPolicy(policy: RetryPolicy): RecordedRetryPolicy {
  const { maxAttempts, initialSeconds, maxSeconds, multiplier, jitter } = policy
  return {
    ...{ max_attempts: maxAttempts, initial_seconds: initialSeconds, max_seconds: maxSeconds },
    ...{ multiplier, jitter },
  }
}

export function readPolicy(recorded: RecordedRetryPolicy): RetryPolicy {
  const { max_attempts, initial_seconds, max_seconds, multiplier, jitter } = recorded
  return {
    ...{ maxAttempts: max_attempts, initialSeconds: initial_seconds, maxSeconds: max_seconds },
    ...{ multiplier, jitter },
  }
}

/** Milliseconds until the try after `failures` failures. `random` in [0, 1) spreads it downwards by up to `jitter`. */
export function retryDelay(policy: RetryPolicy, failures: number, random: number): number {
  // 0 times Infinity would be NaN.
  const growth = Math.min(policy.multiplier ** (failures - 1), Number.MAX_VALUE)
  const seconds = Math.min(policy.initialSeconds * growth, policy.maxSeconds)
  return Math.round(seconds * 1000 * (1 - policy.jitter * random))
}

/** Milliseconds until the next poll of an operation after `polls` polls. */
export function pollDelay({ seconds, jitter }: PollPolicy, polls: number, random: number): number {
  const wait = seconds[Math.min(polls, seconds.length - 1)]!
  return Math.round(wait * 1000 * (1 - jitter * random))
}

/** The last moment of JavaScript's calendar, 275,760 AD. */
const lastMoment = 8.64e15

/** Times are stored in whole milliseconds: rounded up, so that nothing happens too early, and within the calendar. */
export function wholeTime(milliseconds: number): number {
  return Math.min(lastMoment, Math.max(-lastMoment, Math.ceil(milliseconds)))
}

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

/** When a job that begins now expires; null: never. `by`: the latest possible time. */
export function expiry(ttlSeconds: number | null, now: number, by: number | null = null): number | null {
  const own = ttlSeconds === null ? null : wholeTime(now + ttlSeconds * 1000)
  return own === null || by === null ? (own ?? by) : Math.min(own, by)
}

export function refuse(refused: RefusalReason): Refusal {
  return { refused }
}
