/** What pages of lists read on each store: by indexes alone, and a bounded number of entries. */
import { describe, expect, it } from "vitest"
import { type ListedStore, listJobs } from "../../src/journal/list-jobs.ts"
import { firstBucketId, parseBucket, storedEntries, WRITERS } from "../../src/journal/marks.ts"
import type { JobFilter, JobRow } from "../../src/journal/port/journal.ts"
import type { Statement } from "../../src/journal/postgres/database.ts"
import { sql } from "../../src/journal/postgres/sql.generated.ts"
import { insertMarks } from "../../src/journal/sqlite/append.ts"
import { createMemoryStore } from "../../src/journal/sqlite/memory.ts"
import { postgresStage } from "./postgres-stage.ts"

const T0 = Date.UTC(2026, 0, 1)
const JOBS = 20_000
const owner = "ada"

/** 13 jobs in a millisecond, so about 200 in a bucket, and an empty minute in the middle. */
function generated(n: number): JobRow {
  const createdAt = T0 + Math.floor(n / 13) + (n >= JOBS / 2 ? 60_000 : 0)
  const hex = createdAt.toString(16).padStart(12, "0")
  const isFailed = n % 2_000 === 5
  const error = { code: "E405", message: "Connection refused", node: "a" }
  return {
    id: `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-${n.toString(16).padStart(12, "0")}`,
    partition: 0,
    seq: 1,
    status: isFailed ? "FAILED" : n >= JOBS - 5 ? "PROCESSING" : "COMPLETED",
    updatedAt: createdAt,
    finishedAt: n >= JOBS - 5 ? null : createdAt + (n % 4_000 === 7 ? 5_000 : 1),
    wakeAt: null,
    output: null,
    error: isFailed ? JSON.stringify(error) : null,
    fingerprint: isFailed ? "f1" : null,
    owner,
    workflow: n % 4_000 === 9 ? "rare" : "common",
    workflowVersion: n % 5_000 === 11 ? 2 : 1,
    parentId: null,
    labels: n % 5_000 === 13 ? '{"order":"17"}' : null,
    priority: 0,
    createdAt,
    submittedBy: null,
    forkedFrom: null,
    definition: null,
  }
}

const rows = Array.from({ length: JOBS }, (_, n) => generated(n))
const middle = rows[JOBS / 2 - 1]!.createdAt

/** Filters, and how many jobs each finds. Each may read 20 times the jobs of a bucket: rare values are in 10 buckets. */
const filters: readonly (readonly [filter: Partial<JobFilter>, found: number])[] = [
  [{}, 20],
  [{ statuses: ["FAILED"] }, 10],
  [{ statuses: ["PROCESSING"] }, 5],
  [{ statuses: ["CANCELLED"] }, 0],
  [{ workflow: "rare" }, 5],
  [{ workflow: "rare", statuses: ["FAILED"] }, 0],
  [{ workflow: "common", version: 2 }, 4],
  [{ workflow: "common", version: 2, statuses: ["COMPLETED"] }, 4],
  [{ labels: { order: "17" } }, 4],
  [{ labels: { order: "17" }, statuses: ["COMPLETED"] }, 4],
  [{ errorCode: "E405" }, 10],
  [{ minDurationMs: 4_000 }, 5],
  [{ createdFrom: middle + 1_000, createdBefore: middle + 59_000 }, 0],
  [{ createdFrom: middle + 1_000, createdBefore: middle + 59_000, statuses: ["FAILED"] }, 0],
  [{ parentId: rows[0]!.id }, 0],
]
/** Of rows that this release wrote. */
const ofErrors: typeof filters = [
  [{ fingerprint: "f1" }, 10],
  [{ errorText: "connection refused" }, 10],
  [{ errorText: "quota" }, 0],
]

async function expectFew(store: ListedStore, all: typeof filters): Promise<void> {
  for (const [filter, count] of all) {
    let read = 0
    const counted: ListedStore = {
      listedOwners: limit => store.listedOwners(limit),
      listedPlaces: async query => {
        const places = await store.listedPlaces(query)
        read += places.length
        return places
      },
      scanJobs: async query => {
        const scanned = await store.scanJobs(query)
        expect(scanned.read).toBeLessThanOrEqual(query.most)
        read += scanned.read
        return scanned
      },
    }
    const bound = { ms: 60_000, entries: JOBS / 4 }
    const page = await listJobs(counted, { owner, limit: 20, ...filter }, bound)
    expect(page, JSON.stringify(filter)).toMatchObject({ complete: true })
    expect(page.jobs, JSON.stringify(filter)).toHaveLength(count)
    expect(read, JSON.stringify(filter)).toBeLessThan(20 * 208)
  }
}

const insertColumns =
  "id, partition, seq, status, updated_at, finished_at, wake_at, output, error, fingerprint, owner, workflow, workflow_version, parent_id, labels, priority, created_at, submitted_by"
const values = (row: JobRow) => [
  ...[
    row.id,
    row.partition,
    row.seq,
    row.status,
    row.updatedAt,
    row.finishedAt,
    row.wakeAt,
    row.output,
    row.error,
  ],
  ...[row.fingerprint, row.owner, row.workflow, row.workflowVersion, row.parentId, row.labels, row.priority],
  ...[row.createdAt, row.submittedBy],
]

it("S2 a value that every one of 50,000 buckets has fills a page from the newest buckets", async () => {
  const newest = parseBucket(rows[0]!.id)
  const lowest = newest - 50_000
  let read = 0
  const store: ListedStore = {
    listedOwners: async () => [owner],
    listedPlaces: async ({ before, limit }) => {
      const top = Math.min(newest, before / WRITERS - 1)
      const places = Array.from({ length: Math.max(0, Math.min(limit, top - lowest)) }, (_, i) => top - i)
      read += places.length
      return places.map(bucket => bucket * WRITERS)
    },
    // One job in each bucket.
    scanJobs: async ({ ranges, most, limit }) => {
      const jobs: JobRow[] = []
      for (const { low, high } of ranges)
        for (let bucket = parseBucket(high); bucket >= parseBucket(low) && jobs.length < most; bucket--) {
          const id = firstBucketId(bucket)
          if (id >= low && id < high) jobs.push({ ...rows[0]!, id })
        }
      read += jobs.length
      return { jobs: jobs.slice(0, limit), read: jobs.length, last: jobs.at(-1)?.id ?? null }
    },
  }
  const page = await listJobs(store, { owner, limit: 50, errorCode: "E405" }, { ms: 60_000 })
  expect(page).toMatchObject({ complete: true })
  expect(page.jobs.map(({ id }) => id)).toEqual(
    Array.from({ length: 50 }, (_, i) => firstBucketId(newest - i)),
  )
  expect(read).toBeLessThan(1_000)
})

describe("lists on SQLite", () => {
  it("S2 read by indexes alone, and few entries for rare values", async () => {
    const { connection, stores } = createMemoryStore()
    connection.transaction(() => {
      for (const row of rows)
        connection.run(
          `insert into jobs (${insertColumns}) values (${values(row)
            .map(() => "?")
            .join(",")})`,
          ...values(row),
        )
      insertMarks(connection, storedEntries(rows))
    })
    const seen = new Set<string>()
    const prepare = connection.prepare.bind(connection)
    connection.prepare = text => {
      seen.add(text)
      return prepare(text)
    }
    const { journal } = stores
    const store: ListedStore = {
      listedOwners: async limit => journal.listedOwners(limit),
      listedPlaces: async query => journal.listedPlaces(query),
      scanJobs: async query => journal.scanJobs(query),
    }
    await expectFew(store, [...filters, ...ofErrors])
    expect(await store.listedOwners(5)).toEqual([owner])
    journal.purgeMarks({ partitions: [0], before: T0, after: null, limit: 10 })
    for (const text of seen) {
      const plan = connection.database.prepare(`explain query plan ${text}`).all() as { detail: string }[]
      const scans = plan.filter(({ detail }) => /^SCAN (?!wanted|has|json_each|\(subquery)/.test(detail))
      expect(scans, text).toEqual([])
    }
  })
})

describe("lists on PostgreSQL", () => {
  it("S2 find what a process of an earlier release writes, by the same marks, and read few entries", async () => {
    const { bystander, open } = await postgresStage()
    const journal = await open()
    // Not a session of this release: the trigger writes the marks.
    for (let from = 0; from < JOBS; from += 2_000) {
      const part = rows.slice(from, from + 2_000).map(row => ({
        ...{
          id: row.id,
          partition: 0,
          seq: 1,
          status: row.status,
          updated_at: row.updatedAt,
          finished_at: row.finishedAt,
        },
        ...{ error: row.error && JSON.parse(row.error), owner, workflow: row.workflow, priority: 0 },
        ...{
          workflow_version: row.workflowVersion,
          labels: row.labels && JSON.parse(row.labels),
          created_at: row.createdAt,
        },
      }))
      await bystander.query(
        "insert into umbra.jobs select * from json_populate_recordset(null::umbra.jobs, $1)",
        [JSON.stringify(part)],
      )
    }
    const { rows: stored } = await bystander.query<{ mark: string; place: string }>(
      "select mark, place from umbra.job_marks",
    )
    const bucket = (mark: number | string, place: number | string) =>
      `${mark} ${Math.floor(Number(place) / WRITERS)}`
    const pairs = storedEntries(rows.map(row => ({ ...row, fingerprint: null })))
    const expected = new Set(
      pairs.flatMap((mark, at) => (at % 2 === 0 ? [bucket(mark, pairs[at + 1]!)] : [])),
    )
    expect(new Set(stored.map(({ mark, place }) => bucket(mark, place)))).toEqual(expected)
    await expectFew(journal as unknown as ListedStore, filters)
  })

  it("S2 are read by indexes alone, though the planner takes every table for empty", async () => {
    const { bystander, open } = await postgresStage()
    await open()
    await bystander.query({ text: sql.session, values: ["0"] })
    const statements: Statement[] = [
      "listJobs",
      "listJobsOfOwner",
      "listedPlaces",
      "listedOwners",
      "purgeMarks",
    ]
    for (const name of statements) {
      const count = Math.max(...[...sql[name].matchAll(/\$(\d+)/g)].map(([, number]) => Number(number)))
      const list = (item: string) => Array.from({ length: count }, () => item).join(",")
      await bystander.query(`prepare ${name} (${list("text")}) as ${sql[name]}`)
      const { rows: lines } = await bystander.query(`explain execute ${name} (${list("null")})`)
      const plan = lines.map(line => line["QUERY PLAN"]).join("\n")
      expect(plan, name).toMatch(/Index (Only )?Scan/)
      expect(plan, name).not.toMatch(/Seq Scan|Bitmap|Materialize|Sort Key: jobs/)
    }
    const { rows: lines } = await bystander.query(
      `explain execute listJobsOfOwner (${Array.from({ length: 20 }, () => "null").join(",")})`,
    )
    const plan = lines.map(line => line["QUERY PLAN"]).join("\n")
    // The ranges are the outer side of a nested loop: jobs come in the order of the ranges, and reading stops at the limit.
    expect(plan).toMatch(
      /Nested Loop[^\n]*\n\s*-> {2}Function Scan on (?:unnest )?r[^\n]*\n\s*-> {2}Limit[^\n]*\n\s*-> {2}Index Scan Backward using jobs_owner/,
    )
  })
})
