/** Fills in defaults of an input schema where a value is missing. The given value is copied, never changed. */
import type { Json, JsonObject } from "../../core/json.ts"
import { isObject } from "../document/json-value.ts"
import { resolveReference } from "./input-schema.ts"
import type { CheckRun } from "./schema-checks.ts"

/**
 * Follows `properties`, `items`, `allOf` and local `$ref`: the parts of a schema that apply to every value. A default
 * inside `anyOf`, `oneOf` or `if` is not applied, since the matching branch is not known yet.
 */
export function withDefaults(schema: JsonObject, input: Json, run: CheckRun): Json {
  return fill(schema, input, { root: schema, run })
}

interface Filling {
  readonly root: JsonObject
  /** Counts the steps: references that double at each level would never end. */
  readonly run: CheckRun
}

function fill(schema: unknown, value: Json, filling: Filling): Json {
  // Three steps of a check take as long as one of these.
  filling.run.spend(3)
  if (!isObject(schema)) return value
  const { root } = filling
  let filled = value
  if (typeof schema.$ref === "string") filled = fill(resolveReference(root, schema.$ref), filled, filling)
  if (Array.isArray(schema.allOf)) for (const part of schema.allOf) filled = fill(part, filled, filling)
  if (Array.isArray(filled)) return fillItems(schema, filled as readonly Json[], filling)
  if (isObject(schema.properties) && isObject(filled))
    return fillProperties(schema.properties, filled as JsonObject, filling)
  return filled
}

function fillItems(
  schema: Readonly<Record<string, unknown>>,
  items: readonly Json[],
  filling: Filling,
): Json {
  const first = Array.isArray(schema.prefixItems) ? schema.prefixItems.length : 0
  if (!isObject(schema.items)) return items
  return items.map((item, i) => (i < first ? item : fill(schema.items, item, filling)))
}

function fillProperties(
  properties: Readonly<Record<string, unknown>>,
  value: JsonObject,
  filling: Filling,
): Json {
  const filled: Record<string, Json> = { ...value }
  filling.run.spend(Object.keys(filled).length >> 2)
  for (const [key, property] of Object.entries(properties)) {
    const given = Object.hasOwn(filled, key) ? filled[key] : defaultOf(property, filling)
    if (given !== undefined) filled[key] = fill(property, given, filling)
  }
  return filled
}

function defaultOf(schema: unknown, { root, run }: Filling): Json | undefined {
  let current = schema
  // A reference may lead to another; cycles were rejected with the definition.
  while (isObject(current)) {
    if (current.default !== undefined) {
      const text = JSON.stringify(current.default)
      run.spend(text.length >> 3)
      return JSON.parse(text) as Json
    }
    if (typeof current.$ref !== "string") return undefined
    current = resolveReference(root, current.$ref)
  }
  return undefined
}
