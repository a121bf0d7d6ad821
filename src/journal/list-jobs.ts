/**
 * A page of a list of jobs, newest first, in bounded work: at most 20,000 index entries and about 50 ms. The filters that
 * have marks (marks.ts) are sets of buckets; the page walks the buckets that are in all of them, from the newest to the
 * oldest, and reads the jobs of these buckets a few at a time. The store checks each job against the whole filter. A page
 * that reaches its bound ends early, and the next one continues there.
 */
import { type JobStatus, jobHasEnded, jobStatuses } from "../core/states.ts"
import { errorWords, searchedWords } from "./fingerprint.ts"
import {
  BUCKET_MS,
  binaryDigits,
  firstBucketId,
  HIGHEST_ID,
  idAbove,
  idTime,
  LAST_BUCKET,
  LATE_BITS,
  LATE_MS,
  type Mark,
  MIN_DURATION_MARK_MS,
  marks,
  parseBucket,
  WRITERS,
} from "./marks.ts"
import type { JobFilter, JobPage, JobRow, ListBound } from "./port/journal.ts"
import { FAMILY_LENGTH } from "./values.ts"

/** What a store does for a page. */
export interface ListedStore {
  /** The greatest places below `before`, descending: of entries of these marks, and of unfinished jobs of these owners. */
  listedPlaces(query: PlacesQuery): Promise<number[]>
  /** Reads at most `most` jobs of the ranges in their order, each newest first, and returns at most `limit` that match. */
  scanJobs(query: ScanQuery): Promise<ScannedJobs>
  /** At most `limit` owners that have jobs. */
  listedOwners(limit: number): Promise<string[]>
}

export interface PlacesQuery {
  readonly marks: readonly Mark[]
  readonly unfinishedOwners: readonly string[]
  readonly before: number
  readonly limit: number
}

/** Ids from `low` on, and below `high`. */
export interface IdRange {
  readonly low: string
  readonly high: string
}

export interface ScanQuery {
  readonly filter: JobFilter
  readonly ranges: readonly IdRange[]
  readonly most: number
  readonly limit: number
}

export interface ScannedJobs {
  readonly jobs: readonly JobRow[]
  /** The number of jobs that were read, and the last of them. */
  readonly read: number
  readonly last: string | null
}

type Bound = Required<Omit<ListBound, "ids">>

const USUAL_BOUND: Bound = { entries: 20_000, ms: 50 }
/** A page that reads fewer entries never ends early, however slow the machine is. */
const UNTIMED_ENTRIES = 1_000
/** Jobs of the first and of the largest scan. The next is four times as large: a page has few requests to the store. */
const FIRST_SCAN = 512
const LARGEST_SCAN = 8_192
/** Buckets that are found for the first scan, and for the largest. Neighbours are one range. */
const FIRST_BUCKETS = 16
const MOST_BUCKETS = 256
/** Entries of the first and of the largest reading of one set. */
const FIRST_PLACES = 64
const MOST_PLACES = 2_048
/** A list of all owners uses marks up to here. With more owners it reads every job within its bound. */
const MOST_OWNERS = 20
/** A set of more marks is not used: its filter is only checked. */
const MOST_MARKS = 300

const LOWEST_ID = "00000000-0000-0000-0000-000000000000"

export async function listJobs(
  store: ListedStore,
  filter: JobFilter,
  bound: ListBound = {},
): Promise<JobPage> {
  const statuses = visibleStatuses(filter)
  if (filter.limit === 0 || statuses.length === 0) return END
  const { ids, ...limits } = bound
  if (ids !== undefined) return listThese(store, filter, ids)
  const search = new JobSearch(store, filter, { ...USUAL_BOUND, ...limits })
  return search.page(await bucketSets(store, filter, statuses))
}

/** Those of the given jobs that match, in one reading. */
async function listThese(store: ListedStore, filter: JobFilter, ids: readonly string[]): Promise<JobPage> {
  const newestFirst = [...ids].sort().reverse()
  const ranges = newestFirst.map(id => ({ low: id, high: idAbove(id) }))
  const { jobs } = await store.scanJobs({ filter, ranges, most: ids.length, limit: filter.limit })
  const words = searchedWords(filter.errorText ?? "")
  return { ...END, jobs: jobs.filter(job => hasWords(job, words)) }
}

const END: JobPage = { jobs: [], next: null, scannedTo: null, complete: true }

class JobSearch {
  readonly #store: ListedStore
  readonly #filter: JobFilter
  readonly #words: readonly string[]
  readonly #range: IdRange
  readonly #budget: Budget
  readonly #found: JobRow[] = []
  /** Ranges that are to be read, newest first. */
  #ranges: IdRange[] = []
  /** All greater buckets are in `#ranges`, read, or without a match. */
  #bucket: number

  constructor(store: ListedStore, filter: JobFilter, bound: Bound) {
    this.#store = store
    this.#filter = filter
    this.#words = searchedWords(filter.errorText ?? "")
    this.#range = idRange(filter)
    this.#budget = new Budget(bound)
    const { high } = this.#range
    this.#bucket = high === firstBucketId(parseBucket(high)) ? parseBucket(high) - 1 : parseBucket(high)
  }

  async page(sets: readonly BucketSet[]): Promise<JobPage> {
    const { limit } = this.#filter
    for (let round = 0; ; round++) {
      if (this.#ranges.length === 0)
        await this.#collect(sets, Math.min(FIRST_BUCKETS * 4 ** round, MOST_BUCKETS))
      // Without marks most jobs match: the first scan is as large as the page.
      const size = round === 0 && sets.length === 0 ? 0 : Math.min(FIRST_SCAN * 4 ** round, LARGEST_SCAN)
      if (this.#ranges.length > 0) await this.#scan(size)
      if (this.#found.length > limit) return fullPage(this.#found.slice(0, limit))
      if (this.#ranges.length === 0 && this.#bucket < parseBucket(this.#range.low))
        return { ...END, jobs: this.#found }
      if (this.#budget.isSpent) return this.#endEarly()
    }
  }

  /** Finds the next ranges. Always gets further, however small the bound is. */
  async #collect(sets: readonly BucketSet[], most: number): Promise<void> {
    const lowest = parseBucket(this.#range.low)
    const begin = this.#bucket
    const runs: Run[] = []
    let found = 0
    while (found < most && this.#bucket >= lowest && !(this.#bucket < begin && this.#budget.isSpent)) {
      const run = await this.#next(sets)
      if (run === null) continue
      found++
      const before = runs.at(-1)
      if (before?.bottom === run.top + 1) before.bottom = run.bottom
      else runs.push(run)
      this.#bucket = run.bottom - 1
      if (run.bottom < run.top) break
    }
    this.#ranges = runs
      .map(({ top, bottom }) => this.#clipped(top, bottom))
      .filter(({ low, high }) => low < high)
  }

  /** The next run of buckets that is in all sets; null: there is none from here to `#bucket`, which has fallen. */
  async #next(sets: readonly BucketSet[]): Promise<Run | null> {
    const run = { top: this.#bucket, bottom: parseBucket(this.#range.low) }
    for (const set of sets) {
      const found = await set.floor(run.top, this.#budget)
      if (found.top < run.top) {
        this.#bucket = found.top
        return null
      }
      run.bottom = Math.max(run.bottom, found.bottom)
    }
    return run
  }

  #clipped(top: number, bottom: number): IdRange {
    const { low, high } = this.#range
    const [first, behind] = [firstBucketId(bottom), firstBucketId(top + 1)]
    return { low: first > low ? first : low, high: behind < high ? behind : high }
  }

  async #scan(size: number): Promise<void> {
    const limit = this.#filter.limit + 1 - this.#found.length
    const most = Math.max(1, Math.min(Math.max(size, limit), this.#budget.entries))
    const ranges = this.#ranges
    const { jobs, read, last } = await this.#store.scanJobs({ filter: this.#filter, ranges, most, limit })
    this.#budget.spend(read)
    this.#found.push(...jobs.filter(job => hasWords(job, this.#words)))
    if (jobs.length === limit) this.#ranges = below(ranges, jobs.at(-1)!.id)
    else this.#ranges = read < most ? [] : below(ranges, last!)
  }

  #endEarly(): JobPage {
    const next = this.#ranges[0]?.high ?? firstBucketId(Math.min(this.#bucket, LAST_BUCKET - 1) + 1)
    return {
      jobs: this.#found,
      next,
      scannedTo: idTime(next),
      complete: this.#found.length === this.#filter.limit,
    }
  }
}

function fullPage(jobs: readonly JobRow[]): JobPage {
  const next = jobs.at(-1)!.id
  return { jobs, next, scannedTo: idTime(next), complete: true }
}

/** What is left of the ranges below an id. */
function below(ranges: readonly IdRange[], id: string): IdRange[] {
  return ranges.filter(({ low }) => low < id).map(({ low, high }) => ({ low, high: high < id ? high : id }))
}

function hasWords({ error }: JobRow, words: readonly string[]): boolean {
  if (words.length === 0) return true
  const found = errorWords((JSON.parse(error!) as { readonly message: string }).message)
  return words.every(word => found.has(word))
}

function idRange({ after = HIGHEST_ID, parentId }: JobFilter): IdRange {
  if (typeof parentId !== "string") return { low: LOWEST_ID, high: after }
  // The ids of a job and its children have a common prefix.
  const family = parentId.slice(0, FAMILY_LENGTH)
  const behind = `${family}-ffff-ffffffffffff`
  return { low: `${family}-0000-000000000000`, high: behind < after ? behind : after }
}

class Budget {
  entries: number
  readonly #all: number
  readonly #until: number

  constructor({ entries, ms }: Bound) {
    this.entries = entries
    this.#all = entries
    this.#until = performance.now() + ms
  }

  spend(entries: number): void {
    this.entries -= entries
  }

  get isSpent(): boolean {
    if (this.entries <= 0) return true
    return this.#all - this.entries >= UNTIMED_ENTRIES && performance.now() >= this.#until
  }
}

/** Buckets from `top` down to `bottom`. */
interface Run {
  readonly top: number
  bottom: number
}

const NOWHERE: Run = { top: -1, bottom: -1 }

/** The buckets that can have jobs with one value of a filter. */
class BucketSet {
  readonly #store: ListedStore
  readonly #of: Omit<PlacesQuery, "before" | "limit">
  /** Also these: the time of a job is in its id, except for jobs that have marks of their time. */
  readonly #interval: Run | null
  /** Buckets that were read, descending: all of the set from the first to the last of them. */
  #read: number[] = []
  #at = 0
  #hasMore = true
  #size = FIRST_PLACES

  constructor(store: ListedStore, of: Omit<PlacesQuery, "before" | "limit">, interval: Run | null = null) {
    this.#store = store
    this.#of = of
    this.#interval = interval
  }

  /** The greatest run of the set that begins at `bucket` or below. Called with ever smaller buckets. */
  async floor(bucket: number, budget: Budget): Promise<Run> {
    const { top, bottom } = this.#interval ?? NOWHERE
    if (bucket <= top && bucket >= bottom) return { top: bucket, bottom }
    const marked = await this.#floorOfMarks(bucket, budget)
    return bucket > top && top > marked ? { top, bottom } : { top: marked, bottom: marked }
  }

  async #floorOfMarks(bucket: number, budget: Budget): Promise<number> {
    for (;;) {
      while (this.#at < this.#read.length && this.#read[this.#at]! > bucket) this.#at++
      if (this.#at < this.#read.length) return this.#read[this.#at]!
      if (!this.#hasMore) return -1
      await this.#readOn(bucket, budget)
    }
  }

  async #readOn(bucket: number, budget: Budget): Promise<void> {
    const lists = this.#of.marks.length + this.#of.unfinishedOwners.length
    const limit = Math.max(4, Math.floor(this.#size / Math.max(1, lists)))
    this.#size = Math.min(this.#size * 4, MOST_PLACES)
    const places = await this.#store.listedPlaces({ ...this.#of, before: (bucket + 1) * WRITERS, limit })
    budget.spend(places.length + lists)
    this.#hasMore = places.length === limit
    this.#read = [...new Set(places.map(place => Math.floor(place / WRITERS)))]
    this.#at = 0
  }
}

/** Empty: nothing that is asked for has marks. */
async function bucketSets(
  store: ListedStore,
  filter: JobFilter,
  statuses: readonly JobStatus[],
): Promise<BucketSet[]> {
  // The children of one parent are in one bucket.
  if (typeof filter.parentId === "string") return []
  const owners = filter.owner === undefined ? await store.listedOwners(MOST_OWNERS + 1) : [filter.owner]
  if (owners.length > MOST_OWNERS) return []
  const set = (ownerMarks: (owner: string) => readonly Mark[], unfinishedOwners: readonly string[] = []) => ({
    marks: owners.flatMap(ownerMarks),
    unfinishedOwners,
  })
  const ended = statuses.filter(jobHasEnded)
  const isUnfinished = ended.length < statuses.length
  const isSome = statuses.length < jobStatuses.length - (filter.deleted ? 0 : 1)
  /** Marks of a value, or of the value with each status if only ended jobs are asked for. */
  const withStatus = (mark: (status?: JobStatus) => Mark) =>
    isSome && !isUnfinished ? ended.map(mark) : [mark()]
  const { workflow, version, labels = {}, errorCode, fingerprint, errorText = "", minDurationMs = 0 } = filter
  const { forkedFrom } = filter
  const ofWorkflow = (owner: string) => (status?: JobStatus) =>
    version === undefined
      ? marks.workflow(owner, workflow!, status)
      : marks.version(owner, workflow!, version, status)
  const ofValue = <Value>(value: Value | undefined, mark: (owner: string, value: Value) => Mark) =>
    value === undefined ? [] : [set(owner => [mark(owner, value)])]
  const found = [
    ...(isSome
      ? [
          set(
            owner => ended.map(workflow === undefined ? one => marks.status(owner, one) : ofWorkflow(owner)),
            isUnfinished ? owners : [],
          ),
        ]
      : []),
    ...(workflow !== undefined && (isUnfinished || !isSome) ? [set(owner => [ofWorkflow(owner)()])] : []),
    ...Object.entries(labels).map(([name, value]) =>
      set(owner => [
        ...withStatus(status => marks.label(owner, name, value, status)),
        marks.manyLabels(owner),
      ]),
    ),
    ...ofValue(errorCode, marks.errorCode),
    ...ofValue(fingerprint, marks.fingerprint),
    ...ofValue(forkedFrom, marks.forkedFrom),
    ...searchedWords(errorText).map(word => set(owner => [marks.word(owner, word)])),
    ...(minDurationMs < MIN_DURATION_MARK_MS
      ? []
      : [set(owner => durationBits(minDurationMs).map(bits => marks.duration(owner, bits)))]),
  ]
  const sets = found.filter(of => of.marks.length + of.unfinishedOwners.length <= MOST_MARKS)
  return [...timeSet(store, filter, owners), ...sets.map(of => new BucketSet(store, of))]
}

function visibleStatuses({ statuses, deleted }: JobFilter): readonly JobStatus[] {
  const asked = statuses === undefined ? jobStatuses : jobStatuses.filter(status => statuses.includes(status))
  return deleted ? asked : asked.filter(status => status !== "DELETED")
}

/** Durations up to 2^45 ms. */
function durationBits(least: number): number[] {
  const first = binaryDigits(Math.floor(least))
  return Array.from({ length: Math.max(0, 46 - first) }, (_, i) => first + i)
}

/** Jobs that were created within these times: by their ids, and by marks if the time in the id differs. */
function timeSet(store: ListedStore, filter: JobFilter, owners: readonly string[]): BucketSet[] {
  const { createdFrom, createdBefore } = filter
  if (createdFrom === undefined && createdBefore === undefined) return []
  const from = Math.max(0, createdFrom ?? 0)
  const before = createdBefore ?? from + FAR_MS
  if (before <= from) return [new BucketSet(store, NO_LISTS)]
  const bits = LATE_BITS.find(each => (before - from) / 2 ** each <= 64) ?? LATE_BITS.at(-1)!
  const first = Math.floor(from / 2 ** bits)
  const count = Math.floor((before - 1) / 2 ** bits) - first + 1
  if (count * owners.length > MOST_MARKS) return []
  const late = Array.from({ length: count }, (_, i) => (first + i) * 2 ** bits)
  const found = owners.flatMap(owner => late.map(at => marks.late(owner, bits, at)))
  return [new BucketSet(store, { marks: found, unfinishedOwners: [] }, interval(filter))]
}

/** 34 years: a later time of a job that has marks of its time is not expected. */
const FAR_MS = 2 ** 40
const NO_LISTS = { marks: [], unfinishedOwners: [] }

function interval({ createdFrom = 0, createdBefore }: JobFilter): Run {
  const bucket = (time: number) => Math.min(Math.max(0, Math.floor(time / BUCKET_MS)), LAST_BUCKET)
  const top = createdBefore === undefined ? LAST_BUCKET : bucket(createdBefore + LATE_MS)
  return { top, bottom: bucket(createdFrom - LATE_MS) }
}
