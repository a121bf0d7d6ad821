import type { StandardSchemaV1 } from "@standard-schema/spec"

/** What a definition needs to know of a handler: its name and the shapes of what goes in and comes out. */
export interface HandlerSpec<Config = unknown, Output = unknown> {
  readonly name: string
  readonly config?: StandardSchemaV1<unknown, Config>
  readonly output?: StandardSchemaV1<unknown, Output>
  /** `transform`-like handlers store what they are given, so no secret may stand in their config (E112). */
  readonly storesConfig?: boolean
  /** Keys of its config that hold a JSON Schema: patterns that cannot be matched in linear time are refused (E102). */
  readonly schemas?: readonly string[]
  /** `external`: the node's provider does the work, so it must have one. */
  readonly needsProvider?: boolean
  /** Headers (`headers` of its config, in lower case) that a node with a provider cannot set. */
  readonly providerHeaders?: readonly string[]
}

export interface HandlerCatalog {
  get(name: string): HandlerSpec | undefined
  names(): readonly string[]
}

/** A catalog of these handlers; of two with one name the later counts. */
export function handlerCatalog(handlers: Iterable<HandlerSpec>): HandlerCatalog {
  const byName = new Map<string, HandlerSpec>()
  for (const handler of handlers) byName.set(handler.name, handler)
  const names = Object.freeze([...byName.keys()])
  return { get: name => byName.get(name), names: () => names }
}
