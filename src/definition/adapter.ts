import type { StandardSchemaV1 } from "@standard-schema/spec"

/** The part of an adapter that validation needs: its type and the schema of its config. */
export interface AdapterSpec<Config = unknown> {
  readonly type: string
  readonly config?: StandardSchemaV1<unknown, Config>
  /** It stores its config or sends it on, so the config must not contain a secret (E112). */
  readonly storesConfig?: boolean
  /** Keys of its config with a JSON Schema: patterns that cannot be matched in linear time are rejected (E102). */
  readonly schemas?: readonly string[]
  // Methods, so that an adapter with any config type is an `AdapterSpec`.
  /**
   * Kinds of the messages that it emits with this config, besides its result. A route without a queue for one of them is
   * rejected (E114). Left out: the kinds are not known before it runs.
   */
  emits?(config: Config): readonly string[]
  /** It writes each message once, so it cannot follow a gathering adapter in one route (E115). */
  writesOnce?(config: Config): boolean
  /** It uses `context.storage` or `context.submit`, so it cannot run on workers (E115). */
  readonly needsEngine?: boolean
  /** It gathers messages. */
  gather?(config: Config): unknown
  /** The package that declares it; absent: registered in code, or built in. */
  readonly package?: string
}

export interface AdapterCatalog {
  get(type: string): AdapterSpec | undefined
  types(): readonly string[]
}

/** A catalog of these adapters; if two have the same type, the later one wins. */
export function adapterCatalog(adapters: Iterable<AdapterSpec>): AdapterCatalog {
  const byType = new Map<string, AdapterSpec>()
  for (const adapter of adapters) byType.set(adapter.type, adapter)
  const types = Object.freeze([...byType.keys()])
  return { get: type => byType.get(type), types: () => types }
}
