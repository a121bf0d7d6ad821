/** Plans and submits forks: new jobs that take over from another job what need not run again. */
import type { Submit } from "../../core/commands.ts"
import type { ForkedChild } from "../../core/facts.ts"
import { forkRecord, type JobResults, jobResults, type Taken } from "../../core/fork.ts"
import type { Json, JsonObject } from "../../core/json.ts"
import { isDone, type JobState } from "../../core/state.ts"
import { decideFork, type NodeDecision } from "../../definition/fork.ts"
import { type CheckedRequest, checkSubmission, type HandlerCatalog } from "../../definition/index.ts"
import type { Plan } from "../../definition/plan.ts"
import { partitionOf } from "../../engine/ids.ts"
import type { FoldedJob } from "../../engine/recovery/fold.ts"
import { UmbraError } from "../../errors.ts"
import { noSuchJob } from "../arguments.ts"
import type { Registrations } from "../register.ts"
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
  statistics(of: { readonly owner: string; readonly workflow: string }): Promise<ReadonlyMap<string, NodeExpectation>>
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
    return (await this.#plan(jobId, request, options)).preview
  }

  /** Submits the fork, unless it repeats effects that `confirm` does not name (E314). */
  async fork(
    jobId: string,
    request: ForkRequest,
    options: ForkOptions = {},
    admit?: Admit,
  ): Promise<Submitted> {
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

  async #plan(jobId: string, request: ForkRequest, options: ForkOptions): Promise<PlannedFork> {
    checkForkRequest(request)
    const origin = await this.#parts.fold(jobId)
    const { state } = origin
    if (state.status === "DELETED" || (options.owner !== undefined && options.owner !== state.owner))
      throw noSuchJob(jobId)
    if (origin.plan.pipeline !== null)
      wrong(`job ${jobId} is an execution of a pipeline, which cannot be forked`)
    const { plan, version } = await this.#target(origin, request)
    mustHaveNodes(plan, request)
    const given = request.input === undefined ? state.input : request.input
    const input = await checkSubmission(plan, given, { owner: state.owner, request: options.request })
    const results = jobResults(jobId, state, origin.facts)
    const decisions = this.#decide({ origin, plan, input, results }, request)
    const taken = takenOver(decisions, request, { state, results })
    const { fork, pinned } = forkRecord({
      originId: jobId,
      results,
      taken,
      children: childrenToFork(decisions, state),
      positionOf: node => plan.positions.get(origin.plan.nodes[node]!.id)!,
    })
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
    const own = { plan: before, version: state.workflowVersion === 0 ? null : state.workflowVersion }
    let target: { readonly plan: Plan; readonly version: number | null } = own
    if (typeof workflow === "string") target = await registrations.resolve(workflow, state.owner)
    else if (workflow !== undefined) target = { plan: await registrations.compile(workflow, state.owner), version: null }
    if (target.plan.name !== state.workflow)
      wrong(`a fork runs the same workflow as its origin, "${state.workflow}", not "${target.plan.name}"`)
    if (target.plan.pipeline !== null) wrong("workflow must have nodes; this one is a pipeline")
    const configs = Object.entries(overrides).filter(([, { config }]) => config !== undefined)
    if (configs.length > 0) {
      mustHaveNodes(target.plan, { overrides })
      const changed = withConfigs(target.plan.document as JsonObject, new Map(configs.map(([id, { config }]) => [id, config!])))
      target = { plan: await registrations.compile(changed as never, state.owner), version: null }
    }
    return target.version === null && target.plan.hash === before.hash ? own : target
  }

  #decide(
    { origin, plan, input, results }: { origin: FoldedJob; plan: Plan; input: Json; results: JobResults },
    { from = [], overrides = {}, items = {}, reuse = [] }: ForkRequest,
  ): readonly NodeDecision[] {
    const { state } = origin
    const outputs = Object.keys(overrides).filter(id => overrides[id]!.output !== undefined)
    const decisions = decideFork(
      {
        plan: origin.plan,
        input: state.input,
        done: node => (isDone(state, node) ? "all" : results.lists.has(node) ? "items" : "nothing"),
      },
      {
        ...{ plan, input, from: new Set(from), pinned: new Set(outputs), reuse: new Set(reuse) },
        items: new Map(Object.entries(items).map(([id, list]) => [id, new Set(list)])),
        readsInput: name => this.#parts.handlers.get(name)?.readsInput !== false,
      },
    )
    const byId = new Map(decisions.map(decision => [decision.node, decision]))
    for (const id of reuse) mustBeReused(byId.get(id)!)
    for (const [id, list] of Object.entries(items)) mustHaveItems(byId.get(id)!, list, state)
    return decisions
  }
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

function mustHaveItems({ node, action, reason, origin }: NodeDecision, list: readonly number[], state: JobState): void {
  const known = origin === null ? undefined : state.lists.get(origin)?.items.length
  if (known === undefined) wrong(`node "${node}" of the origin has no list of items (items)`)
  const outside = list.find(item => item >= known)
  if (outside !== undefined) wrong(`node "${node}" has ${known} items, no item ${outside}`)
  if (action !== "items") wrong(`items of node "${node}" cannot be chosen: ${whyNot(reason)}`)
}

/** What the record of the fork names: everything but nodes that run as a whole. */
function takenOver(
  decisions: readonly NodeDecision[],
  { overrides = {}, items = {} }: ForkRequest,
  { state, results }: { readonly state: JobState; readonly results: JobResults },
): readonly Taken[] {
  return decisions.flatMap(({ node: id, position: node, origin, action }): Taken[] => {
    if (action === "pin") return [{ node, pinned: overrides[id]!.output! }]
    if (action === "run" || origin === null) return []
    if (action === "reuse") return [{ node, origin }]
    const run = new Set(items[id] ?? [])
    const kept = [...(results.lists.get(origin)?.items.keys() ?? [])].filter(item => !run.has(item))
    // Without any item there is nothing to take over: the list is evaluated again.
    return kept.length === 0 || !state.lists.has(origin) ? [] : [{ node, origin, items: new Set(kept) }]
  })
}

/** Child jobs that did not complete are forked in turn, unless their node runs for another reason. */
function childrenToFork(decisions: readonly NodeDecision[], state: JobState): readonly ForkedChild[] {
  const found: ForkedChild[] = []
  for (const { position: node, origin, action, reason } of decisions) {
    if (origin === null) continue
    if (action === "run" && reason.code === "not_completed") {
      const child = state.children.get(origin)
      if (child !== undefined) found.push({ node, job_id: child })
    } else if (action === "items" && reason.code === "items_not_completed") {
      const list = state.lists.get(origin)!.state
      for (const [item, job_id] of list.children) if (!isDone(list, item)) found.push({ node, item, job_id })
    }
  }
  return found
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
      : [`set confirm.unknown, if ${short(unknown)} may run again: their handlers do not declare their effects`]),
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
  return nodes.length <= 5 ? nodes.join(", ") : `${nodes.slice(0, 5).join(", ")} and ${nodes.length - 5} others`
}
