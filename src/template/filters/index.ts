/** Every filter by name. */
import { lenientOperation, type Operation } from "../run/operation.ts"
import { data, Missing, truthy, type Value } from "../run/values.ts"
import { listFilters, mapping, mappingFilters, selectingFilters } from "./lists.ts"
import { numberFilters } from "./numbers.ts"
import { encodingFilters, textFilters } from "./text.ts"

/** The default may be missing itself, for `a | default(b) | default(c)`. */
const standIn = lenientOperation("default_value? boolean?", (run, value, [otherwise, boolean]): Value => {
  const replaceFalse = boolean !== undefined && truthy(run, data(boolean))
  const absent = value instanceof Missing || (replaceFalse && !truthy(run, data(value)))
  return absent ? (otherwise ?? (otherwise === null ? null : "")) : value
})

export const filters: ReadonlyMap<string, Operation> = new Map<string, Operation>([
  ["default", standIn],
  ["d", standIn],
  ["map", mapping(() => filters)],
  ...textFilters,
  ...numberFilters,
  ...listFilters,
  ...mappingFilters,
  ...selectingFilters,
  ...encodingFilters,
])
