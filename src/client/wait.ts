/** Waits for the end of a job by long polling. */
import type { JobStatus } from "../core/states.ts"
import { UmbraClientError } from "./error.ts"
import { type Http, isAway, pause } from "./http.ts"
import type { WaitOptions } from "./job.ts"
import { segment } from "./requests.ts"
import type { JobSnapshot } from "./types.ts"

/** Shorter than the timeouts of usual proxies and load balancers. */
const POLL_SECONDS = 25
const SHORTEST_POLL_MS = 500

const ended: ReadonlySet<JobStatus> = new Set<JobStatus>([
  "COMPLETED",
  "FAILED",
  "CANCELLED",
  "EXPIRED",
  "DELETED",
])

/** Continues while the server is unavailable, up to the configured patience. */
export async function waitForEnd(http: Http, jobId: string, options: WaitOptions): Promise<JobSnapshot> {
  const { timeoutMs = Number.POSITIVE_INFINITY, signal } = options
  const until = Date.now() + timeoutMs
  let awaySince: number | null = null
  for (;;) {
    const began = Date.now()
    try {
      const job = await poll(http, jobId, until - began, signal)
      awaySince = null
      if (ended.has(job.status) || Date.now() >= until) return job
    } catch (error) {
      awaySince ??= began
      if (!(error instanceof UmbraClientError) || !isAway(error)) throw error
      if (Date.now() - awaySince > http.settings.patienceMs || Date.now() >= until) throw error
    }
    // A server that is shutting down answers at once.
    const early = SHORTEST_POLL_MS - (Date.now() - began)
    if (early > 0) await pause(Math.min(early, Math.max(0, until - Date.now())), signal)
  }
}

function poll(http: Http, jobId: string, leftMs: number, signal: AbortSignal | undefined) {
  const wait = Math.max(0, Math.min(POLL_SECONDS, leftMs / 1000))
  return http.ask<JobSnapshot>(`/jobs/${segment(jobId)}`, {
    query: { wait },
    timeoutMs: http.settings.timeoutMs + wait * 1000,
    signal,
  })
}
