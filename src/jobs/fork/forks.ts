/** Plans and submits forks: new jobs that take over from another job what need not run again. */
import type { Submit } from "../../core/commands.ts"
import { doneOf, type JobResults, jobResults, type Taken } from "../../core/fork.ts"
import type { Json, JsonObject } from "../../core/json.ts"
import type { JobState } from "../../core/state.ts"
import { bulkPlan, isBulkOperation } from "../../definition/built-in.ts"
import { decideFork, type NodeDecision, recordFork } from "../../definition/fork.ts"
import { type CheckedRequest, checkSubmission, type HandlerCatalog } from "../../definition/index.ts"
import type { Plan } from "../../definition/plan.ts"
import { partitionOf } from "../../engine/ids.ts"
import type { FoldedJob } from "../../engine/recovery/fold.ts"
import { UmbraError } from "../../errors.ts"
import { noSuchJob } from "../arguments.ts"
import type { Registrations, WorkflowSource } from "../register.ts"
import type { Admit, Submitted } from "../submit.ts"
import { type ForkedNode, type ForkPreview, forkPreview, type NodeExpectation } from "./preview.ts"
import { checkForkRequest, type ForkRequest, mustHaveNodes, wrong } from "./request.ts"

export interface ForkOptions {
  /** The caller sees only jobs of this owner. Absent: of all. */
  readonly owner?: string | undefined
  /** The same key gives the same job; the same key with another request is refused. */
  readonly idempotencyKey?: string | undefined
  readonly submittedBy?: string | undefined
  readonly traceparent?: string | undefined
  readonly request?: CheckedRequest | undefined
}

export interface ForksParts {
  readonly registrations: Registrations
  readonly handlers: HandlerCatalog
  fold(jobId: string): Promise<FoldedJob>
  submit(fork: {
    readonly plan: Plan
    readonly partition: number
    readonly command: Submit
    readonly content: readonly unknown[]
    readonly options: ForkOptions & { readonly owner: string }
    readonly admit: Admit | undefined
  }): Promise<Submitted>
  /** What is known about the runs of nodes of a workflow, by node. */
  statistics(of: {
    readonly owner: string
    readonly workflow: string
  }): Promise<ReadonlyMap<string, NodeExpectation>>
}

interface PlannedFork {
  readonly origin: FoldedJob
  readonly plan: Plan
  readonly command: Submit
  readonly preview: ForkPreview
}

export class Forks {
  readonly #parts: ForksParts

  constructor(parts: ForksParts) {
    this.#parts = parts
  }

  /** What a fork would do. Nothing is stored. */
  async preview(jobId: string, request: ForkRequest, options: ForkOptions = {}): Promise<ForkPreview> {
    return (await this.#plan(jobId, this.#read(request), options)).preview
  }

  /** Submits the fork, unless it repeats effects that `confirm` does not name (E314). */
  async fork(
    jobId: string,
    given: ForkRequest,
    options: ForkOptions = {},
    admit?: Admit,
  ): Promise<Submitted> {
    const request = this.#read(given)
    const { origin, plan, command, preview } = await this.#plan(jobId, request, options)
    mustBeConfirmed(preview)
    return this.#parts.submit({
      plan,
      partition: partitionOf(jobId),
      command,
      content: ["fork", jobId, request],
      options: { ...options, owner: origin.state.owner },
      admit,
    })
  }

  /** A text with a line break, or in braces, is a definition. */
  #read(request: ForkRequest): ForkRequest {
    const { workflow } = request
    return workflow === undefined
      ? request
      : { ...request, workflow: this.#parts.registrations.source(workflow) as WorkflowSource }
  }

  async #plan(jobId: string, request: ForkRequest, options: ForkOptions): Promise<PlannedFork> {
    checkForkRequest(request)
    const origin = await this.#parts.fold(jobId)
    const { state } = origin
    if (state.status === "DELETED" || (options.owner !== undefined && options.owner !== state.owner))
      throw noSuchJob(jobId)
    if (origin.plan.pipeline !== null)
      wrong(`job ${jobId} is an execution of a pipeline, which cannot be forked`)
    if (origin.plan === bulkPlan)
      wrong(`job ${jobId} is a bulk operation, which cannot be forked; start another one with its filter`)
    const { plan, version } = await this.#target(origin, request)
    if (isBulkOperation({ workflow: plan.name, workflowVersion: version ?? 0 }))
      wrong(
        `a changed definition cannot have the name of bulk operations, "${plan.name}"; push it as a version`,
      )
    mustHaveNodes(plan, request)
    const given = request.input === undefined ? state.input : request.input
    const input = await checkSubmission(plan, given, { owner: state.owner, request: options.request })
    const results = jobResults(jobId, state, origin.facts)
    const decisions = this.#decide({ origin, plan, input, results }, request)
    const { fork, pinned, taken } = recordFork(
      { jobId, plan: origin.plan, state, results },
      { plan, decisions, outputs: outputsIn(request), items: itemsIn(request) },
    )
    const command: Submit = {
      type: "submit",
      owner: state.owner,
      workflow: plan.name,
      workflowVersion: version ?? 0,
      input,
      ttlSeconds: state.ttlSeconds,
      priority: state.priority,
      labels: state.labels,
      fork,
      ...(pinned.length === 0 ? {} : { pinned }),
      ...(version === null
        ? { definition: { hash: plan.hash, text: JSON.stringify(plan.document), rules: plan.rules } }
        : {}),
      ...(options.traceparent === undefined ? {} : { traceparent: options.traceparent }),
      ...(options.submittedBy === undefined ? {} : { submittedBy: options.submittedBy }),
    }
    const preview = forkPreview({
      ...{ originId: jobId, origin: origin.plan, plan, version, decisions },
      items: decision => itemCounts(decision, state, taken),
      handlers: this.#parts.handlers,
      confirm: request.confirm ?? {},
      statistics: await this.#parts.statistics({ owner: state.owner, workflow: plan.name }),
    })
    return { origin, plan, command, preview }
  }

  /** What the fork runs; `version` null: a definition of its own. */
  async #target(
    { plan: before, state }: FoldedJob,
    { workflow, overrides = {} }: ForkRequest,
  ): Promise<{ readonly plan: Plan; readonly version: number | null }> {
    const { registrations } = this.#parts
    const handlers = withHandlersOf(before, this.#parts.handlers)
    const own = { plan: before, version: state.workflowVersion === 0 ? null : state.workflowVersion }
    let target: { readonly plan: Plan; readonly version: number | null } = own
    if (typeof workflow === "string") target = await registrations.resolve(workflow, state.owner)
    else if (workflow !== undefined)
      target = { plan: await registrations.compile(workflow, state.owner, handlers), version: null }
    if (target.plan.name !== state.workflow)
      wrong(`a fork runs the same workflow as its origin, "${state.workflow}", not "${target.plan.name}"`)
    if (target.plan.pipeline !== null) wrong("workflow must have nodes; this one is a pipeline")
    const configs = Object.entries(overrides).filter(([, { config }]) => config !== undefined)
    if (configs.length > 0) {
      mustHaveNodes(target.plan, { overrides })
      const changed = withConfigs(
        target.plan.document as JsonObject,
        new Map(configs.map(([id, { config }]) => [id, config!])),
      )
      target = { plan: await registrations.compile(changed as never, state.owner, handlers), version: null }
    }
    return target.version === null && target.plan.hash === before.hash ? own : target
  }

  #decide(
    { origin, plan, input, results }: { origin: FoldedJob; plan: Plan; input: Json; results: JobResults },
    request: ForkRequest,
  ): readonly NodeDecision[] {
    const { from = [], items = {}, reuse = [] } = request
    const { state } = origin
    const decisions = decideFork(
      {
        plan: origin.plan,
        input: state.input,
        done: node => doneOf(state, results, node),
      },
      {
        ...{ plan, input, from: new Set(from), reuse: new Set(reuse) },
        pinned: new Set(outputsIn(request).keys()),
        items: itemsIn(request),
        readsInput: name => this.#parts.handlers.get(name)?.readsInput !== false,
      },
    )
    const byId = new Map(decisions.map(decision => [decision.node, decision]))
    for (const id of reuse) mustBeReused(byId.get(id)!)
    for (const [id, list] of Object.entries(items)) mustHaveItems(byId.get(id)!, list, state)
    return decisions
  }
}

/** A process without the handlers of the origin, such as a command on a folder, does not refuse what the origin runs. */
function withHandlersOf({ nodes }: Plan, handlers: HandlerCatalog): HandlerCatalog {
  const used = new Set(nodes.map(({ handler }) => handler))
  return {
    get: name => handlers.get(name) ?? (used.has(name) ? { name } : undefined),
    names: () => [...new Set([...handlers.names(), ...used])],
    ...(handlers.refresh === undefined ? {} : { refresh: () => handlers.refresh!() }),
  }
}

function outputsIn({ overrides = {} }: ForkRequest): ReadonlyMap<string, Json> {
  const given = Object.entries(overrides)
  return new Map(given.flatMap(([id, { output }]) => (output === undefined ? [] : [[id, output] as const])))
}

function itemsIn({ items = {} }: ForkRequest): ReadonlyMap<string, ReadonlySet<number>> {
  return new Map(Object.entries(items).map(([id, list]) => [id, new Set(list)]))
}

function withConfigs(document: JsonObject, configs: ReadonlyMap<string, JsonObject>): JsonObject {
  const nodes = (document.nodes as readonly JsonObject[]).map(node => {
    const config = configs.get(String(node.id))
    return config === undefined ? node : { ...node, config }
  })
  return { ...document, nodes }
}

function mustBeReused({ node, action, reason }: NodeDecision): void {
  if (action === "reuse") return
  wrong(`node "${node}" cannot be taken over (reuse): ${whyNot(reason)}`)
}

function whyNot(reason: NodeDecision["reason"]): string {
  switch (reason.code) {
    case "dependency":
      return `${reason.nodes.join(", ")}, which it depends on, has another result`
    case "changed":
      return `its ${reason.fields.join(", ")} changed`
    case "not_completed":
    case "items_not_completed":
      return "it did not complete"
    case "new":
      return "the origin has no such node"
    default:
      return "another parameter of the request runs it, or sets its output"
  }
}

function mustHaveItems(
  { node, action, reason, origin }: NodeDecision,
  list: readonly number[],
  state: JobState,
): void {
  const known = origin === null ? undefined : state.lists.get(origin)?.items.length
  if (known === undefined) wrong(`node "${node}" of the origin has no list of items (items)`)
  const outside = list.find(item => item >= known)
  if (outside !== undefined) wrong(`node "${node}" has ${known} items, no item ${outside}`)
  if (action !== "items") wrong(`items of node "${node}" cannot be chosen: ${whyNot(reason)}`)
}

function itemCounts(
  { origin, position, action }: NodeDecision,
  state: JobState,
  taken: readonly Taken[],
): ForkedNode["items"] | null {
  const total = origin === null ? undefined : state.lists.get(origin)?.items.length
  if (total === undefined || (action !== "reuse" && action !== "items")) return null
  if (action === "reuse") return { reused: total, run: 0 }
  const entry = taken.find(({ node }) => node === position)
  const reused = entry !== undefined && "items" in entry ? entry.items.size : 0
  return { reused, run: total - reused }
}

function mustBeConfirmed({ unconfirmed: { unsafe, unknown } }: ForkPreview): void {
  if (unsafe.length + unknown.length === 0) return
  const parts = [
    ...(unsafe.length === 0 ? [] : [`name ${unsafe.join(", ")} in confirm.unsafe: a repetition does harm`]),
    ...(unknown.length === 0
      ? []
      : [
          `set confirm.unknown, if ${short(unknown)} may run again: their handlers do not declare their effects`,
        ]),
  ]
  throw new UmbraError("E314", `The fork may repeat effects outside of Umbra; ${parts.join("; ")}.`, {
    details: {
      errors: [
        ...unsafe.map(node => ({ node, effects: "unsafe" })),
        ...unknown.map(node => ({ node, effects: "unknown" })),
      ],
    },
  })
}

function short(nodes: readonly string[]): string {
  return nodes.length <= 5
    ? nodes.join(", ")
    : `${nodes.slice(0, 5).join(", ")} and ${nodes.length - 5} others`
}
