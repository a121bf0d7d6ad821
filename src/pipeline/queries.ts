/** What can be asked about any execution, by whoever can read the store: nothing of it needs the process that runs it. */
import type { Json } from "../core/json.ts"
import type { PipelinePlan } from "../definition/pipeline/plan.ts"
import type { Plans } from "../engine/plans.ts"
import type { Queries } from "../engine/queries.ts"
import { mustBeJobId } from "../engine/reader.ts"
import { UmbraError } from "../errors.ts"
import type { DeadLetterRow, PipelineStore } from "../journal/pipeline-store.ts"
import { type LineageView, messageKey, messageName, routePosition, walkLineage } from "./lineage.ts"

export interface DeadLetter {
  readonly id: string
  readonly route: string
  readonly attempts: number
  readonly failed_at: number
  readonly error: Json
  /** The job that has it now. */
  readonly replayed_by: string | null
  readonly body: Json
}

export interface DeadLetterPage {
  readonly dead_letters: readonly DeadLetter[]
  /** `after` of the next page. */
  readonly next: string | null
}

export interface DeadLettersQuery {
  readonly route?: string
  readonly after?: string
  readonly limit?: number
}

/** What of an execution's dead letters a new one begins with. */
export interface ReplayWhich {
  /** Names of messages; left out: all that have not been replayed. */
  readonly messages?: readonly string[]
  /** Another version of the pipeline: its routes have the same names in the same order, and more may follow. */
  readonly workflow?: string
}

export interface PipelineQueriesParts {
  readonly store: PipelineStore
  readonly plans: Pick<Plans, "get">
  readonly row: Queries["row"]
}

export class PipelineQueries {
  readonly #parts: PipelineQueriesParts

  constructor(parts: PipelineQueriesParts) {
    this.#parts = parts
  }

  /** P5: what a message comes from, and what comes from it. */
  async lineage(jobId: string, message: string, limit = 100): Promise<LineageView> {
    const { plan, execution } = await this.sceneOf(jobId)
    return walkLineage({ store: this.#parts.store, plan, jobId, execution }, message, limit)
  }

  /** By route and number. */
  async deadLetters(jobId: string, query: DeadLettersQuery = {}): Promise<DeadLetterPage> {
    const { plan, execution } = await this.sceneOf(jobId)
    const { limit = 50 } = query
    const rows = await this.#parts.store.listDeadLetters({
      execution,
      limit: limit + 1,
      ...(query.route === undefined ? {} : { route: routePosition(plan, query.route) }),
      ...(query.after === undefined ? {} : { after: messageKey(plan, query.after) }),
    })
    const letters = rows.slice(0, limit).map(row => letterOf(plan, row))
    return { dead_letters: letters, next: rows.length > limit ? letters.at(-1)!.id : null }
  }

  protected async sceneOf(
    jobId: string,
  ): Promise<{ readonly plan: PipelinePlan; readonly execution: number }> {
    const { owner, workflow, workflowVersion } = await this.#parts.row(mustBeJobId(jobId))
    const { pipeline } = await this.#parts.plans.get(owner, workflow, workflowVersion)
    if (pipeline === null)
      throw new UmbraError(
        "E707",
        `Job ${jobId} runs workflow "${workflow}", which has nodes and no routes, so there are no messages.`,
      )
    const row = await this.#parts.store.readExecution(jobId)
    if (row === null)
      throw new UmbraError("E706", `Job ${jobId} has not begun, so it has no messages yet. Ask again later.`)
    return { plan: pipeline, execution: row.execution }
  }
}

function letterOf(plan: PipelinePlan, row: DeadLetterRow): DeadLetter {
  return {
    id: messageName(plan, row),
    route: plan.routes[row.route]!.name,
    attempts: row.attempts,
    failed_at: row.failedAt,
    error: JSON.parse(row.error) as Json,
    replayed_by: row.replayedBy,
    body: JSON.parse(row.body) as Json,
  }
}
