import { decodeMetrics, type JobMetrics, jobMetrics, needsFold } from "../../core/statistics/job-metrics.ts"
import { JournalUnavailableError } from "../../journal/errors.ts"
import type { FactOfJob } from "../../journal/port/statistics.ts"
import type { Log } from "../../log.ts"
import { foldJob, type LoadParts, readJobs } from "../recovery/fold.ts"

/** An end of a job, as the statistics count it. */
export interface End {
  readonly owner: string
  readonly workflow: string
  readonly version: number
  readonly at: number
  readonly metrics: JobMetrics
}

/**
 * The ends that a page of facts contains. The row of a job has the metrics of its last end, with the seq of the fact. A job
 * that was retried may have ended before, one with many nodes has only a part of them, and one that ended in a release
 * before 0.2 has none: they are folded.
 */
export async function countPage(load: LoadParts, facts: readonly FactOfJob[], log: Log): Promise<End[]> {
  const ends: End[] = []
  const folded = new Map<string, FactOfJob>()
  for (const fact of facts) {
    const { seq, at, stats, hasEnded } = fact
    if (stats === null ? hasEnded : needsFold(stats)) folded.set(fact.jobId, fact)
    else if (stats?.startsWith(`{"e":${seq},`) === true)
      ends.push(buildEnd(fact, at, decodeMetrics(stats).metrics))
  }
  const [first, last] = [facts[0]?.seq ?? 0, facts.at(-1)?.seq ?? 0]
  for (const fact of folded.values())
    for (const { seq, at, metrics } of await foldEnds(load, fact.jobId, log))
      if (seq >= first && seq <= last) ends.push(buildEnd(fact, at, metrics))
  return ends
}

function buildEnd({ owner, workflow, version }: FactOfJob, at: number, metrics: JobMetrics): End {
  return { owner: owner!, workflow: workflow!, version: version!, at, metrics }
}

interface FoldedEnd {
  readonly seq: number
  readonly at: number
  readonly metrics: JobMetrics
}

/** All ends of a job. One that cannot be read any more is not counted: it must not stop the others. */
async function foldEnds(load: LoadParts, jobId: string, log: Log): Promise<FoldedEnd[]> {
  const ends: FoldedEnd[] = []
  try {
    const rows = (await readJobs(load, [jobId])).get(jobId) ?? []
    let wasOpen = true
    await foldJob(load, rows, (state, seq) => {
      const isOpen = state.finishedAt === null
      if (wasOpen && !isOpen) ends.push({ seq, at: state.finishedAt!, metrics: jobMetrics(state) })
      wasOpen = isOpen
    })
  } catch (error) {
    if (error instanceof JournalUnavailableError) throw error
    log.warn(
      { job_id: jobId, error: String(error) },
      "job is not counted in the statistics: it cannot be read",
    )
  }
  return ends
}
