/**
 * Problems of adapters at their position in a route, from their own declarations: messages of a kind for which the route
 * has no queue (E114), and adapters that are not allowed at their position (E115). Each would fail every message.
 */
import type { Json, JsonObject } from "../../core/json.ts"
import type { AdapterSpec } from "../adapter.ts"
import type { ShapeContext } from "../document/issues.ts"
import type { DocumentPath } from "../problem.ts"
import { holdsTemplate, parsedConfig } from "../shape/config.ts"
import { outboundOf, type SoundRoute } from "./shape.ts"

/** An adapter of a route, as written. */
export interface PlacedAdapter {
  readonly spec: AdapterSpec
  readonly config: Json
  readonly path: DocumentPath
}

export interface PlacedRoute {
  readonly definition: SoundRoute
  readonly name: string
  /** false: its `outbound` cannot be parsed. */
  readonly writesKnown: boolean
}

export function checkChain(
  adapters: readonly PlacedAdapter[],
  route: PlacedRoute,
  context: ShapeContext,
): void {
  let gatherer: string | undefined
  for (const adapter of adapters) {
    if (route.writesKnown) checkKinds(adapter, route, context)
    checkPlace(adapter, { ...route, gatherer }, context)
    if (adapter.spec.gather !== undefined) gatherer ??= adapter.spec.type
  }
}

function checkKinds(
  { spec, config, path }: PlacedAdapter,
  { definition, name }: PlacedRoute,
  { problems, suggest }: ShapeContext,
): void {
  const outbound = outboundOf(definition)
  for (const kind of new Set(declared(spec, config, own => spec.emits?.(own)) ?? [])) {
    if (typeof kind !== "string" || outbound.has(kind)) continue
    const nearest = suggest.nearest(kind, outbound.keys())
    const advice =
      nearest !== undefined
        ? `Did you mean "${nearest}"?`
        : outbound.size === 0 && kind === "default"
          ? 'Add "outbound" with the queue that they go to.'
          : `Add it to "outbound": { ${kind}: QUEUE }.`
    const message = `Adapter "${spec.type}" emits messages of kind "${kind}", but route "${name}" has no outbound queue for this kind, so each would fail. ${advice}`
    problems.add("E114", [...path, ...keyWith(config, kind)], message)
  }
}

/** The key of the config that names the kind, if there is one. */
function keyWith(config: Json, kind: string): DocumentPath {
  const found = Object.entries(config as JsonObject).find(([, value]) => value === kind)
  return found === undefined ? ["type"] : ["config", found[0]]
}

function checkPlace(
  { spec, config, path }: PlacedAdapter,
  { definition, name, gatherer }: PlacedRoute & { readonly gatherer: string | undefined },
  { problems }: ShapeContext,
): void {
  const { type } = spec
  const place = [...path, "type"]
  if (gatherer !== undefined && declared(spec, config, own => spec.writesOnce?.(own)) === true) {
    const message = `Adapter "${type}" cannot follow "${gatherer}" in one route: it writes each message once, but gathered messages may form other groups when they are delivered again. Make "${gatherer}" the last adapter of route "${name}", add "outbound" there, and move "${type}" to the route that reads that queue.`
    problems.add("E115", place, message)
  }
  if (definition.run_on !== "workers") return
  const what = spec.gather !== undefined ? "gathers messages" : spec.needsEngine ? "needs the engine" : null
  if (what === null) return
  const message = `Adapter "${type}" ${what}, which is possible only in the process that runs the execution, but route "${name}" has "run_on: workers". Move the adapter to a route without it.`
  problems.add("E115", place, message)
}

/** What an adapter declares for its config; undefined: that depends on a template, or is unknown. */
function declared<T>(spec: AdapterSpec, config: Json, ask: (config: unknown) => T): T | undefined {
  try {
    return ask(readable(parsedConfig(spec, config), config as JsonObject))
  } catch {
    return undefined
  }
}

/** The config, in which reading a key with a template throws: its value is not known yet. */
function readable(parsed: unknown, written: JsonObject): unknown {
  const templated = Object.keys(written).filter(key => holdsTemplate(written[key]!))
  if (templated.length === 0 || typeof parsed !== "object" || parsed === null) return parsed
  const unknown = {
    get(): never {
      throw new Error("its value comes from a template")
    },
    enumerable: true,
    configurable: true,
  }
  return Object.defineProperties(
    { ...parsed },
    Object.fromEntries(templated.map(key => [key, unknown] as const)),
  )
}
