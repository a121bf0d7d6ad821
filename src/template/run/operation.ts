/** Filters, tests, functions and methods are operations: their arguments are bound to named parameters by the parser. */
import type { Json } from "../../core/json.ts"
import { cannot, type Run } from "../run.ts"
import { characterCount, data, truthy, typeName, type Value } from "./values.ts"

export type Argument = Value | undefined

export interface Parameter {
  readonly name: string
  readonly required: boolean
}

export interface Operation {
  readonly parameters: readonly Parameter[]
  /** Accepts any number of further positional arguments. */
  readonly rest: boolean
  /** Accepts any keyword argument. */
  readonly keywords: boolean
  /** May receive a missing value; all others receive only data. */
  readonly lenient: boolean
  readonly apply: (run: Run, input: Value, given: readonly Argument[], named: Named) => Value
}

export type Given = readonly (Json | undefined)[]
export type Named = readonly (readonly [string, Json])[]
type Apply = (run: Run, input: Json, given: Given, named: Named) => Value

/** `signature` names the parameters: `"old new count?"`, `"name ..."`. */
export function operation(signature: string, apply: Apply): Operation {
  return { ...parse(signature), lenient: false, apply: apply as Operation["apply"] }
}

export function lenientOperation(signature: string, apply: Operation["apply"]): Operation {
  return { ...parse(signature), lenient: true, apply }
}

function parse(signature: string): Pick<Operation, "parameters" | "rest" | "keywords"> {
  const words = signature.split(" ").filter(word => word !== "")
  const parameters = words
    .filter(word => word !== "..." && word !== "**")
    .map(word => ({ name: word.replace("?", ""), required: !word.endsWith("?") }))
  return { parameters, rest: words.includes("..."), keywords: words.includes("**") }
}

/** Applies an operation found by name while rendering (`map("upper")`), with the same checks as the parser. */
export function applyNamed(
  run: Run,
  found: { readonly operation: Operation; readonly title: string },
  input: Value,
  given: Given,
  named: Named = [],
): Value {
  const { operation: chosen, title } = found
  const bound = [...given]
  for (const [name, value] of named) {
    const index = chosen.parameters.findIndex(parameter => parameter.name === name)
    if (index === -1) throw cannot(`${title} has no argument "${name}"`)
    bound[index] = value
  }
  const left = chosen.parameters.find((parameter, i) => parameter.required && bound[i] === undefined)
  if (left !== undefined) throw cannot(`${title} needs its argument "${left.name}"`)
  if (bound.length > chosen.parameters.length && !chosen.rest) {
    throw cannot(
      `${title} takes at most ${plural(chosen.parameters.length, "argument")}, found ${bound.length}`,
    )
  }
  run.step()
  return chosen.apply(run, chosen.lenient ? input : data(input), bound, [])
}

export const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`

// What operations expect of an argument; `undefined` means that it was not given.

export function wholeNumber(value: Argument, name: string, otherwise: number): number {
  if (value === undefined) return otherwise
  if (typeof value === "boolean") return Number(value)
  if (typeof value === "number" && Number.isSafeInteger(value)) return value
  throw cannot(`${name} must be a whole number${describeKind(value)}`)
}

export function text(value: Argument, name: string, otherwise?: string): string {
  if (value === undefined && otherwise !== undefined) return otherwise
  if (typeof value === "string") return value
  throw cannot(`${name} must be a string${describeKind(value)}`)
}

export function flag(run: Run, value: Argument, otherwise: boolean): boolean {
  return value === undefined ? otherwise : truthy(run, data(value))
}

const describeKind = (value: Argument): string =>
  value === undefined ? "" : `, not a ${typeName(data(value))}`

/** Text of at most so many characters, for arguments that are repeated. */
export function shortText(run: Run, value: string, name: string, most: number): string {
  if (characterCount(run, value) > most) throw cannot(`${name} must have at most ${most} characters`)
  return value
}
