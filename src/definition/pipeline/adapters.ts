/** Analyses the adapters of routes and the bodies of initial messages: types, configs and template references. */

import type { Json, JsonObject } from "../../core/json.ts"
import { compileValue } from "../../template/index.ts"
import type { ValueTemplate } from "../../template/types.ts"
import type { AdapterCatalog, AdapterSpec } from "../adapter.ts"
import type { ShapeContext } from "../document/issues.ts"
import { emptyObject, sortedCopy } from "../document/json-value.ts"
import { checkReferences, type TemplateSite, type TemplateWorld } from "../graph/references.ts"
import type { DocumentPath } from "../problem.ts"
import { checkConfig, holdsTemplate, parsedConfig, trimExpressions } from "../shape/config.ts"
import { compileTemplates } from "../templates.ts"
import type { AdapterPlan } from "./plan.ts"
import { type CheckedRoute, checkAdapter, outboundQueues, type SoundInit, type SoundRoute } from "./shape.ts"

export interface PipelineContext extends ShapeContext {
  readonly adapters: AdapterCatalog
  readonly isPartial: boolean
  readonly rules: number
}

/** What templates of pipelines may read. */
const world: TemplateWorld = {
  names: ["message", "input", "job", "secrets"],
  known: "message, input, job and secrets",
  user: "adapter",
}
const initWorld: TemplateWorld = { ...world, known: "input and job" }
const none = { world, hasItem: false }
const sites = {
  config: { kind: "config", ...none, storedBecause: null },
  storedConfig: { kind: "config", ...none, storedBecause: "this adapter stores or sends on its config" },
  init: { kind: "init", hasItem: false, world: initWorld, storedBecause: "messages are stored" },
} as const satisfies Record<string, TemplateSite>

const nothingRead = { node: () => {}, anyNode: () => {} }
const noNodes = { positions: new Map<string, number>(), brokenIds: new Set<string>() }

export function analyseAdapters(
  route: CheckedRoute | undefined,
  position: number,
  context: PipelineContext,
): readonly AdapterPlan[] {
  const sources = route?.definition.adapters
  if (route === undefined || sources === undefined) return []
  const path = ["routes", position, "adapters"]
  const { problems, limits } = context
  if (sources.length === 0)
    problems.add("E101", path, '"adapters" is an empty list; a route needs at least one adapter.')
  if (sources.length > limits.adapters) {
    const message = `The route has ${sources.length} adapters; at most ${limits.adapters} are allowed (limit adapters). Split the route.`
    problems.add("E101", path, message)
    return []
  }
  const adapters = sources.flatMap((source, i) => analyseAdapter(source, [...path, i], context) ?? [])
  const placed = adapters.flatMap(({ spec, config, ...rest }) =>
    spec === undefined ? [] : { ...rest, spec, config: config.source },
  )
  checkChain(placed, { ...route, name: route.definition.name ?? `routes[${position}]` }, context)
  return adapters.map(({ type, config }) => ({ type, config }))
}

interface AnalysedAdapter extends AdapterPlan {
  /** undefined: the adapter is unknown. */
  readonly spec: AdapterSpec | undefined
  readonly path: DocumentPath
}

function analyseAdapter(
  source: unknown,
  path: DocumentPath,
  context: PipelineContext,
): AnalysedAdapter | undefined {
  const adapter = checkAdapter(source, path, context)
  if (adapter === undefined) return undefined
  const { problems, suggest } = context
  const spec = adapter.type === undefined ? undefined : findAdapter(adapter.type, path, context)
  const configPath = [...path, "config"]
  const given = compileTemplates(sortedCopy(adapter.config ?? emptyObject), () => configPath, problems)
  const config = spec === undefined ? given : trimExpressions(spec, given)
  if (spec !== undefined)
    checkConfig(
      { owner: spec, title: adapterTitle(spec), config: config.source, path: () => configPath },
      context,
    )
  const site = spec?.storesConfig === true ? sites.storedConfig : sites.config
  checkReferences(
    { value: config, path: configPath, site, reads: nothingRead },
    { problems, suggest, ...noNodes },
  )
  return adapter.type === undefined ? undefined : { type: adapter.type, config, spec, path }
}

const adapterTitle = ({ type, package: from }: AdapterSpec): string =>
  from === undefined ? `adapter "${type}"` : `adapter "${type}" of package ${from}`

function findAdapter(type: string, path: DocumentPath, context: PipelineContext): AdapterSpec | undefined {
  const { adapters, problems, suggest } = context
  const found = adapters.get(type)
  if (found !== undefined) return found
  const nearest = suggest.nearest(type, adapters.types())
  const from = nearest === undefined ? undefined : adapters.get(nearest)?.package
  const advice =
    from === undefined
      ? suggest.advice(type, adapters.types())
      : `Did you mean "${nearest}" of package ${from}?`
  problems.add("E103", [...path, "type"], `There is no adapter of type "${type}". ${advice}`)
  return undefined
}

/** The default initial message. */
export const wholeInput = "{{ input }}"
const wholeInputTemplate = compileValue(wholeInput).value

export function analyseBody(
  { body, path }: SoundInit,
  { problems, suggest }: PipelineContext,
): ValueTemplate {
  if (body == null) return wholeInputTemplate
  const bodyPath = [...path, "body"]
  const value = compileTemplates(sortedCopy(body), () => bodyPath, problems)
  checkReferences(
    { value, path: bodyPath, site: sites.init, reads: nothingRead },
    { problems, suggest, ...noNodes },
  )
  return value
}

/**
 * Problems of adapters at their position in a route, from their own declarations: messages of a kind for which the route
 * has no queue (E114), and adapters that are not allowed at their position (E115). Each would fail every message.
 */

/** An adapter of a route, as written. */
interface PlacedAdapter {
  readonly spec: AdapterSpec
  readonly config: Json
  readonly path: DocumentPath
}

interface PlacedRoute {
  readonly definition: SoundRoute
  readonly name: string
  /** false: its `outbound` cannot be parsed. */
  readonly writesKnown: boolean
}

function checkChain(adapters: readonly PlacedAdapter[], route: PlacedRoute, context: ShapeContext): void {
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
  const outbound = outboundQueues(definition)
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
