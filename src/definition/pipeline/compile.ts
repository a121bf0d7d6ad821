/** Compiles a valid pipeline to a plan: one node that runs all its routes. */
import type { Json, JsonObject } from "../../core/json.ts"
import type { RetryPolicy } from "../../core/plan.ts"
import { compileValue } from "../../template/index.ts"
import type { Work } from "../../turns.ts"
import { withoutDefaults } from "../canonical.ts"
import { hashOf } from "../content-hash.ts"
import { emptyObject, sortedCopy } from "../document/json-value.ts"
import type { Plan, PlanNode } from "../plan.ts"
import { defaultRetryPolicy } from "../shape/schema.ts"
import { wholeInput } from "./adapters.ts"
import type { AnalysedPipeline, AnalysedRoute } from "./analysis.ts"
import type { BackpressurePlan, BreakerPlan, PipelinePlan, RoutePlan } from "./plan.ts"
import { type RouteDefinition, routeDefaults } from "./schema.ts"

/** The handler of the one node of a pipeline: it runs in the process that owns the job, not on a worker. */
export const routesHandler = "routes"

const node: PlanNode = Object.freeze({
  id: "pipeline",
  handler: routesHandler,
  timeoutSeconds: null,
  // Each route has its own rules for retries of messages. This retry is for the limit of concurrent executions.
  retry: defaultRetryPolicy,
  resumes: true,
  config: compileValue(emptyObject).value,
  when: null,
  forEach: null,
  reads: new Int32Array(0),
  maxParallel: null,
  failFast: true,
  provider: null,
})

const noEdges = { starts: new Int32Array(2), items: new Int32Array(0) }
const oneNode = {
  nodes: Object.freeze([node]),
  positions: new Map([[node.id, 0]]),
  inDegrees: new Int32Array(1),
  successors: noEdges,
  dependencies: noEdges,
  order: new Int32Array(1),
  exits: new Int32Array(1),
  providers: Object.freeze([]),
  output: compileValue(`{{ ${node.id} }}`).value,
}

export function* pipelinePlan(analysed: AnalysedPipeline): Work<Plan> {
  const { head, input, positions, readers, init, rules } = analysed
  const canonical = canonicalOf(analysed)
  const hash = yield* hashOf(canonical)
  const pipeline: PipelinePlan = Object.freeze({
    routes: Object.freeze(analysed.routes.map(route => routePlan(route, rules))),
    ...{ positions, readers, init },
    maxHops: head.max_hops ?? null,
    maxDeadLetters: head.max_dead_letters ?? null,
  })
  return Object.freeze({
    ...oneNode,
    ...{ name: head.name, hash, input, canonical, document: canonical, pipeline, rules },
    ttlSeconds: head.ttl_seconds ?? null,
  })
}

function routePlan({ definition, adapters, outbound }: AnalysedRoute, rules: number): RoutePlan {
  const { error_handling: handling } = definition
  return Object.freeze({
    name: definition.name,
    inbound: definition.inbound,
    ...{ adapters, outbound, rules },
    runOn: definition.run_on ?? routeDefaults.run_on,
    concurrency: definition.concurrency ?? routeDefaults.concurrency,
    prefetch: definition.prefetch ?? routeDefaults.prefetch,
    rate: definition.rate ?? routeDefaults.rate,
    backpressure: backpressurePlan(definition),
    retry: retryPolicy(handling),
    deadLetter: handling?.dead_letter ?? routeDefaults.error_handling.dead_letter,
    breaker: breakerPlan(handling?.circuit_breaker),
  })
}

/** The types of a frozen object's values, which the compiler takes for constants. */
type Settled<T> = { readonly [K in keyof T]: T[K] extends number ? number : boolean }

/** A definition may have null for a key that is left out. */
function settle<Defaults extends object>(
  defaults: Defaults,
  definition: { readonly [K in keyof Defaults]?: Settled<Defaults>[K] | null | undefined } | null | undefined,
): Settled<Defaults> {
  const said = Object.entries(definition ?? {}).filter(([, value]) => value != null)
  return { ...defaults, ...Object.fromEntries(said) } as Settled<Defaults>
}

function backpressurePlan({ backpressure }: RouteDefinition): BackpressurePlan {
  const settled = settle(routeDefaults.backpressure, backpressure)
  return Object.freeze({
    adaptive: settled.adaptive,
    minConcurrency: settled.min_concurrency,
    tolerance: settled.tolerance,
    maxQueued: settled.max_queued,
  })
}

function retryPolicy(handling: RouteDefinition["error_handling"]): RetryPolicy {
  const defaults = routeDefaults.error_handling
  const settled = settle(defaults.backoff, handling?.backoff)
  return Object.freeze({
    maxAttempts: (handling?.retries ?? defaults.retries) + 1,
    initialSeconds: settled.initial_seconds,
    maxSeconds: settled.max_seconds,
    multiplier: settled.multiplier,
    jitter: settled.jitter,
  })
}

type BreakerDefinition = NonNullable<RouteDefinition["error_handling"]>["circuit_breaker"]

function breakerPlan(breaker: BreakerDefinition): BreakerPlan | null {
  if (breaker === false) return null
  const defaults = routeDefaults.error_handling.circuit_breaker
  const settled = settle(defaults, breaker)
  return Object.freeze({
    failureRate: settled.failure_rate,
    minCalls: settled.min_calls,
    windowSeconds: settled.window_seconds,
    openSeconds: settled.open_seconds,
    trialCalls: settled.trial_calls,
  })
}

/**
 * The definition with sorted keys, without values that equal a default. It is itself a definition, and compiles to the
 * same plan.
 */
function canonicalOf({ head, input, routes, init }: AnalysedPipeline): JsonObject {
  const first = routes[0]!.definition.inbound
  const messages = init.map(({ route, body }) => {
    const queue = routes[route]!.definition.inbound
    return {
      ...(queue === first ? {} : { queue }),
      ...(body.source === wholeInput ? {} : { body: body.source }),
    }
  })
  const isUsual = messages.length === 1 && Object.keys(messages[0]!).length === 0
  return sortedCopy({
    ...(head.description == null ? {} : { description: head.description }),
    ...(isUsual ? {} : { init: messages }),
    ...(input === null ? {} : { input }),
    ...(head.max_dead_letters == null ? {} : { max_dead_letters: head.max_dead_letters }),
    ...(head.max_hops == null ? {} : { max_hops: head.max_hops }),
    name: head.name,
    routes: routes.map(route => canonicalRoute(route, routes)),
    ...(head.ttl_seconds == null ? {} : { ttl_seconds: head.ttl_seconds }),
  }) as JsonObject
}

function canonicalRoute(
  { definition, adapters, outbound }: AnalysedRoute,
  routes: readonly AnalysedRoute[],
): Json {
  const queues = [...outbound].map(([kind, to]) => [kind, routes[to]!.definition.inbound] as const)
  const isPlain = queues.length === 1 && queues[0]![0] === "default"
  return {
    ...withoutDefaults(definition, routeDefaults),
    adapters: adapters.map(({ type, config }) => ({
      type,
      ...(Object.keys(config.source as JsonObject).length === 0 ? {} : { config: config.source }),
    })),
    inbound: definition.inbound,
    name: definition.name,
    ...(queues.length === 0 ? {} : { outbound: isPlain ? queues[0]![1] : Object.fromEntries(queues) }),
  }
}
