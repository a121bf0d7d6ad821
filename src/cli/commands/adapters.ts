/**
 * The adapters of a command: the built-in ones, those of installed packages, those of the modules given with
 * `--adapters`, and those that modules of `--handlers` export besides their handlers.
 */
import type { AdapterCatalog } from "../../definition/adapter.ts"
import type { Problem } from "../../definition/problem.ts"
import type { Adapter } from "../../pipeline/adapter.ts"
import type { AdapterRegistry } from "../../pipeline/registry/registry.ts"

export interface AdapterModules {
  readonly adapters?: readonly string[]
  readonly handlers?: readonly string[]
}

/** For a document without routes nothing is loaded: it would take longer than the rest of the command. */
export async function adaptersFor(text: string, modules: AdapterModules): Promise<AdapterCatalog> {
  if (!text.includes("routes")) return { get: () => undefined, types: () => [] }
  const registry = await builtIn()
  registry.add(...(await loadUserAdapters(modules)))
  return registry
}

/** In the order of precedence: the later one of a type wins. */
export async function loadUserAdapters({
  adapters = [],
  handlers = [],
}: AdapterModules): Promise<readonly Adapter[]> {
  const { discoverAdapters } = await import("../../pipeline/registry/discover.ts")
  const installed = await discoverAdapters(process.cwd())
  // It rejects packages that define the same type.
  if (installed.length > 0) (await builtIn()).addFound(installed)
  if (adapters.length === 0 && handlers.length === 0) return installed
  const { adaptersIn, loadAdapters } = await import("../../pipeline/registry/discover.ts")
  const given: Adapter[] = []
  for (const module of handlers) given.push(...(await adaptersIn(module)))
  for (const module of adapters) given.push(...(await loadAdapters(module)))
  return [...installed, ...given]
}

async function builtIn(): Promise<AdapterRegistry> {
  const [{ adapterRegistry }, { workerSettings }] = await Promise.all([
    import("../../pipeline/adapters/index.ts"),
    import("../../worker/settings.ts"),
  ])
  return adapterRegistry({}, workerSettings())
}

/** A hint after a list of problems, if an unknown name (E103) can be supplied with an option. */
export function unknownTypeHint(problems: readonly Problem[]): string {
  const unknown = problems.find(({ code }) => code === "E103")
  if (unknown === undefined) return ""
  return unknown.path.startsWith("routes")
    ? "Load your own adapters with --adapters MODULE, or install packages whose names begin with umbra-.\n"
    : "Load your own handlers with --handlers MODULE.\n"
}
