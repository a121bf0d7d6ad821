import type { Json } from "../../core/json.ts"
import { equal, sorted } from "../run/compare.ts"
import { markGroup } from "../run/lookup.ts"
import { flag, type Given, type Operation, operation, text } from "../run/operation.ts"
import { data, sequence } from "../run/values.ts"
import { cannot, type Run } from "../run.ts"
import { foldCase, look, parts } from "./attribute.ts"
import { pairsOf } from "./text-work.ts"

function dictSort(run: Run, value: Json, [caseSensitive, by, reverse]: Given): Json {
  const pairs = pairsOf(run, value) as readonly (readonly [string, Json])[]
  const side = text(by, "by", "key")
  if (side !== "key" && side !== "value") throw cannot('dictsort: by must be "key" or "value"')
  const exact = flag(run, caseSensitive, false)
  run.items(pairs.length)
  const keys = pairs.map(([key, item]) => foldCase(run, side === "key" ? key : item, exact))
  return sorted(run, pairs, keys, flag(run, reverse, false))
}

/** Groups by equal attribute, in its order; each group is a pair that also has `.grouper` and `.list`. */
function groupBy(run: Run, value: Json, [attribute, otherwise, caseSensitive]: Given): Json {
  const items = sequence(run, value)
  const path = parts(attribute as Json)
  run.items(items.length * 3)
  const names = items.map(item => data(look(run, item, path, otherwise ?? undefined)))
  const keys = names.map(name => foldCase(run, name, flag(run, caseSensitive, false)))
  const positions = sorted(
    run,
    items.map((_, i) => i),
    keys,
    false,
  ) as number[]
  const groups: Json[][] = []
  let members: Json[] = []
  let last: Json | undefined
  for (const i of positions) {
    if (last === undefined || !equal(run, last, keys[i] as Json)) {
      members = []
      run.items(8)
      groups.push(markGroup([names[i] as Json, members]))
      last = keys[i] as Json
    }
    members.push(items[i] as Json)
  }
  return groups
}

export const mappingFilters: readonly (readonly [string, Operation])[] = [
  ["items", operation("", pairsOf)],
  ["dictsort", operation("case_sensitive? by? reverse?", dictSort)],
  ["groupby", operation("attribute default? case_sensitive?", groupBy)],
]
