/**
 * Pipelines written in TypeScript: `pipeline("name", { input }, flow => …)`. As with `workflow`, the result is the plain
 * definition a person would write in YAML, with the same hash.
 */
import type { StandardSchemaV1 } from "@standard-schema/spec"
import type { Workflow } from "../typed/builder.ts"
import { headOf, type InputOptions, type Settings } from "../typed/head.ts"
import { contentOf, PipelineFlow } from "./flow.ts"
import type { PipelineTotals } from "./plan.ts"
import type { PipelineDefinition } from "./schema.ts"

interface PipelineSettings extends Settings {
  /** How many routes a message and its predecessors may pass after an initial message; required if routes form a cycle. */
  readonly maxHops?: number
  /** With more dead letters the job fails: a whole number, or (0.05) a share of the messages of any one route. */
  readonly maxDeadLetters?: number
}

export type PipelineOptions<S extends StandardSchemaV1> = PipelineSettings & InputOptions<S>

type Build<Input> = (flow: PipelineFlow<Input>) => unknown
type Pipeline<Input> = Workflow<Input, PipelineTotals, PipelineDefinition>

export function pipeline(name: string, build: Build<unknown>): Pipeline<unknown>
export function pipeline(
  name: string,
  options: PipelineSettings & { readonly input?: never },
  build: Build<unknown>,
): Pipeline<unknown>
export function pipeline<S extends StandardSchemaV1>(
  name: string,
  options: PipelineOptions<S>,
  build: Build<StandardSchemaV1.InferOutput<S>>,
): Pipeline<StandardSchemaV1.InferInput<S>>
export function pipeline(name: string, ...rest: unknown[]): Pipeline<unknown> {
  const build = rest.pop() as Build<unknown>
  const options = (rest[0] ?? {}) as PipelineSettings & Partial<InputOptions<StandardSchemaV1>>
  const flow = new PipelineFlow<unknown>(name)
  build(flow)
  const { routes, init, adapters } = contentOf(flow)
  const definition: PipelineDefinition = {
    ...headOf(name, options),
    ...(options.maxHops !== undefined && { max_hops: options.maxHops }),
    ...(options.maxDeadLetters !== undefined && { max_dead_letters: options.maxDeadLetters }),
    ...(init.length > 0 && { init }),
    routes,
  }
  return Object.freeze({
    name,
    definition,
    handlers: Object.freeze([]),
    adapters,
    workflows: Object.freeze([]),
  })
}
