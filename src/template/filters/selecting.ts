/** Filters that apply another filter or a test to each item. */
import type { Json } from "../../core/json.ts"
import { didYouMean } from "../nearest.ts"
import { applyNamed, type Given, type Named, type Operation, operation } from "../run/operation.ts"
import { tests } from "../run/tests.ts"
import { data, sequence, truthy, type Value } from "../run/values.ts"
import { cannot, type Run } from "../run.ts"
import { look, parts } from "./attribute.ts"

type Known = ReadonlyMap<string, Operation>

function find(known: Known, name: Json | undefined, what: string): { operation: Operation; title: string } {
  if (typeof name !== "string") throw cannot(`the name of a ${what} must be a string`)
  const found = known.get(name)
  if (found === undefined) throw cannot(`unknown ${what}${didYouMean(name, known.keys())}`)
  return { operation: found, title: `${what} "${name}"` }
}

/** Keeps the items for which the test (or their truth value) is `wanted`. */
function selecting(wanted: boolean, byAttribute: boolean): Operation {
  return operation(byAttribute ? "attribute test? ..." : "test? ...", (run, value, given) => {
    const path = byAttribute ? parts(given[0] as Json) : []
    const [test, ...rest] = byAttribute ? given.slice(1) : given
    const check = test === undefined ? null : find(tests, test, "test")
    const holds = (item: Value) =>
      truthy(run, data(check === null ? item : applyNamed(run, check, item, rest)))
    const items = sequence(run, value)
    run.items(items.length)
    return items.filter(item => {
      run.step(2)
      return holds(look(run, item, path)) === wanted
    })
  })
}

export function mapping(known: () => Known): Operation {
  return operation("filter? ... **", (run, value, given, named) => {
    const items = sequence(run, value)
    run.items(items.length)
    const each = mapper(run, known(), given, named)
    return items.map(item => {
      run.step(2)
      return data(each(item))
    })
  })
}

/** Either the name of a filter and its arguments, or `attribute=` and optionally `default=`. */
function mapper(run: Run, known: Known, given: Given, named: Named): (item: Json) => Value {
  const [name, ...rest] = given
  if (name !== undefined) {
    const filter = find(known, name, "filter")
    return item => applyNamed(run, filter, item, rest, named)
  }
  const options = new Map(named)
  const attribute = options.get("attribute")
  if (attribute === undefined) throw cannot('map needs the name of a filter, or attribute="…"')
  const path = parts(attribute)
  const otherwise = options.get("default")
  return item => look(run, item, path, otherwise ?? undefined)
}

export const selectingFilters: readonly (readonly [string, Operation])[] = [
  ["select", selecting(true, false)],
  ["reject", selecting(false, false)],
  ["selectattr", selecting(true, true)],
  ["rejectattr", selecting(false, true)],
]
