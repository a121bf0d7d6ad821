import { jobHasEnded } from "../core/states.ts"
import type { JobSnapshot } from "../engine/owner/snapshot.ts"
import type { Watchers } from "./watchers.ts"

/** Changes are notified, wherever the job runs; after this time a query makes up for a lost notification. */
const MAX_SILENCE_MS = 5000

export interface Waiting {
  readonly watchers: Watchers
  /** Is the job in this process's memory? */
  isHere(): boolean
  read(): Promise<JobSnapshot>
  /** Notifies `watchers` of the job's end also when another process runs it; the returned function stops that. */
  awaitRemoteEnd(): () => void
}

/** Resolves when the job has ended, or at the latest after `timeoutMs`, with its snapshot at that time. */
export async function waitForEnd(jobId: string, timeoutMs: number, waiting: Waiting): Promise<JobSnapshot> {
  const deadline = performance.now() + timeoutMs
  let leave: (() => void) | null = null
  try {
    for (;;) {
      const left = deadline - performance.now()
      const isHere = waiting.isHere()
      const change = waiting.watchers.next(jobId, Math.min(left, MAX_SILENCE_MS))
      if (!isHere && left > 0) leave ??= waiting.awaitRemoteEnd()
      if (!isHere || left <= 0) {
        const job = await waiting.read()
        if (jobHasEnded(job.status) || left <= 0) {
          change.cancel()
          return job
        }
      }
      const ended = await change.settled
      if (ended !== null) return ended
    }
  } finally {
    leave?.()
  }
}
