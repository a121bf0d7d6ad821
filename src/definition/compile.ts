/** Compiles a workflow to a plan: immutable, and the same for every way of writing the same content. */
import type { Json, JsonObject } from "../core/json.ts"
import type { Adjacency, RetryPolicy } from "../core/plan.ts"
import { atOnce, inTurns, type Work } from "../turns.ts"
import type { AdapterCatalog } from "./adapter.ts"
import { type DocumentOptions, reading } from "./document/document.ts"
import { hashCanonical, sortedCopy, withoutDefaults } from "./document/json-value.ts"
import {
  type AnalysedNode,
  type AnalysedWorkflow,
  type AnalysisOptions,
  analyseWorkflow,
} from "./graph/analysis.ts"
import type { HandlerCatalog } from "./handler.ts"
import { pipelinePlan } from "./pipeline/compile.ts"
import type { Plan, PlanNode } from "./plan.ts"
import type { Problem } from "./problem.ts"
import {
  defaultRetryPolicy,
  type NodeDefinition,
  type RetryDefinition,
  retryDefaults,
} from "./shape/schema.ts"

export type CompileResult =
  | { readonly plan: Plan; readonly problems?: undefined }
  | { readonly plan?: undefined; readonly problems: readonly Problem[] }

export function compileWorkflow(source: unknown, options: AnalysisOptions): CompileResult {
  return atOnce(compilation(source, options))
}

/** As `compileWorkflow`, but yields to the event loop (turns.ts). */
export function* compilation(source: unknown, options: AnalysisOptions): Work<CompileResult> {
  const { problems, workflow, pipeline } = yield* analyseWorkflow(source, options)
  if (pipeline !== undefined) return { plan: yield* pipelinePlan(pipeline) }
  return workflow === undefined ? { problems } : { plan: yield* buildPlan(workflow) }
}

/** All problems of a workflow, none if it is valid. `source` is a parsed value, or an object in code. */
export function validateWorkflow(source: unknown, options: AnalysisOptions): readonly Problem[] {
  return atOnce(analyseWorkflow(source, options)).problems
}

export interface LoadOptions extends DocumentOptions {
  readonly handlers: HandlerCatalog
  /** For pipelines; left out: no adapter is known. */
  readonly adapters?: AdapterCatalog | undefined
}

/** Compiles text to a plan, or returns all its problems with lines and columns. */
export function loadWorkflow(text: string, options: LoadOptions): CompileResult {
  return atOnce(loading(text, options))
}

/**
 * The same without blocking the event loop: a workflow of 20,000 nodes takes half a second. YAML is parsed without
 * yielding, so the caller bounds its length (`yamlInOnePiece`).
 */
export function loadInTurns(source: string, options: LoadOptions): Promise<CompileResult> {
  return inTurns(loading(source, options))
}

function* loading(text: string, options: LoadOptions): Work<CompileResult> {
  const { value, problems, unread = [], locate } = yield* reading(text, options)
  if (value === undefined) return { problems }
  const { format: _, ...rest } = options
  const compiled = yield* compilation(value, { ...rest, locate, isPartial: unread.length > 0 })
  if (problems.length === 0) return compiled
  const known = new Set(unread)
  const causes =
    compiled.problems?.filter(({ path }) => !enclosing(path).some(outer => known.has(outer))) ?? []
  return { problems: byPlace([...problems, ...causes]) }
}

function byPlace(problems: Problem[]): Problem[] {
  return problems.sort((a, b) => (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0))
}

/** A path and all its prefixes: `a`, `a.b`, `a.b[0]`. */
function enclosing(path: string): string[] {
  const ends = [...path.matchAll(/[.[]/g)].map(({ index }) => index)
  return ["", ...ends.map(end => path.slice(0, end)), path]
}

function* buildPlan(workflow: AnalysedWorkflow): Work<Plan> {
  const { head, dependencies, successors, inDegrees, order, positions, input, output, rules } = workflow
  const { canonical, document } = yield* buildForms(workflow)
  const hash = yield* hashCanonical(canonical)
  const nodes: PlanNode[] = []
  const providers = new Set<string>()
  for (const node of workflow.nodes) {
    nodes.push(planNode(node))
    if (node.definition.provider != null) providers.add(node.definition.provider)
    yield
  }
  return Object.freeze({
    name: head.name,
    hash,
    nodes: Object.freeze(nodes),
    ...{ positions, inDegrees, successors, dependencies, order, input, output, canonical, document, rules },
    exits: findExits(successors),
    providers: Object.freeze([...providers]),
    ttlSeconds: head.ttl_seconds ?? null,
    pipeline: null,
  })
}

function planNode({ definition, config, when, forEach, reads, signal }: AnalysedNode): PlanNode {
  return Object.freeze({
    id: definition.id,
    handler: definition.handler,
    timeoutSeconds: definition.timeout_seconds ?? null,
    heartbeatSeconds: definition.heartbeat_seconds ?? null,
    ...compileRetry(definition.retry),
    config,
    when,
    forEach,
    reads,
    maxParallel: definition.max_parallel ?? null,
    failFast: definition.fail_fast ?? true,
    provider: definition.provider ?? null,
    signal,
  })
}

function compileRetry(said: RetryDefinition | null | undefined): Pick<PlanNode, "retry" | "writtenRetry"> {
  if (said == null) return nothingSaid
  const { max_attempts, initial_seconds, max_seconds, multiplier, jitter } = said
  const all = { maxAttempts: max_attempts, initialSeconds: initial_seconds, maxSeconds: max_seconds }
  const written = Object.entries({ ...all, multiplier, jitter }).filter(([, value]) => value != null)
  const writtenRetry: Partial<RetryPolicy> = Object.freeze(Object.fromEntries(written))
  return { retry: Object.freeze({ ...defaultRetryPolicy, ...writtenRetry }), writtenRetry }
}

const nothingSaid = { retry: defaultRetryPolicy, writtenRetry: Object.freeze({}) }

function findExits({ starts }: Adjacency): Int32Array {
  const exits: number[] = []
  for (let i = 0; i + 1 < starts.length; i++) if (starts[i] === starts[i + 1]) exits.push(i)
  return Int32Array.from(exits)
}

/**
 * The canonical form: the definition with sorted keys, without values that equal a default, and with all dependencies
 * written out in document order. The stored document also keeps values of `retry` that were written although they are
 * the default. Both forms are definitions themselves, and compile to the same plan.
 */
function* buildForms(workflow: AnalysedWorkflow): Work<Record<"canonical" | "document", JsonObject>> {
  const { head, nodes, dependencies, input, output } = workflow
  const { starts, items } = dependencies
  const canonicalNodes: JsonObject[] = []
  const documentNodes: JsonObject[] = []
  let isSame = true
  for (const [i, node] of nodes.entries()) {
    const ids: string[] = new Array(starts[i + 1]! - starts[i]!)
    for (let k = 0; k < ids.length; k++) ids[k] = nodes[items[starts[i]! + k]!]!.definition.id
    const canonical = canonicalNode(node, ids)
    const document = withWrittenRetry(canonical, node.definition)
    if (document !== canonical) isSame = false
    canonicalNodes.push(canonical)
    documentNodes.push(document)
    yield
  }
  const form = (of: readonly JsonObject[]): JsonObject =>
    Object.freeze({
      ...(head.description == null ? {} : { description: head.description }),
      ...(input === null ? {} : { input }),
      name: head.name,
      nodes: of,
      ...(output === null ? {} : { output: output.source }),
      ...(head.ttl_seconds == null ? {} : { ttl_seconds: head.ttl_seconds }),
    })
  const canonical = form(canonicalNodes)
  return { canonical, document: isSame ? canonical : form(documentNodes) }
}

/** `retry` as written, including default values: another release may have other defaults. */
function withWrittenRetry(canonical: JsonObject, { retry }: NodeDefinition): JsonObject {
  const written = retry == null ? undefined : withoutDefaults(retry, noDefaults)
  const kept = Object.keys(canonical.retry ?? {}).length
  if (written === undefined || Object.keys(written).length === kept) return canonical
  return sortedCopy({ ...canonical, retry: written }) as JsonObject
}

const noDefaults = Object.fromEntries(Object.keys(retryDefaults).map(key => [key, undefined]))

function canonicalNode(
  { definition, config, when, forEach }: AnalysedNode,
  dependencies: readonly string[],
): JsonObject {
  const node: Record<string, Json> = {}
  if (Object.keys(config.source as JsonObject).length > 0) node.config = config.source
  if (dependencies.length > 0) node.dependencies = dependencies
  if (definition.fail_fast === false) node.fail_fast = false
  if (forEach !== null) node.for_each = forEach.source
  node.handler = definition.handler
  if (definition.heartbeat_seconds != null) node.heartbeat_seconds = definition.heartbeat_seconds
  node.id = definition.id
  if (definition.max_parallel != null) node.max_parallel = definition.max_parallel
  if (definition.provider != null) node.provider = definition.provider
  const retry = definition.retry == null ? undefined : withoutDefaults(definition.retry, retryDefaults)
  if (retry !== undefined) node.retry = retry
  if (definition.timeout_seconds != null) node.timeout_seconds = definition.timeout_seconds
  if (when !== null) node.when = when.source
  return node
}
