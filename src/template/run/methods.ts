/**
 * The methods that a template may call. They are chosen by name when the template is parsed, so a mapping's own key with
 * the same name is never called, and no method of JavaScript is reachable.
 */
import type { Json, JsonObject } from "../../core/json.ts"
import { capitalize, join, listPairs, recase, replace, splitText, strip } from "../filters/text-work.ts"
import { cannot, type Run } from "../run.ts"
import { type Given, lenientOperation, type Operation, operation, text, wholeNumber } from "./operation.ts"
import {
  data,
  isMapping,
  Loop,
  Missing,
  makeList,
  Namespace,
  owns,
  put,
  typeName,
  type Value,
} from "./values.ts"

const ofText = (name: string, signature: string, apply: (run: Run, value: string, given: Given) => Value) =>
  [name, operation(signature, (run, value, given) => apply(run, textOnly(value, name), given))] as const
const ofMapping = (
  name: string,
  signature: string,
  apply: (run: Run, value: JsonObject, given: Given) => Value,
) => [name, operation(signature, (run, value, given) => apply(run, mappingOnly(value, name), given))] as const

function textOnly(value: Json, name: string): string {
  if (typeof value === "string") return value
  throw cannot(`.${name}() is a method of strings, not of a ${typeName(value)}`)
}

function mappingOnly(value: Json, name: string): JsonObject {
  if (isMapping(value)) return value
  throw cannot(`.${name}() is a method of mappings, not of a ${typeName(value)}`)
}

export const methods: ReadonlyMap<string, Operation> = new Map<string, Operation>([
  ofMapping("items", "", listPairs),
  ofMapping("keys", "", (run, value) => run.keys(value)),
  ofMapping("values", "", (run, value) => {
    run.items(run.keys(value).length)
    return run.keys(value).map(key => value[key] as Json)
  }),
  ofMapping("get", "key default?", (_run, value, [key, otherwise]) =>
    typeof key === "string" && owns(value, key) ? (value[key] as Json) : (otherwise ?? null),
  ),
  ofText("upper", "", (run, value) => recase(run, value, whole => whole.toUpperCase())),
  ofText("lower", "", (run, value) => recase(run, value, whole => whole.toLowerCase())),
  ofText("capitalize", "", capitalize),
  ofText("strip", "chars?", (run, value, [chars]) => strip(run, value, chars, "both")),
  ofText("lstrip", "chars?", (run, value, [chars]) => strip(run, value, chars, "start")),
  ofText("rstrip", "chars?", (run, value, [chars]) => strip(run, value, chars, "end")),
  ofText("split", "sep? maxsplit?", (run, value, [sep, most]) =>
    splitText(run, value, sep, wholeNumber(most, "maxsplit", -1)),
  ),
  ofText("startswith", "prefix", (run, value, [prefix]) => {
    run.scan(value.length)
    return value.startsWith(text(prefix, "prefix"))
  }),
  ofText("endswith", "suffix", (run, value, [suffix]) => {
    run.scan(value.length)
    return value.endsWith(text(suffix, "suffix"))
  }),
  ofText("replace", "old new count?", (run, value, [old, by, count]) =>
    replace(run, value, text(old, "old"), text(by, "new"), wholeNumber(count, "count", -1)),
  ),
  ofText("join", "items", (run, value, [items]) => join(run, items as Json, value)),
  ["cycle", lenientOperation("value ...", cycle)],
])

function cycle(_run: Run, input: Value, given: readonly (Value | undefined)[]): Value {
  if (!(input instanceof Loop)) {
    if (input instanceof Missing) throw input.fault()
    throw cannot(".cycle() belongs to `loop`")
  }
  return data(given[input.index0 % given.length] as Value)
}

/** The functions a template may call by name. */
function range(run: Run, given: readonly (Json | undefined)[]): Json {
  const [first, second, third] = given.map(value =>
    value === undefined ? undefined : wholeNumber(value, "range", 0),
  )
  const from = second === undefined ? 0 : (first as number)
  const to = second ?? (first as number)
  const by = third ?? 1
  if (by === 0) throw cannot("the step of range must not be 0")
  const count = Math.max(0, Math.ceil((to - from) / by))
  run.items(count)
  return makeList(count, i => from + i * by)
}

export const functions: ReadonlyMap<string, Operation> = new Map([
  ["range", operation("start stop? step?", (run, _input, given) => range(run, given))],
  [
    "dict",
    operation("**", (run, _input, _given, named) => {
      const mapping: Record<string, Json> = {}
      run.items(named.length)
      for (const [key, value] of named) put(mapping, key, value)
      return mapping
    }),
  ],
  [
    "namespace",
    operation("**", (run, _input, _given, named) => {
      const namespace = new Namespace()
      run.items(named.length)
      for (const [key, value] of named) namespace.values.set(key, value)
      return namespace
    }),
  ],
])
