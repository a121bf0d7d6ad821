import type { Json } from "../../core/json.ts"
import { printJson } from "../run/print.ts"
import { isList, isMapping } from "../run/values.ts"
import type { Run } from "../run.ts"

/** A string that is equal for equal values: keys in order, booleans as the numbers they equal. */
export function identity(run: Run, value: Json): string {
  run.step()
  if (typeof value === "string") {
    run.text(value.length)
    return `"${value}`
  }
  if (typeof value === "boolean") return String(Number(value))
  if (typeof value !== "object" || value === null) return String(value)
  return printJson(run, canonical(run, value, 0), 0)
}

function canonical(run: Run, value: Json, depth: number): Json {
  run.nested(depth)
  run.step()
  if (isList(value)) {
    run.items(value.length)
    return value.map(item => canonical(run, item, depth + 1))
  }
  if (isMapping(value)) {
    const keys = run.keys(value)
    run.items(keys.length * 8)
    return keys.toSorted().map(key => [key, canonical(run, value[key] as Json, depth + 1)])
  }
  return typeof value === "boolean" ? Number(value) : value
}
