/** Defaults of an input schema, filled in where a value is missing. What was given is never changed, only copied. */
import type { Json, JsonObject } from "../core/json.ts"
import { resolveReference } from "./input-schema.ts"
import { isObject } from "./json-value.ts"

/**
 * Follows `properties`, `items`, `allOf` and local `$ref`: the parts of a schema that hold for every value.
 * A default behind `anyOf`, `oneOf` or `if` is not applied, since which branch holds is not known before.
 */
export function withDefaults(schema: JsonObject, input: Json): Json {
  return fill(schema, input, schema)
}

function fill(schema: unknown, value: Json, root: JsonObject): Json {
  if (!isObject(schema)) return value
  let filled = value
  if (typeof schema.$ref === "string") filled = fill(resolveReference(root, schema.$ref), filled, root)
  if (Array.isArray(schema.allOf)) for (const part of schema.allOf) filled = fill(part, filled, root)
  if (Array.isArray(filled)) return fillItems(schema, filled as readonly Json[], root)
  if (isObject(schema.properties) && isObject(filled))
    return fillProperties(schema.properties, filled as JsonObject, root)
  return filled
}

function fillItems(
  schema: Readonly<Record<string, unknown>>,
  items: readonly Json[],
  root: JsonObject,
): Json {
  const first = Array.isArray(schema.prefixItems) ? schema.prefixItems.length : 0
  if (!isObject(schema.items)) return items
  return items.map((item, i) => (i < first ? item : fill(schema.items, item, root)))
}

function fillProperties(
  properties: Readonly<Record<string, unknown>>,
  value: JsonObject,
  root: JsonObject,
): Json {
  const filled: Record<string, Json> = { ...value }
  for (const [key, property] of Object.entries(properties)) {
    const given = Object.hasOwn(filled, key) ? filled[key] : defaultOf(property, root)
    if (given !== undefined) filled[key] = fill(property, given, root)
  }
  return filled
}

function defaultOf(schema: unknown, root: JsonObject): Json | undefined {
  let current = schema
  // A reference may lead to another; circles were refused with the definition.
  while (isObject(current)) {
    if (current.default !== undefined) return structuredClone(current.default) as Json
    if (typeof current.$ref !== "string") return undefined
    current = resolveReference(root, current.$ref)
  }
  return undefined
}
