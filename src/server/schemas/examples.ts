/**
 * Builds a complete example for every request body and every successful answer of the OpenAPI document from the examples
 * of the schemas' parts. If a required part has no example, the whole has none, and a test fails.
 */

export interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly example?: unknown
  readonly examples?: readonly unknown[]
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly default?: unknown
  readonly minimum?: number
  readonly maximum?: number
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly description?: string
}

export type Schemas = Readonly<Record<string, Schema>>

/** `undefined`: there is no example. */
export function exampleOf(given: Schema | undefined, schemas: Schemas): unknown {
  const schema = resolved(given, schemas)
  if (schema === undefined) return undefined
  if (schema.example !== undefined) return schema.example
  const own = schema.examples?.[0] ?? schema.const ?? schema.enum?.[0] ?? schema.default
  if (own !== undefined) return own
  if (schema.anyOf !== undefined)
    return schema.anyOf.map(option => exampleOf(option, schemas)).find(example => example !== undefined)
  return byType(schema, schemas)
}

function byType(schema: Schema, schemas: Schemas): unknown {
  if (Array.isArray(schema.type)) {
    const forms = schema.type.map((type: string) => byType({ ...schema, type }, schemas))
    return forms.find(example => example !== undefined)
  }
  switch (schema.type) {
    case "object":
      return objectExample(schema, schemas)
    case "array":
      return listOf(exampleOf(schema.items, schemas))
    case "integer":
    case "number":
      return schema.minimum !== undefined && schema.minimum > 0 ? schema.minimum : 0
    case "boolean":
      return false
    case "null":
      return null
    default:
      return undefined
  }
}

/** Resolves a reference. */
export function resolved(schema: Schema | undefined, schemas: Schemas): Schema | undefined {
  if (schema?.$ref === undefined) return schema
  const { $ref, ...rest } = schema
  return { ...schemas[$ref.split("/").at(-1)!], ...rest }
}

function listOf(entry: unknown): unknown {
  return entry === undefined ? undefined : [entry]
}

function objectExample({ properties = {}, required = [] }: Schema, schemas: Schemas): unknown {
  const found: Record<string, unknown> = {}
  for (const [name, schema] of Object.entries(properties)) {
    // An optional field is shown if it has an example of its own.
    const example = required.includes(name) ? exampleOf(schema, schemas) : schema.example
    if (example !== undefined) found[name] = example
    else if (required.includes(name)) return undefined
  }
  return found
}
