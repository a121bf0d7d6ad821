/** Plans and submits forks: new jobs that reuse results of another job. */
import type { Submit } from "../../core/commands.ts"
import { type JobSubmitted, localOwner } from "../../core/facts.ts"
import { completedPart, type JobResults, jobResults, type Taken } from "../../core/fork.ts"
import type { Json, JsonObject } from "../../core/json.ts"
import type { JobState } from "../../core/state.ts"
import { bulkPlan, isBulkOperation } from "../../definition/built-in.ts"
import { decideFork, definitionId, type NodeDecision, recordFork } from "../../definition/fork.ts"
import { type CheckedRequest, checkSubmission, type HandlerCatalog } from "../../definition/index.ts"
import type { Plan } from "../../definition/plan.ts"
import { bulkForkId, jobPartition } from "../../engine/ids.ts"
import type { FoldedJob } from "../../engine/recovery/fold.ts"
import { refusalError } from "../../engine/remote/refusals.ts"
import { UmbraError } from "../../errors.ts"
import { inTurns, nextTurnIfLate } from "../../turns.ts"
import { noSuchJob } from "../arguments.ts"
import type { Registrations, WorkflowSource } from "../register.ts"
import type { Admit, KeyedOptions, Submitted } from "../submit.ts"
import {
  type ForkedNode,
  type ForkPreview,
  forkPreview,
  type NodeExpectation,
  type PreviewParts,
} from "./preview.ts"
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
  /** null: there is no such job. */
  readOwner(jobId: string): Promise<string | null>
  /** The job of an earlier request with the same key and content. */
  findRepeated(content: readonly unknown[], options: KeyedOptions): Promise<Submitted | null>
  submit(fork: {
    readonly plan: Plan
    readonly partition: number
    /** Absent: a new one. */
    readonly id?: string
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

/** What a fork runs; `version` null: a definition of its own. */
interface ForkedPlan {
  readonly plan: Plan
  readonly version: number | null
}

/** A job that a bulk operation forks. */
export interface ForkTarget {
  readonly jobId: string
  readonly owner: string
  readonly submittedBy?: string | undefined
  /** The job of the operation. The fork's id follows from it and from the target, so a target has one fork. */
  readonly operation: string
  /** Refused if the target has begun, ended, been retried or deleted by a fact after this one. */
  readonly seq: number
  /** What forks of earlier targets run, by what their origins run: most targets of an operation have few versions. */
  readonly plans: Map<string, Promise<ForkedPlan>>
}

interface PlannedFork {
  readonly plan: Plan
  readonly command: Submit
  readonly parts: Omit<PreviewParts, "statistics">
}

export class Forks {
  readonly #parts: ForksParts

  constructor(parts: ForksParts) {
    this.#parts = parts
  }

  /** What a fork would do. Nothing is stored. */
  async preview(jobId: string, given: ForkRequest, options: ForkOptions = {}): Promise<ForkPreview> {
    const request = this.#read(given)
    const origin = await this.#origin(jobId, options.owner)
    const { plan, parts } = await this.#plan(origin, request, options)
    const of = { owner: origin.state.owner, workflow: plan.name }
    return inTurns(forkPreview({ ...parts, statistics: await this.#parts.statistics(of) }))
  }

  /**
   * Submits the fork, unless it repeats effects that `confirm` does not name (E314). A repeated request gets the fork of the
   * first one, also if its origin was deleted since, or would now be forked in another way.
   */
  async fork(
    jobId: string,
    given: ForkRequest,
    options: ForkOptions = {},
    admit?: Admit,
  ): Promise<Submitted> {
    const request = this.#read(given)
    const content = ["fork", jobId, request]
    const { idempotencyKey } = options
    if (idempotencyKey !== undefined) {
      const owner = options.owner ?? (await this.#parts.readOwner(jobId)) ?? localOwner
      const repeated = await this.#parts.findRepeated(content, { owner, idempotencyKey })
      if (repeated !== null) return repeated
    }
    const origin = await this.#origin(jobId, options.owner)
    const { plan, command, parts } = await this.#plan(origin, request, options)
    mustBeConfirmed(await inTurns(forkPreview({ ...parts, statistics: new Map() })))
    return this.#parts.submit({
      plan,
      partition: jobPartition(jobId),
      command,
      content,
      options: { ...options, owner: origin.state.owner },
      admit,
    })
  }

  /**
   * Checks what the targets of a bulk operation have in common, and resolves the workflow: a version that is pushed, or an alias
   * that is moved, while the operation runs must not change what later targets run.
   */
  async prepare(given: ForkRequest, owner: string): Promise<ForkRequest> {
    const { registrations, handlers } = this.#parts
    const { workflow } = this.#read(given)
    if (workflow === undefined) return given
    if (typeof workflow === "string") {
      const { name, version, plan } = await registrations.resolve(workflow, owner)
      mustHaveNodes(plan, { ...given, confirm: undefined })
      return { ...given, workflow: `${name}@${version}` }
    }
    // Whether a handler exists is checked with each target: what its origin runs need not be known here.
    const any: HandlerCatalog = {
      get: name => handlers.get(name) ?? { name },
      names: () => handlers.names(),
    }
    const plan = await registrations.compile(workflow, owner, any)
    mustHaveNodes(plan, { ...given, confirm: undefined })
    return { ...given, workflow: plan.document as never }
  }

  /** What would have to be confirmed for this target. Throws why it would be refused for another reason. */
  async previewTarget(
    { jobId, owner }: Pick<ForkTarget, "jobId" | "owner">,
    request: ForkRequest,
  ): Promise<ForkPreview> {
    const origin = await this.#origin(jobId, owner)
    const { parts } = await this.#plan(origin, this.#read(request), { owner }, new Map())
    return inTurns(forkPreview({ ...parts, statistics: new Map() }))
  }

  /** As `fork`, for a target of a bulk operation. Returns false if the job began later, so it is not a target. */
  async forkTarget(target: ForkTarget, given: ForkRequest, admit?: Admit): Promise<boolean> {
    const { jobId, owner, submittedBy, operation, seq } = target
    const request = this.#read(given)
    const origin = await this.#origin(jobId, owner)
    if (origin.facts[0]!.seq > seq) return false
    if (origin.turnSeq > seq) throw refusalError("job_changed", jobId)
    const { plan, command, parts } = await this.#plan(origin, request, { submittedBy }, target.plans)
    mustBeConfirmed(await inTurns(forkPreview({ ...parts, statistics: new Map() })))
    await this.#parts.submit({
      ...{ plan, partition: jobPartition(jobId), id: bulkForkId(operation, jobId), admit },
      command: { ...command, operation },
      content: [],
      options: { owner },
    })
    return true
  }

  /** A text with a line break, or in braces, is a definition. */
  #read(request: ForkRequest): ForkRequest {
    checkForkRequest(request)
    const { workflow } = request
    return workflow === undefined
      ? request
      : { ...request, workflow: this.#parts.registrations.source(workflow) as WorkflowSource }
  }

  async #origin(jobId: string, owner: string | undefined): Promise<FoldedJob & { readonly jobId: string }> {
    const origin = await this.#parts.fold(jobId)
    const { state } = origin
    if (state.status === "DELETED" || (owner !== undefined && owner !== state.owner)) throw noSuchJob(jobId)
    if (origin.plan.pipeline !== null)
      wrong(`job ${jobId} is an execution of a pipeline, which cannot be forked`)
    if (origin.plan === bulkPlan)
      wrong(`job ${jobId} is a bulk operation, which cannot be forked; start another one with its filter`)
    return { ...origin, jobId }
  }

  /** `plans`: of a bulk operation, whose targets need not have every node that it confirms. */
  async #plan(
    origin: FoldedJob & { readonly jobId: string },
    request: ForkRequest,
    options: ForkOptions,
    plans?: ForkTarget["plans"],
  ): Promise<PlannedFork> {
    const { jobId, state } = origin
    const { plan, version } = await this.#loadPlan(origin, request, plans)
    if (isBulkOperation({ workflow: plan.name, workflowVersion: version ?? 0 }))
      wrong(
        `a changed definition cannot have the name of bulk operations, "${plan.name}"; push it as a version`,
      )
    mustHaveNodes(plan, plans === undefined ? request : { ...request, confirm: undefined })
    const given = request.input === undefined ? state.input : request.input
    const input = await checkSubmission(plan, given, { owner: state.owner, request: options.request })
    // Each of these steps visits every node: 20,000 nodes take tens of milliseconds.
    await nextTurnIfLate()
    const results = jobResults(jobId, state, origin.facts)
    const decisions = await this.#decide({ origin, plan, input, results }, request)
    await nextTurnIfLate()
    const { fork, pinned, taken } = recordFork(
      { jobId, plan: origin.plan, state, results },
      { plan, decisions, outputs: outputsIn(request), items: itemsIn(request) },
    )
    await nextTurnIfLate()
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
      pinned: pinned.length === 0 ? undefined : pinned,
      ...(version === null
        ? { definition: { hash: definitionId(plan), text: JSON.stringify(plan.document), rules: plan.rules } }
        : {}),
      traceparent: options.traceparent,
      submittedBy: options.submittedBy,
    }
    await nextTurnIfLate()
    const parts = {
      ...{ originId: jobId, origin: origin.plan, plan, version, decisions },
      items: (decision: NodeDecision) => itemCounts(decision, state, taken),
      handlers: this.#parts.handlers,
      confirm: request.confirm ?? {},
      repeats: mayHaveBegun(origin),
    }
    return { plan, command, parts }
  }

  #loadPlan(origin: FoldedJob, request: ForkRequest, plans?: ForkTarget["plans"]): Promise<ForkedPlan> {
    if (plans === undefined) return this.#target(origin, request)
    const { plan, state } = origin
    const key = `${plan.name}@${state.workflowVersion}/${plan.hash}`
    const known = plans.get(key)
    if (known !== undefined) return known
    if (plans.size >= MOST_PLANS) plans.clear()
    const made = this.#target(origin, request)
    plans.set(key, made)
    made.catch(() => plans.delete(key))
    return made
  }

  async #target(
    { plan: before, state }: FoldedJob,
    { workflow, overrides = {} }: ForkRequest,
  ): Promise<ForkedPlan> {
    const { registrations } = this.#parts
    const handlers = addUsedHandlers(before, this.#parts.handlers)
    const own = { plan: before, version: state.workflowVersion === 0 ? null : state.workflowVersion }
    let target: ForkedPlan = own
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
    return target.version === null && definitionId(target.plan) === definitionId(before) ? own : target
  }

  async #decide(
    { origin, plan, input, results }: { origin: FoldedJob; plan: Plan; input: Json; results: JobResults },
    request: ForkRequest,
  ): Promise<readonly NodeDecision[]> {
    const { from = [], items = {}, reuse = [] } = request
    const { state } = origin
    const before = {
      plan: origin.plan,
      input: state.input,
      done: (node: number) => completedPart(state, results, node),
    }
    const after = {
      ...{ plan, input, from: new Set(from), reuse: new Set(reuse) },
      pinned: new Set(outputsIn(request).keys()),
      items: itemsIn(request),
      readsInput: (name: string) => this.#parts.handlers.get(name)?.readsInput !== false,
    }
    const decisions = await inTurns(decideFork(before, after))
    const byId = new Map(decisions.map(decision => [decision.node, decision]))
    for (const id of reuse) mustBeReused(byId.get(id)!)
    for (const [id, list] of Object.entries(items)) mustHaveItems(byId.get(id)!, list, state)
    return decisions
  }
}

/** Plans that are kept for a bulk operation. */
const MOST_PLANS = 100

/** A process without the handlers of the origin, such as a command on a folder, does not refuse what the origin runs. */
function addUsedHandlers({ nodes }: Plan, handlers: HandlerCatalog): HandlerCatalog {
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

/** false: the job was delayed or paused from its beginning until its end, so that none of its nodes has run, or will. */
function mayHaveBegun({ facts, state }: FoldedJob): boolean {
  const first = facts[0]!.fact as JobSubmitted
  // What a fork was to run has run in its origin.
  if (state.finishedAt === null || first.fork !== undefined) return true
  if (facts.some(({ fact: { type } }) => type === "job_retried")) return true
  if (first.start_at !== undefined) return facts.some(({ fact: { type } }) => type === "job_started")
  return first.paused === undefined || facts.some(({ fact: { type } }) => type === "job_resumed")
}

/** Throws E314. */
export function mustBeConfirmed({ unconfirmed: { unsafe, unknown } }: ForkPreview): void {
  if (unsafe.length + unknown.length === 0) return
  const parts = [
    ...(unsafe.length === 0
      ? []
      : [`name ${unsafe.join(", ")} in confirm.unsafe: their effects are unsafe to repeat`]),
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
