import { isObject } from "../document/json-value.ts"
import { idPattern, reservedIds } from "../names.ts"

/** The id of an entry, if others can refer to it. */
export function usableId(source: unknown): string | undefined {
  if (!isObject(source)) return undefined
  const { id } = source
  return typeof id === "string" && idPattern.test(id) && !reservedIds.has(id) ? id : undefined
}

/** Possible ids of entries without a valid id: any text in them. */
export function brokenIdsOf(sources: readonly unknown[], ids: readonly (string | undefined)[]): Set<string> {
  const broken = new Set<string>()
  sources.forEach((source, i) => {
    if (ids[i] !== undefined) return
    const values = isObject(source) ? Object.values(source) : [source]
    for (const value of values)
      if (typeof value === "string" || typeof value === "number") broken.add(String(value))
  })
  return broken
}
