import { jobHasEnded } from "../core/states.ts"
import type { JobSnapshot } from "../engine/owner/snapshot.ts"
import type { Watchers } from "./watchers.ts"

/** News is pushed, wherever the job runs; whatever may get lost is made good by a look. */
const TRUST_NEWS_MS = 5000

export interface Waiting {
  readonly watchers: Watchers
  /** Is the job in this process's memory? */
  isHere(): boolean
  look(): Promise<JobSnapshot>
  /** Has the job's end told to `watchers` also when it comes about elsewhere; the answer ends that. */
  awaitElsewhere(): () => void
}

/** Resolves when the job has ended, or at the latest after `timeoutMs`, with what it is then. */
export async function waitForEnd(jobId: string, timeoutMs: number, waiting: Waiting): Promise<JobSnapshot> {
  const deadline = performance.now() + timeoutMs
  let leave: (() => void) | null = null
  try {
    for (;;) {
      const left = deadline - performance.now()
      const isHere = waiting.isHere()
      const news = waiting.watchers.next(jobId, Math.min(left, TRUST_NEWS_MS))
      if (!isHere && left > 0) leave ??= waiting.awaitElsewhere()
      if (!isHere || left <= 0) {
        const job = await waiting.look()
        if (jobHasEnded(job.status) || left <= 0) {
          news.cancel()
          return job
        }
      }
      const ended = await news.settled
      if (ended !== null) return ended
    }
  } finally {
    leave?.()
  }
}
