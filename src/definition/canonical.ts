import type { Json, JsonObject } from "../core/json.ts"
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
