/** Keywords of JSON Schema 2020-12: the form of each, and which of them contain schemas. */
import { isObject } from "../document/json-value.ts"
import { unsupportedConstruct } from "./schema-pattern.ts"

/** The keyword contains a schema, a list of schemas, or a mapping of names to schemas. */
export const schemaKeywords: Readonly<Record<string, "one" | "list" | "map">> = {
  ...{
    items: "one",
    contains: "one",
    additionalProperties: "one",
    propertyNames: "one",
    not: "one",
    if: "one",
  },
  // biome-ignore lint/suspicious/noThenProperty: the keyword's name; nobody awaits this table
  ...{ then: "one", else: "one", unevaluatedItems: "one", unevaluatedProperties: "one" },
  ...{ prefixItems: "list", allOf: "list", anyOf: "list", oneOf: "list" },
  ...{
    properties: "map",
    patternProperties: "map",
    $defs: "map",
    definitions: "map",
    dependentSchemas: "map",
  },
}

/** A longer pattern is rejected. */
const patternLimit = 1000

/** Describes what is wrong with a keyword's value. */
type Check = (value: unknown) => string | undefined

const expect =
  (what: string, fits: (value: unknown) => boolean): Check =>
  value =>
    fits(value) ? undefined : `Expected ${what}.`

const types = new Set(["null", "boolean", "object", "array", "number", "integer", "string"])
const isType = (value: unknown): boolean => typeof value === "string" && types.has(value)
const isStrings = (value: unknown): boolean =>
  Array.isArray(value) && value.every(item => typeof item === "string")

const aNumber = expect("a number", value => typeof value === "number")
const aCount = expect(
  "a whole number, 0 or more",
  value => Number.isSafeInteger(value) && (value as number) >= 0,
)
const text = expect("text", value => typeof value === "string")
const flag = expect("true or false", value => typeof value === "boolean")
const schemaList = expect("a list of schemas, not empty", value => Array.isArray(value) && value.length > 0)
const schemaMap = expect("a mapping of names to schemas", isObject)

const refused =
  (advice: string): Check =>
  () =>
    advice

const pattern: Check = value => {
  if (typeof value !== "string") return "Expected a regular expression as text."
  if (value.length > patternLimit) return `A pattern may have at most ${patternLimit} characters.`
  try {
    new RegExp(value, "u")
    return undefined
  } catch (error) {
    return `Not a regular expression: ${(error as Error).message.replace(/^Invalid regular expression: /, "")}.`
  }
}

const patternMap: Check = value =>
  schemaMap(value) ??
  Object.keys(value as object)
    .map(pattern)
    .find(wrong => wrong)

/** Why a well-formed pattern is rejected in a new definition: it cannot be matched in linear time. */
export function tooRich(keyword: string, argument: unknown): string | undefined {
  const sources =
    keyword === "pattern"
      ? [argument]
      : keyword === "patternProperties"
        ? Object.keys(argument as object)
        : []
  for (const source of sources) {
    const construct = unsupportedConstruct(source as string)
    if (construct !== undefined)
      return `The pattern has ${construct}, which cannot be matched in linear time. Rewrite the pattern without it.`
  }
  return undefined
}

const typeNames = expect(`one of ${[...types].join(", ")}, or a list of them`, value =>
  Array.isArray(value) ? value.length > 0 && value.every(isType) : isType(value),
)

export const keywordChecks: Readonly<Record<string, Check>> = {
  type: typeNames,
  ...{ enum: expect("a list", Array.isArray), required: expect("a list of names", isStrings) },
  ...{ minimum: aNumber, maximum: aNumber, exclusiveMinimum: aNumber, exclusiveMaximum: aNumber },
  multipleOf: expect("a number above 0", value => typeof value === "number" && value > 0),
  ...{
    minLength: aCount,
    maxLength: aCount,
    minItems: aCount,
    maxItems: aCount,
    minContains: aCount,
    maxContains: aCount,
  },
  ...{ minProperties: aCount, maxProperties: aCount, uniqueItems: flag },
  ...{ title: text, description: text, format: text, $comment: text, $schema: text, $ref: text },
  ...{ pattern, patternProperties: patternMap },
  ...{ prefixItems: schemaList, allOf: schemaList, anyOf: schemaList, oneOf: schemaList },
  ...{ properties: schemaMap, $defs: schemaMap, definitions: schemaMap, dependentSchemas: schemaMap },
  dependentRequired: expect("a mapping of names to lists of names", value =>
    isObject(value) ? Object.values(value).every(isStrings) : false,
  ),
  items: value => (Array.isArray(value) ? 'Write a list of schemas as "prefixItems" (2020-12).' : undefined),
  dependencies: refused('Write "dependentRequired" or "dependentSchemas" (2020-12).'),
  additionalItems: refused('Write "items" together with "prefixItems" (2020-12).'),
  // The validator still knows "id" of draft 4, and would use it as the name of the schema.
  ...{
    $id: refused('Leave "$id" out: the schema has no id.'),
    id: refused('Leave "id" out: the schema has no id.'),
  },
  ...{
    $anchor: refused('Use "$defs" and "#/$defs/…".'),
    $dynamicAnchor: refused('Use "$defs" and "#/$defs/…".'),
  },
  ...{
    $dynamicRef: refused('Use "$ref" and "#/$defs/…".'),
    $recursiveRef: refused('Use "$ref" and "#/$defs/…".'),
  },
  $recursiveAnchor: refused('Use "$ref" and "#/$defs/…".'),
}
