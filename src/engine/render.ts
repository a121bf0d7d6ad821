import type { LateTemplate, Task } from "../broker/port.ts"
import type { JobResult } from "../core/commands.ts"
import type { Fault } from "../core/faults.ts"
import type { Json, JsonObject } from "../core/json.ts"
import { LargeOutput } from "../core/state.ts"
import type { PlanNode } from "../definition/plan.ts"
import { UmbraError } from "../errors.ts"
import { isTruthy, withNode } from "../template/index.ts"
import type { Scope, Template, ValuePath } from "../template/types.ts"
import type { LiveJob } from "./live-job.ts"
import { type Fetched, nothingFetched, outputOf, scopeOf } from "./scope.ts"

/** What becomes of a node that is ready: a task for a worker, a skip, or a fault. */
export type Rendered = { readonly task: Task } | { readonly skip: true } | { readonly fault: Fault }

export function renderNode(job: LiveJob, node: number, fetched: Fetched): Rendered {
  const planNode = job.plan.nodes[node]!
  try {
    const { when, config } = planNode
    if (when === null && config.templates.length === 0)
      return { task: taskOf(job, node, config.source, fetched) }
    const scope = scopeOf(job, fetched)
    if (when !== null && !isTruthy(when.render(scope))) return { skip: true }
    const late: LateTemplate[] = []
    const rendered = config.render(scope, { late: (template, path) => postpone(late, template, path, scope) })
    return { task: taskOf(job, node, rendered, fetched, late) }
  } catch (error) {
    return { fault: renderingFault(error, planNode) }
  }
}

function taskOf(
  job: LiveJob,
  node: number,
  config: Json,
  fetched: Fetched,
  late: readonly LateTemplate[] = [],
): Task {
  const { state, plan } = job
  const { id, handler, timeoutSeconds, provider } = plan.nodes[node]!
  return {
    jobId: job.id,
    node,
    nodeId: id,
    attempt: state.attempt[node]!,
    handler,
    owner: state.owner,
    workflow: state.workflow,
    workflowVersion: state.workflowVersion,
    traceparent: state.traceparent,
    priority: state.priority,
    config,
    late,
    input: state.input,
    parents: () => parentsOf(job, node, fetched),
    timeoutSeconds,
    announce: state.suspects.size > 0 && state.suspects.has(node),
    ...(provider === null ? {} : { provider, operation: state.operations.get(node) ?? 0 }),
  }
}

function parentsOf(job: LiveJob, node: number, fetched: Fetched): JsonObject {
  const parents: { [id: string]: Json } = Object.create(null)
  const { starts, items } = job.plan.dependencies
  for (let i = starts[node]!; i < starts[node + 1]!; i++) {
    const parent = items[i]!
    const output = outputOf(job, parent, fetched)
    if (output !== undefined) parents[job.plan.nodes[parent]!.id] = output
  }
  return parents
}

/** A template that reads secrets is rendered where the handler runs; what else it reads goes with it. */
function postpone(late: LateTemplate[], template: Template, path: ValuePath, scope: Scope): null {
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
  late.push({ path, source: template.source, names, nodes })
  return null
}

/** The `output` template, rendered with the output of the node that is about to be the last. */
export function renderJobOutput(
  job: LiveJob,
  last: { node: number; output: Json },
  fetched: Fetched,
): JobResult {
  const { plan } = job
  if (plan.output === null) return {}
  try {
    return { jobOutput: plan.output.render(scopeOf(job, new Map(fetched).set(last.node, last.output))) }
  } catch (error) {
    return { jobFault: renderingFault(error, null) }
  }
}

/** Outputs the node needs that are not in memory. */
export function largeInputs(job: LiveJob, node: number): LargeInput[] {
  const { starts, items } = job.plan.dependencies
  return largeOf(job, [...job.plan.nodes[node]!.reads, ...items.subarray(starts[node], starts[node + 1])])
}

export function largeInputsOfOutput(job: LiveJob): LargeInput[] {
  const read = job.plan.output?.templates.flatMap(({ template }) => template.references) ?? []
  const nodes = read.map(({ name, path }) =>
    job.plan.positions.get(name === "nodes" ? String(path[0]) : name),
  )
  return largeOf(
    job,
    nodes.filter(node => node !== undefined),
  )
}

/** Outputs that are still here and will not be when the handler, or a later fetch, reads them. */
export function leavingInputs(job: LiveJob): Fetched {
  if (job.leaving === null || job.leaving.size === 0) return nothingFetched
  return new Map([...job.leaving].map(node => [node, job.state.outputs[node] as Json]))
}

export interface LargeInput {
  readonly node: number
  readonly seq: number
}

function largeOf(job: LiveJob, nodes: readonly number[]): LargeInput[] {
  const large = new Map<number, LargeInput>()
  for (const node of nodes) {
    const output = job.state.outputs[node]
    if (output instanceof LargeOutput) large.set(node, { node, seq: output.seq })
  }
  return [...large.values()]
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
