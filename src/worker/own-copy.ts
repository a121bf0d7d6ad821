import type { Json } from "../core/json.ts"

/**
 * What a handler is given is its own: it may change it. The lists and mappings of a config, an input and of parents'
 * outputs are those of the plan and of the job's state, which must stay as the journal has them. Texts are shared.
 */
export function ownCopy<T extends Json>(value: T): T
export function ownCopy(value: Json): Json {
  if (typeof value !== "object" || value === null) return value
  if (Array.isArray(value)) return (value as readonly Json[]).map(item => ownCopy(item))
  // `fromEntries` defines keys, whatever they are called: "__proto__" stays data.
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, ownCopy(member)]))
}
