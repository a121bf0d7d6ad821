import type { StandardSchemaV1 } from "@standard-schema/spec"

/** What a definition needs to know of an adapter: its type and the shape of its config. */
export interface AdapterSpec<Config = unknown> {
  readonly type: string
  readonly config?: StandardSchemaV1<unknown, Config>
  /** It stores or sends on what its config says, so no secret may stand in it (E112). */
  readonly storesConfig?: boolean
  /** Keys of its config that hold a JSON Schema: patterns that cannot be matched in linear time are refused (E102). */
  readonly schemas?: readonly string[]
  /** The package that it comes from; absent: registered by hand, or built in. */
  readonly package?: string
}

export interface AdapterCatalog {
  get(type: string): AdapterSpec | undefined
  types(): readonly string[]
}

/** A catalog of these adapters; of two with one type the later counts. */
export function adapterCatalog(adapters: Iterable<AdapterSpec>): AdapterCatalog {
  const byType = new Map<string, AdapterSpec>()
  for (const adapter of adapters) byType.set(adapter.type, adapter)
  const types = Object.freeze([...byType.keys()])
  return { get: type => byType.get(type), types: () => types }
}
