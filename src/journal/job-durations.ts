/**
 * How long jobs took over time, as points of a chart, in bounded work: the range of time is cut into slices, of each at most
 * a page of jobs is read, and near points of the same status are joined until there are few enough. Where a slice has more
 * jobs than were read, the points are a sample: it covers the whole range, not only its newest part.
 */
import type { JobStatus } from "../core/states.ts"
import type { JobFilter, JobPage, JobRow, ListBound } from "./port/journal.ts"

/** Without `createdBefore` until now, without `createdFrom` for 24 hours. */
export interface DurationsQuery extends Omit<JobFilter, "after" | "limit"> {
  /** The largest number of points; default 500. */
  readonly points?: number | undefined
}

/** Represents `count` jobs of one status that were created and took about as long; the other fields are those of the slowest. */
export interface DurationPoint {
  readonly at: number
  readonly durationMs: number
  readonly status: JobStatus
  readonly count: number
  readonly jobId: string
}

export interface JobDurations {
  readonly from: number
  readonly before: number
  /** By `at`. */
  readonly points: readonly DurationPoint[]
  /** The number of jobs that were read. */
  readonly jobs: number
  /** false: there are more jobs, and the points are a sample. */
  readonly complete: boolean
}

const DAY_MS = 24 * 3600 * 1000
const SLICES = 48
const JOBS_OF_A_SLICE = 100
/** Index entries that a slice may read: together about as many as two pages of a list. */
const BOUND: ListBound = { entries: 1_000, ms: 20 }

type ListJobs = (filter: JobFilter, bound: ListBound) => Promise<JobPage>

interface Times {
  /** Jobs that have not ended took so long until now. */
  readonly now: number
  /** When the job was submitted, or was to start. */
  begin(row: JobRow): number
}

export async function jobDurations(
  list: ListJobs,
  times: Times,
  { points = 500, createdBefore: before = times.now + 1, createdFrom, ...filter }: DurationsQuery,
): Promise<JobDurations> {
  const first = createdFrom ?? before - DAY_MS
  const width = Math.max(1, Math.ceil((before - first) / SLICES))
  const jobs: DurationPoint[] = []
  let complete = true
  for (let from = first; from < before; from += width) {
    const slice = { createdFrom: from, createdBefore: Math.min(from + width, before) }
    const page = await list({ ...filter, ...slice, limit: JOBS_OF_A_SLICE }, BOUND)
    if (page.next !== null) complete = false
    for (const row of page.jobs) jobs.push(toPoint(row, times))
  }
  const joined = join(jobs, points, { from: first, width: before - first })
  return { from: first, before, points: joined.sort((a, b) => a.at - b.at), jobs: jobs.length, complete }
}

function toPoint(row: JobRow, { now, begin }: Times): DurationPoint {
  const { id: jobId, createdAt: at, finishedAt, status } = row
  return { at, durationMs: Math.max(0, (finishedAt ?? now) - begin(row)), status, count: 1, jobId }
}

/** Joins points of the same cell of a grid over time and the logarithm of the duration, in ever larger cells. */
function join(
  jobs: readonly DurationPoint[],
  most: number,
  { from, width }: { readonly from: number; readonly width: number },
): DurationPoint[] {
  let joined = [...jobs]
  for (let columns = 512; joined.length > most && columns >= 1; columns /= 2) {
    const cells = new Map<string, DurationPoint>()
    // Rows for each doubling of the duration.
    const rows = columns / 128
    for (const job of jobs) {
      const column = Math.floor(((job.at - from) / width) * columns)
      const row = Math.floor(Math.log2(job.durationMs + 1) * rows)
      const key = `${column} ${row} ${job.status}`
      const other = cells.get(key)
      cells.set(key, other === undefined ? job : merged(job, other))
    }
    joined = [...cells.values()]
  }
  return joined
}

function merged(a: DurationPoint, b: DurationPoint): DurationPoint {
  const slowest = a.durationMs > b.durationMs ? a : b
  return { ...slowest, count: a.count + b.count }
}
