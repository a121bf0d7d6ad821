/** What a process can do with pipelines: run those whose jobs it owns, and answer questions about any. */
import type { BrokerHost, RemoteWorkers } from "../broker/port.ts"
import type { Json } from "../core/json.ts"
import type { Clock } from "../engine/clock.ts"
import type { Plans } from "../engine/plans.ts"
import type { Queries } from "../engine/queries.ts"
import type { Admit, SubmitOptions, Submitted } from "../engine/submissions.ts"
import { UmbraError } from "../errors.ts"
import type { DeadLetterRow, ExecutionRow, PipelineStore } from "../journal/pipeline-store.ts"
import type { Journal } from "../journal/port.ts"
import type { Log } from "../log.ts"
import type { SecretSource } from "../worker/secrets.ts"
import { TooManyConcurrentExecutionsError } from "./errors.ts"
import { CLAIM_MS, Executions } from "./executions.ts"
import { type LineageView, messageKey, messageName, walkLineage } from "./lineage.ts"
import type { AdapterRegistry } from "./registry.ts"
import type { PipelineSettings } from "./settings.ts"

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

export interface ReplayOptions {
  /** Names of messages; left out: all that have not been replayed. */
  readonly messages?: readonly string[]
  /** Another version of the pipeline, with routes of the same names. */
  readonly workflow?: string
  readonly submittedBy?: string
}

export interface PipelinesParts {
  readonly journal: Journal
  readonly plans: Pick<Plans, "get">
  readonly queries: Pick<Queries, "fold" | "row">
  readonly adapters: AdapterRegistry
  readonly workers: () => RemoteWorkers | undefined
  readonly secrets: SecretSource
  readonly settings: PipelineSettings
  /** Deaths of a process while a message was in hand after which it is not tried again. */
  readonly lossLimit: number
  readonly clock: Clock
  readonly log: Log
  readonly submit: (
    workflow: string,
    input: Json | undefined,
    options: SubmitOptions & { readonly owner: string },
    admit?: Admit,
  ) => Promise<Submitted>
}

export class Pipelines {
  readonly #parts: PipelinesParts

  constructor(parts: PipelinesParts) {
    this.#parts = parts
  }

  /** What runs executions for this engine. */
  lane(host: BrokerHost): Executions {
    const submit = async (owner: string, workflow: string, input: Json | undefined, key: string) =>
      (await this.#parts.submit(workflow, input, { owner, idempotencyKey: key })).jobId
    return new Executions({ ...this.#parts, host, submit })
  }

  /** P1: a place for an execution that is about to be submitted. */
  async claim(jobId: string): Promise<void> {
    const { clock, settings } = this.#parts
    const limit = settings.maxExecutions
    const claim = { jobId, at: clock.now(), limit, claimMs: CLAIM_MS }
    if ((await this.#store.claimExecution(claim)) === null) throw new TooManyConcurrentExecutionsError(limit)
  }

  /** P5: what a message comes from, and what comes from it. */
  async lineage(jobId: string, message: string, limit = 1000): Promise<LineageView> {
    const { plan, execution } = await this.#sceneOf(jobId)
    return walkLineage({ store: this.#store, plan, jobId, execution }, message, limit)
  }

  async deadLetters(
    jobId: string,
    query: { readonly route?: string; readonly after?: string; readonly limit?: number } = {},
  ): Promise<DeadLetterPage> {
    const { plan, execution } = await this.#sceneOf(jobId)
    const { limit = 100 } = query
    const route = query.route === undefined ? undefined : plan.positions.get(query.route)
    if (query.route !== undefined && route === undefined)
      throw new UmbraError("E706", `The pipeline has no route "${query.route}".`)
    const rows = await this.#store.listDeadLetters({
      execution,
      limit: limit + 1,
      ...(route === undefined ? {} : { route }),
      ...(query.after === undefined ? {} : { after: messageKey(plan, query.after) }),
    })
    const shown = rows.slice(0, limit)
    const letters = shown.map(row => letterOf(row, messageName(plan, row), plan.routes[row.route]!.name))
    return { dead_letters: letters, next: rows.length > limit ? letters.at(-1)!.id : null }
  }

  /** A new execution that begins with dead letters of this one. */
  async replay(
    jobId: string,
    options: ReplayOptions = {},
  ): Promise<Submitted & { readonly replayed: number }> {
    const { plan, execution } = await this.#sceneOf(jobId)
    const keys = options.messages?.map(name => messageKey(plan, name)) ?? null
    const { state } = await this.#parts.queries.fold(jobId)
    const workflow = options.workflow ?? `${state.workflow}@${state.workflowVersion}`
    const { clock } = this.#parts
    let replayed = 0
    const submitted = await this.#parts.submit(
      workflow,
      state.input,
      {
        owner: state.owner,
        labels: { ...state.labels, replay_of: jobId },
        ...(options.submittedBy === undefined ? {} : { submittedBy: options.submittedBy }),
      },
      async (replayedBy, store) => {
        const claim = { execution, keys, replayedBy, at: clock.now(), claimMs: CLAIM_MS }
        replayed = await this.#store.claimDeadLetters(claim)
        if (replayed === 0) throw nothingToReplay(jobId)
        await store()
      },
    )
    return { ...submitted, replayed }
  }

  get #store(): PipelineStore {
    return this.#parts.journal.pipelines
  }

  async #sceneOf(jobId: string): Promise<{
    readonly plan: NonNullable<Awaited<ReturnType<Plans["get"]>>["pipeline"]>
    readonly execution: ExecutionRow["execution"]
  }> {
    const { owner, workflow, workflowVersion } = await this.#parts.queries.row(jobId)
    const { pipeline } = await this.#parts.plans.get(owner, workflow, workflowVersion)
    if (pipeline === null)
      throw new UmbraError("E707", `Job ${jobId} runs workflow "${workflow}", which has nodes and no routes.`)
    const row = await this.#store.readExecution(jobId)
    if (row === null) throw new UmbraError("E706", `Job ${jobId} has not begun, so there is nothing to show.`)
    return { plan: pipeline, execution: row.execution }
  }
}

function letterOf(row: DeadLetterRow, id: string, route: string): DeadLetter {
  return {
    id,
    route,
    attempts: row.attempts,
    failed_at: row.failedAt,
    error: JSON.parse(row.error) as Json,
    replayed_by: row.replayedBy,
    body: JSON.parse(row.body) as Json,
  }
}

function nothingToReplay(jobId: string): UmbraError {
  return new UmbraError(
    "E708",
    `Job ${jobId} has no dead letters to replay, or they have been replayed. List them to see which job has them.`,
  )
}
