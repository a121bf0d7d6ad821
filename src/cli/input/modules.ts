/**
 * The modules of a command: handlers, adapters and providers, besides the built-in ones. Modules of `--handlers` may
 * export adapters and providers too.
 */
import type { AdapterCatalog } from "../../definition/adapter.ts"
import { type HandlerCatalog, handlerCatalog } from "../../definition/handler.ts"
import { loadWorkflow } from "../../definition/index.ts"
import type { Problem } from "../../definition/problem.ts"
import { UmbraError } from "../../errors.ts"
import type { Adapter } from "../../pipeline/adapter.ts"
import type { AdapterRegistry } from "../../pipeline/registry/registry.ts"
import type { Provider } from "../../provider/provider.ts"
import type { Handler } from "../../worker/handler.ts"
import { builtinSpecs } from "../../worker/handlers/specs.ts"
import { readSource, type Source } from "./source.ts"

export interface Modules {
  readonly handlers?: readonly string[]
  readonly adapters?: readonly string[]
  readonly providers?: readonly string[]
}

/** Everything that the modules export. */
export async function loadModules(modules: Modules) {
  const handlers = await loadHandlers(modules)
  const adapters = await loadAdapters(modules)
  return { handlers, adapters, providers: await loadProviders(modules) }
}

/** `handlers`: if they have been loaded already. */
export async function loadDocument(file: string | Source, modules: Modules, handlers?: readonly Handler[]) {
  const [source, known] = await Promise.all([
    typeof file === "string" ? readSource(file) : file,
    handlers ?? loadHandlers(modules),
  ])
  const { text, format } = source
  const catalogs = { handlers: catalogWith(known), adapters: await adaptersFor(text, modules) }
  return { source, ...loadWorkflow(text, { ...catalogs, ...(format && { format }) }) }
}

export function catalogWith(handlers: readonly Handler[]): HandlerCatalog {
  return handlerCatalog([...builtinSpecs, ...handlers])
}

/** For a document without routes nothing is loaded: it would take longer than the rest of the command. */
export async function adaptersFor(text: string, modules: Modules): Promise<AdapterCatalog> {
  if (!text.includes("routes")) return { get: () => undefined, types: () => [] }
  const registry = await builtInAdapters()
  registry.add(...(await loadAdapters(modules)))
  return registry
}

export async function loadHandlers({ handlers: modules = [] }: Modules): Promise<readonly Handler[]> {
  if (modules.length === 0) return []
  // Imported only here, since it loads a TypeScript compiler.
  const { loadHandlers } = await import("../../worker/load.ts")
  const found = new Map<string, Handler>()
  for (const module of modules) {
    for (const handler of await loadHandlers(module)) {
      const { name } = handler
      if (builtinSpecs.some(spec => spec.name === name))
        throw clash(module, name, "is the name of a built-in handler")
      if (found.has(name)) throw clash(module, name, "is defined twice")
      found.set(name, handler)
    }
  }
  return [...found.values()]
}

function clash(module: string, handler: string, why: string): UmbraError {
  return new UmbraError(
    "E602",
    `${module}: ${JSON.stringify(handler)} ${why}. Give the handler another name.`,
  )
}

/** Also those of installed packages. In the order of precedence: the later one of a type wins. */
export async function loadAdapters({ adapters = [], handlers = [] }: Modules): Promise<readonly Adapter[]> {
  const { discoverAdapters } = await import("../../pipeline/registry/discover.ts")
  const installed = await discoverAdapters(process.cwd())
  // It rejects packages that define the same type.
  if (installed.length > 0) (await builtInAdapters()).addFound(installed)
  if (adapters.length === 0 && handlers.length === 0) return installed
  const { adaptersIn, loadAdapters } = await import("../../pipeline/registry/discover.ts")
  const given: Adapter[] = []
  for (const module of handlers) given.push(...(await adaptersIn(module)))
  for (const module of adapters) given.push(...(await loadAdapters(module)))
  return [...installed, ...given]
}

async function builtInAdapters(): Promise<AdapterRegistry> {
  const [{ adapterRegistry }, { workerSettings }] = await Promise.all([
    import("../../pipeline/adapters/index.ts"),
    import("../../worker/settings.ts"),
  ])
  return adapterRegistry({}, workerSettings())
}

export async function loadProviders({
  providers = [],
  handlers = [],
}: Modules): Promise<readonly Provider[]> {
  if (providers.length === 0 && handlers.length === 0) return []
  const { loadProviders, providersIn } = await import("../../provider/http-provider.ts")
  const found = new Set<Provider>()
  for (const module of providers) for (const provider of await loadProviders(module)) found.add(provider)
  for (const module of handlers) for (const provider of await providersIn(module)) found.add(provider)
  return [...found]
}

/** A hint after a list of problems, if an unknown name (E103) can be supplied with an option. */
export function unknownTypeHint(problems: readonly Problem[]): string {
  const unknown = problems.find(({ code }) => code === "E103")
  if (unknown === undefined) return ""
  return unknown.path.startsWith("routes")
    ? "Load your own adapters with --adapters MODULE, or install packages whose names begin with umbra-.\n"
    : "Load your own handlers with --handlers MODULE.\n"
}
