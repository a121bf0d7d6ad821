/** The tests that may follow `is`. */
import type { Json } from "../../core/json.ts"
import { recase } from "../filters/text-work.ts"
import { cannot, type Run } from "../run.ts"
import { equal, order } from "./compare.ts"
import { lenientOperation, type Operation, operation } from "./operation.ts"
import { contains } from "./operators.ts"
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

const modulo = (value: number, by: number): number => {
  if (by === 0) throw cannot("division by zero")
  return value % by
}

/** Does the text contain a letter, and are all its letters in that case? */
const inCase = (run: Run, value: Json, wanted: "lower" | "upper"): boolean => {
  const text = print(run, value)
  const lower = recase(run, text, whole => whole.toLowerCase())
  const upper = recase(run, text, whole => whole.toUpperCase())
  return text === (wanted === "lower" ? lower : upper) && lower !== upper
}

const eq = against((run, value, other) => equal(run, value, other))
const ne = against((run, value, other) => !equal(run, value, other))
const lt = against((run, value, other) => order(run, value, other) < 0)
const le = against((run, value, other) => order(run, value, other) <= 0)
const gt = against((run, value, other) => order(run, value, other) > 0)
const ge = against((run, value, other) => order(run, value, other) >= 0)

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
    operation("num", (_run, value, [by]) => modulo(wholeNumber(value), wholeNumber(by as Json)) === 0),
  ],
  ["in", against((run, value, other) => contains(run, other, value))],
  ["lower", operation("", (run, value) => inCase(run, value, "lower"))],
  ["upper", operation("", (run, value) => inCase(run, value, "upper"))],
  ["eq", eq],
  ["equalto", eq],
  ["==", eq],
  ["ne", ne],
  ["!=", ne],
  ["lt", lt],
  ["lessthan", lt],
  ["<", lt],
  ["le", le],
  ["<=", le],
  ["gt", gt],
  ["greaterthan", gt],
  [">", gt],
  ["ge", ge],
  [">=", ge],
])
