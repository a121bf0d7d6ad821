/** The handlers of a command: the built-in ones, and those of the modules given with `--handlers`. */
import { type HandlerCatalog, handlerCatalog } from "../../definition/handler.ts"
import { UmbraError } from "../../errors.ts"
import type { Provider } from "../../provider/provider.ts"
import type { Handler } from "../../worker/handler.ts"
import { builtinSpecs } from "../../worker/handlers/specs.ts"

export async function loadCatalog(modules: readonly string[]): Promise<HandlerCatalog> {
  return catalogWith(await loadUserHandlers(modules))
}

export function catalogWith(handlers: readonly Handler[]): HandlerCatalog {
  return handlerCatalog([...builtinSpecs, ...handlers])
}

export async function loadUserHandlers(modules: readonly string[]): Promise<readonly Handler[]> {
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

/** Providers of `--providers`, and those that modules of `--handlers` export besides their handlers. */
export async function loadUserProviders({
  providers = [],
  handlers = [],
}: {
  readonly providers?: readonly string[]
  readonly handlers?: readonly string[]
}): Promise<readonly Provider[]> {
  if (providers.length === 0 && handlers.length === 0) return []
  const { loadProviders, providersIn } = await import("../../provider/http-provider.ts")
  const found = new Set<Provider>()
  for (const module of providers) for (const provider of await loadProviders(module)) found.add(provider)
  for (const module of handlers) for (const provider of await providersIn(module)) found.add(provider)
  return [...found]
}

function clash(module: string, handler: string, why: string): UmbraError {
  return new UmbraError(
    "E602",
    `${module}: ${JSON.stringify(handler)} ${why}. Give the handler another name.`,
  )
}
