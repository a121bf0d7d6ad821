import type { LateTemplate, Task } from "../../broker/port.ts"
import { shownAttempt } from "../../core/attempt-times.ts"
import type { AttemptRef, JobResult } from "../../core/commands.ts"
import type { Fact, ListSource } from "../../core/facts.ts"
import type { Fault } from "../../core/faults.ts"
import { valueAt } from "../../core/item-list.ts"
import type { Json, JsonObject } from "../../core/json.ts"
import { valueIn } from "../../core/maps.ts"
import {
  isDone,
  type LargeOutput,
  ListOutput,
  largeParts,
  parseTaskKey,
  skippedOutput,
  wholeOutput,
} from "../../core/state.ts"
import { taskIsolation } from "../../core/suspects.ts"
import type { Plan, PlanNode } from "../../definition/plan.ts"
import { UmbraError } from "../../errors.ts"
import { isTruthy, withNode } from "../../template/index.ts"
import type { Limits, Reference, Scope, Template, ValuePath } from "../../template/types.ts"
import type { LiveJob } from "../owner/live-job.ts"

/** The result of rendering a ready node: a task for a worker, a list of items, a skip, or a fault. */
export type Rendered =
  | { readonly task: Task }
  | ItemsToRun
  | { readonly skip: true }
  | { readonly fault: Fault }

export interface RenderLimits {
  readonly maxItems: number
  readonly templates: Limits
}

export function renderNode(job: LiveJob, at: AttemptRef, fetched: Fetched, limits: RenderLimits): Rendered {
  const planNode = job.plan.nodes[at.node]!
  const options = { limits: limits.templates }
  try {
    if (at.item !== undefined)
      return { task: renderTask(job, at, fetched, options, itemVariables(job, at.node, at.item)) }
    const { when, forEach } = planNode
    if (when !== null) {
      const condition = when.render(templateScope(job, fetched, at.node), options)
      if (typeof condition === "string" && job.plan.rules >= 2)
        return { fault: textCondition(planNode, condition) }
      if (!isTruthy(condition)) return { skip: true }
    }
    if (forEach !== null)
      return renderItems(
        job,
        forEach.render(templateScope(job, fetched, at.node), options),
        planNode,
        limits.maxItems,
      )
    return { task: renderTask(job, at, fetched, options) }
  } catch (error) {
    return { fault: renderingFault(error, planNode) }
  }
}

function renderTask(
  job: LiveJob,
  at: AttemptRef,
  fetched: Fetched,
  options: { readonly limits: Limits },
  each?: Each,
): Task {
  const { config } = job.plan.nodes[at.node]!
  if (config.templates.length === 0) return buildTask(job, at, config.source, fetched)
  const scope = templateScope(job, fetched, at.node, each)
  const late: LateTemplate[] = []
  const rendered = config.render(scope, {
    ...options,
    late: (template, path, insert) => {
      const postponed = postpone(template, path, scope)
      insert({ names: postponed.names, nodes: postponed.nodes })
      late.push(postponed)
      return null
    },
  })
  return buildTask(job, at, rendered, fetched, late)
}

function itemVariables(job: LiveJob, node: number, index: number): Each {
  return { item: job.state.lists.get(node)!.items[index]!, index }
}

function renderItems(job: LiveJob, list: Json, planNode: PlanNode, maxItems: number): Rendered {
  const { id } = planNode
  if (!Array.isArray(list)) {
    const message = `for_each of node "${id}" yields ${describeKind(list)}, not a list. Write an expression that yields a list.`
    return { fault: { code: "E433", message, retryable: false } }
  }
  if (list.length <= maxItems) return { items: list, ...listSource(job, planNode, list) }
  const message = `for_each of node "${id}" yields ${list.length} items; at most ${maxItems} are allowed (max_items).`
  return { fault: { code: "E434", message, retryable: false } }
}

function textCondition({ id }: PlanNode, text: string): Fault {
  const shown = JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text)
  const message = `when of node "${id}" yields the text ${shown}, which is not a condition. Write an expression that yields true or false, such as a comparison.`
  return { code: "E435", message, retryable: false }
}

function describeKind(value: Json): string {
  if (value === null) return "nothing"
  if (value === skippedOutput) return "the output of a skipped node"
  return typeof value === "object" ? "a mapping" : `a ${typeof value}`
}

function buildTask(
  job: LiveJob,
  { node, item, attempt }: AttemptRef,
  config: Json,
  fetched: Fetched,
  late: readonly LateTemplate[] = [],
): Task {
  const { state, plan } = job
  const { id, handler, timeoutSeconds, heartbeatSeconds, provider } = plan.nodes[node]!
  const own = item === undefined ? state : state.lists.get(node)!.state
  const position = item ?? node
  const isolation = own.suspects.size === 0 ? undefined : taskIsolation(own, position)
  // Optional fields are assigned afterwards: three spreads would take longer than the rest of this function.
  const task: { -readonly [Field in keyof Task]: Task[Field] } = {
    jobId: job.id,
    node,
    nodeId: id,
    attempt,
    shownAttempt: shownAttempt(own, position),
    handler,
    owner: state.owner,
    workflow: state.workflow,
    workflowVersion: state.workflowVersion,
    traceparent: state.traceparent,
    priority: state.priority,
    config,
    late,
    input: state.input,
    parents: () => parentOutputs(job, node, fetched),
    timeoutSeconds,
    announce: own.suspects.size > 0 && own.suspects.has(position),
  }
  if (heartbeatSeconds != null) task.heartbeatSeconds = heartbeatSeconds
  if (isolation !== undefined) task.isolation = isolation
  if (provider !== null) {
    task.provider = provider
    task.operation = own.operations.get(position) ?? 0
  }
  if (item !== undefined) task.item = item
  return task
}

function parentOutputs(job: LiveJob, node: number, fetched: Fetched): JsonObject {
  const parents: { [id: string]: Json } = Object.create(null)
  const { starts, items } = job.plan.dependencies
  for (let i = starts[node]!; i < starts[node + 1]!; i++) {
    const parent = items[i]!
    const output = nodeOutput(job, parent, fetched)
    if (output !== undefined) parents[job.plan.nodes[parent]!.id] = output
  }
  return parents
}

/** A template that reads secrets is rendered where the handler runs; the other values it reads are sent along. */
function postpone(template: Template, path: ValuePath, scope: Scope): LateTemplate {
  const names: { [name: string]: Json } = {}
  const nodes: { [id: string]: Json } = {}
  const keepNode = (id: string) => {
    const output = scope.node(id)
    if (output !== undefined) nodes[id] = output
  }
  for (const { name, path: behind } of template.references) {
    if (name === "secrets") continue
    if (name === "nodes")
      typeof behind[0] === "string" ? keepNode(behind[0]) : scope.nodeIds().forEach(keepNode)
    else if (Object.hasOwn(scope.names, name)) names[name] = scope.names[name]!
    else keepNode(name)
  }
  return { path, source: template.source, names, nodes }
}

/** Outputs that were read from the store, by the seq of their fact. */
export type ReadOutputs = ReadonlyMap<number, Json>

export const nothingRead: ReadOutputs = new Map()

/** The `output` template of a job that has completed. */
export function renderJobOutput(job: LiveJob, read: ReadOutputs, limits: Limits): JobResult {
  const { plan, state } = job
  const fetched = new Map<number, Json>()
  if (read.size > 0)
    for (const node of nodesInOutput(job))
      if (isLarge(job, node))
        fetched.set(
          node,
          wholeOutput(state.outputs[node]!, ({ seq }) => read.get(seq)!),
        )
  try {
    return { job_output: plan.output!.render(templateScope(job, fetched, null), { limits }) }
  } catch (error) {
    return { job_fault: renderingFault(error, null) }
  }
}

/**
 * Outputs that the `output` template needs if these facts complete the job, and that are neither in memory nor read yet.
 */
export function unreadOutputs(
  job: LiveJob,
  facts: readonly Fact[],
  read: ReadOutputs,
): readonly LargeOutput[] {
  if (job.plan.output === null || !mayComplete(job, facts)) return noOutputs
  const parts = nodesInOutput(job).flatMap(node => storedParts(job, node))
  return parts.filter(({ seq }) => !read.has(seq))
}

const noOutputs: readonly LargeOutput[] = []

/** One node is left, and at most one of its items; and the last fact may be its end. */
function mayComplete({ state }: LiveJob, facts: readonly Fact[]): boolean {
  if (state.unfinished !== 1 || !completing.has(facts.at(-1)!.type)) return false
  for (const [node, list] of state.lists) if (!isDone(state, node)) return list.state.unfinished <= 1
  return true
}

const completing: ReadonlySet<Fact["type"]> = new Set([
  "node_completed",
  "node_skipped",
  "node_expanded",
  "item_completed",
  "signal_received",
])

function storedParts({ state }: LiveJob, node: number): readonly LargeOutput[] {
  const list = isDone(state, node) ? undefined : state.lists.get(node)
  return list === undefined ? largeParts(state.outputs[node]) : new ListOutput(list.state.outputs).large
}

/**
 * Nodes whose outputs this one needs and which are, at least in part, not in memory. Usually none, which is found without
 * an allocation: this runs for every node.
 */
export function largeInputs(job: LiveJob, node: number): readonly number[] {
  const { starts, items } = job.plan.dependencies
  const { reads } = job.plan.nodes[node]!
  let large: Set<number> | undefined
  const collect = (input: number) => {
    if (!isLarge(job, input)) return
    large ??= new Set()
    large.add(input)
  }
  for (let i = 0; i < reads.length; i++) collect(reads[i]!)
  for (let i = starts[node]!; i < starts[node + 1]!; i++) collect(items[i]!)
  return large === undefined ? noInputs : [...large]
}

const noInputs: readonly number[] = []

const inOutput = new WeakMap<Plan, readonly number[]>()

function nodesInOutput({ plan }: LiveJob): readonly number[] {
  return valueIn(inOutput, plan, () => findNodesInOutput(plan))
}

function findNodesInOutput(plan: Plan): readonly number[] {
  const read = plan.output!.templates.flatMap(({ template }) => template.references)
  // A computed id may be that of any node.
  if (read.some(({ name, path }) => name === "nodes" && path.length === 0)) return [...plan.nodes.keys()]
  const nodes = read.map(({ name, path }) => plan.positions.get(name === "nodes" ? String(path[0]) : name))
  return [...new Set(nodes.filter(node => node !== undefined))]
}

/** Outputs that are still in memory and will have been evicted when the handler, or a later fetch, reads them. */
export function evictingInputs(job: LiveJob): Fetched {
  if (job.evictingOutputs === null || job.evictingOutputs.size === 0) return nothingFetched
  const kept = new Map<number, Json>()
  for (const { node } of [...job.evictingOutputs].map(parseTaskKey)) {
    const output = job.state.outputs[node]
    if (output === undefined || kept.has(node)) continue
    kept.set(
      node,
      wholeOutput(output, () => null),
    )
  }
  return kept
}

/** Is the output, or a part of it, only in the store? */
function isLarge(job: LiveJob, node: number): boolean {
  const output = job.state.outputs[node]
  return typeof output === "object" && output !== null && largeParts(output).length > 0
}

function renderingFault(error: unknown, node: PlanNode | null): Fault {
  if (!(error instanceof UmbraError)) throw error
  const { code, message } = node === null ? error : withNode(error, node.id)
  return {
    code,
    message: node === null ? `The job's output cannot be rendered. ${message}` : message,
    retryable: false,
  }
}

/** Outputs fetched from the journal for one rendering, by position: they are too large to stay in memory. */
export type Fetched = ReadonlyMap<number, Json>

const nothingFetched: Fetched = new Map()

/** What the config of a node with `for_each` can read in addition. */
export interface Each {
  readonly item: Json
  readonly index: number
}

/**
 * What the templates of a node can read: its dependencies, and no other node, whether that has ended or not. `node` null:
 * the job's output, which can read all nodes. Nothing is copied: a look-up reads the state itself.
 */
function templateScope(job: LiveJob, fetched: Fetched, node: number | null, each?: Each): Scope {
  const names = {
    input: job.state.input,
    get job() {
      return jobVariables(job)
    },
  }
  return {
    names: each === undefined ? names : Object.assign(names, each),
    node: id => {
      const other = job.plan.positions.get(id)
      return other !== undefined && canRead(job, node, other) ? nodeOutput(job, other, fetched) : undefined
    },
    nodeIds: () =>
      readable(job, node)
        .filter(other => isDone(job.state, other) || fetched.has(other))
        .map(other => job.plan.nodes[other]!.id),
  }
}

function canRead({ plan }: LiveJob, node: number | null, other: number): boolean {
  if (node === null) return true
  // Rows are sorted.
  const { starts, items } = plan.dependencies
  let low = starts[node]!
  let high = starts[node + 1]!
  while (low < high) {
    const middle = (low + high) >>> 1
    if (items[middle]! < other) low = middle + 1
    else high = middle
  }
  return low < starts[node + 1]! && items[low] === other
}

function readable({ plan }: LiveJob, node: number | null): readonly number[] {
  if (node === null) return [...plan.nodes.keys()]
  const { starts, items } = plan.dependencies
  return [...items.subarray(starts[node], starts[node + 1])]
}

function jobVariables({ id, state }: LiveJob): JsonObject {
  return {
    id,
    workflow: state.workflow,
    workflow_version: state.workflowVersion === 0 ? null : state.workflowVersion,
    owner: state.owner,
    created_at: new Date(state.createdAt).toISOString(),
  }
}

function nodeOutput(job: LiveJob, node: number | undefined, fetched: Fetched): Json | undefined {
  if (node === undefined) return undefined
  const known = fetched.get(node)
  if (known !== undefined) return known
  if (!isDone(job.state, node)) return undefined
  const output = job.state.outputs[node]
  if (output === undefined || largeParts(output).length === 0)
    return output === undefined ? undefined : wholeOutput(output, () => null)
  throw new UmbraError(
    "E202",
    `The output of node "${job.plan.nodes[node]!.id}" is too large to be found by a computed name; refer to it by its id.`,
  )
}

/**
 * A list of `for_each` is usually one that the job already has: the output of another list, or a part of the input. Its
 * fact then refers to that instead of storing it again: for 10,000 items of 10 KB that was 100 MB in one row.
 */
export interface ItemsToRun {
  readonly items: readonly Json[]
  readonly source?: ListSource
}

/** A template that only names a list yields the same array object, so identity proves the source. */
function listSource(job: LiveJob, { forEach }: PlanNode, list: readonly Json[]): Partial<ItemsToRun> {
  for (const { template } of forEach!.templates)
    for (const reference of template.references) {
      const source = findSource(job, reference, list)
      if (source !== null) return { source: { count: list.length, ...source } }
    }
  return {}
}

function findSource({ state, plan }: LiveJob, { name, path }: Reference, list: readonly Json[]) {
  if (name === "input") return valueAt(state.input, path) === list ? { input: path } : null
  const node = plan.positions.get(name === "nodes" ? String(path[0]) : name)
  const output = node === undefined ? undefined : state.outputs[node]
  if (!(output instanceof ListOutput) || output.large.length > 0) return null
  return wholeOutput(output, () => null) === list ? { node: node! } : null
}
