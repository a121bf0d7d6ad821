/**
 * Queries about any execution, for any process that can read the store. What the process that runs the
 * execution knows of messages in flight is added if that process answers.
 */

import type { Json } from "../core/json.ts"
import { valueIn } from "../core/maps.ts"
import type { PipelinePlan } from "../definition/pipeline/plan.ts"
import { isoTime } from "../engine/clock.ts"
import type { Plans } from "../engine/plans.ts"
import type { LiveMessages, MessagesQuery } from "../engine/remote/live-messages.ts"
import { UmbraError } from "../errors.ts"
import type { Queries } from "../jobs/queries.ts"
import { mustBeJobId } from "../jobs/reader.ts"
import type { JobRow } from "../journal/port/journal.ts"
import type { DeadLetterRow, MessageKey, PipelineStore } from "../journal/port/pipelines.ts"
import {
  type InvocationView,
  type LineageSource,
  type LineageView,
  type MessageView,
  walkLineage,
} from "./lineage.ts"
import { messageKey, messageName, replayedJob, routePosition } from "./message-names.ts"

/** The error codes for a job, or a version of its workflow, that no longer exists. */
const isGone: ReadonlySet<string> = new Set(["E301", "E305", "E707"])
/**
 * Stands for the number of an execution that has not begun. Executions are numbered from 1: nothing is stored
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

/** Selects the dead letters of an execution that a new one begins with. */
export interface ReplayWhich {
  /** Names of messages; absent: all that have not been replayed. */
  readonly messages?: readonly string[] | undefined
  /** Another version of the pipeline: its routes have the same names in the same order, and more may follow. */
  readonly workflow?: string | undefined
}

export interface PipelineQueriesParts {
  readonly store: PipelineStore
  readonly plans: Pick<Plans, "get">
  readonly row: Queries["row"]
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
  async lineage(jobId: string, message: string, limit = 100): Promise<LineageView> {
    const start = await this.#lineageOf(jobId)
    const sources = new Map([[jobId, Promise.resolve<LineageSource | null>(start)]])
    const open = (id: string) => valueIn(sources, id, () => this.#relative(id, start.owner))
    return walkLineage(start, open, message, limit)
  }

  async #lineageOf(jobId: string): Promise<LineageSource> {
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
      const source = await this.#lineageOf(jobId)
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
