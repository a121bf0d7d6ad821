import type { Expression } from "../parse/ast.ts"
import { type Operation, plural } from "./operation.ts"

/** Arguments as written. */
export interface Given {
  readonly positional: readonly Expression[]
  readonly named: readonly { readonly name: string; readonly value: Expression; readonly at: number }[]
}

export const nothingGiven: Given = { positional: [], named: [] }

type Fail = (problem: string, at?: number) => never

export interface Bound {
  /** In the order of the parameters, `null` where one is left out. */
  readonly arguments: readonly (Expression | null)[]
  readonly named: readonly (readonly [string, Expression])[]
}

export function bind(operation: Operation, title: string, given: Given, fail: Fail): Bound {
  const { parameters, rest, keywords } = operation
  const { positional, named } = given
  if (positional.length > parameters.length && !rest) {
    const takes =
      parameters.length === 0 ? "no arguments" : `at most ${plural(parameters.length, "argument")}`
    fail(`${title} takes ${takes}, found ${positional.length}`)
  }
  const bound: (Expression | null)[] = [...positional]
  while (bound.length < parameters.length) bound.push(null)
  const others: [string, Expression][] = []
  for (const { name, value, at } of named) {
    const index = parameters.findIndex(parameter => parameter.name === name)
    if (index === -1 && keywords) others.push([name, value])
    else if (index === -1) fail(`${title} has no argument "${name}"${known(operation)}`, at)
    else if (bound[index] !== null) fail(`${title} got its argument "${name}" twice`, at)
    else bound[index] = value
  }
  const left = parameters.find((parameter, i) => parameter.required && bound[i] === null)
  if (left !== undefined) fail(`${title} needs its argument "${left.name}"`)
  return { arguments: bound, named: others }
}

function known(operation: Operation): string {
  const names = operation.parameters.map(parameter => parameter.name)
  return names.length === 0 ? "" : `; it has ${names.join(", ")}`
}
