import type { Json, JsonObject } from "../../src/core/json.ts"
import type { Scope } from "../../src/template/index.ts"

/** A scope over plain objects. */
export function scopeOf(values: { readonly names?: JsonObject; readonly nodes?: JsonObject }): Scope {
  const nodes = new Map<string, Json>(Object.entries(values.nodes ?? {}))
  return { names: values.names ?? {}, node: id => nodes.get(id), nodeIds: () => [...nodes.keys()] }
}
