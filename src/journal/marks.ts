/**
 * Marks: what lists are filtered by, without an index entry per job. An entry (mark, place) says that a job whose id is in
 * this bucket (16 ms of job ids) may have this value, for example the workflow `shop` or the status FAILED. A page walks the
 * entries of its filters from the newest bucket to the oldest, reads the jobs of these buckets, and checks each job.
 *
 * 1. Every stored job has an entry for each value of its row. An append writes the entries and the rows in one commit, so
 *    this holds after a crash too.
 * 2. Entries may be too many: a status has changed since, a hash collides, a job was removed. A page only gets slower.
 * 3. The low byte of a place is the first partition of the append. Appends in flight have no partition in common, so two
 *    of them never write the same entry and never wait for each other.
 * 4. An entry that this process has written recently is not written again: at 13,000 jobs/s two hundred jobs share one.
 *
 * docs/decisions/0046-lists-by-marks.md; `umbra.job_marks_of` in migration 11 is the same in SQL.
 */
import { createHash } from "node:crypto"
import { type JobStatus, jobHasEnded } from "../core/states.ts"
import { errorWords } from "./fingerprint.ts"
import type { Batch, JobChange, MarkEntry, NewJob } from "./port/journal.ts"

export type Mark = number

/** Entries to write, as [mark, place, mark, place, …]. */
export interface MarkEntries {
  readonly pairs: readonly number[]
  /** Call once they are durable. */
  written(): void
}

/** The first 11 digits of an id. */
const BUCKET_DIGITS = 11
export const BUCKET_MS = 16
export const LAST_BUCKET = 16 ** BUCKET_DIGITS - 1
export const HIGHEST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff"
export const WRITERS = 256

/** The time in a job's id and `created_at` differ by more than this: the job is found through marks of its time. */
export const LATE_MS = 250
/** Such a job has marks of 65 s, 70 min, 3 days and 198 days. */
export const LATE_BITS: readonly number[] = [16, 22, 28, 34]
/** Shorter jobs have no mark of their duration. */
export const MIN_DURATION_MARK_MS = 1024
/** The marks of jobs with more labels say only that they have many. */
const MAX_LABELS = 32

export const marks = {
  status: (owner: string, status: JobStatus) => mark(owner, "status", status),
  /** With a status: of jobs that have ended with it. */
  workflow: (owner: string, workflow: string, status?: JobStatus) =>
    mark(owner, "workflow", workflow, status),
  version: (owner: string, workflow: string, version: number, status?: JobStatus) =>
    mark(owner, "version", workflow, version, status),
  label: (owner: string, name: string, value: string, status?: JobStatus) =>
    mark(owner, "label", name, value, status),
  forkedFrom: (owner: string, jobId: string) => mark(owner, "fork", jobId),
  manyLabels: (owner: string) => mark(owner, "labels"),
  errorCode: (owner: string, code: string) => mark(owner, "code", code),
  fingerprint: (owner: string, fingerprint: string) => mark(owner, "fingerprint", fingerprint),
  word: (owner: string, word: string) => mark(owner, "word", word),
  /** `bits`: the number of binary digits of the duration in ms. */
  duration: (owner: string, bits: number) => mark(owner, "duration", bits),
  late: (owner: string, bits: number, createdAt: number) =>
    mark(owner, "late", bits, Math.floor(createdAt / 2 ** bits)),
}

const MAX_HASHED = 10_000
const hashed = new Map<string, Mark>()

/** 52 bits of a hash. A collision makes a page slower, never wrong. */
function mark(...parts: readonly (string | number | undefined)[]): Mark {
  const text = parts.filter(part => part !== undefined).join("\u001f")
  const known = hashed.get(text)
  if (known !== undefined) return known
  if (hashed.size >= MAX_HASHED) hashed.clear()
  const made = Number.parseInt(createHash("sha256").update(text).digest("hex").slice(0, 13), 16)
  hashed.set(text, made)
  return made
}

export function binaryDigits(value: number): number {
  return value.toString(2).length
}

export function parseBucket(jobId: string): number {
  return Number.parseInt(jobId.slice(0, 8) + jobId.slice(9, BUCKET_DIGITS + 1), 16)
}

/** The time in the id, read digit by digit: no text is made. */
export function idTime(jobId: string): number {
  return hexNumber(jobId, 0, 8) * 0x1_0000 + hexNumber(jobId, 9, 13)
}

function hexNumber(text: string, from: number, to: number): number {
  let value = 0
  for (let i = from; i < to; i++) {
    const code = text.charCodeAt(i)
    const digit = code <= NINE ? code - ZERO : (code | LOWER_CASE) - LOWER_A + 10
    value = value * 16 + digit
  }
  return value
}

const [ZERO, NINE, LOWER_A, LOWER_CASE] = [0x30, 0x39, 0x61, 0x20]

/** The lowest job id of this bucket; behind the last bucket: an id above all others. */
export function firstBucketId(bucket: number): string {
  if (bucket > LAST_BUCKET) return HIGHEST_ID
  const digits = bucket.toString(16).padStart(BUCKET_DIGITS, "0")
  return `${digits.slice(0, 8)}-${digits.slice(8)}0-7000-8000-000000000000`
}

/** The lowest id above this one. */
export function idAbove(id: string): string {
  const next = (BigInt(`0x${id.replaceAll("-", "")}`) + 1n).toString(16).padStart(32, "0")
  return next.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5")
}

export function firstPlaceAt(time: number): number {
  return Math.max(0, Math.floor(time / BUCKET_MS)) * WRITERS
}

/**
 * The answer of `purgeMarks`. `last`: the last entry that was read. The entries of a mark are in the order of their ids: if
 * the last one is too new, so are those that follow it.
 */
export function purgedMarks(
  last: (MarkEntry & { readonly removed: number; readonly read: number }) | undefined,
  { before, limit }: { readonly before: number; readonly limit: number },
): { readonly removed: number; readonly next: MarkEntry | null } {
  if (last === undefined) return { removed: 0, next: null }
  const { mark, place, removed, read } = last
  if (read < limit) return { removed, next: null }
  return { removed, next: { mark, place: place < firstPlaceAt(before) ? place : LAST_PLACE } }
}

/** Greater than every place. */
const LAST_PLACE = 2 ** 52

type MarkedJob = Omit<JobChange, "output" | "wakeAt" | "seq"> & Partial<Pick<NewJob, "forkedFrom">>

/** The entries of rows that were stored without any. */
export function storedEntries(jobs: readonly MarkedJob[]): readonly number[] {
  const lists = new MarkLists()
  return jobs.flatMap(job => {
    const place = parseBucket(job.id) * WRITERS + job.partition
    const found = [...lists.birth(job), ...(lists.end(job) ?? []), ...rareMarks(job, idTime(job.id), true)]
    return found.flatMap(one => [one, place])
  })
}

const NO_MARKS: readonly Mark[] = []

/** Labels, errors, durations, unusual times, forks: most jobs have none of them. `at`: the time in the id; `isNew`: marks of a new job too. */
function rareMarks(job: MarkedJob, at: number, isNew: boolean): readonly Mark[] {
  const { owner, status, createdAt } = job
  const hasEnded = jobHasEnded(status)
  const isLate = isNew && Math.abs(createdAt - at) > LATE_MS
  // Of a delayed job longer than it took: a mark may find too much, never too little.
  const took = hasEnded && job.finishedAt !== null ? job.finishedAt - createdAt : 0
  const hasError = job.error !== null && status !== "COMPLETED"
  const forkedFrom = isNew ? (job.forkedFrom ?? null) : null
  if (job.labels === null && !isLate && took < MIN_DURATION_MARK_MS && !hasError && forkedFrom === null)
    return NO_MARKS
  return [
    ...(job.labels === null ? [] : labelMarks(job, isNew || job.isRelabelled === true, hasEnded)),
    ...(isLate ? LATE_BITS.map(bits => marks.late(owner, bits, createdAt)) : []),
    ...(took < MIN_DURATION_MARK_MS ? [] : [marks.duration(owner, binaryDigits(took))]),
    ...(hasError ? errorMarks(job) : []),
    ...(forkedFrom === null ? [] : [marks.forkedFrom(owner, forkedFrom)]),
  ]
}

function labelMarks({ owner, labels, status }: MarkedJob, isNew: boolean, hasEnded: boolean): Mark[] {
  const entries = Object.entries(JSON.parse(labels!) as Readonly<Record<string, string>>)
  if (entries.length > MAX_LABELS) return [marks.manyLabels(owner)]
  return entries.flatMap(([name, value]) => [
    ...(isNew ? [marks.label(owner, name, value)] : []),
    ...(hasEnded ? [marks.label(owner, name, value, status)] : []),
  ])
}

function errorMarks({ owner, error, fingerprint }: MarkedJob): Mark[] {
  const { code, message } = JSON.parse(error!) as { readonly code?: unknown; readonly message?: unknown }
  const found = typeof code === "string" ? [marks.errorCode(owner, code)] : []
  if (fingerprint === null || typeof message !== "string") return found
  const words = [...errorWords(message)].map(word => marks.word(owner, word))
  return [...found, marks.fingerprint(owner, fingerprint), ...words]
}

/** The marks that every job has. A list is hashed once, and the same object afterwards. */
class MarkLists {
  static readonly #MOST = 10_000
  readonly #lists = new Map<string, readonly Mark[]>()
  /** The next job is often of the same workflow: then no key is made. */
  #lastBirth: LastList | null = null
  #lastEnd: LastList | null = null

  birth(job: MarkedJob): readonly Mark[] {
    const last = this.#lastBirth
    if (last !== null && isLike(last.job, job)) return last.list
    const { owner, workflow, workflowVersion } = job
    const list = this.#list(`${workflowVersion}\u001f${owner}\u001f${workflow}`, () => [
      marks.workflow(owner, workflow),
      marks.version(owner, workflow, workflowVersion),
    ])
    this.#lastBirth = { job: { owner, workflow, workflowVersion }, status: null, list }
    return list
  }

  /** null: the job has not ended. */
  end(job: MarkedJob): readonly Mark[] | null {
    const { owner, workflow, workflowVersion, status } = job
    if (!jobHasEnded(status)) return null
    const last = this.#lastEnd
    if (last !== null && last.status === status && isLike(last.job, job)) return last.list
    const list = this.#list(`${status}\u001f${workflowVersion}\u001f${owner}\u001f${workflow}`, () => [
      marks.status(owner, status),
      marks.workflow(owner, workflow, status),
      marks.version(owner, workflow, workflowVersion, status),
    ])
    this.#lastEnd = { job: { owner, workflow, workflowVersion }, status, list }
    return list
  }

  #list(key: string, create: () => readonly Mark[]): readonly Mark[] {
    let list = this.#lists.get(key)
    if (list === undefined) {
      if (this.#lists.size >= MarkLists.#MOST) this.#lists.clear()
      list = create()
      this.#lists.set(key, list)
    }
    return list
  }
}

type MarkedWorkflow = Pick<MarkedJob, "owner" | "workflow" | "workflowVersion">

interface LastList {
  readonly job: MarkedWorkflow
  readonly status: JobStatus | null
  readonly list: readonly Mark[]
}

function isLike(a: MarkedWorkflow, b: MarkedWorkflow): boolean {
  return a.workflowVersion === b.workflowVersion && a.workflow === b.workflow && a.owner === b.owner
}

/** What was written for a bucket: lists of `MarkLists`, and single marks. */
type Written = Set<readonly Mark[] | Mark>

/** Buckets and marks that are remembered. */
const MAX_BUCKETS = 4_096
const MAX_REMEMBERED = 200_000
/**
 * Entries of older buckets are written again: retention may have removed them. It removes only entries that are at least
 * twice as old (engine/recovery/retention.ts).
 */
export const REMEMBERED_MS = 5 * 60_000

/** Finds the entries that an append has to write. One per opened store. */
export class MarkWriter {
  readonly #lists = new MarkLists()
  readonly #written = new Map<string, Written>()
  #remembered = 0

  entries({ fences, newJobs, changedJobs }: Batch): MarkEntries {
    const found = new Map<string, Written>()
    for (const job of newJobs) this.#addJob(found, job, true)
    for (const job of changedJobs) this.#addJob(found, job, false)
    if (found.size === 0) return NO_ENTRIES
    return { pairs: sortedPairs(found, fences[0]?.partition ?? 0), written: () => this.#remember(found) }
  }

  #addJob(found: Map<string, Written>, job: MarkedJob, isNew: boolean): void {
    const at = idTime(job.id)
    const prefix = job.id.slice(0, BUCKET_DIGITS + 1)
    const known = job.updatedAt - at <= REMEMBERED_MS ? this.#written.get(prefix) : undefined
    if (isNew) {
      const birth = this.#lists.birth(job)
      if (!known?.has(birth)) addTo(found, prefix, birth)
    }
    const end = this.#lists.end(job)
    if (end !== null && !known?.has(end)) addTo(found, prefix, end)
    for (const rare of rareMarks(job, at, isNew)) if (!known?.has(rare)) addTo(found, prefix, rare)
  }

  #remember(found: ReadonlyMap<string, Written>): void {
    for (const [prefix, added] of found) {
      const known = this.#written.get(prefix)
      if (known === undefined) this.#written.set(prefix, added)
      else for (const each of added) known.add(each)
      this.#remembered += added.size
    }
    if (this.#remembered > MAX_REMEMBERED) {
      this.#written.clear()
      this.#remembered = 0
    }
    // The first is the oldest.
    for (const prefix of this.#written.keys()) {
      if (this.#written.size <= MAX_BUCKETS) break
      this.#remembered -= this.#written.get(prefix)!.size
      this.#written.delete(prefix)
    }
  }
}

function addTo(found: Map<string, Written>, prefix: string, added: readonly Mark[] | Mark): void {
  const bucket = found.get(prefix)
  if (bucket === undefined) found.set(prefix, new Set([added]))
  else bucket.add(added)
}

const NO_ENTRIES: MarkEntries = { pairs: [], written: () => {} }

/** In the order of the table. */
function sortedPairs(found: ReadonlyMap<string, Written>, writer: number): number[] {
  const entries: (readonly [mark: Mark, place: number])[] = []
  for (const [prefix, added] of found) {
    const place = Number.parseInt(prefix.replace("-", ""), 16) * WRITERS + writer
    for (const each of added)
      for (const one of typeof each === "number" ? [each] : each) entries.push([one, place])
  }
  return entries.sort((a, b) => a[0] - b[0] || a[1] - b[1]).flat()
}
