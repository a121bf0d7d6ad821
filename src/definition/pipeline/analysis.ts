/** Analyses a pipeline in one pass: finds all its problems, and everything that a plan needs. */
import type { JsonObject } from "../../core/json.ts"
import type { Work } from "../../turns.ts"
import { isObject, sortedCopy } from "../document/json-value.ts"
import { checkInputSchema } from "../input/input-schema.ts"
import { firstPositions } from "../problem.ts"
import { analyseAdapters, analyseBody, type PipelineContext } from "./adapters.ts"
import type { AdapterPlan, InitPlan } from "./plan.ts"
import { checkQueues, type Write } from "./queues.ts"
import type { PipelineDefinition, RouteDefinition } from "./schema.ts"
import { checkHead, checkInit, checkRoute, outboundQueues, type SoundInit, type SoundRoute } from "./shape.ts"

/** A valid pipeline, with its templates compiled and its queues resolved. */
export interface AnalysedPipeline {
  readonly head: PipelineDefinition
  readonly input: JsonObject | null
  readonly routes: readonly AnalysedRoute[]
  readonly positions: ReadonlyMap<string, number>
  readonly readers: ReadonlyMap<string, number>
  readonly init: readonly InitPlan[]
  readonly rules: number
}

export interface AnalysedRoute {
  readonly definition: RouteDefinition
  readonly adapters: readonly AdapterPlan[]
  /** By kind, sorted. */
  readonly outbound: ReadonlyMap<string, number>
}

/** `undefined` if there are problems. */
export function* analysePipeline(
  source: Record<string, unknown>,
  context: PipelineContext,
): Work<AnalysedPipeline | undefined> {
  const { problems, limits, rules } = context
  const headIsWhole = checkHead(source, context) && !context.isPartial
  if (isObject(source.input)) yield* checkInputSchema(source.input, { problems, isStored: rules < 2 })
  if (!Array.isArray(source.routes)) return undefined
  if (source.routes.length === 0)
    problems.add("E108", ["routes"], "The pipeline has no routes. Add at least one.")
  if (source.routes.length > limits.routes) {
    const message = `The pipeline has ${source.routes.length} routes; at most ${limits.routes} are allowed (limit routes). Split the pipeline.`
    problems.add("E101", ["routes"], message)
    return undefined
  }
  const checked = yield* each(source.routes as unknown[], (route, i) => checkRoute(route, i, context))
  const sound = checked.map(route => route?.definition)
  const names = sound.map(route => route?.name)
  const positions = firstPositions(names, (name, position, first) => {
    const message = `routes[${first}] already has the name "${name}". Rename one of the two.`
    problems.add("E104", ["routes", position, "name"], message)
  })
  const adapters = yield* each(checked, (route, i) => analyseAdapters(route, i, context))
  const inits = checkInit(source.init, context)
  const first = sound[0]?.inbound
  const bodies = inits && (yield* each(inits, init => analyseBody(init, context)))
  const readers = checkQueues(
    {
      routes: sound.map((route, i) => ({ name: route?.name ?? `routes[${i}]`, inbound: route?.inbound })),
      writes: [...initWrites(inits ?? [], first), ...routeWrites(sound)],
      isComplete: headIsWhole && inits !== undefined && checked.every(route => route?.writesKnown),
      maxHops: !headIsWhole ? undefined : ((source.max_hops as number | null) ?? null),
    },
    context,
  )
  if (problems.size > 0) return undefined
  return {
    head: source as PipelineDefinition,
    input: source.input == null ? null : (sortedCopy(source.input) as JsonObject),
    routes: (sound as RouteDefinition[]).map((definition, i) => ({
      definition,
      adapters: adapters[i]!,
      outbound: outboundPositions(definition, readers),
    })),
    positions,
    readers,
    rules: context.rules,
    init: inits!.map(({ queue }, i) => ({ route: readers.get(queue ?? first!)!, body: bodies![i]! })),
  }
}

function* each<T, R>(list: readonly T[], of: (item: T, i: number) => R): Work<R[]> {
  const found: R[] = []
  for (const item of list) {
    found.push(of(item, found.length))
    yield
  }
  return found
}

function* initWrites(inits: readonly SoundInit[], first: string | undefined): Generator<Write> {
  for (const { queue, path } of inits) {
    if (queue != null) yield { from: null, queue, path: [...path, "queue"] }
    else if (first !== undefined) yield { from: null, queue: first, path }
  }
}

function* routeWrites(routes: readonly (SoundRoute | undefined)[]): Generator<Write> {
  for (const [from, route] of routes.entries())
    for (const { queue, at } of outboundQueues(route ?? {}).values())
      yield { from, queue, path: ["routes", from, ...at] }
}

function outboundPositions(route: SoundRoute, readers: ReadonlyMap<string, number>): Map<string, number> {
  const kinds = [...outboundQueues(route)].sort(([a], [b]) => (a < b ? -1 : 1))
  return new Map(kinds.map(([kind, { queue }]) => [kind, readers.get(queue)!]))
}
