/**
 * Checks that `input` is a JSON Schema (2020-12) that can be used safely. Wrong keywords, unresolved references, references
 * out of the document, and endless references are E101 when the workflow is defined, not when a job arrives.
 */
import { atOnce, type Work } from "../../turns.ts"
import { isObject } from "../document/json-value.ts"
import { type DocumentPath, formatPath, type ProblemList } from "../problem.ts"
import { keywordChecks, schemaKeywords, tooRich } from "./schema-keywords.ts"

/** Nested schemas that apply to the same value. More would be a mistake, and cost stack. */
const chainLimit = 16

type Schema = Readonly<Record<string, unknown>>

type Report = (path: DocumentPath, message: string) => void

export interface SchemaRules {
  readonly problems: ProblemList
  /** A version stored earlier: its patterns are not checked again. */
  readonly isStored?: boolean
}

export function* checkInputSchema(root: Schema, { problems, isStored }: SchemaRules): Work<void> {
  const report: Report = (path, message) => problems.add("E101", ["input", ...path], message)
  const { type, ...rest } = root
  if (type !== undefined && type !== "object") {
    report(["type"], 'The input of a job must be a mapping: its schema needs "type: object".')
  }
  // The root without its type, which was checked above.
  const schemas = yield* subschemas(rest, report, isStored)
  yield* checkReferences(root, schemas, report)
}

/** The schema of other data: of any type. `report` gets paths from its root on. */
export function* checkDataSchema(root: Schema, report: Report): Work<void> {
  const schemas = yield* subschemas(root, report)
  yield* checkReferences(root, schemas, report)
}

/** The first problem of a schema of other data; undefined: there is none. */
export function dataSchemaProblem(root: Schema): { path: DocumentPath; message: string } | undefined {
  let found: { path: DocumentPath; message: string } | undefined
  atOnce(checkDataSchema(root, (path, message) => (found ??= { path, message })))
  return found
}

export interface SchemaSafety {
  /** Why the schema must not be used; never set for the schema of a definition. */
  readonly unsafe: string | undefined
  /** The largest number of schemas that apply to one value: the stack cost of a level of the input. */
  readonly chain: number
  /** Has `pattern`, `patternProperties`, `format` or `uniqueItems`, whose cost is not known in advance. */
  readonly isCostly: boolean
  readonly hasDefaults: boolean
}

/** For schemas that may not come from a checked definition. */
export function inspectSchema(root: Schema): SchemaSafety {
  let unsafe: string | undefined
  const schemas = atOnce(subschemas(root, () => {}))
  const chain = atOnce(
    checkReferences(root, schemas, (path, message) => {
      unsafe ??= `${formatPath(path)}: ${message}`
    }),
  )
  const isCostly = schemas.some(({ schema }) => costlyKeywords.some(keyword => keyword in schema))
  const hasDefaults = schemas.some(({ schema }) => "default" in schema)
  return { unsafe, chain, isCostly, hasDefaults }
}

/** Stops as soon as the result is known. */
export function hasMoreSchemas(root: Schema, most: number): boolean {
  const walk = subschemas(root, () => {})
  for (let found = 0; found <= most; found++) if (walk.next().done) return false
  return true
}

const costlyKeywords = ["pattern", "patternProperties", "format", "uniqueItems"]

/** Returns the longest chain. */
function* checkReferences(root: Schema, schemas: readonly Located[], report: Report): Work<number> {
  const broken = schemas.filter(({ schema, path }) => !checkReference(schema, path, root, report))
  yield
  if (broken.length > 0) return 0
  const chain = yield* longestChain(root, schemas)
  if (chain <= chainLimit) return chain
  const endless = chain === Number.POSITIVE_INFINITY
  const what = endless ? "A $ref leads back to itself without end" : "Too many schemas apply to one value"
  report([], `${what}. Let recursion go through "properties" or "items".`)
  return chain
}

interface Located {
  readonly schema: Schema
  readonly path: DocumentPath
}

/** Visits all schemas of the document, and checks each keyword. */
function* subschemas(root: Schema, report: Report, isStored = true): Work<Located[]> {
  const found: Located[] = []
  const open: { value: unknown; path: DocumentPath }[] = [{ value: root, path: [] }]
  while (open.length > 0) {
    const { value, path } = open.pop()!
    if (typeof value === "boolean") continue
    if (!isObject(value)) {
      report(path, "A schema must be a mapping, true or false.")
      continue
    }
    found.push({ schema: value, path })
    yield
    for (const [keyword, argument] of Object.entries(value)) {
      const wrong = wrongKeyword(keyword, argument) ?? (isStored ? undefined : tooRich(keyword, argument))
      if (wrong !== undefined) {
        report([...path, keyword], wrong)
        continue
      }
      for (const { value, path: inner } of children(keyword, argument))
        open.push({ value, path: [...path, keyword, ...inner] })
    }
  }
  return found
}

/** Reports patterns of a JSON Schema that cannot be matched in linear time. */
export function richPatterns(root: Schema): { readonly path: DocumentPath; readonly message: string }[] {
  return atOnce(subschemas(root, () => {})).flatMap(({ schema, path }) =>
    Object.entries(schema).flatMap(([keyword, argument]) => {
      const message = wrongKeyword(keyword, argument) === undefined ? tooRich(keyword, argument) : undefined
      return message === undefined ? [] : [{ path: [...path, keyword], message }]
    }),
  )
}

function wrongKeyword(keyword: string, argument: unknown): string | undefined {
  return Object.hasOwn(keywordChecks, keyword) ? keywordChecks[keyword]!(argument) : undefined
}

function children(keyword: string, argument: unknown): { value: unknown; path: DocumentPath }[] {
  if (!Object.hasOwn(schemaKeywords, keyword)) return []
  if (schemaKeywords[keyword] === "one") return [{ value: argument, path: [] }]
  if (Array.isArray(argument)) return argument.map((value, i) => ({ value, path: [i] }))
  return Object.entries(argument as object).map(([key, value]) => ({ value, path: [key] }))
}

function checkReference(schema: Schema, path: DocumentPath, root: Schema, report: Report): boolean {
  if (typeof schema.$ref !== "string") return true
  if (!schema.$ref.startsWith("#")) {
    report([...path, "$ref"], 'A $ref may only point into the same schema: "#/$defs/…". Nothing is fetched.')
    return false
  }
  if (resolveReference(root, schema.$ref) !== undefined) return true
  const message = `There is no schema at ${JSON.stringify(schema.$ref)}. Correct the reference, or add the schema under $defs.`
  report([...path, "$ref"], message)
  return false
}

/** Resolves a local `$ref`: `#`, or `#` and a JSON pointer. */
export function resolveReference(root: unknown, reference: string): Schema | boolean | undefined {
  let value: unknown = root
  let pointer: string
  try {
    pointer = decodeURIComponent(reference.slice(1))
  } catch {
    return undefined
  }
  if (pointer !== "" && !pointer.startsWith("/")) return undefined
  for (const part of pointer.split("/").slice(1)) {
    const key = part.replaceAll("~1", "/").replaceAll("~0", "~")
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined
    value = (value as Record<string, unknown>)[key]
  }
  return typeof value === "boolean" || isObject(value) ? value : undefined
}

/** The longest chain of schemas that apply to the same value; infinite for a cycle. */
function* longestChain(root: Schema, schemas: readonly Located[]): Work<number> {
  const lengths = new Map<Schema, number>()
  const measure = (schema: Schema, depth: number): number => {
    const known = lengths.get(schema)
    if (known !== undefined) return known
    if (depth > 2 * chainLimit) return depth
    // While it is being measured: a chain that returns here is a cycle.
    lengths.set(schema, Number.POSITIVE_INFINITY)
    let longest = 0
    for (const inner of inPlace(schema, root)) longest = Math.max(longest, measure(inner, depth + 1))
    lengths.set(schema, longest + 1)
    return longest + 1
  }
  let longest = 0
  for (const { schema } of schemas) {
    longest = Math.max(longest, measure(schema, 0))
    yield
  }
  return longest
}

function inPlace(schema: Schema, root: Schema): Schema[] {
  const { $ref, allOf, anyOf, oneOf, not, if: condition, then, else: otherwise, dependentSchemas } = schema
  const target = typeof $ref === "string" ? resolveReference(root, $ref) : undefined
  const lists = [allOf, anyOf, oneOf].flatMap(list => (Array.isArray(list) ? (list as unknown[]) : []))
  const dependents = isObject(dependentSchemas) ? Object.values(dependentSchemas) : []
  return [target, not, condition, then, otherwise, ...lists, ...dependents].filter(isObject)
}
