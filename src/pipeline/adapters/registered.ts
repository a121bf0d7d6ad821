import type { WorkerSettings } from "../../worker/settings.ts"
import type { Adapter } from "../adapter.ts"
import { AdapterRegistry } from "../registry/registry.ts"
import { builtinAdapters } from "./index.ts"
import { type AdapterSettings, adapterSettings } from "./settings.ts"

/** The adapters of a process: the built-in ones and those that were registered. */
export function adapterRegistry(
  options: { readonly adapters?: readonly Adapter[]; readonly files?: Partial<AdapterSettings> },
  worker: WorkerSettings,
): AdapterRegistry {
  const registry = new AdapterRegistry(builtinAdapters({ ...worker, ...adapterSettings(options.files) }))
  registry.add(...(options.adapters ?? []))
  return registry
}
