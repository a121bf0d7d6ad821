/** What a form needs to know of a JSON Schema. The server checks values; here nothing is rejected. */
import type { Json, JsonObject } from "../../../src/core/index.ts"

export type Schema = { readonly [keyword: string]: unknown }
export type Path = readonly (string | number)[]

/** One problem of a value, as the API reports it: `input.items[2].price`. */
export interface FieldProblem {
  readonly path: string
  readonly message: string
}

/** How a value is entered. `json`: as text, since the schema is too general, or too complex for fields. */
export type Shape =
  | { readonly kind: "string"; readonly schema: Schema }
  | { readonly kind: "boolean"; readonly schema: Schema }
  | { readonly kind: "json"; readonly schema: Schema }
  | { readonly kind: "number"; readonly schema: Schema; readonly isWhole: boolean }
  | { readonly kind: "choice"; readonly schema: Schema; readonly choices: readonly Choice[] }
  | { readonly kind: "object"; readonly schema: Schema; readonly properties: readonly Property[] }
  | { readonly kind: "list"; readonly schema: Schema; readonly items: Schema }
  | { readonly kind: "variants"; readonly schema: Schema; readonly variants: readonly Variant[] }

interface Choice {
  readonly label: string
  readonly value: Json
}

interface Property {
  readonly key: string
  readonly schema: Schema
  readonly isRequired: boolean
}

interface Variant {
  readonly label: string
  readonly schema: Schema
}

const MOST_REFERENCES = 20
/** A schema that contains itself has no end. */
const MOST_LEVELS = 8
const plainKey = /^[A-Za-z_$][A-Za-z0-9_$-]*$/

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}

/** As the API writes paths. */
export function pathText(path: Path): string {
  let text = ""
  for (const part of path) {
    if (typeof part === "number") text += `[${part}]`
    else if (plainKey.test(part)) text += text === "" ? part : `.${part}`
    else text += `[${JSON.stringify(part)}]`
  }
  return text
}

/** With references followed, and `allOf` as one schema. */
function resolved(schema: unknown, root: Schema): Schema {
  let current: Schema = isObject(schema) ? schema : {}
  for (let n = 0; n < MOST_REFERENCES && typeof current.$ref === "string"; n++) {
    const { $ref, ...rest } = current
    current = { ...(resolvePointer($ref as string, root) ?? {}), ...rest }
  }
  if (!Array.isArray(current.allOf)) return current
  const { allOf, ...own } = current
  const parts = [...(allOf as unknown[]).map(part => resolved(part, root)), own as Schema]
  const merged: Record<string, unknown> = Object.assign({}, ...parts)
  merged.properties = Object.assign({}, ...parts.map(({ properties }) => properties))
  merged.required = parts.flatMap(({ required }) => (Array.isArray(required) ? required : []))
  if (Object.keys(merged.properties as object).length === 0) delete merged.properties
  return merged
}

function resolvePointer(reference: string, root: Schema): Schema | null {
  if (!reference.startsWith("#")) return null
  let found: unknown = root
  for (const part of decodeURIComponent(reference.slice(1)).split("/").slice(1)) {
    if (typeof found !== "object" || found === null) return null
    found = (found as Record<string, unknown>)[part.replaceAll("~1", "/").replaceAll("~0", "~")]
  }
  return isObject(found) ? found : null
}

export function toShape(given: unknown, root: Schema, level = 0): Shape {
  const schema = resolved(given, root)
  if (level > MOST_LEVELS) return { kind: "json", schema }
  const values = listChoices(schema, root)
  if (values !== null) return { kind: "choice", schema, choices: values }
  const types = [schema.type ?? []].flat().filter(type => type !== "null")
  const branches = listBranches(schema, root)
  if (branches.length === 1) {
    const { anyOf, oneOf, ...own } = schema
    return toShape({ ...branches[0]!, ...own }, root, level + 1)
  }
  const isBranched = branches.length > 1 && !isObject(schema.properties)
  if (isBranched)
    return {
      kind: "variants",
      schema,
      variants: branches.map((branch, n) => ({ label: variantLabel(branch, root, n), schema: branch })),
    }
  if (types.length > 1) return { kind: "json", schema }
  switch (types[0] ?? (isObject(schema.properties) ? "object" : schema.items === undefined ? "" : "array")) {
    case "string":
      return { kind: "string", schema }
    case "boolean":
      return { kind: "boolean", schema }
    case "number":
    case "integer":
      return { kind: "number", schema, isWhole: types[0] === "integer" }
    case "array":
      return isObject(schema.items) && schema.prefixItems === undefined
        ? { kind: "list", schema, items: schema.items }
        : { kind: "json", schema }
    case "object":
      return isObject(schema.properties)
        ? { kind: "object", schema, properties: listProperties(schema) }
        : { kind: "json", schema }
    default:
      return { kind: "json", schema }
  }
}

/** Required ones first: the server sorts keys by name, so the order of the author is not known. */
function listProperties(schema: Schema): Property[] {
  const required = new Set(Array.isArray(schema.required) ? schema.required : [])
  return Object.entries(schema.properties as JsonObject)
    .map(([key, property]) => ({
      key,
      schema: isObject(property) ? property : {},
      isRequired: required.has(key),
    }))
    .sort((a, b) => Number(b.isRequired) - Number(a.isRequired))
}

/** The values of `enum`, `const`, or of a `oneOf` that only has constants. */
function listChoices(schema: Schema, root: Schema): Choice[] | null {
  const choice = (value: Json, title?: unknown) => ({
    value,
    label: typeof title === "string" ? title : typeof value === "string" ? value : JSON.stringify(value),
  })
  if (Array.isArray(schema.enum)) return (schema.enum as Json[]).map(value => choice(value))
  if (schema.const !== undefined) return [choice(schema.const as Json)]
  const branches = listBranches(schema, root)
  return branches.length > 0 && branches.every(branch => branch.const !== undefined)
    ? branches.map(branch => choice(branch.const as Json, branch.title))
    : null
}

function listBranches(schema: Schema, root: Schema): Schema[] {
  const list = schema.oneOf ?? schema.anyOf
  if (!Array.isArray(list)) return []
  return list.map(branch => resolved(branch, root)).filter(({ type }) => type !== "null")
}

function variantLabel(branch: Schema, root: Schema, n: number): string {
  if (typeof branch.title === "string") return branch.title
  const fixed = isObject(branch.properties)
    ? Object.values(branch.properties)
        .map(property => resolved(property, root).const)
        .find(value => typeof value === "string")
    : undefined
  return (fixed as string | undefined) ?? (typeof branch.type === "string" ? branch.type : `Form ${n + 1}`)
}

/** The variant that a value most likely has. */
export function findVariant(variants: readonly Variant[], value: Json | undefined, root: Schema): number {
  const found = variants.findIndex(({ schema }) => looksLike(schema, value, root))
  return Math.max(0, found)
}

function looksLike(schema: Schema, value: Json | undefined, root: Schema): boolean {
  const shape = toShape(schema, root)
  switch (shape.kind) {
    case "object":
      return (
        isObject(value) &&
        shape.properties.every(({ key, schema: property, isRequired }) => {
          const given = value[key]
          if (given === undefined) return !isRequired
          const inner = toShape(property, root)
          return inner.kind !== "choice" || inner.choices.some(one => one.value === given)
        })
      )
    case "choice":
      return shape.choices.some(one => one.value === value)
    case "list":
      return Array.isArray(value)
    case "json":
      return true
    default:
      return typeof value === shape.kind
  }
}

/** The initial value of a form: defaults, and the parts that must exist. undefined: none. */
export function initialValue(given: unknown, root: Schema, isRequired = true, level = 0): Json | undefined {
  const shape = toShape(given, root)
  const preset = shape.schema.default as Json | undefined
  if (preset !== undefined) return level > MOST_LEVELS ? preset : filled(shape, preset, root, level)
  if (!isRequired || level > MOST_LEVELS) return undefined
  switch (shape.kind) {
    case "object":
      return filled(shape, {}, root, level)
    case "list":
      return []
    case "choice":
      return shape.choices.length === 1 ? shape.choices[0]!.value : undefined
    case "variants":
      return initialValue(shape.variants[0]!.schema, root, true, level + 1)
    default:
      return undefined
  }
}

function filled(shape: Shape, value: Json, root: Schema, level: number): Json {
  if (shape.kind !== "object" || !isObject(value)) return value
  const all: Record<string, Json> = { ...value }
  for (const { key, schema, isRequired } of shape.properties) {
    const own = Object.hasOwn(all, key) ? all[key] : initialValue(schema, root, isRequired, level + 1)
    if (own !== undefined) all[key] = own
  }
  return all
}

/** Description, limits and default, as one text. */
export function formatHelp({ kind, schema }: Shape): string {
  const { title, description, default: preset } = schema
  const parts = [title, description].filter(text => typeof text === "string" && text !== "") as string[]
  const said = parts.map(text => (/[.!?]$/.test(text) ? text : `${text}.`))
  return [...said, ...formatLimits(kind, schema), ...formatDefault(preset)].join(" ")
}

function formatDefault(preset: unknown): string[] {
  if (preset === undefined || typeof preset === "object") return []
  return [`Default ${typeof preset === "string" ? preset : JSON.stringify(preset)}.`]
}

function formatLimits(kind: Shape["kind"], schema: Schema): string[] {
  const { minLength, maxLength, minItems, maxItems, format, pattern } = schema
  switch (kind) {
    case "string":
      return [
        rangeText(minLength, maxLength, "character"),
        typeof format === "string" ? `Format ${format}.` : "",
        typeof pattern === "string" ? `Matches ${pattern}` : "",
      ].filter(text => text !== "")
    case "number": {
      const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema
      return [
        rangeText(minimum, maximum, ""),
        typeof exclusiveMinimum === "number" ? `More than ${exclusiveMinimum}.` : "",
        typeof exclusiveMaximum === "number" ? `Less than ${exclusiveMaximum}.` : "",
        typeof multipleOf === "number" ? `A multiple of ${multipleOf}.` : "",
      ].filter(text => text !== "")
    }
    case "list":
      return [rangeText(minItems, maxItems, "entry")].filter(text => text !== "")
    default:
      return []
  }
}

function rangeText(least: unknown, most: unknown, unit: string): string {
  const figure = (value: unknown) => (value as number).toLocaleString("en")
  const units = (value: unknown) =>
    unit === "" ? "" : ` ${value === 1 ? unit : unit === "entry" ? "entries" : `${unit}s`}`
  const [hasLeast, hasMost] = [typeof least === "number", typeof most === "number"]
  if (hasLeast && hasMost)
    return least === most
      ? `Exactly ${figure(most)}${units(most)}.`
      : `${figure(least)} to ${figure(most)}${units(most)}.`
  if (hasMost) return `At most ${figure(most)}${units(most)}.`
  return hasLeast ? `At least ${figure(least)}${units(least)}.` : ""
}
