/**
 * Analyses a workflow in one pass: finds all its problems, and everything that a plan needs. First the shape and the ids
 * of all nodes, then the references of each node, then the graph. Only causes are reported: consequences of a malformed
 * entry (a reference to it, its missing handler) are left out.
 */
import type { JsonObject } from "../../core/json.ts"
import type { Adjacency, SignalSchema } from "../../core/plan.ts"
import type { ValueTemplate } from "../../template/types.ts"
import type { Work } from "../../turns.ts"
import { type AdapterCatalog, adapterCatalog } from "../adapter.ts"
import { checkJson, isObject, sortedCopy } from "../document/json-value.ts"
import type { HandlerCatalog } from "../handler.ts"
import { checkInputSchema } from "../input/input-schema.ts"
import { type DefinitionLimits, defaultLimits } from "../limits.ts"
import { type AnalysedPipeline, analysePipeline } from "../pipeline/analysis.ts"
import { type Locate, type Problem, ProblemList } from "../problem.ts"
import type { NodeDefinition, WorkflowDefinition } from "../shape/schema.ts"
import { checkHead, checkName, checkNodeShape } from "../shape/shape.ts"
import { Suggester } from "../suggest.ts"
import { compileTemplates } from "../templates.ts"
import { rowLengths, transpose } from "./graph.ts"
import { NodeAnalysis } from "./node-analysis.ts"
import { checkStructure } from "./structure.ts"

/**
 * The version of the rules of definitions. A stored version is compiled under the rules of its push, so that it keeps its
 * meaning. 1: text from a condition (`when`) counts as true unless it is empty. 2: such text is a fault, and a condition
 * that can only yield text is a problem of the document.
 */
const currentRules = 2

export interface AnalysisOptions {
  readonly handlers: HandlerCatalog
  /** For pipelines; left out: no adapter is known. */
  readonly adapters?: AdapterCatalog | undefined
  readonly locate?: Locate
  readonly limits?: Partial<DefinitionLimits>
  /** Parts of the document could not be parsed, so nothing can be concluded from missing values. */
  readonly isPartial?: boolean
  /** The rules of a stored version; default `currentRules`. */
  readonly rules?: number
}

/** A valid node, with its templates compiled and its references resolved. */
export interface AnalysedNode {
  readonly definition: NodeDefinition
  readonly config: ValueTemplate
  readonly when: ValueTemplate | null
  readonly forEach: ValueTemplate | null
  /** Positions read by templates, sorted. */
  readonly reads: Int32Array
  readonly signal: SignalSchema | undefined
}

export interface Analysis {
  readonly problems: readonly Problem[]
  /** One of the two, only if there are no problems. */
  readonly workflow?: AnalysedWorkflow
  readonly pipeline?: AnalysedPipeline
}

export interface AnalysedWorkflow {
  readonly head: WorkflowDefinition
  readonly nodes: readonly AnalysedNode[]
  readonly positions: ReadonlyMap<string, number>
  readonly input: JsonObject | null
  readonly output: ValueTemplate | null
  readonly dependencies: Adjacency
  readonly successors: Adjacency
  readonly inDegrees: Int32Array
  readonly order: Int32Array
  readonly rules: number
}

export function* analyseWorkflow(source: unknown, options: AnalysisOptions): Work<Analysis> {
  const limits = { ...defaultLimits, ...options.limits }
  const { rules = currentRules } = options
  const problems = new ProblemList(options.locate)
  const suggest = new Suggester()
  // A value takes at least two bytes of text.
  checkJson(source, { depth: limits.depth, values: limits.documentBytes / 2 }, problems)
  yield
  // Not JSON, or a cycle of objects: no other check is safe.
  if (problems.size > 0) return { problems: problems.sorted() }

  const shape = { problems, suggest, limits }
  if (rules >= 2 && isObject(source)) checkName(source.name, problems)
  if (isObject(source) && source.routes !== undefined) {
    const { adapters = noAdapters, isPartial = false } = options
    const pipeline =
      source.nodes === undefined
        ? yield* analysePipeline(source, { ...shape, adapters, isPartial, rules })
        : both(shape)
    return pipeline === undefined ? { problems: problems.sorted() } : { problems: [], pipeline }
  }
  const head = checkHead(source, shape)
  if (head === undefined) return { problems: problems.sorted() }
  if (isObject(head.input)) yield* checkInputSchema(head.input, { problems, isStored: rules < 2 })
  if (!Array.isArray(head.nodes)) return { problems: problems.sorted() }
  if (head.nodes.length > limits.nodes) {
    const message = `The workflow has ${head.nodes.length} nodes; at most ${limits.nodes} are allowed (limit nodes). Split it, or use "for_each".`
    problems.add("E101", ["nodes"], message)
    return { problems: problems.sorted() }
  }

  const definitions: ReturnType<typeof checkNodeShape>[] = []
  for (const node of head.nodes as unknown[]) {
    definitions.push(checkNodeShape(node, definitions.length, shape))
    yield
  }
  const nodes = new NodeAnalysis({
    ...shape,
    ...{ handlers: options.handlers, sources: head.nodes, definitions, rules },
  })
  const analysed = yield* nodes.analyse()
  const output =
    head.output == null ? null : compileTemplates(sortedCopy(head.output), () => ["output"], problems)
  if (output !== null) nodes.checkOutput(output)
  if (analysed === undefined) return { problems: problems.sorted() }

  yield
  const dependencies = nodes.dependencies()
  const successors = transpose(dependencies)
  const inDegrees = rowLengths(dependencies)
  const { ids, findOrigin } = nodes
  const { order } = checkStructure({ ids, dependencies, successors, inDegrees, findOrigin }, problems)
  if (problems.size > 0) return { problems: problems.sorted() }
  const workflow: AnalysedWorkflow = {
    head: head as WorkflowDefinition,
    nodes: analysed as readonly AnalysedNode[],
    positions: nodes.positions,
    input: head.input == null ? null : (sortedCopy(head.input) as JsonObject),
    output: output as ValueTemplate | null,
    ...{ dependencies, successors, inDegrees, order, rules },
  }
  return { problems: [], workflow }
}

const noAdapters = adapterCatalog([])

/** It is not known which of the two was meant, so neither is analysed. */
function both({ problems }: { readonly problems: ProblemList }): undefined {
  const message =
    'A document has "nodes" (a workflow) or "routes" (a pipeline), not both. Remove one of them, or split the document into two.'
  problems.add("E101", ["routes"], message, { key: true })
}
