import { JournalUnavailableError } from "./errors.ts"

/** Short operations are retried when the connection broke (X7): 4 tries, 1 s → 2 s → 4 s, never more than 30 s. */
export interface RetryOptions {
  readonly tries?: number
  readonly initialMs?: number
  readonly maxMs?: number
  readonly sleep?: (ms: number) => Promise<void>
}

export const retryDefaults = {
  tries: 4,
  initialMs: 1_000,
  maxMs: 30_000,
  sleep: (ms: number) => new Promise<void>(resolve => setTimeout(resolve, ms)),
} as const satisfies Required<RetryOptions>

export async function retry<T>(options: RetryOptions, operation: () => Promise<T>): Promise<T> {
  const { tries, initialMs, maxMs, sleep } = { ...retryDefaults, ...options }
  for (let tried = 1; ; tried++) {
    try {
      return await operation()
    } catch (error) {
      if (!(error instanceof JournalUnavailableError) || error.final || tried >= tries) throw error
      await sleep(Math.min(initialMs * 2 ** (tried - 1), maxMs))
    }
  }
}
