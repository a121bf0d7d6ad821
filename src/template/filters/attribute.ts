/** `attribute="a.b.0"`: the path that filters read in each item. */
import type { Json } from "../../core/json.ts"
import { child } from "../run/lookup.ts"
import { data, Missing, typeName, type Value } from "../run/values.ts"
import { cannot, type Run } from "../run.ts"
import { recase } from "./text-work.ts"

export type Path = readonly (string | number)[]

const MAX_PARTS = 100

export function parts(attribute: Json): Path {
  if (typeof attribute === "number") return [attribute]
  if (typeof attribute !== "string")
    throw cannot(`attribute must be a string or number, not a ${typeName(attribute)}`)
  const split = attribute.split(".", MAX_PARTS + 1)
  if (split.length > MAX_PARTS) throw cannot(`attribute must have at most ${MAX_PARTS} parts`)
  return split.map(part => (/^\d{1,9}$/.test(part) ? Number(part) : part))
}

/** The value at the path, which may be a missing value. */
export function look(run: Run, item: Json, path: Path, otherwise?: Json): Value {
  let value: Value = item
  for (const part of path) {
    run.step()
    const found = child(run, value, part)
    if (found === undefined && otherwise === undefined) return absent(run, value, path)
    value = found ?? (found === null ? null : (otherwise as Json))
  }
  return value
}

export const follow = (run: Run, item: Json, path: Path): Json => data(look(run, item, path))

function absent(run: Run, _value: Value, path: Path): Missing {
  const shown = run.discreet ? "" : ` "${path.join(".")}"`
  return Missing.because(
    `an item has no attribute${shown}; give the filter a default, or select the items that have it`,
  )
}

/** Keys by which items are ordered, grouped or compared; text ignores case by default. */
export function keysOf(
  run: Run,
  items: readonly Json[],
  attribute: Json | undefined,
  caseSensitive: boolean,
): Json[] {
  run.items(items.length)
  const path = attribute === undefined || attribute === null ? [] : parts(attribute)
  return items.map(item => foldCase(run, follow(run, item, path), caseSensitive))
}

export function foldCase(run: Run, value: Json, caseSensitive: boolean): Json {
  if (caseSensitive || typeof value !== "string") return value
  return recase(run, value, whole => whole.toLowerCase())
}
