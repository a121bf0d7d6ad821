/** The canonical form of a definition, and its hash. */
import { createHash, type Hash } from "node:crypto"
import type { Json, JsonObject } from "../core/json.ts"
import type { Work } from "../turns.ts"
import { isObject } from "./document/json-value.ts"

/** The keys of a definition whose values differ from the defaults, sorted; `undefined`: there are none. Keys without a default are left out. */
export function withoutDefaults(definition: object, defaults: object): JsonObject | undefined {
  const kept: Record<string, Json> = {}
  for (const key of Object.keys(defaults).sort()) {
    const value = (definition as Record<string, Json | null | undefined>)[key]
    const usual = (defaults as Record<string, Json>)[key]
    if (value == null || value === usual) continue
    const said = isObject(value) && isObject(usual) ? withoutDefaults(value, usual) : value
    if (said !== undefined) kept[key] = said
  }
  return Object.keys(kept).length === 0 ? undefined : kept
}

/** Nodes per step: the whole text of a large workflow would take tens of megabytes. */
const nodesPerUpdate = 1000

/** sha256 of `JSON.stringify(canonical)`. */
export function* hashOf(canonical: JsonObject): Work<string> {
  const hash = createHash("sha256")
  let separator = "{"
  for (const [key, value] of Object.entries(canonical)) {
    hash.update(`${separator}${JSON.stringify(key)}:`)
    if (key === "nodes") yield* hashNodes(hash, value as readonly Json[])
    else hash.update(JSON.stringify(value))
    separator = ","
  }
  return hash.update("}").digest("hex")
}

function* hashNodes(hash: Hash, nodes: readonly Json[]): Work<void> {
  for (let i = 0; i < nodes.length; i += nodesPerUpdate) {
    const text = JSON.stringify(nodes.slice(i, i + nodesPerUpdate)).slice(1, -1)
    hash.update(`${i === 0 ? "[" : ","}${text}`)
    yield
  }
  hash.update("]")
}
