/** Requests made from the OpenAPI document: mostly what it asks for, sometimes anything. */
import fc from "../support/property.ts"

export interface Schema {
  readonly [key: string]: unknown
}

interface Content {
  readonly schema: Schema
  readonly example?: unknown
  readonly examples?: Record<string, { readonly value: unknown }>
}

export interface Operation {
  readonly parameters?: readonly { name: string; in: string; required?: boolean; schema: Schema }[]
  readonly requestBody?: { content: Record<string, Content> }
  readonly responses: Record<string, { content?: Record<string, { schema?: Schema }> }>
}

export const texts = fc.oneof(
  fc.constantFrom(
    "hello",
    "hello@1",
    "stable",
    "1",
    "0",
    "-1",
    "1e999",
    "NaN",
    "",
    "null",
    "%00",
    "..",
    "a/b",
  ),
  fc.string({ unit: "binary", maxLength: 20 }),
)

/** Mostly what the schema asks for, sometimes anything. */
function anyOf(schema: Schema): fc.Arbitrary<unknown> {
  return fc.oneof({ arbitrary: fitting(schema), weight: 6 }, { arbitrary: fc.jsonValue(), weight: 1 })
}

function fitting(schema: Schema): fc.Arbitrary<unknown> {
  const choices = (schema.anyOf ?? schema.oneOf) as Schema[] | undefined
  if (choices) return fc.oneof(...choices.map(anyOf))
  if (Array.isArray(schema.enum)) return fc.constantFrom(...(schema.enum as unknown[]))
  switch (schema.type) {
    case "string":
      return texts
    case "integer":
    case "number":
      return fc.oneof(fc.integer({ min: 0, max: 3 }), fc.integer(), fc.double())
    case "boolean":
      return fc.boolean()
    case "null":
      return fc.constant(null)
    case "array":
      return fc.array(anyOf((schema.items ?? {}) as Schema), { maxLength: 3 })
    case "object":
      return objectOf(schema)
    default:
      return fc.jsonValue()
  }
}

function objectOf(schema: Schema): fc.Arbitrary<unknown> {
  const properties = Object.entries((schema.properties ?? {}) as Record<string, Schema>)
  if (properties.length === 0) {
    const values = anyOf((schema.additionalProperties || {}) as Schema)
    return fc.dictionary(fc.oneof(texts, fc.constantFrom("1", "2")), values, { maxKeys: 3 })
  }
  const required = (schema.required ?? []) as string[]
  return fc.record(Object.fromEntries(properties.map(([name, found]) => [name, anyOf(found)])), {
    requiredKeys: required as never[],
  })
}

export interface Drawn {
  readonly method: string
  readonly path: string
  readonly template: string
  readonly headers: Record<string, string>
  readonly body?: string
}

export function requestOf(
  template: string,
  method: string,
  operation: Operation,
  ids: readonly string[],
): fc.Arbitrary<Drawn> {
  const parameters = operation.parameters ?? []
  const one = ({ name, schema }: { name: string; schema: Schema }) =>
    name === "job" ? fc.oneof({ arbitrary: fc.constantFrom(...ids), weight: 4 }, texts) : fitting(schema)
  const values = fc.record(
    Object.fromEntries(
      parameters.map(each => [`${each.in}.${each.name}`, fc.option(one(each), { nil: undefined, freq: 4 })]),
    ),
  )
  const types = Object.entries(operation.requestBody?.content ?? {})
  const body = types.length === 0 ? fc.constant(undefined) : fc.oneof(...types.map(bodyOf))
  return fc.tuple(values, body).map(([found, sent]) => {
    const path = template.replace(/\{(\w+)\}/g, (_, name) => encode(found[`path.${name}`] ?? "x") || "x")
    const query = parameters
      .filter(
        each => each.in === "query" && found[`query.${each.name}`] !== undefined && each.name !== "wait",
      )
      .map(each => `${each.name}=${encode(found[`query.${each.name}`])}`)
    return {
      method: method.toUpperCase(),
      template,
      path: `${path}${query.length > 0 ? `?${query.join("&")}` : ""}`,
      headers: sent === undefined ? {} : { "content-type": sent.type },
      ...(sent === undefined ? {} : { body: sent.text }),
    }
  })
}

function bodyOf([type, { schema, example = null, examples = {} }]: [string, Content]) {
  const shown = [example, ...Object.values(examples).map(({ value }) => value)]
  const drawn = fc
    .oneof(anyOf(schema), fc.constantFrom(...shown))
    .map(value =>
      type.endsWith("yaml") && typeof value === "string" ? value : (JSON.stringify(value) ?? ""),
    )
  const text = fc.oneof({ arbitrary: drawn, weight: 9 }, fc.string({ maxLength: 30 }))
  return text.map(found => ({ type, text: found }))
}

/** Half of a pair cannot be sent in a URL. */
function encode(value: unknown): string {
  return encodeURIComponent(
    String(typeof value === "object" ? JSON.stringify(value) : value).replace(/\p{Surrogate}/gu, ""),
  )
}
