/**
 * Is `input` a JSON Schema (2020-12) that can be used safely? Wrong keywords, references that lead nowhere or out of the
 * document, and references that go round without end are E101 when the workflow is defined, not when a job arrives.
 */
import { isObject } from "./json-value.ts"
import { type DocumentPath, formatPath, type ProblemList } from "./problem.ts"
import { keywordChecks, schemaKeywords } from "./schema-keywords.ts"

/** Schemas that apply to the same value, one inside the other. More would be a mistake, and cost stack. */
const chainLimit = 16

type Schema = Readonly<Record<string, unknown>>

type Report = (path: DocumentPath, message: string) => void

export function checkInputSchema(root: Schema, problems: ProblemList): void {
  const report: Report = (path, message) => problems.add("E101", ["input", ...path], message)
  const { type, ...rest } = root
  if (type !== undefined && type !== "object") {
    report(["type"], 'The input of a job is a mapping: its schema must have "type: object".')
  }
  // The root without its type, which has just been looked at.
  checkReferences(root, subschemas(rest, report), report)
}

export interface SchemaSafety {
  /** Why the schema must not be run; a definition's schema has none. */
  readonly unsafe: string | undefined
  /** How many schemas look at one value at most: what a level of the input costs in stack. */
  readonly chain: number
}

/** For schemas that may come from elsewhere than a checked definition. */
export function inspectSchema(root: Schema): SchemaSafety {
  let unsafe: string | undefined
  const chain = checkReferences(
    root,
    subschemas(root, () => {}),
    (path, message) => {
      unsafe ??= `${formatPath(path)}: ${message}`
    },
  )
  return { unsafe, chain }
}

/** Answers with the longest chain. */
function checkReferences(root: Schema, schemas: readonly Located[], report: Report): number {
  const broken = schemas.filter(({ schema, path }) => !checkReference(schema, path, root, report))
  if (broken.length > 0) return 0
  const all = schemas.map(({ schema }) => schema)
  const chain = longestChain(root, all)
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

/** All schemas of the document, each keyword checked on the way. */
function subschemas(root: Schema, report: Report): Located[] {
  const found: Located[] = []
  const open: { value: unknown; path: DocumentPath }[] = [{ value: root, path: [] }]
  while (open.length > 0) {
    const { value, path } = open.pop()!
    if (typeof value === "boolean") continue
    if (!isObject(value)) {
      report(path, "A schema is a mapping, true or false.")
      continue
    }
    found.push({ schema: value, path })
    for (const [keyword, argument] of Object.entries(value)) {
      const wrong = Object.hasOwn(keywordChecks, keyword) ? keywordChecks[keyword]!(argument) : undefined
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
  const message = `Nothing stands at ${JSON.stringify(schema.$ref)}. Correct it, or add it under $defs.`
  report([...path, "$ref"], message)
  return false
}

/** What a local `$ref` means: `#` or a JSON pointer behind it. */
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

/** The longest chain of schemas that look at the same value; infinite if it is a circle. */
function longestChain(root: Schema, schemas: readonly Schema[]): number {
  const lengths = new Map<Schema, number>()
  const measure = (schema: Schema, depth: number): number => {
    const known = lengths.get(schema)
    if (known !== undefined) return known
    if (depth > 2 * chainLimit) return depth
    // While it is being measured: who comes back here goes in a circle.
    lengths.set(schema, Number.POSITIVE_INFINITY)
    let longest = 0
    for (const inner of inPlace(schema, root)) longest = Math.max(longest, measure(inner, depth + 1))
    lengths.set(schema, longest + 1)
    return longest + 1
  }
  return schemas.reduce((longest, schema) => Math.max(longest, measure(schema, 0)), 0)
}

function inPlace(schema: Schema, root: Schema): Schema[] {
  const { $ref, allOf, anyOf, oneOf, not, if: condition, then, else: otherwise, dependentSchemas } = schema
  const target = typeof $ref === "string" ? resolveReference(root, $ref) : undefined
  const lists = [allOf, anyOf, oneOf].flatMap(list => (Array.isArray(list) ? (list as unknown[]) : []))
  const dependents = isObject(dependentSchemas) ? Object.values(dependentSchemas) : []
  return [target, not, condition, then, otherwise, ...lists, ...dependents].filter(isObject)
}
