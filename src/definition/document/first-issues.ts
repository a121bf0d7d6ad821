/**
 * zod reports every wrong entry of a list with its own text: two hundred thousand take half a second without yielding.
 * So a large value is checked in parts first, and only the problems of the first part that has any are reported.
 */
import { z } from "zod"
import { isObject } from "./json-value.ts"

/** Values per part: some 10 ms if all of them are wrong. */
const PIECE = 1000

interface FoundIssue {
  readonly path: readonly PropertyKey[]
}

/** What zod exposes of a schema; which fields exist depends on its kind. */
export interface SchemaParts {
  readonly type?: string
  readonly innerType?: z.ZodType
  readonly options?: readonly z.ZodType[]
  readonly element?: z.ZodType
  readonly valueType?: z.ZodType
  readonly shape?: Readonly<Record<string, z.ZodType>>
}

/**
 * Issues of the first part of a long list or mapping in `value` that does not fit. None: the value is small, its long
 * lists and mappings fit, or this is not a zod schema.
 */
export function firstIssues(schema: unknown, value: unknown): readonly FoundIssue[] {
  try {
    return issuesIn(schema as z.ZodType, value, [])
  } catch {
    // An asynchronous schema, or one that throws.
    return []
  }
}

function issuesIn(
  schema: z.ZodType | undefined,
  value: unknown,
  path: readonly PropertyKey[],
): readonly FoundIssue[] {
  if (typeof value !== "object" || value === null) return []
  const { innerType, options, element, valueType, shape } = (schema?.def ?? {}) as SchemaParts
  if (innerType !== undefined) return issuesIn(innerType, value, path)
  if (options !== undefined) return issuesOfAll(options, value, path)
  if (Array.isArray(value)) {
    if (element === undefined) return []
    const tooLong = lengthIssues(schema!, value, path)
    return tooLong.length > 0 ? tooLong : issuesOfEntries(element, { values: value }, path)
  }
  if (valueType !== undefined)
    return issuesOfEntries(valueType, { values: Object.values(value), keys: Object.keys(value) }, path)
  for (const [key, part] of Object.entries(shape ?? {})) {
    const found = issuesIn(part, (value as Record<string, unknown>)[key], [...path, key])
    if (found.length > 0) return found
  }
  return []
}

/** A value that may have several forms is wrong if it is wrong in each form. */
function issuesOfAll(
  options: readonly z.ZodType[],
  value: object,
  path: readonly PropertyKey[],
): readonly FoundIssue[] {
  const kinds = Array.isArray(value) ? ["array"] : ["object", "record"]
  const found = options
    .filter(({ def }) => kinds.includes(def.type))
    .map(option => issuesIn(option, value, path))
  return found.every(issues => issues.length > 0) ? (found[0] ?? []) : []
}

/** zod also checks the entries of a list that is too long. */
function lengthIssues(
  schema: z.ZodType,
  value: readonly unknown[],
  path: readonly PropertyKey[],
): readonly FoundIssue[] {
  const checks = (schema.def.checks ?? []).map(({ _zod }) => _zod.def as { check: string; maximum?: number })
  const maximum = checks.find(({ check }) => check === "max_length")?.maximum
  if (maximum === undefined || value.length <= Math.max(maximum, PIECE)) return []
  const { error } = z.array(z.unknown()).max(maximum).safeParse(value)
  return error!.issues.map(issue => ({ ...issue, path }))
}

/** `keys`: of a mapping. Keys are not checked: a mapping has fewer entries than a list, since each has its own key. */
function issuesOfEntries(
  of: z.ZodType,
  { values, keys }: { readonly values: readonly unknown[]; readonly keys?: readonly string[] },
  path: readonly PropertyKey[],
): readonly FoundIssue[] {
  if (of.def.type === "unknown" || of.def.type === "any" || valueCount(values, PIECE) <= PIECE) return []
  const schema = z.array(of)
  const keyAt = (index: number) => keys?.[index] ?? index
  let from = 0
  let count = 0
  for (let i = 0; i < values.length; i++) {
    const size = valueCount(values[i], PIECE)
    if (size > PIECE) {
      const found = issuesIn(of, values[i], [...path, keyAt(i)])
      if (found.length > 0) return found
    }
    count += size
    if (count < PIECE && i < values.length - 1) continue
    const issues: readonly FoundIssue[] = schema.safeParse(values.slice(from, i + 1)).error?.issues ?? []
    if (issues.length > 0)
      return issues.map(issue => {
        const [index, ...inner] = issue.path
        return { ...issue, path: [...path, keyAt(from + Number(index)), ...inner] }
      })
    from = i + 1
    count = 0
  }
  return []
}

/** Number of values in a value, including itself; stops counting above `most`. */
export function valueCount(value: unknown, most: number): number {
  if (typeof value !== "object" || value === null) return 1
  let count = 1
  const members = Array.isArray(value) ? value : isObject(value) ? Object.values(value) : []
  for (let i = 0; i < members.length && count <= most; i++) count += valueCount(members[i], most - count)
  return count
}
