/** The tests that may follow `is`. */
import type { Json } from "../../core/json.ts"
import { recase } from "../filters/text-work.ts"
import type { Comparison } from "../parse/ast.ts"
import { cannot, type Run } from "../run.ts"
import { lenientOperation, type Operation, operation } from "./operation.ts"
import { compare, contains, nonZero } from "./operators.ts"
import { print } from "./print.ts"
import { isList, isMapping, Missing, typeName } from "./values.ts"

const is = (check: (value: Json) => boolean): Operation => operation("", (_run, value) => check(value))
const against = (check: (run: Run, value: Json, other: Json) => boolean): Operation =>
  operation("other", (run, value, [other]) => check(run, value, other as Json))

const wholeNumber = (value: Json): number => {
  const number = typeof value === "boolean" ? Number(value) : value
  if (typeof number === "number") return number
  throw cannot(`this test needs a number, not a ${typeName(value)}`)
}

/** Does the text contain a letter, and are all its letters in that case? */
const inCase = (run: Run, value: Json, wanted: "lower" | "upper"): boolean => {
  const text = print(run, value)
  const lower = recase(run, text, whole => whole.toLowerCase())
  const upper = recase(run, text, whole => whole.toUpperCase())
  return text === (wanted === "lower" ? lower : upper) && lower !== upper
}

const comparing = (operator: Comparison, ...names: string[]): [string, Operation][] => {
  const test = against((run, value, other) => compare(run, operator, value, other))
  return [...names, operator].map(name => [name, test])
}

export const tests: ReadonlyMap<string, Operation> = new Map([
  ["defined", lenientOperation("", (_run, value) => !(value instanceof Missing))],
  ["undefined", lenientOperation("", (_run, value) => value instanceof Missing)],
  ["none", is(value => value === null)],
  ["boolean", is(value => typeof value === "boolean")],
  ["true", is(value => value === true)],
  ["false", is(value => value === false)],
  ["number", is(value => typeof value === "number" || typeof value === "boolean")],
  ["integer", is(value => Number.isInteger(value))],
  ["float", is(value => typeof value === "number" && !Number.isInteger(value))],
  ["string", is(value => typeof value === "string")],
  ["mapping", is(isMapping)],
  ["sequence", is(value => typeof value === "string" || isList(value) || isMapping(value))],
  ["iterable", is(value => typeof value === "string" || isList(value) || isMapping(value))],
  ["odd", is(value => Math.abs(wholeNumber(value) % 2) === 1)],
  ["even", is(value => wholeNumber(value) % 2 === 0)],
  [
    "divisibleby",
    operation("num", (_run, value, [by]) => wholeNumber(value) % nonZero(wholeNumber(by as Json)) === 0),
  ],
  ["in", against((run, value, other) => contains(run, other, value))],
  ["lower", operation("", (run, value) => inCase(run, value, "lower"))],
  ["upper", operation("", (run, value) => inCase(run, value, "upper"))],
  ...comparing("==", "eq", "equalto"),
  ...comparing("!=", "ne"),
  ...comparing("<", "lt", "lessthan"),
  ...comparing("<=", "le"),
  ...comparing(">", "gt", "greaterthan"),
  ...comparing(">=", "ge"),
])
