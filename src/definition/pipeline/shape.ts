/** Checks the shape of a pipeline against its schema, and the rules for a route that a schema cannot express. */
import {
  checkShape,
  describe,
  type Issue,
  isMapping,
  type ShapeContext,
  type ShapeWords,
  without,
} from "../document/issues.ts"
import { isObject } from "../document/json-value.ts"
import type { DocumentPath } from "../problem.ts"
import { checkLength } from "../shape/shape.ts"
import {
  type AdapterDefinition,
  adapterSchema,
  type InitDefinition,
  initSchema,
  pipelineHeadSchema,
  type RouteDefinition,
  routeDefaults,
  routeHeadSchema,
} from "./schema.ts"

const words: ShapeWords = {
  document: "pipeline",
  entries: { routes: "route", adapters: "adapter" },
  expected: {
    input: "a mapping, the JSON Schema of the job's input",
    routes: "a list of routes",
    adapters: "a list of adapters",
    config: "a mapping",
    outbound: "the name of a queue, or a mapping from kinds to queues",
    circuit_breaker: "a mapping, or false",
    max_dead_letters: "a whole number (10), or a share of a route's messages below 1 (0.05)",
  },
}

/** false: it may have a malformed `init` or `max_hops`. */
export function checkHead(source: Record<string, unknown>, context: ShapeContext): boolean {
  const { output, ...head } = source
  if (output !== undefined) {
    const message = 'A pipeline has no "output": its jobs answer with the totals of its routes. Remove it.'
    context.problems.add("E101", ["output"], message, { key: true })
  }
  const seen = Array.isArray(head.routes) ? { ...head, routes: [] } : head
  const issues = checkShape({ schema: pipelineHeadSchema, source: seen, path: [], words }, context)
  return !issues.some(issue => isUnknownKey(issue) || issue.path[0] === "max_hops")
}

const isUnknownKey = ({ code, path }: Issue): boolean => code === "unrecognized_keys" && path.length === 0

/** The valid part of an entry: a wrong field is reported and left out, the others are still checked. */
type Sound<T> = { readonly [K in keyof T]?: T[K] }
export type SoundRoute = Sound<Omit<RouteDefinition, "adapters">> & { readonly adapters?: readonly unknown[] }
export type SoundAdapter = Sound<AdapterDefinition>

export interface CheckedRoute {
  readonly definition: SoundRoute
  /** Is it known which queues it writes to? */
  readonly writesKnown: boolean
}

export function checkRoute(
  source: unknown,
  position: number,
  context: ShapeContext,
): CheckedRoute | undefined {
  const path = ["routes", position]
  const rule = 'A route must be a mapping with "name", "inbound" and "adapters"'
  if (!isMapping(source, rule, path, context)) return undefined
  const seen = Array.isArray(source.adapters) ? { ...source, adapters: [] } : source
  const issues = checkShape({ schema: routeHeadSchema, source: seen, path, words }, context)
  const route: SoundRoute = without(source, issues)
  checkNames(route, path, context)
  checkBackpressure(route, path, context)
  const writesKnown = !issues.some(issue => isUnknownKey(issue) || issue.path[0] === "outbound")
  return { definition: route, writesKnown }
}

function checkNames(route: SoundRoute, path: DocumentPath, context: ShapeContext): void {
  const { name, inbound, outbound } = route
  if (name !== undefined) checkLength("name", name, [...path, "name"], context)
  if (inbound !== undefined) checkLength("name of the queue", inbound, [...path, "inbound"], context)
  for (const [kind, { queue, at }] of outboundQueues(route)) {
    checkLength("name of the queue", queue, [...path, ...at], context)
    if (typeof outbound !== "string") checkLength("kind", kind, [...path, ...at], context)
  }
}

/** The queues for the messages that a route emits, by kind, and where they are named. */
export function outboundQueues({
  outbound,
}: Pick<SoundRoute, "outbound">): Map<string, { readonly queue: string; readonly at: DocumentPath }> {
  if (outbound == null) return new Map()
  if (typeof outbound === "string") return new Map([["default", { queue: outbound, at: ["outbound"] }]])
  const kinds = Object.entries(outbound)
  return new Map(kinds.map(([kind, queue]) => [kind, { queue, at: ["outbound", kind] }]))
}

function checkBackpressure(route: SoundRoute, path: DocumentPath, { problems }: ShapeContext): void {
  const { backpressure, concurrency } = route
  if (backpressure == null) return
  const { adaptive, min_concurrency: least } = backpressure
  for (const key of ["min_concurrency", "tolerance"] as const) {
    if (adaptive !== false || backpressure[key] == null) continue
    const message = `"${key}" has no effect if "adaptive" is false. Remove it.`
    problems.add("E101", [...path, "backpressure", key], message, { key: true })
  }
  const most = concurrency ?? routeDefaults.concurrency
  if (adaptive === false || least == null || least <= most) return
  const whose = concurrency == null ? `, whose default is ${most}` : ` of ${most}`
  const message = `"min_concurrency" is ${least}, more than the route's "concurrency"${whose}. Lower it, or raise "concurrency".`
  problems.add("E101", [...path, "backpressure", "min_concurrency"], message)
}

export function checkAdapter(
  source: unknown,
  path: DocumentPath,
  context: ShapeContext,
): SoundAdapter | undefined {
  const rule = 'An adapter must be a mapping with "type" and "config"'
  if (!isMapping(source, rule, path, context)) return undefined
  return without(source, checkShape({ schema: adapterSchema, source, path, words }, context))
}

export interface SoundInit extends Sound<InitDefinition> {
  readonly path: DocumentPath
}

/** `undefined`: some of them are malformed, so their queues are not known. */
export function checkInit(init: unknown, context: ShapeContext): readonly SoundInit[] | undefined {
  if (init == null) return [{ path: ["init"] }]
  if (isObject(init)) return soundInit([{ source: init, path: ["init"] }], context)
  if (!Array.isArray(init) || init.length === 0) {
    const message = `"init" is ${describe(init)}; expected a message ({ queue, body }) or a list of them.`
    context.problems.add("E101", ["init"], message)
    return undefined
  }
  const { initMessages } = context.limits
  if (init.length > initMessages) {
    const message = `"init" has ${init.length} messages; at most ${initMessages} are allowed (limit initMessages). Send one message with a list, and split it in the first route.`
    context.problems.add("E101", ["init"], message)
    return undefined
  }
  return soundInit(
    init.map((source: unknown, i) => ({ source, path: ["init", i] })),
    context,
  )
}

function soundInit(
  entries: readonly { readonly source: unknown; readonly path: DocumentPath }[],
  context: ShapeContext,
): readonly SoundInit[] | undefined {
  const sound = entries.map(({ source, path }): SoundInit | undefined => {
    const rule = 'An initial message must be a mapping with "queue" and "body"'
    if (!isMapping(source, rule, path, context)) return undefined
    const issues = checkShape({ schema: initSchema, source, path, words }, context)
    const entry: Sound<InitDefinition> = without(source, issues)
    if (entry.queue != null) checkLength("name of the queue", entry.queue, [...path, "queue"], context)
    return issues.length > 0 ? undefined : { ...entry, path }
  })
  return sound.every(entry => entry !== undefined) ? sound : undefined
}
