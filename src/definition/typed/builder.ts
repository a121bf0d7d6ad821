/**
 * Workflows written in TypeScript: `workflow("name", { input }, flow => …)`.
 *
 * The result is the plain definition that one would write in YAML, with the same hash: refs become templates,
 * dependencies follow from the templates and are not listed, and nothing is added that the author did not write.
 * Refs exist only after the node they read, so a built workflow has no cycle and no unknown reference.
 */
import type { StandardSchemaV1 } from "@standard-schema/spec"
import type { AdapterSpec } from "../adapter.ts"
import type { HandlerSpec } from "../handler.ts"
import type { PipelineDefinition } from "../pipeline/schema.ts"
import type { WorkflowDefinition } from "../shape/schema.ts"
import { emit } from "./emit.ts"
import { Flow, type Resolved, readContent, type TemplatedJson } from "./flow.ts"
import { buildHead, type InputOptions, type Settings } from "./head.ts"

export {
  type AnyRoute,
  type ErrorHandlingOptions,
  type PipelineFlow,
  type PipelineOptions,
  pipeline,
  type Queue,
  type Route,
  type RouteOptions,
} from "../pipeline/flow.ts"
export type { PipelineTotals, RouteTotals } from "../pipeline/plan.ts"
export { cast, expr, orElse, text } from "./expression.ts"
export type {
  AnyFlow,
  ConfigOf,
  EachOptions,
  Flow,
  NodeHandle,
  NodeOptions,
  OutputOf,
  Ref,
  Resolved,
  RetryOptions,
  RunEachOptions,
  RunOptions,
  Skippable,
  Templated,
} from "./flow.ts"
export type { JobInfo } from "./head.ts"

declare const types: unique symbol

/** A document of either kind: with nodes or with routes. */
export type Definition = WorkflowDefinition | PipelineDefinition

/** A workflow or a pipeline and, for the compiler, the types of its jobs' input and output. */
export interface Workflow<Input = unknown, Output = unknown, D extends Definition = Definition> {
  readonly name: string
  /** Plain JSON, as accepted by `compileWorkflow`, in a YAML file or by the API. */
  readonly definition: D
  /** The handlers its nodes name, each once. */
  readonly handlers: readonly HandlerSpec[]
  /** The adapters its routes name, each once. */
  readonly adapters: readonly AdapterSpec[]
  /** The workflows its nodes run, each once: stored together with it. */
  readonly workflows: readonly Workflow[]
  /** Exists for the compiler only. */
  readonly [types]?: { readonly input: Input; readonly output: Output }
}

/** The input of a job of this workflow, before defaults are filled in. */
export type WorkflowInput<W extends Workflow> = W extends Workflow<infer Input, unknown> ? Input : never
/** The output of a job of this workflow. */
export type WorkflowOutput<W extends Workflow> = W extends Workflow<unknown, infer Output> ? Output : never

export type WorkflowOptions<S extends StandardSchemaV1> = Settings & InputOptions<S>

type Build<Input, Output> = (flow: Flow<Input>) => Output
// biome-ignore lint/suspicious/noConfusingVoidType: it is the return type of the build function
type SomeOutput = TemplatedJson | void
/** Without a return value, the job's output is determined as for any definition without `output`. */
type OutputFrom<Output> = [Output] extends [TemplatedJson] ? Resolved<Output> : unknown

export function workflow<const Output extends SomeOutput>(
  name: string,
  build: Build<unknown, Output>,
): Workflow<unknown, OutputFrom<Output>, WorkflowDefinition>
export function workflow<const Output extends SomeOutput>(
  name: string,
  options: Settings & { readonly input?: never },
  build: Build<unknown, Output>,
): Workflow<unknown, OutputFrom<Output>, WorkflowDefinition>
export function workflow<S extends StandardSchemaV1, const Output extends SomeOutput>(
  name: string,
  options: WorkflowOptions<S>,
  build: Build<StandardSchemaV1.InferOutput<S>, Output>,
): Workflow<StandardSchemaV1.InferInput<S>, OutputFrom<Output>, WorkflowDefinition>
export function workflow(name: string, ...rest: unknown[]): Workflow<unknown, unknown, WorkflowDefinition> {
  const build = rest.pop() as Build<unknown, unknown>
  const options = (rest[0] ?? {}) as Partial<WorkflowOptions<StandardSchemaV1>>
  const flow = new Flow<unknown>(name)
  const output = build(flow)
  const { nodes, handlers, workflows, place } = readContent(flow)
  const definition: WorkflowDefinition = {
    ...buildHead(name, options),
    nodes,
    ...(output !== undefined && { output: emit(output, place("output")) }),
  }
  return Object.freeze({ name, definition, handlers, adapters: Object.freeze([]), workflows })
}
