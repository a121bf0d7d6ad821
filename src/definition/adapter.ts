import type { StandardSchemaV1 } from "@standard-schema/spec"

/** What a definition needs to know of an adapter: its type and the shape of its config. */
export interface AdapterSpec<Config = unknown> {
  readonly type: string
  readonly config?: StandardSchemaV1<unknown, Config>
  /** It stores or sends on what its config says, so no secret may stand in it (E112). */
  readonly storesConfig?: boolean
  /** Keys of its config that hold a JSON Schema: patterns that cannot be matched in linear time are refused (E102). */
  readonly schemas?: readonly string[]
  // Methods, so that an adapter of any config is an `AdapterSpec`.
  /**
   * Kinds of the messages that it emits with this config, besides what it answers. A route without a queue for one of them
   * is refused (E114). Left out: nothing is known of them before it runs.
   */
  emits?(config: Config): readonly string[]
  /** It writes each message once, so it cannot follow an adapter that gathers in one route (E115). */
  writesOnce?(config: Config): boolean
  /** It uses `context.storage` or `context.submit`, so it cannot run on workers (E115). */
  readonly needsEngine?: boolean
  /** It gathers messages. */
  gather?(config: Config): unknown
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
