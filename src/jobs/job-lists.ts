import { FIRST_QUEUE_KEY, LAST_QUEUE_KEY, parseQueueKey, type QueuedJob, queueKey } from "../core/timers.ts"
import { isoTime } from "../engine/clock.ts"
import { type JobSnapshot, rowSnapshot } from "../engine/owner/snapshot.ts"
import type { DispatchedJobs, DispatchedQuery } from "../engine/remote/dispatched-jobs.ts"
import { HIGHEST_ID, idTime } from "../journal/marks.ts"
import type { JobFilter, JobPage, JobRow, Journal, ListBound } from "../journal/port/journal.ts"
import { namedFilter } from "./arguments.ts"

/** A page of a list of jobs, newest first. */
export interface JobSnapshotPage {
  readonly jobs: readonly JobSnapshot[]
  /** The value of `after` for the next page; null: this is the last. */
  readonly next: string | null
  /** How far back the page has searched; null: to the end. */
  readonly scanned_to: string | null
  /** false: the page ended before it was full, after a bounded search. */
  readonly complete: boolean
}

export interface JobListParts {
  readonly journal: Journal
  /** Which jobs were dispatched although their row has status QUEUED, as far as their owners answer in time. */
  dispatched?(query: DispatchedQuery): Promise<DispatchedJobs>
  now(): number
}

/**
 * Jobs as their rows show them. The dispatch of a job that waited as a row is not recorded: its row is QUEUED until the
 * first fact about one of its nodes. The owner of its partition knows, and is queried about QUEUED rows; without an answer
 * the job is shown with the status of its row.
 */
export class JobLists {
  readonly #parts: JobListParts

  constructor(parts: JobListParts) {
    this.#parts = parts
  }

  /** Throws E309 for a filter that no job can match. */
  async page(given: JobFilter): Promise<JobSnapshotPage> {
    const { jobs, next, scannedTo, complete } = await this.rows(namedFilter(given))
    const at = this.#parts.now()
    return {
      jobs: jobs.map(row => rowSnapshot(row, at)),
      next,
      scanned_to: scannedTo === null ? null : isoTime(scannedTo),
      complete,
    }
  }

  /** A page of rows with the status that people see, which is also what the filter is compared with. */
  async rows(filter: JobFilter, bound?: ListBound): Promise<JobPage> {
    const { statuses } = filter
    const isMissed = statuses?.includes("PROCESSING") === true && !statuses.includes("QUEUED")
    const page = withinBytes(
      isMissed
        ? await this.#withDispatched(filter, bound)
        : await this.#parts.journal.listJobs(filter, bound),
    )
    const dispatched = await this.#findDispatched(page.jobs)
    const rows = await this.#reread(page.jobs, dispatched)
    const shown = rows.map(row => shownRow(row, dispatched))
    const jobs = shown.filter(
      ({ status }) => statuses?.includes(status) ?? (status !== "DELETED" || filter.deleted),
    )
    const complete = page.complete && (page.next === null || jobs.length === shown.length)
    return { ...page, jobs, complete }
  }

  /** Up to `limit` jobs, however many pages they take. */
  async jobs(filter: JobFilter): Promise<JobSnapshot[]> {
    const found: JobSnapshot[] = []
    for (let after = filter.after; ; ) {
      const { jobs, next } = await this.page({ ...filter, after, limit: filter.limit - found.length })
      found.push(...jobs)
      if (next === null || found.length >= filter.limit) return found
      after = next
    }
  }

  async snapshot(row: JobRow): Promise<JobSnapshot> {
    const dispatched = await this.#findDispatched([row])
    const [current] = await this.#reread([row], dispatched)
    return rowSnapshot(shownRow(current!, dispatched), this.#parts.now())
  }

  /** A QUEUED job that is not in its owner's memory waits as a row, or has ended since its row was read. */
  async #reread(rows: readonly JobRow[], dispatched: ReadonlySet<string>): Promise<readonly JobRow[]> {
    const ids = rows
      .filter(({ id, status }) => status === "QUEUED" && !dispatched.has(id))
      .map(({ id }) => id)
    if (ids.length === 0) return rows
    const { jobs } = await this.#parts.journal.listJobs({ limit: ids.length, deleted: true }, { ids })
    const current = new Map(jobs.map(row => [row.id, row]))
    return rows.map(row => current.get(row.id) ?? row)
  }

  /** A page of PROCESSING jobs, with those whose row has status QUEUED. */
  async #withDispatched(filter: JobFilter, bound: ListBound | undefined): Promise<JobPage> {
    const { journal } = this.#parts
    const { owner, workflow, after: below = HIGHEST_ID, limit } = filter
    if (limit === 0 || !(await hasQueuedJobs(journal))) return journal.listJobs(filter, bound)
    const query = { owner, workflow, below, limit: Math.min(limit + 1, MOST_IDS) }
    const { ids, from } = (await this.#parts.dispatched?.(query)) ?? { ids: [], from: null }
    // Read before the page: a job whose dispatch is recorded meanwhile is found twice, not missed.
    const queued =
      ids.length === 0
        ? []
        : (await journal.listJobs({ ...filter, statuses: ["QUEUED"], limit: ids.length }, { ids })).jobs
    return joined(await journal.listJobs(filter, bound), queued, from, limit)
  }

  /** Those of the QUEUED ones that were dispatched. */
  async #findDispatched(rows: readonly JobRow[]): Promise<ReadonlySet<string>> {
    const ids = rows.filter(({ status }) => status === "QUEUED").map(({ id }) => id)
    const { dispatched } = this.#parts
    if (ids.length === 0 || dispatched === undefined) return new Set()
    const parts = Array.from({ length: Math.ceil(ids.length / IDS_IN_QUERY) }, (_, part) =>
      dispatched({ ids: ids.slice(part * IDS_IN_QUERY, (part + 1) * IDS_IN_QUERY) }),
    )
    return new Set((await Promise.all(parts)).flatMap(found => found.ids))
  }
}

/** Of outputs, errors and labels: a page ends early after that many. */
const PAGE_BYTES = 4 * 1024 * 1024

/** The first job is in the page in any case. */
function withinBytes(page: JobPage): JobPage {
  let bytes = 0
  const end = page.jobs.findIndex(({ output, error, labels }, index) => {
    bytes += (output?.length ?? 0) + (error?.length ?? 0) + JSON.stringify(labels).length
    return bytes > PAGE_BYTES && index > 0
  })
  if (end === -1) return page
  const jobs = page.jobs.slice(0, end)
  const next = jobs.at(-1)!.id
  return { jobs, next, scannedTo: idTime(next), complete: false }
}

/** Ids of one answer. */
const MOST_IDS = 1000
/** A query must fit into one notification of 8 KB. */
const IDS_IN_QUERY = 150

function shownRow(row: JobRow, dispatched: ReadonlySet<string>): JobRow {
  return row.status === "QUEUED" && dispatched.has(row.id) ? { ...row, status: "PROCESSING" } : row
}

/** Adds the rows that are within the page. `from`: rows below it may be missing; null: none is. */
function joined(page: JobPage, queued: readonly JobRow[], from: string | null, limit: number): JobPage {
  const end = [page.next, from].reduce((a, b) => (a === null || (b !== null && b > a) ? b : a))
  const byId = new Map([...queued, ...page.jobs].map(job => [job.id, job]))
  const jobs = [...byId.values()].filter(({ id }) => end === null || id >= end)
  jobs.sort((a, b) => (a.id < b.id ? 1 : -1))
  const isFull = jobs.length > limit || (jobs.length === limit && end !== null)
  const next = isFull ? jobs[limit - 1]!.id : end
  return {
    jobs: jobs.slice(0, limit),
    next,
    scannedTo: next === null ? null : idTime(next),
    complete: isFull || next === null,
  }
}

async function hasQueuedJobs(journal: Journal): Promise<boolean> {
  const last = { wakeAt: LAST_QUEUE_KEY, id: HIGHEST_ID }
  const query = { partitions: allPartitions(journal), wakeAt: FIRST_QUEUE_KEY, last, limit: 1 }
  return (await journal.countDue(query)) > 0
}

function allPartitions({ capabilities }: Journal): number[] {
  return Array.from({ length: capabilities.partitions }, (_, partition) => partition)
}

/** Counting further would take more than about 10 ms. */
const COUNTED = 10_000

/** The place of a QUEUED job among the QUEUED jobs of its owner, workflow and time to live; null: it is not QUEUED any more. */
export async function queuePosition(journal: Journal, job: QueuedJob, id: string) {
  const wakeAt = queueKey(job)
  const { base } = parseQueueKey(wakeAt)
  const query = { partitions: allPartitions(journal), wakeAt: base, last: { wakeAt, id }, limit: COUNTED }
  const position = await journal.countDue(query)
  if ((await journal.readJob(id))?.status !== "QUEUED") return null
  return { position, ...(position === COUNTED ? { position_is_minimum: true as const } : {}) }
}
