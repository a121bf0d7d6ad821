/** Compiles a valid pipeline to a plan: one node that runs all its routes. */
import type { Json, JsonObject } from "../../core/json.ts"
import type { RetryPolicy } from "../../core/plan.ts"
import type { Work } from "../../turns.ts"
import { graphOfOne } from "../built-in.ts"
import { hashCanonical, sortedCopy, withoutDefaults } from "../document/json-value.ts"
import type { Plan } from "../plan.ts"
import { wholeInput } from "./adapters.ts"
import type { AnalysedPipeline, AnalysedRoute } from "./analysis.ts"
import type { BackpressurePlan, BreakerPlan, PipelinePlan, RoutePlan } from "./plan.ts"
import { type RouteDefinition, routeDefaults } from "./schema.ts"

/** The handler of the one node of a pipeline: it runs in the process that owns the job, not on a worker. */
export const routesHandler = "routes"

// Each route has its own rules for retries of messages. The retry of the node is for the limit of concurrent executions.
const oneNode = graphOfOne("pipeline", routesHandler)

export function* pipelinePlan(analysed: AnalysedPipeline): Work<Plan> {
  const { head, input, positions, readers, init, rules } = analysed
  const canonical = buildCanonical(analysed)
  const hash = yield* hashCanonical(canonical)
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
    backpressure: settle<BackpressurePlan>(routeDefaults.backpressure, definition.backpressure),
    retry: retryPolicy(handling),
    deadLetter: handling?.dead_letter ?? routeDefaults.error_handling.dead_letter,
    breaker: breakerPlan(handling?.circuit_breaker),
  })
}

/** With defaults, and with the names of a plan: `max_seconds` becomes `maxSeconds`. Null counts as left out. */
function settle<Plan extends object>(defaults: object, definition: object | false | null | undefined): Plan {
  const said = (definition ?? {}) as Readonly<Record<string, unknown>>
  const entries = Object.entries(defaults).map(([key, usual]) => [
    key.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
    said[key] ?? usual,
  ])
  return Object.freeze(Object.fromEntries(entries)) as Plan
}

function retryPolicy(handling: RouteDefinition["error_handling"]): RetryPolicy {
  const { retries, backoff } = routeDefaults.error_handling
  const waits = settle<Omit<RetryPolicy, "maxAttempts">>(backoff, handling?.backoff)
  return Object.freeze({ maxAttempts: (handling?.retries ?? retries) + 1, ...waits })
}

type BreakerDefinition = NonNullable<RouteDefinition["error_handling"]>["circuit_breaker"]

function breakerPlan(breaker: BreakerDefinition): BreakerPlan | null {
  return breaker === false ? null : settle(routeDefaults.error_handling.circuit_breaker, breaker)
}

/**
 * The definition with sorted keys, without values that equal a default. It is itself a definition, and compiles to the
 * same plan.
 */
function buildCanonical({ head, input, routes, init }: AnalysedPipeline): JsonObject {
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
