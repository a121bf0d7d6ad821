/**
 * zod reports every wrong entry of a list, each with a text of its own: two hundred thousand take half a second in one piece.
 * So a large value is looked at in pieces first, and the first piece with something wrong in it is all that is reported.
 */
import { z } from "zod"
import { isObject } from "./json-value.ts"

/** Values of a piece: some 10 ms if all of them are wrong. */
const PIECE = 1000

interface FoundIssue {
  readonly path: readonly PropertyKey[]
}

/** What zod tells of a schema; which of these exist depends on its kind. */
interface Parts {
  readonly type?: string
  readonly innerType?: z.ZodType
  readonly options?: readonly z.ZodType[]
  readonly element?: z.ZodType
  readonly valueType?: z.ZodType
  readonly shape?: Readonly<Record<string, z.ZodType>>
}

/**
 * Issues of the first piece of a long list or mapping in `value` that does not fit; none: the value is small, or its long lists
 * and mappings fit, or this is not a schema of zod.
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
  const { innerType, options, element, valueType, shape } = (schema?.def ?? {}) as Parts
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

/** A value that may have several forms is wrong if it is so in each that it could have. */
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

/** zod looks at the entries of a list that is too long, too. */
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

/** `keys`: of a mapping. They are not looked at: it has fewer entries than a list, since each has a key of its own. */
function issuesOfEntries(
  of: z.ZodType,
  { values, keys }: { readonly values: readonly unknown[]; readonly keys?: readonly string[] },
  path: readonly PropertyKey[],
): readonly FoundIssue[] {
  if (of.def.type === "unknown" || of.def.type === "any" || valueCount(values, PIECE) <= PIECE) return []
  const schema = z.array(of)
  const keyOf = (index: number) => keys?.[index] ?? index
  let from = 0
  let count = 0
  for (let i = 0; i < values.length; i++) {
    const size = valueCount(values[i], PIECE)
    if (size > PIECE) {
      const found = issuesIn(of, values[i], [...path, keyOf(i)])
      if (found.length > 0) return found
    }
    count += size
    if (count < PIECE && i < values.length - 1) continue
    const issues: readonly FoundIssue[] = schema.safeParse(values.slice(from, i + 1)).error?.issues ?? []
    if (issues.length > 0)
      return issues.map(issue => {
        const [index, ...inner] = issue.path
        return { ...issue, path: [...path, keyOf(from + Number(index)), ...inner] }
      })
    from = i + 1
    count = 0
  }
  return []
}

/** Values in a value, itself included; stops counting above `most`. */
export function valueCount(value: unknown, most: number): number {
  if (typeof value !== "object" || value === null) return 1
  let count = 1
  const members = Array.isArray(value) ? value : isObject(value) ? Object.values(value) : []
  for (let i = 0; i < members.length && count <= most; i++) count += valueCount(members[i], most - count)
  return count
}
