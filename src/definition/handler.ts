import type { StandardSchemaV1 } from "@standard-schema/spec"

/** The part of a handler that validation needs: its name and the schemas of its config and output. */
export interface HandlerSpec<Config = unknown, Output = unknown> {
  readonly name: string
  readonly config?: StandardSchemaV1<unknown, Config>
  readonly output?: StandardSchemaV1<unknown, Output>
  /** Handlers like `transform` store their config, so it must not contain a secret (E112). */
  readonly storesConfig?: boolean
  /** Keys of its config with a JSON Schema: patterns that cannot be matched in linear time are rejected (E102). */
  readonly schemas?: readonly string[]
  /** Keys of its config: the name of the signal that it waits for, and the JSON Schema of its data. Both are fixed texts if there is a schema. */
  readonly signal?: { readonly name: string; readonly schema: string }
  /**
   * Does a run change anything outside of Umbra? false: it does not. "keyed": it does, but a repetition with the same config
   * changes nothing more. true: its effect is unsafe to repeat; a fork runs it only if its caller names the node. Absent: not known.
   */
  readonly effects?: boolean | "keyed"
  /** false: it reads its config and the outputs of its dependencies, but not `ctx.input`. Absent: it may read it. */
  readonly readsInput?: boolean
  /** `external`: the node's provider does the work, so the node must have one. */
  readonly needsProvider?: boolean
  /** Headers (`headers` of its config, in lower case) that a node with a provider cannot set. */
  readonly providerHeaders?: readonly string[]
}

export interface HandlerCatalog {
  get(name: string): HandlerSpec | undefined
  names(): readonly string[]
  /** Reads the catalog again, if it can change. Resolves with false if it is the same as before. */
  refresh?(): Promise<boolean>
}

/** A catalog of these handlers; if two have the same name, the later one wins. */
export function handlerCatalog(handlers: Iterable<HandlerSpec>): HandlerCatalog {
  const byName = new Map<string, HandlerSpec>()
  for (const handler of handlers) byName.set(handler.name, handler)
  const names = Object.freeze([...byName.keys()])
  return { get: name => byName.get(name), names: () => names }
}
