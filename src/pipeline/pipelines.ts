/** What a process does with pipelines: it runs those whose jobs it owns, and answers queries about any. */

import type { BrokerHost, RemoteWorkers } from "../broker/port.ts"
import type { Json } from "../core/json.ts"
import type { PipelinePlan } from "../definition/pipeline/plan.ts"
import type { Clock } from "../engine/clock.ts"
import { JobArtifacts } from "../engine/owner/job-artifacts.ts"
import type { Plans } from "../engine/plans.ts"
import type { LiveMessages, MessagesQuery } from "../engine/remote/live-messages.ts"
import { Versions } from "../engine/versions.ts"
import { UmbraError } from "../errors.ts"
import type { Queries } from "../jobs/queries.ts"
import type { Admit, SubmitOptions, Submitted } from "../jobs/submit.ts"
import { distinctKeys } from "../journal/pipeline-rules.ts"
import type { Journal } from "../journal/port/journal.ts"
import type { PipelineStore } from "../journal/port/pipelines.ts"
import type { Log } from "../log.ts"
import { checkOutput } from "../worker/output.ts"
import type { SecretSource } from "../worker/secrets.ts"
import { TooManyConcurrentExecutionsError } from "./errors.ts"
import { CLAIM_MS, Executions, type ExecutionsParts } from "./execution/executions.ts"
import { messageKey, replayLabel } from "./message-names.ts"
import { PipelineMetrics } from "./metrics.ts"
import { PipelineQueries, type ReplayWhich } from "./queries.ts"
import type { AdapterRegistry } from "./registry/registry.ts"
import type { PipelineSettings } from "./settings.ts"

export interface ReplayOptions extends ReplayWhich {
  readonly submittedBy?: string | undefined
}

export interface PipelinesParts {
  readonly journal: Journal
  readonly plans: Pick<Plans, "get">
  readonly queries: Pick<Queries, "fold" | "row">
  /** Messages in flight, of executions in this or another process. */
  readonly live: (query: MessagesQuery) => Promise<LiveMessages | null>
  readonly adapters: AdapterRegistry
  /** undefined: this process has no fleet. */
  readonly workers: () => RemoteWorkers | undefined
  readonly secrets: SecretSource
  readonly settings: PipelineSettings
  /** The number of process deaths while a message was in flight after which it is not tried again. */
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

export class Pipelines extends PipelineQueries {
  /** The metrics of the executions in this process. */
  readonly metrics = new PipelineMetrics()
  /** Decides whether a job that an execution submits may be stored. A server sets its limits here. */
  admit: (owner: string) => Admit = () => (_, store) => store()
  readonly #parts: PipelinesParts
  readonly #versions: Versions
  /** null: no engine has been created yet. */
  #lane: Executions | null = null

  constructor(parts: PipelinesParts) {
    const { journal, plans, queries, clock } = parts
    super({
      store: journal.pipelines,
      plans,
      row: id => queries.row(id),
      now: () => clock.now(),
      live: parts.live,
    })
    this.#parts = parts
    this.#versions = new Versions(journal, () => clock.random())
  }

  /** Runs executions for this engine; `isIdle`: they are left to other processes. */
  lane(host: BrokerHost, { isIdle }: { readonly isIdle: boolean }): Executions {
    const submit: ExecutionsParts["submit"] = async (workflow, input, options) =>
      (await this.#parts.submit(workflow, input, options, this.admit(options.owner))).jobId
    this.#lane = new Executions({ ...this.#parts, host, submit, isIdle, metrics: this.metrics })
    return this.#lane
  }

  /** The messages that are in flight in this process. */
  inFlight({ jobId, keys }: MessagesQuery): LiveMessages {
    return keys.map(key => this.#lane?.live(jobId, key) ?? null)
  }

  /**
   * P1: claims a place for an execution that is about to be submitted, or retried. Returns a function that
   * releases it.
   */
  async claim(jobId: string, endedAt: number | null = null): Promise<() => Promise<void>> {
    const { clock, settings } = this.#parts
    const limit = settings.maxExecutions
    // A claim that is not younger than the job's end counts as that of the execution which ended then.
    const at = Math.max(clock.now(), (endedAt ?? -1) + 1)
    const claim = { jobId, at, limit, claimMs: CLAIM_MS }
    if ((await this.#store.claimExecution(claim)) === null) throw new TooManyConcurrentExecutionsError(limit)
    return () => this.#store.endExecution({ jobId, at: clock.now() })
  }

  /**
   * Submits a new execution that begins with dead letters of this one. `admit`: may another job be stored?
   */
  async replay(
    jobId: string,
    options: ReplayOptions = {},
    admit: Admit = (_, store) => store(),
  ): Promise<Submitted & { readonly replayed: number }> {
    const { plan, execution } = await this.openSource(jobId)
    const { maxMessageBytes: maxBytes } = this.#parts.settings
    const bodies = Object.entries(options.bodies ?? {}).map(([name, body]) => {
      return { ...messageKey(plan, name), body: checkedBody(name, body, maxBytes) }
    })
    const { state } = await this.#parts.queries.fold(jobId)
    const { clock, journal } = this.#parts
    const artifacts = new JobArtifacts(journal, () => clock.now())
    await artifacts.check(state.owner, Object.values(options.bodies ?? {}))
    const named = options.messages?.map(name => messageKey(plan, name))
    const keys =
      named === undefined && bodies.length === 0 ? null : distinctKeys([...(named ?? []), ...bodies])
    let replayed = 0
    const submitted = await this.#parts.submit(
      options.workflow === undefined
        ? `${state.workflow}@${state.workflowVersion}`
        : await this.#fitting(state.owner, options.workflow, plan),
      state.input,
      {
        owner: state.owner,
        labels: { ...state.labels, [replayLabel]: jobId },
        submittedBy: options.submittedBy,
      },
      (replayedBy, store) =>
        admit(replayedBy, async () => {
          const claim = { execution, keys, bodies, replayedBy, at: clock.now(), claimMs: CLAIM_MS }
          replayed = await this.#store.claimDeadLetters(claim)
          if (replayed === 0) throw nothingToReplay(jobId, keys === null)
          await store()
        }),
    )
    return { ...submitted, replayed }
  }

  /** Messages identify their route by its position: the second route must be the second one there too. */
  async #fitting(owner: string, reference: string, { routes }: PipelinePlan): Promise<string> {
    const { name, version } = await this.#versions.resolve(owner, reference)
    const { pipeline } = await this.#parts.plans.get(owner, name, version)
    const isFitting = routes.every((route, i) => route.name === pipeline?.routes[i]?.name)
    if (isFitting) return `${name}@${version}`
    const names = routes.map(route => route.name).join(", ")
    throw new UmbraError(
      "E710",
      `"${reference}" cannot take these dead letters: its first routes must be ${names}, in this order.`,
    )
  }

  get #store(): PipelineStore {
    return this.#parts.journal.pipelines
  }
}

function checkedBody(name: string, body: Json, maxBytes: number): string {
  try {
    return checkOutput(body, { maxBytes, what: "body" }).text
  } catch (error) {
    throw new UmbraError("E309", `The body of ${name} cannot be used: ${(error as Error).message}`)
  }
}

/** Keys and nothing else, each once: a store may send them to a thread. */
function nothingToReplay(jobId: string, isAll: boolean): UmbraError {
  const none = isAll ? "has no dead letters to replay" : "has none of these dead letters"
  return new UmbraError(
    "E708",
    `Job ${jobId} ${none}, or they have been replayed. List them to see which job has them.`,
  )
}
