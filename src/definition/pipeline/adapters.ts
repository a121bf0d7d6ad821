/** Analyses the adapters of routes and the bodies of initial messages: types, configs and template references. */
import { compileValue } from "../../template/index.ts"
import type { ValueTemplate } from "../../template/types.ts"
import type { AdapterCatalog, AdapterSpec } from "../adapter.ts"
import type { ShapeContext } from "../document/issues.ts"
import { emptyObject, sortedCopy } from "../document/json-value.ts"
import { checkReferences, type TemplateSite, type TemplateWorld } from "../graph/references.ts"
import type { DocumentPath } from "../problem.ts"
import { checkConfig, trimExpressions } from "../shape/config.ts"
import { compileTemplates } from "../templates.ts"
import { checkChain } from "./chain.ts"
import type { AdapterPlan } from "./plan.ts"
import { type CheckedRoute, checkAdapter, type SoundInit } from "./shape.ts"

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
    checkConfig({ owner: spec, title: titleOf(spec), config: config.source, path: () => configPath }, context)
  const site = spec?.storesConfig === true ? sites.storedConfig : sites.config
  checkReferences(
    { value: config, path: configPath, site, reads: nothingRead },
    { problems, suggest, ...noNodes },
  )
  return adapter.type === undefined ? undefined : { type: adapter.type, config, spec, path }
}

const titleOf = ({ type, package: from }: AdapterSpec): string =>
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
