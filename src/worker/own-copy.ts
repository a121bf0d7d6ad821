import type { Json } from "../core/json.ts"

/**
 * A handler gets its own copy of its arguments and may change it. The lists and mappings of a config, an
 * input and of parents' outputs belong to the plan and to the job's state, which must stay as they are in the
 * journal. Texts are shared.
 */
export function ownCopy<T extends Json>(value: T): T
export function ownCopy(value: Json): Json {
  if (typeof value !== "object" || value === null) return value
  if (Array.isArray(value)) return (value as readonly Json[]).map(item => ownCopy(item))
  // `fromEntries` defines keys, whatever their name: "__proto__" stays data.
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, ownCopy(member)]))
}
