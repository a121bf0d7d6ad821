import { jobHasEnded } from "../core/states.ts"
import type { JobSnapshot } from "./job-snapshot.ts"
import type { Watchers } from "./watchers.ts"

/** How long to believe that nothing has happened to a job that another process runs. */
const LOOK_AGAIN_MS = 250
const TRUST_NEWS_MS = 5000

export interface Waiting {
  readonly watchers: Watchers
  /** Is the job in this process's memory? */
  isHere(): boolean
  look(): Promise<JobSnapshot>
}

/** Resolves when the job has ended, or at the latest after `timeoutMs`, with what it is then. */
export async function waitForEnd(jobId: string, timeoutMs: number, waiting: Waiting): Promise<JobSnapshot> {
  const deadline = performance.now() + timeoutMs
  for (;;) {
    const left = deadline - performance.now()
    const isHere = waiting.isHere()
    // News of a job that runs here is pushed, unless it moves to another engine; for others, look again soon.
    const news = waiting.watchers.next(jobId, Math.min(left, isHere ? TRUST_NEWS_MS : LOOK_AGAIN_MS))
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
}
