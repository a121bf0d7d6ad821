/** What a page of a list reads (journal/list-jobs.ts), and the removal of marks that no job needs. */
import type { PlacesQuery, ScannedJobs, ScanQuery } from "../list-jobs.ts"
import { bucketOf, firstIdOf, firstPlaceAt, purgedMarks, WRITERS } from "../marks.ts"
import type * as port from "../port/journal.ts"
import { type ListedJob, listedJob } from "../rows.ts"
import { type Connection, list } from "./database.ts"
import type { Value } from "./driver.ts"

/** A list leaves out larger outputs. */
const LISTED_OUTPUT_BYTES = 32_768

export const JOB_COLUMNS = `
  id, partition, seq, status, updated_at as updatedAt, finished_at as finishedAt, wake_at as wakeAt, error, fingerprint,
  owner, workflow, workflow_version as workflowVersion, parent_id as parentId, labels, priority, created_at as createdAt,
  submitted_by as submittedBy, forked_from as forkedFrom, definition`

export const LISTED_COLUMNS = `${JOB_COLUMNS},
  case when octet_length(output) <= ${LISTED_OUTPUT_BYTES} then output end as output,
  octet_length(output) > ${LISTED_OUTPUT_BYTES} as isLarge`

export function listedPlaces(connection: Connection, query: PlacesQuery): number[] {
  const { marks, unfinishedOf, before, limit } = query
  const entries = "select place from job_marks where mark = ? and place < ? order by place desc limit ?"
  const unfinished = `select id from jobs indexed by jobs_unfinished
    where owner = ? and finished_at is null and id < ? order by id desc limit ?`
  const found = [
    ...marks.flatMap(mark =>
      connection.all<{ place: number }>(entries, mark, before, limit).map(({ place }) => place),
    ),
    ...unfinishedOf.flatMap(owner =>
      connection
        .all<{ id: string }>(unfinished, owner, firstIdOf(before / WRITERS), limit)
        .map(({ id }) => bucketOf(id) * WRITERS),
    ),
  ]
  return found.sort((a, b) => b - a).slice(0, limit)
}

export function listedOwners(connection: Connection, limit: number): string[] {
  const owners: string[] = []
  const sql = "select min(owner) as owner from jobs where owner > ?"
  for (let owner: string | null = ""; owners.length < limit; owners.push(owner)) {
    owner = connection.get<{ owner: string | null }>(sql, owner)!.owner
    if (owner === null) break
  }
  return owners
}

/** Counting reads an index alone; then the jobs that were counted are compared with the filter. */
export function scanJobs(connection: Connection, { filter, ranges, most, limit }: ScanQuery): ScannedJobs {
  const { owner } = filter
  const range = owner === undefined ? "id >= ? and id < ?" : "owner = ? and id >= ? and id < ?"
  const counted = `select count(*) as read, min(id) as last
    from (select id from jobs where ${range} order by id desc limit ?)`
  const { conditions, values } = jobConditions(filter)
  const matching = `select ${LISTED_COLUMNS} from jobs
    where ${[range, ...conditions].join(" and ")} order by id desc limit ?`
  const jobs: port.JobRow[] = []
  let [read, last]: [number, string | null] = [0, null]
  for (const { low, high } of ranges) {
    if (read === most || jobs.length === limit) break
    const of = owner === undefined ? [] : [owner]
    const part = connection.get<{ read: number; last: string | null }>(
      counted,
      ...of,
      low,
      high,
      most - read,
    )!
    if (part.last === null) continue
    read += part.read
    last = part.last
    const found = connection.all<ListedJob>(matching, ...of, last, high, ...values, limit - jobs.length)
    jobs.push(...found.map(listedJob))
  }
  return { jobs, read, last }
}

function jobConditions(filter: port.JobFilter): { conditions: string[]; values: Value[] } {
  const conditions: string[] = []
  const values: Value[] = []
  const where = (condition: string, ...given: Value[]) => {
    conditions.push(condition)
    values.push(...given)
  }
  const { statuses, workflow, version, parentId, createdFrom, createdBefore } = filter
  const { errorCode, fingerprint, errorText, minDurationMs, forkedFrom } = filter
  if (typeof parentId === "string") where("parent_id = ?", parentId)
  if (parentId === null) where("parent_id is null")
  if (statuses !== undefined) where("status in (select value from json_each(?))", list(statuses))
  if (workflow !== undefined) where("workflow = ?", workflow)
  if (version !== undefined) where("workflow_version = ?", version)
  if (!filter.deleted) where("status <> 'DELETED'")
  if (createdFrom !== undefined) where("created_at >= ?", createdFrom)
  if (createdBefore !== undefined) where("created_at < ?", createdBefore)
  if (errorCode !== undefined) where("error ->> '$.code' = ?", errorCode)
  if (fingerprint !== undefined) where("fingerprint = ?", fingerprint)
  if (errorText !== undefined) where("fingerprint is not null")
  if (forkedFrom !== undefined) where("forked_from = ?", forkedFrom)
  if (minDurationMs !== undefined)
    where("finished_at - min(finished_at, coalesce(error ->> '$.start_at', created_at)) >= ?", minDurationMs)
  const labels = Object.entries(filter.labels ?? {})
  if (labels.length > 0)
    where(
      `not exists (
        select 1 from json_each(?) as wanted where not exists (
          select 1 from json_each(labels) as has
          where has.key = wanted.value ->> '$[0]' and has.value = wanted.value ->> '$[1]'
        )
      )`,
      JSON.stringify(labels),
    )
  return { conditions, values }
}

export function purgeMarks(
  connection: Connection,
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

function hasJobs(connection: Connection, bucket: number): boolean {
  const sql = "select 1 from jobs where id >= ? and id < ? limit 1"
  return connection.get(sql, firstIdOf(bucket), firstIdOf(bucket + 1)) !== undefined
}
