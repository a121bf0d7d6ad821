/** The functions a template may call by name. */
import type { Json } from "../../core/json.ts"
import { cannot, type Run } from "../run.ts"
import { type Operation, operation, wholeNumber } from "./operation.ts"
import { listOf, Namespace, put } from "./values.ts"

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
  return listOf(count, i => from + i * by)
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
