import type { FeedFact } from "../journal/port/feed.ts"
import { type Change, expandChanges } from "./changes.ts"
import {
  type FoldParts,
  foldJobs,
  type KnownJob,
  type KnownJobs,
  newKnownJob,
  readFact,
} from "./known-jobs.ts"
import { listNode } from "./list-progress.ts"

export interface FactChanges {
  readonly row: FeedFact
  /** Its state after the last fact of the page. */
  readonly job: KnownJob
  readonly changes: readonly Change[]
  /** A node whose list made progress by this fact. */
  readonly list: number | null
}

/**
 * The changes of each fact. The jobs are removed from the known ones; the caller that delivers the changes adds them again.
 * A page that fails half way is read again, and no state may be left half applied.
 */
export async function expandFacts(
  parts: FoldParts,
  facts: readonly FeedFact[],
  { known, withNodes }: { known: KnownJobs; withNodes: (fact: FeedFact) => boolean },
): Promise<FactChanges[]> {
  const jobs = await jobsBefore(parts, facts, known)
  const expanded: FactChanges[] = []
  for (const row of facts) {
    const fact = await readFact(parts.journal, row)
    if (fact === null) continue
    const job = jobs.get(row.jobId) ?? (await newKnownJob(parts, row.jobId, fact))
    if (job === null) continue
    jobs.set(row.jobId, job)
    const changes = expandChanges(job, { seq: row.seq, fact }, { withNodes: withNodes(row) })
    expanded.push({ row, job, changes, list: listNode(fact) })
  }
  return expanded
}

/** One read of the journal for all jobs of a page that are not known. New jobs begin in the page itself. */
async function jobsBefore(
  parts: FoldParts,
  facts: readonly FeedFact[],
  known: KnownJobs,
): Promise<Map<string, KnownJob>> {
  const jobs = new Map<string, KnownJob>()
  const missing = new Map<string, number>()
  for (const { jobId, seq, type } of facts) {
    if (jobs.has(jobId) || missing.has(jobId)) continue
    const job = known.get(jobId)
    if (job !== undefined) jobs.set(jobId, job)
    else if (type !== "job_submitted") missing.set(jobId, seq)
  }
  for (const jobId of jobs.keys()) known.forget(jobId)
  const found = await foldJobs(parts, [...missing.keys()], row => row.seq < missing.get(row.jobId)!)
  for (const [jobId, job] of found) jobs.set(jobId, job)
  return jobs
}
