/**
 * Jobs that an execution submits wait while a limit on jobs is reached (E646, E702), instead of using up
 * tries.
 */
import { UmbraError } from "../../errors.ts"
import type { Log } from "../../log.ts"

const AGAIN_MS = 1000
/**
 * After this the submission fails, and with it the delivery: the execution is itself one of the jobs that are
 * counted, so all of them may be waiting for each other.
 */
const PATIENCE_MS = 600_000
const isFull: ReadonlySet<string> = new Set(["E646", "E702"])

export interface WaitParts {
  readonly signal: AbortSignal
  readonly log: Log
  readonly now: () => number
  readonly after: (ms: number, fire: () => void) => () => void
}

export async function waitForRoom<T>(
  submit: () => Promise<T>,
  { signal, log, now, after }: WaitParts,
): Promise<T> {
  const end = now() + PATIENCE_MS
  for (let refusals = 1; ; refusals++) {
    try {
      return await submit()
    } catch (error) {
      const waits = error instanceof UmbraError && isFull.has(error.code) && now() < end && !signal.aborted
      if (!waits) throw error
      if (refusals === 1) log.warn({ code: error.code }, `a job cannot be submitted yet: ${error.message}`)
      await new Promise<void>(resolve => {
        const cancel = after(AGAIN_MS, () => {
          signal.removeEventListener("abort", stop)
          resolve()
        })
        const stop = () => {
          cancel()
          resolve()
        }
        signal.addEventListener("abort", stop, { once: true })
      })
    }
  }
}
