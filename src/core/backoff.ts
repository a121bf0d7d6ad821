import type { PollPolicy, RetryPolicy } from "./plan.ts"

/** Milliseconds until the try after `failures` failures. `random` in [0, 1) spreads it downwards by up to `jitter`. */
export function retryDelay(policy: RetryPolicy, failures: number, random: number): number {
  // Nothing times what is beyond all numbers would be no number.
  const growth = Math.min(policy.multiplier ** (failures - 1), Number.MAX_VALUE)
  const seconds = Math.min(policy.initialSeconds * growth, policy.maxSeconds)
  return Math.round(seconds * 1000 * (1 - policy.jitter * random))
}

/** Milliseconds until the look at an operation that comes after `polls` looks. */
export function pollDelay({ seconds, jitter }: PollPolicy, polls: number, random: number): number {
  const wait = seconds[Math.min(polls, seconds.length - 1)]!
  return Math.round(wait * 1000 * (1 - jitter * random))
}
