import type { RecordedRetryPolicy } from "../facts.ts"
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
