/**
 * Queries about any execution, for any process that can read the store. What the process that runs the
 * execution knows of messages in flight is added if that process answers.
 */

import type { Json } from "../core/json.ts"
import { valueIn } from "../core/maps.ts"
import { type DeadLettersView, routeViews } from "../core/pipeline/view.ts"
import type { PipelinePlan } from "../definition/pipeline/plan.ts"
import { isoTime } from "../engine/clock.ts"
import { type JobSnapshot, rowSnapshot } from "../engine/owner/snapshot.ts"
import type { Plans } from "../engine/plans.ts"
import type { LiveMessages, MessagesQuery } from "../engine/remote/live-messages.ts"
import { UmbraError } from "../errors.ts"
import { noSuchJob } from "../jobs/arguments.ts"
import type { Queries } from "../jobs/queries.ts"
import { mustBeJobId } from "../jobs/reader.ts"
import type { JobRow } from "../journal/port/journal.ts"
import type { DeadLetterRow, ListedExecution, MessageKey, PipelineStore } from "../journal/port/pipelines.ts"
import {
  type InvocationView,
  type LineageQuery,
  type LineageSource,
  type LineageView,
  type MessageView,
  walkLineage,
} from "./lineage.ts"
import { messageKey, messageName, replayedJob, routePosition } from "./message-names.ts"

/** The error codes for a job, or a version of its workflow, that no longer exists. */
const isGone: ReadonlySet<string> = new Set(["E301", "E305", "E707"])
/**
 * Used as the number of an execution that has not begun. Executions are numbered from 1: nothing is stored
 * under it.
 */
const NOT_BEGUN = 0

export type DeadLetter = ReturnType<typeof toDeadLetter>

export interface DeadLetterPage {
  readonly dead_letters: readonly DeadLetter[]
  /** `after` of the next page. */
  readonly next: string | null
}

export interface DeadLettersQuery {
  readonly route?: string | undefined
  readonly after?: string | undefined
  readonly limit?: number | undefined
}

export interface ExecutionsQuery {
  /** Only those with dead letters that no job has replayed. */
  readonly dead_letters?: boolean | undefined
  /** `next` of the page before, or the job id of an execution. */
  readonly after?: string | undefined
  readonly limit?: number | undefined
}

/** A job of a pipeline, and the sums of its routes as they were last stored. */
export interface ExecutionView
  extends Pick<
    JobSnapshot,
    | ("job_id" | "workflow" | "workflow_version" | "status" | "error" | "reason" | "labels" | "paused")
    | ("created_at" | "finished_at")
  > {
  readonly messages: {
    /** Those in flight included. */
    readonly queued: number
    readonly waiting: number
    readonly done: number
    readonly failed: number
  }
  readonly dead_letters: DeadLettersView
}

export interface ExecutionPage {
  readonly executions: readonly ExecutionView[]
  /** `after` of the next page. */
  readonly next: string | null
  /** false: the page ended before it was full, after a bounded search; `next` continues it. */
  readonly complete: boolean
}

/** Selects the dead letters of an execution that a new one begins with. */
export interface ReplayWhich {
  /** Names of messages; absent: those of `bodies`, or all that have not been replayed. */
  readonly messages?: readonly string[] | undefined
  /** Other bodies, by the names of messages, which are replayed too. */
  readonly bodies?: { readonly [message: string]: Json } | undefined
  /** Another version of the pipeline: its routes have the same names in the same order, and more may follow. */
  readonly workflow?: string | undefined
}

export interface PipelineQueriesParts {
  readonly store: PipelineStore
  readonly plans: Pick<Plans, "get">
  readonly row: Queries["row"]
  readonly now: () => number
  /** The messages that are in flight; null: the process that runs the execution did not answer. */
  readonly live: (query: MessagesQuery) => Promise<LiveMessages | null>
}

export class PipelineQueries {
  readonly #parts: PipelineQueriesParts

  constructor(parts: PipelineQueriesParts) {
    this.#parts = parts
  }

  /**
   * P5: what a message derives from, and what derives from it. `message` is null while the job may still get
   * it.
   */
  async lineage(jobId: string, message: string, query: LineageQuery = {}): Promise<LineageView> {
    const start = await this.#openLineage(jobId)
    const sources = new Map([[jobId, Promise.resolve<LineageSource | null>(start)]])
    const open = (id: string) => valueIn(sources, id, () => this.#relative(id, start.owner))
    return walkLineage(start, open, message, query)
  }

  async #openLineage(jobId: string): Promise<LineageSource> {
    const { store, live } = this.#parts
    const { plan, execution, row } = await this.openSource(jobId)
    const hasEnded = row.finishedAt !== null
    const known = { jobId, owner: row.owner, hasEnded, replayOf: replayedJob(row) }
    // A walk asks an owner that did not answer only once.
    let isAway = false
    const messages = async (keys: readonly MessageKey[]) => {
      const found = isAway ? null : await live({ jobId, keys })
      isAway = found === null
      return found
    }
    return { store, plan, execution, ...known, live: messages }
  }

  /**
   * A job that replays this one's dead letters, or whose dead letters this one replays; null: it no longer
   * exists.
   */
  async #relative(jobId: string, owner: string): Promise<LineageSource | null> {
    try {
      const source = await this.#openLineage(jobId)
      return source.owner === owner ? source : null
    } catch (error) {
      if (error instanceof UmbraError && isGone.has(error.code)) return null
      throw error
    }
  }

  /** Sorted by route and number. */
  async deadLetters(jobId: string, query: DeadLettersQuery = {}): Promise<DeadLetterPage> {
    const { plan, execution } = await this.openSource(jobId)
    const { limit = 50 } = query
    const rows = await this.#parts.store.listDeadLetters({
      execution,
      limit: limit + 1,
      route: query.route === undefined ? undefined : routePosition(plan, query.route),
      after: query.after === undefined ? undefined : messageKey(plan, query.after),
    })
    const letters = fullPage(rows.slice(0, limit)).map(row => toDeadLetter(plan, row))
    return { dead_letters: letters, next: rows.length > letters.length ? letters.at(-1)!.id : null }
  }

  /** Newest first. Those of other owners are read too, so a page is bounded by `SCANS`. */
  async executions(owner: string, query: ExecutionsQuery = {}): Promise<ExecutionPage> {
    const { store } = this.#parts
    const { dead_letters: hasDeadLetters = false, limit = 50, after } = query
    const found: ListedExecution[] = []
    let before: number | null = await this.#place(owner, after)
    for (let scan = 0; scan < SCANS && before !== null && found.length < limit; scan++) {
      const page = { owner, hasDeadLetters, before, limit: limit - found.length, scan: SCAN }
      const { executions, next } = await store.listExecutions(page)
      found.push(...executions)
      before = next
    }
    const executions = await Promise.all(found.map(execution => this.#execution(execution)))
    const isFull = found.length === limit
    // However many executions other owners have, the next page continues where this one stopped.
    const next = before === null ? null : isFull ? found.at(-1)!.jobId : String(before)
    return {
      executions: executions.filter(each => each !== null),
      ...{ next, complete: isFull || before === null },
    }
  }

  async #place(owner: string, jobId: string | undefined): Promise<number> {
    if (jobId === undefined) return Number.MAX_SAFE_INTEGER
    if (executionNumber.test(jobId)) return Number(jobId)
    const row = await this.#parts.row(mustBeJobId(jobId))
    const execution = await this.#parts.store.readExecution(jobId)
    if (row.owner !== owner || execution === null) throw noSuchJob(jobId)
    return execution.execution
  }

  /** null: it was removed meanwhile. */
  async #execution({ execution, jobId, progress }: ListedExecution): Promise<ExecutionView | null> {
    try {
      const { plan, row } = await this.openSource(jobId)
      const job = rowSnapshot(row, this.#parts.now())
      const routes = routeViews(plan.routes, progress, false)
      const sum = (field: "queued" | "waiting" | "done" | "failed" | "dead_lettered") =>
        routes.reduce((total, route) => total + route[field], 0)
      const { count, first } =
        sum("dead_lettered") === 0
          ? { count: 0, first: null }
          : await this.#parts.store.deadLettersLeft({ execution, most: DEAD_LETTERS })
      const fault = first === null ? null : (JSON.parse(first.error) as { code: string; message: string })
      const { job_id, workflow, workflow_version, status, error, reason, labels, paused } = job
      return {
        ...{ job_id, workflow, workflow_version, status, error, reason, labels, paused },
        ...{ created_at: job.created_at, finished_at: job.finished_at },
        messages: {
          ...{ queued: sum("queued"), waiting: sum("waiting") },
          ...{ done: sum("done"), failed: sum("failed") },
        },
        dead_letters: {
          count,
          first:
            fault === null
              ? null
              : {
                  message: messageName(plan, first!),
                  error: { code: fault.code, message: fault.message },
                },
        },
      }
    } catch (error) {
      if (error instanceof UmbraError && isGone.has(error.code)) return null
      throw error
    }
  }

  protected async openSource(
    jobId: string,
  ): Promise<{ readonly plan: PipelinePlan; readonly execution: number; readonly row: JobRow }> {
    const job = await this.#parts.row(mustBeJobId(jobId))
    const { owner, workflow, workflowVersion } = job
    const { pipeline } = await this.#parts.plans.get(owner, workflow, workflowVersion)
    if (pipeline === null)
      throw new UmbraError(
        "E707",
        `Job ${jobId} runs workflow "${workflow}", which has nodes and no routes, so there are no messages.`,
      )
    const row = await this.#parts.store.readExecution(jobId)
    return { plan: pipeline, execution: row?.execution ?? NOT_BEGUN, row: job }
  }
}

/** `next` of a page that ended before it was full: the number of the execution that it has reached. */
export const executionNumber = /^\d{1,15}$/

/** The number of executions, of all owners, that one query of the store reads, and of such queries for a page. */
const SCAN = 1000
const SCANS = 20
/** Dead letters of an execution in a list are counted up to this number. */
const DEAD_LETTERS = 1000

/** A page is parsed and sent in one piece. */
const PAGE_BYTES = 4 * 1024 * 1024

/** The first rows, up to a page of bytes; at least one. */
function fullPage(rows: readonly DeadLetterRow[]): readonly DeadLetterRow[] {
  let bytes = 0
  const full = rows.findIndex(({ body, error }) => {
    bytes += body.length + error.length
    return bytes > PAGE_BYTES
  })
  return full === -1 ? rows : rows.slice(0, Math.max(1, full))
}

function toDeadLetter(plan: PipelinePlan, row: DeadLetterRow) {
  return {
    id: messageName(plan, row),
    route: plan.routes[row.route]!.name,
    attempts: row.attempts,
    failed_at: row.failedAt,
    error: JSON.parse(row.error) as Json,
    /** The job that replays it. */
    replayed_by: row.replayedBy,
    /** It was replayed with another body. */
    edited: row.isEdited,
    body: JSON.parse(row.body) as Json,
  }
}

/** Views of executions as programs read them, over HTTP and with `--json`: times are ISO 8601 text. */
type Written<T, Time extends keyof T> = Omit<T, Time> & { readonly [K in Time]: string }

export type WrittenMessage = Written<Omit<MessageView, "invocations">, "at"> & {
  readonly invocations: readonly Written<InvocationView, "at">[]
}

export type WrittenLineage = ReturnType<typeof isoLineage>

export type WrittenDeadLetter = Written<DeadLetter, "failed_at">

export type WrittenDeadLetterPage = ReturnType<typeof isoDeadLetters>

export function isoLineage({ message, inputs, outputs, is_cut }: LineageView) {
  return {
    /** null: the job has no such message yet, and has not ended. */
    message: message === null ? null : isoMessage(message),
    inputs: inputs.map(isoMessage),
    outputs: outputs.map(isoMessage),
    is_cut,
  }
}

function isoMessage(message: MessageView): WrittenMessage {
  return {
    ...message,
    at: isoTime(message.at),
    invocations: message.invocations.map(each => ({ ...each, at: isoTime(each.at) })),
  }
}

export function isoDeadLetters({ dead_letters, next }: DeadLetterPage) {
  const written = (each: DeadLetter): WrittenDeadLetter => ({ ...each, failed_at: isoTime(each.failed_at) })
  return { dead_letters: dead_letters.map(written), next }
}
