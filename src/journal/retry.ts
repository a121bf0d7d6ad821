import { JournalUnavailableError } from "./errors.ts"

/**
 * How requests that the store did not answer are retried (X7): 4 tries, 1 s → 2 s → 4 s, never more than 30
 * s.
 */
export interface RetryPolicy {
  readonly tries: number
  readonly initialMs: number
  readonly maxMs: number
}

export interface RetryOptions extends Partial<RetryPolicy> {
  readonly sleep?: (ms: number) => Promise<void>
}

export const retryDefaults: RetryPolicy = { tries: 4, initialMs: 1_000, maxMs: 30_000 }

/** The wait after this many tries. */
export function retryDelayMs({ initialMs, maxMs }: RetryPolicy, tried: number): number {
  return Math.min(initialMs * 2 ** (tried - 1), maxMs)
}

export const sleepFor = (ms: number) => new Promise<void>(resolve => setTimeout(resolve, ms))

export async function retry<T>(options: RetryOptions, operation: () => Promise<T>): Promise<T> {
  const policy = { ...retryDefaults, ...options }
  const { sleep = sleepFor } = options
  for (let tried = 1; ; tried++) {
    try {
      return await operation()
    } catch (error) {
      if (!(error instanceof JournalUnavailableError) || error.final || tried >= policy.tries) throw error
      await sleep(retryDelayMs(policy, tried))
    }
  }
}
