/** Bulk operations as callers see them: start, count, show, list and abort them, and list what they refused. */
import { localOwner } from "../../core/facts.ts"
import type { Json } from "../../core/json.ts"
import type { JobStatus } from "../../core/states.ts"
import { bulkPlan, bulkWorkflow, isBulkOperation } from "../../definition/built-in.ts"
import { isoTime } from "../../engine/clock.ts"
import type { LiveJob } from "../../engine/owner/live-job.ts"
import type { JobCommand } from "../../engine/remote/commands.ts"
import { idAbove } from "../../journal/marks.ts"
import type { JobFilter, JobPage, JobRow, Journal } from "../../journal/port/journal.ts"
import type { BackfillCount, StoredBackfill } from "../schedules/backfill.ts"
import type { Admit, Submissions, SubmitOptions } from "../submit.ts"
import type { BulkForkPreview, BulkForks } from "./forks.ts"
import {
  abortSignal,
  asJson,
  type BulkCounts,
  type BulkFork,
  type BulkRefusal,
  type BulkRequest,
  type BulkVerb,
  checkRate,
  checkRequest,
  noSuchOperation,
  readCounts,
  readFilter,
  type ShownFilter,
  type StoredOperation,
  shownFilter,
} from "./operation.ts"
import { lastProgress, refusalPage } from "./records.ts"

/** The answer of a dry run: the targets that an operation would have now. */
export interface BulkCount {
  readonly verb: BulkVerb
  readonly filter: ShownFilter
  readonly count: number
  /** false: there are at least `count`; the search is bounded. */
  readonly complete: boolean
  readonly by_status: { readonly [status in JobStatus]?: number }
  /** For `fork`: what forks of the newest targets would need. */
  readonly fork?: BulkForkPreview
}

/** An operation in a list. */
export interface BulkSummary {
  readonly bulk_id: string
  readonly owner: string
  /** `backfill`: started by `POST /schedules/{name}/backfill`. */
  readonly verb: BulkVerb | "backfill"
  /** Of the operation's job. */
  readonly status: JobStatus
  readonly created_at: string
  readonly finished_at: string | null
}

export interface BulkView extends BulkSummary, BulkCounts {
  readonly filter: ShownFilter
  readonly reason: string | null
  readonly rate: number
  /** For `fork`: how each target is forked, with the version that the name of a workflow meant at the start. */
  readonly fork?: BulkFork
  /** For `backfill`: its ticks. Then `filter` is empty. */
  readonly backfill?: Omit<BackfillCount, "count">
  /** The targets that were counted at its start; `complete: false`: there were more. */
  readonly matched: { readonly count: number; readonly complete: boolean }
  /** It will be cancelled when its commands in flight have ended. */
  readonly aborting: boolean
}

export interface BulkPage {
  readonly operations: readonly BulkSummary[]
  readonly next: string | null
}

export interface BulkRefusals {
  readonly refused: readonly BulkRefusal[]
  /** `after` of the next page; null: nothing more has been refused so far. */
  readonly next: string | null
}

export interface BulkOptions extends Pick<SubmitOptions, "owner" | "idempotencyKey" | "submittedBy"> {
  /** For `fork` and backfills: the limit of unfinished jobs of `submittedBy`, which counts the new jobs. */
  readonly maxUnfinished?: number | undefined
}

/** Targets that a count reads at most, and pages: a page of rare jobs ends early. */
const MOST_COUNTED = 10_000
const MOST_PAGES = 40
const PAGE = 1000
/** Targets of a dry run that are folded to preview their forks. */
const MOST_PREVIEWED = 10

export interface BulkQueriesParts {
  readonly journal: Journal
  /** Rows with the status that people see (`JobLists`). */
  readonly list: (filter: JobFilter) => Promise<JobPage>
  readonly live: (jobId: string) => LiveJob | undefined
}

/** Queries that need the store alone. */
export class BulkQueries {
  readonly #parts: BulkQueriesParts

  constructor(parts: BulkQueriesParts) {
    this.#parts = parts
  }

  /** Counts the targets that the operation would have now, in bounded work. */
  async count(request: BulkRequest, { owner = localOwner }: BulkOptions = {}): Promise<BulkCount> {
    const { first: _, ...counted } = await this.matches(request, owner)
    return counted
  }

  /** `first`: the newest targets. */
  protected async matches(
    request: BulkRequest,
    owner: string,
  ): Promise<BulkCount & { readonly first: readonly string[] }> {
    const { verb, filter } = checkRequest(request)
    return { verb, filter: shownFilter(filter), ...(await this.#count(shownFilter(filter), owner)) }
  }

  async #count(
    filter: ShownFilter,
    owner: string,
  ): Promise<Pick<BulkCount, "count" | "complete" | "by_status"> & { readonly first: readonly string[] }> {
    const first: string[] = []
    const by_status: { [status in JobStatus]?: number } = {}
    let count = 0
    let after: string | undefined
    for (let pages = 0; pages < MOST_PAGES && count < MOST_COUNTED; pages++) {
      const query = { ...readFilter(filter), owner, after, limit: PAGE }
      const { jobs, next } = await this.#parts.list(query)
      for (const job of jobs) {
        if (isBulkOperation(job)) continue
        if (first.length < MOST_PREVIEWED) first.push(job.id)
        count++
        by_status[job.status] = (by_status[job.status] ?? 0) + 1
      }
      if (next === null) return { count, complete: true, by_status, first }
      after = next
    }
    return { count, complete: false, by_status, first }
  }

  /** T0: everything that decides which jobs are targets is read now, and stored with the operation. */
  protected async prepare(request: BulkRequest, owner: string): Promise<StoredOperation> {
    const { verb, filter, reason, rate } = checkRequest(request)
    const shown = shownFilter(filter)
    const { journal } = this.#parts
    const { seqs } = await journal.feed.position()
    // Read after the seqs: a job that is stored in between is below, and its seq excludes it.
    const newest = (await journal.listJobs({ owner, limit: 1, deleted: true })).jobs[0]?.id
    const { count, complete } = await this.#count(shown, owner)
    const below = newest === undefined ? null : idAbove(newest)
    return {
      ...{ verb, filter: shown, reason: reason ?? null, rate, below, seqs },
      matched: { count, complete },
    }
  }

  async get(id: string): Promise<BulkView> {
    const row = await this.row(id)
    const { verb, filter, reason, rate, matched, fork, backfill } = await this.#stored(id)
    const { progress, isAborting } = await this.#progress(row)
    return {
      ...summary(row),
      ...{ verb, filter, reason, rate, matched },
      ...(fork === undefined ? {} : { fork }),
      ...(backfill === undefined ? {} : { backfill: shownBackfill(backfill) }),
      ...(progress === null ? { processed: 0, done: 0, refused: 0 } : readCounts(progress)),
      aborting: row.finishedAt === null && isAborting,
    }
  }

  async row(id: string): Promise<JobRow> {
    const row = await this.#parts.journal.readJob(id)
    if (row === null || !isBulkOperation(row)) throw noSuchOperation(id)
    return row
  }

  async #stored(jobId: string): Promise<StoredOperation> {
    const query = { jobId, after: -1, limit: 1, inlineBytes: INPUT_BYTES }
    const [first] = await this.#parts.journal.readFactPage(query)
    return (JSON.parse(first!.data!) as { readonly input: StoredOperation }).input
  }

  async #progress(row: JobRow): Promise<{ progress: Json | null; isAborting: boolean }> {
    if (row.status === "COMPLETED" && row.output !== null)
      return { progress: JSON.parse(row.output) as Json, isAborting: false }
    const job = this.#parts.live(row.id)
    if (job !== undefined && !job.evicted && job.pendingBatches === 0 && !job.state.signals.has(abortSignal))
      return { progress: job.state.previews.get(0) ?? null, isAborting: false }
    const { progress, aborts, earlierAborts } = await lastProgress(this.#parts.journal, row.id)
    return { progress: progress && asJson(progress), isAborting: aborts > earlierAborts }
  }

  /** Newest first; of all owners unless one is given. */
  async list({
    owner,
    after,
    limit = 50,
  }: {
    readonly owner?: string | undefined
    readonly after?: string | undefined
    readonly limit?: number | undefined
  } = {}): Promise<BulkPage> {
    const { name: workflow, version } = bulkWorkflow
    const of = owner === undefined ? {} : { owner }
    const { jobs, next } = await this.#parts.journal.listJobs({ ...of, workflow, version, after, limit })
    return { operations: jobs.map(summary), next }
  }

  /** What the operation has refused so far, in the order in which it got there. */
  async refusals(
    id: string,
    { after, limit = 100 }: { readonly after?: string | undefined; readonly limit?: number | undefined } = {},
  ): Promise<BulkRefusals> {
    await this.row(id)
    return refusalPage(this.#parts.journal, id, { after, limit })
  }
}

function shownBackfill(backfill: StoredBackfill): Omit<BackfillCount, "count"> {
  const { schedule_id: _, document: __, ...shown } = backfill
  return shown
}

/** A filter has texts of users: as long as a request may be. */
const INPUT_BYTES = 64 * 1024 * 1024

function summary(row: JobRow): BulkSummary {
  const labels = row.labels === null ? {} : (JSON.parse(row.labels) as { readonly [name: string]: string })
  return {
    bulk_id: row.id,
    owner: row.owner,
    verb: labels[VERB_LABEL] as BulkSummary["verb"],
    status: row.status === "PREVIEW" ? "PROCESSING" : row.status,
    created_at: isoTime(row.createdAt),
    finished_at: row.finishedAt === null ? null : isoTime(row.finishedAt),
  }
}

/** The row of a job has its labels, but not its input. */
const VERB_LABEL = "umbra.verb"

export interface BulkParts extends BulkQueriesParts {
  readonly forks: BulkForks
  readonly submissions: Submissions
  readonly command: (jobId: string, command: JobCommand) => Promise<void>
}

export class BulkOperations extends BulkQueries {
  readonly #parts: BulkParts
  readonly forks: BulkForks

  constructor(parts: BulkParts) {
    super(parts)
    this.#parts = parts
    this.forks = parts.forks
  }

  /** For `fork` also what forks of the newest targets would need, as far as this process knows their handlers. */
  override async count(request: BulkRequest, options: BulkOptions = {}): Promise<BulkCount> {
    const { owner = localOwner } = options
    const { first, ...counted } = await this.matches(request, owner)
    if (request.verb !== "fork") return counted
    const fork = await this.forks.prepare(request.fork ?? {}, owner)
    return { ...counted, fork: await this.forks.preview(first, fork, owner) }
  }

  /** Resolves when the operation is durable. With the same key the same request gives the same operation. */
  async start(
    request: BulkRequest,
    options: BulkOptions = {},
    admit?: Admit,
  ): Promise<BulkView & { readonly is_new: boolean }> {
    const { owner = localOwner } = options
    const operation = { ...(await this.prepare(request, owner)), ...(await this.#fork(request, options)) }
    const { verb, filter, reason, rate } = operation
    // A name is compared as it is given: an alias may have moved between two sends of one request.
    const fork = typeof request.fork?.workflow === "string" ? request.fork : operation.fork
    const given = fork === undefined ? {} : { fork }
    const content = { verb, filter: { ...filter }, reason, rate, ...given } as Json
    return this.#store(operation, content, options, admit)
  }

  /** `count`: the number of its ticks. */
  async startBackfill(
    { count, ...backfill }: StoredBackfill & { readonly count: number },
    given: Pick<BulkRequest, "rate">,
    options: BulkOptions = {},
    admit?: Admit,
  ): Promise<BulkView & { readonly is_new: boolean }> {
    const rate = checkRate(given.rate)
    const operation: StoredOperation = {
      ...{ verb: "backfill", filter: {}, reason: null, rate, backfill, below: null, seqs: [] },
      ...limitFields(options),
      matched: { count, complete: true },
    }
    const { schedule, from, to } = backfill
    // The schedule may have changed between two sends of one request.
    return this.#store(operation, { verb: "backfill", schedule, from, to, rate }, options, admit)
  }

  async #store(
    operation: StoredOperation,
    given: Json,
    { owner = localOwner, idempotencyKey, submittedBy }: BulkOptions,
    admit: Admit | undefined,
  ): Promise<BulkView & { readonly is_new: boolean }> {
    const { name, version } = bulkWorkflow
    const { verb } = operation
    const { jobId, isNew } = await this.#parts.submissions.submitBuiltIn(
      { owner, name, version, plan: bulkPlan },
      { input: asJson(operation), content: [name, given] },
      { owner, idempotencyKey, submittedBy, ttlSeconds: null, labels: { [VERB_LABEL]: verb } },
      admit,
    )
    return { ...(await this.get(jobId)), is_new: isNew }
  }

  async #fork(
    { verb, fork = {} }: BulkRequest,
    options: BulkOptions,
  ): Promise<Pick<StoredOperation, "fork" | "submitted_by" | "max_unfinished">> {
    if (verb !== "fork") return {}
    const { owner = localOwner } = options
    return { fork: await this.forks.prepare(fork, owner), ...limitFields(options) }
  }

  /** Its commands in flight end; then it is CANCELLED. */
  async abort(id: string): Promise<BulkView> {
    await this.row(id)
    await this.#parts.command(id, { type: "signal", name: abortSignal, data: null })
    return this.get(id)
  }
}

function limitFields({
  submittedBy,
  maxUnfinished,
}: BulkOptions): Pick<StoredOperation, "submitted_by" | "max_unfinished"> {
  return {
    submitted_by: submittedBy,
    max_unfinished: maxUnfinished,
  }
}
