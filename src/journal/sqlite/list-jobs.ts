/** What a page of a list reads (journal/list-jobs.ts), and the removal of marks that no job needs. */
import type { PlacesQuery, ScannedJobs, ScanQuery } from "../list-jobs.ts"
import { firstBucketId, firstPlaceAt, parseBucket, purgedMarks, WRITERS } from "../marks.ts"
import type * as port from "../port/journal.ts"
import { type ListedJob, listedJob } from "../rows.ts"
import type { SqliteConnection } from "./database.ts"

/** A list leaves out larger outputs. */
const LISTED_OUTPUT_BYTES = 32_768

export const JOB_COLUMNS = `
  id, partition, seq, status, updated_at as updatedAt, finished_at as finishedAt, wake_at as wakeAt, error, fingerprint,
  owner, workflow, workflow_version as workflowVersion, parent_id as parentId, labels, priority, created_at as createdAt,
  submitted_by as submittedBy, forked_from as forkedFrom, definition`

export const LISTED_COLUMNS = `${JOB_COLUMNS},
  case when octet_length(output) <= ${LISTED_OUTPUT_BYTES} then output end as output,
  octet_length(output) > ${LISTED_OUTPUT_BYTES} as isLarge`

export function listedPlaces(connection: SqliteConnection, query: PlacesQuery): number[] {
  const { marks, unfinishedOwners, before, limit } = query
  const entries = "select place from job_marks where mark = ? and place < ? order by place desc limit ?"
  const unfinished = `select id from jobs indexed by jobs_unfinished
    where owner = ? and finished_at is null and id < ? order by id desc limit ?`
  const found = [
    ...marks.flatMap(mark =>
      connection.all<{ place: number }>(entries, mark, before, limit).map(({ place }) => place),
    ),
    ...unfinishedOwners.flatMap(owner =>
      connection
        .all<{ id: string }>(unfinished, owner, firstBucketId(before / WRITERS), limit)
        .map(({ id }) => parseBucket(id) * WRITERS),
    ),
  ]
  return found.sort((a, b) => b - a).slice(0, limit)
}

export function listedOwners(connection: SqliteConnection, limit: number): string[] {
  const owners: string[] = []
  const sql = "select min(owner) as owner from jobs where owner > ?"
  for (let owner: string | null = ""; owners.length < limit; owners.push(owner)) {
    owner = connection.get<{ owner: string | null }>(sql, owner)!.owner
    if (owner === null) break
  }
  return owners
}

/** Counting reads an index alone; then the jobs that were counted are compared with the filter. */
export function scanJobs(
  connection: SqliteConnection,
  { filter, ranges, most, limit }: ScanQuery,
): ScannedJobs {
  const values = { ...filter, labels: Object.entries(filter.labels ?? {}) }
  const range = `${filter.owner === undefined ? "" : "owner = @owner and "}id >= @low and id < @high`
  const counted = `select count(*) as read, min(id) as last
    from (select id from jobs where ${range} order by id desc limit @limit)`
  const matching = `select ${LISTED_COLUMNS} from jobs
    where ${[range, ...jobConditions(filter)].join(" and ")} order by id desc limit @limit`
  const jobs: port.JobRow[] = []
  let [read, last]: [number, string | null] = [0, null]
  for (const { low, high } of ranges) {
    if (read === most || jobs.length === limit) break
    const scanned = { ...values, low, high, limit: most - read }
    const part = connection.get<{ read: number; last: string | null }>(counted, scanned)!
    if (part.last === null) continue
    read += part.read
    last = part.last
    const found = connection.all<ListedJob>(matching, { ...scanned, low: last, limit: limit - jobs.length })
    jobs.push(...found.map(listedJob))
  }
  return { jobs, read, last }
}

function jobConditions(filter: port.JobFilter): string[] {
  const conditions: string[] = []
  const where = (applies: boolean, condition: string) => void (applies && conditions.push(condition))
  where(typeof filter.parentId === "string", "parent_id = @parent_id")
  where(filter.parentId === null, "parent_id is null")
  where(filter.statuses !== undefined, "status in (select value from json_each(@statuses))")
  where(filter.workflow !== undefined, "workflow = @workflow")
  where(filter.version !== undefined, "workflow_version = @version")
  where(!filter.deleted, "status <> 'DELETED'")
  where(filter.createdFrom !== undefined, "created_at >= @created_from")
  where(filter.createdBefore !== undefined, "created_at < @created_before")
  where(filter.errorCode !== undefined, "error ->> '$.code' = @error_code")
  where(filter.fingerprint !== undefined, "fingerprint = @fingerprint")
  where(filter.errorText !== undefined, "fingerprint is not null")
  where(filter.forkedFrom !== undefined, "forked_from = @forked_from")
  where(
    filter.minDurationMs !== undefined,
    "finished_at - min(finished_at, coalesce(error ->> '$.start_at', created_at)) >= @min_duration_ms",
  )
  where(
    Object.keys(filter.labels ?? {}).length > 0,
    `not exists (
      select 1 from json_each(@labels) as wanted where not exists (
        select 1 from json_each(labels) as has
        where has.key = wanted.value ->> '$[0]' and has.value = wanted.value ->> '$[1]'
      )
    )`,
  )
  return conditions
}

export function purgeMarks(
  connection: SqliteConnection,
  { partitions, before, after, limit }: Parameters<port.Journal["purgeMarks"]>[0],
): { readonly removed: number; readonly next: port.MarkEntry | null } {
  const read = connection.all<port.MarkEntry>(
    "select mark, place from job_marks where (mark, place) > (?, ?) order by mark, place limit ?",
    after?.mark ?? -1,
    after?.place ?? -1,
    limit,
  )
  const ours = new Set(partitions)
  const isOld = ({ place }: port.MarkEntry) => place < firstPlaceAt(before) && ours.has(place % 64)
  const unused = read.filter(entry => isOld(entry) && !hasJobs(connection, Math.floor(entry.place / WRITERS)))
  for (const { mark, place } of unused)
    connection.run("delete from job_marks where mark = ? and place = ?", mark, place)
  const last = read.at(-1)
  return purgedMarks(last && { ...last, removed: unused.length, read: read.length }, { before, limit })
}

function hasJobs(connection: SqliteConnection, bucket: number): boolean {
  const sql = "select 1 from jobs where id >= ? and id < ? limit 1"
  return connection.get(sql, firstBucketId(bucket), firstBucketId(bucket + 1)) !== undefined
}
