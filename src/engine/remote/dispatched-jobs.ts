import type { LiveJob } from "../owner/live-job.ts"
import { shownStatus } from "../owner/snapshot.ts"

/**
 * Jobs that were dispatched although their row has status QUEUED: the dispatch of a job that waited as a row is not recorded
 * (`owner/job-queue.ts`), so only the owner of its partition knows. `ids`: which of these; otherwise the newest.
 */
export type DispatchedQuery =
  | { readonly ids: readonly string[] }
  | {
      readonly owner?: string | undefined
      readonly workflow?: string | undefined
      /** Only jobs with a lower id. */
      readonly below: string
      readonly limit: number
    }

export interface DispatchedJobs {
  readonly ids: readonly string[]
  /** There may be more with ids below this one; null: these are all. */
  readonly from: string | null
}

/** The answer of a process, with the partitions that it owns. */
export interface DispatchedAnswer extends DispatchedJobs {
  readonly partitions: readonly number[]
}

/** `jobs`: in the memory of this process. */
export function dispatchedJobs(jobs: ReadonlyMap<string, LiveJob>, query: DispatchedQuery): DispatchedJobs {
  if ("ids" in query) return { ids: query.ids.filter(id => jobs.get(id)?.isQueued === false), from: null }
  const { owner, workflow, below, limit } = query
  const found: string[] = []
  for (const job of jobs.values()) {
    const { id, state } = job
    if (state.status !== "QUEUED" || shownStatus(job) === "QUEUED" || id >= below) continue
    if (owner !== undefined && state.owner !== owner) continue
    if (workflow === undefined || state.workflow === workflow) found.push(id)
  }
  found.sort().reverse()
  const from = found.length > limit ? found[limit - 1]! : null
  return { ids: found.slice(0, limit), from }
}

/** Of several processes. */
export function joinDispatched(answers: readonly DispatchedJobs[]): DispatchedJobs {
  const ends = answers.flatMap(({ from }) => from ?? [])
  return {
    ids: answers.flatMap(({ ids }) => ids),
    from: ends.length === 0 ? null : ends.reduce((a, b) => (a > b ? a : b)),
  }
}
