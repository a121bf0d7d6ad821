/**
 * The interpreter of expressions: one switch over the tree. Closures compiled from the tree were measured up to a
 * quarter faster but cost 0.4 to 1.5 KB more per template (docs/decisions/0002-own-template-interpreter.md).
 */
import type { Json } from "../../core/json.ts"
import type { Apply, Compare, Concat, Expression, Item, List, Logic, Mapping, Slice } from "../parse/ast.ts"
import { cannot, type Run } from "../run.ts"
import { type Frame, readChild, readName } from "./lookup.ts"
import { binary, compare, negate, slice } from "./operators.ts"
import { print } from "./print.ts"
import { data, Missing, nothing, put, truthy, typeName, type Value } from "./values.ts"

/** May return a missing value: code that uses it as data must pass it through `data` first. */
export function evaluate(run: Run, expression: Expression, frame: Frame | null): Value {
  run.step()
  run.at = expression.at
  switch (expression.kind) {
    case "constant":
      return expression.value
    case "name":
      return readName(run, expression, frame)
    case "member":
      return readChild(run, expression, expression.key, frame, object => evaluate(run, object, frame))
    case "item":
      return item(run, expression, frame)
    case "slice":
      return sliced(run, expression, frame)
    case "list":
      return list(run, expression, frame)
    case "mapping":
      return mapping(run, expression, frame)
    case "unary":
      return expression.operator === "not"
        ? !holds(run, expression.operand, frame)
        : negate(expression.operator, evaluateData(run, expression.operand, frame))
    case "binary": {
      const left = evaluateData(run, expression.left, frame)
      const right = evaluateData(run, expression.right, frame)
      run.at = expression.at
      return binary(run, expression.operator, left, right)
    }
    case "logic":
      return logic(run, expression, frame)
    case "compare":
      return comparison(run, expression, frame)
    case "concat":
      return concat(run, expression, frame)
    case "conditional":
      if (holds(run, expression.test, frame)) return evaluate(run, expression.consequent, frame)
      if (expression.otherwise !== null) return evaluate(run, expression.otherwise, frame)
      return nothing
    case "apply":
      return apply(run, expression, frame)
  }
}

export const evaluateData = (run: Run, expression: Expression, frame: Frame | null): Json =>
  data(evaluate(run, expression, frame))

export function evaluateText(run: Run, expression: Expression, frame: Frame | null): string {
  const value = evaluate(run, expression, frame)
  return value === nothing ? "" : print(run, data(value))
}

export const holds = (run: Run, expression: Expression, frame: Frame | null): boolean =>
  truthy(run, evaluateData(run, expression, frame))

function item(run: Run, expression: Item, frame: Frame | null): Value {
  const key = evaluate(run, expression.key, frame)
  if (key instanceof Missing) return key
  if (typeof key !== "string" && !(typeof key === "number" && Number.isInteger(key))) {
    throw cannot(`a key must be a string or a whole number, not a ${typeName(data(key))}`)
  }
  return readChild(run, expression, key, frame, object => evaluate(run, object, frame))
}

function sliced(run: Run, expression: Slice, frame: Frame | null): Value {
  const value = evaluateData(run, expression.object, frame)
  const bounds = expression.bounds.map(each => (each === null ? undefined : evaluateData(run, each, frame)))
  return slice(run, value, bounds)
}

function list(run: Run, expression: List, frame: Frame | null): Json {
  run.items(expression.items.length)
  return expression.items.map(each => evaluateData(run, each, frame))
}

function mapping(run: Run, expression: Mapping, frame: Frame | null): Json {
  run.items(expression.entries.length * 2)
  const result: Record<string, Json> = {}
  for (const [key, value] of expression.entries) {
    const name = evaluateData(run, key, frame)
    if (typeof name === "object") throw cannot(`a ${typeName(name)} cannot be a key; use a string`)
    put(result, print(run, name), evaluateData(run, value, frame))
  }
  return result
}

function logic(run: Run, expression: Logic, frame: Frame | null): Value {
  const left = evaluateData(run, expression.left, frame)
  const decided = truthy(run, left) === (expression.operator === "or")
  return decided ? left : evaluate(run, expression.right, frame)
}

/** `a < b < c` evaluates `b` once and stops at the first comparison that is false. */
function comparison(run: Run, expression: Compare, frame: Frame | null): boolean {
  let left = evaluateData(run, expression.first, frame)
  for (const { operator, operand } of expression.rest) {
    const right = evaluateData(run, operand, frame)
    run.at = expression.at
    if (!compare(run, operator, left, right)) return false
    left = right
  }
  return true
}

function concat(run: Run, expression: Concat, frame: Frame | null): string {
  let result = ""
  for (const part of expression.parts) {
    const text = evaluateText(run, part, frame)
    run.text(text.length)
    result += text
  }
  return result
}

const NOTHING: readonly never[] = []

function apply(run: Run, expression: Apply, frame: Frame | null): Value {
  return applyTo(run, expression, evaluate(run, expression.input, frame), frame)
}

export function applyTo(run: Run, expression: Apply, input: Value, frame: Frame | null): Value {
  const { operation } = expression
  const subject = operation.lenient ? input : data(input)
  const given = expression.arguments.map(each => {
    if (each === null) return undefined
    return operation.lenient ? evaluate(run, each, frame) : evaluateData(run, each, frame)
  })
  const named =
    expression.named.length === 0
      ? NOTHING
      : expression.named.map(([name, value]) => [name, evaluateData(run, value, frame)] as const)
  run.at = expression.at
  const result = operation.apply(run, subject, given, named)
  return expression.negated ? !truthy(run, data(result)) : result
}
