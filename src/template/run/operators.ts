/** Arithmetic, containment and slices as in Python. Numbers are those of JavaScript: integers up to 2^53. */
import type { Json } from "../../core/json.ts"
import type { BinaryOperator, Comparison } from "../parse/ast.ts"
import { cannot, type Run } from "../run.ts"
import { equal, order } from "./compare.ts"
import {
  characterCount,
  characters,
  isList,
  isMapping,
  makeList,
  owns,
  substring,
  typeName,
} from "./values.ts"

export function binary(run: Run, operator: BinaryOperator, left: Json, right: Json): Json {
  const a = numeric(left)
  const b = numeric(right)
  if (a !== null && b !== null) return finite(arithmetic(operator, a, b))
  if (operator === "+" && typeof left === "string" && typeof right === "string") {
    run.text(left.length + right.length)
    return left + right
  }
  if (operator === "+" && isList(left) && isList(right)) {
    run.items(left.length + right.length)
    return left.concat(right)
  }
  if (operator === "*" && b !== null && repeatable(left)) return repeat(run, left, b)
  if (operator === "*" && a !== null && repeatable(right)) return repeat(run, right, a)
  const hint =
    operator === "+" && [left, right].some(side => typeof side === "string") ? "; ~ joins as text" : ""
  throw cannot(`"${operator}" does not work between a ${typeName(left)} and a ${typeName(right)}${hint}`)
}

export function negate(operator: "-" | "+", operand: Json): Json {
  const value = numeric(operand)
  if (value === null) throw cannot(`"${operator}" needs a number, not a ${typeName(operand)}`)
  return operator === "-" ? 0 - value : value
}

const numeric = (value: Json): number | null =>
  typeof value === "number" ? value : typeof value === "boolean" ? Number(value) : null

function arithmetic(operator: BinaryOperator, a: number, b: number): number {
  switch (operator) {
    case "+":
      return a + b
    case "-":
      return a - b
    case "*":
      return a * b
    case "**":
      return a ** b
    case "/":
      return a / nonZero(b)
    case "//":
      return floorDivide(a, nonZero(b))
    case "%":
      return modulo(a, nonZero(b))
  }
}

export function nonZero(b: number): number {
  if (b === 0) throw cannot("division by zero")
  return b
}

/** Takes the sign of the divisor. */
function modulo(a: number, b: number): number {
  const rest = a % b
  return rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest + 0
}

function floorDivide(a: number, b: number): number {
  const quotient = (a - modulo(a, b)) / b
  const floor = Math.floor(quotient)
  return quotient - floor > 0.5 ? floor + 1 : floor
}

export function finite(value: number): number {
  if (!Number.isFinite(value)) throw cannot("the result is not a number, or is too large")
  return value + 0
}

type Repeatable = string | readonly Json[]
const repeatable = (value: Json): value is Repeatable => typeof value === "string" || isList(value)

function repeat(run: Run, value: Repeatable, times: number): Json {
  if (!Number.isInteger(times)) throw cannot("a string or list can only be repeated a whole number of times")
  const count = value.length === 0 ? 0 : Math.max(0, times)
  if (typeof value === "string") {
    run.text(value.length * count)
    return value.repeat(count)
  }
  run.items(value.length * count)
  return makeList(value.length * count, i => value[i % value.length] as Json)
}

export function compare(run: Run, operator: Comparison, left: Json, right: Json): boolean {
  switch (operator) {
    case "==":
      return equal(run, left, right)
    case "!=":
      return !equal(run, left, right)
    case "in":
      return contains(run, right, left)
    case "not in":
      return !contains(run, right, left)
    case "<":
      return order(run, left, right) < 0
    case "<=":
      return order(run, left, right) <= 0
    case ">":
      return order(run, left, right) > 0
    case ">=":
      return order(run, left, right) >= 0
  }
}

export function contains(run: Run, whole: Json, part: Json): boolean {
  if (typeof whole === "string") {
    if (typeof part !== "string") throw cannot(`"in" a string needs a string, not a ${typeName(part)}`)
    return part === "" || finder(run, whole, part)(0) !== -1
  }
  if (isMapping(whole))
    return (typeof part === "string" || typeof part === "number") && owns(whole, String(part))
  if (!isList(whole)) throw cannot(`"in" needs a list, mapping or string, not a ${typeName(whole)}`)
  for (const item of whole) {
    run.step()
    if (equal(run, item, part)) return true
  }
  return false
}

type Bound = Json | undefined

export function slice(run: Run, value: Json, bounds: readonly Bound[]): Json {
  if (!repeatable(value)) throw cannot(`a ${typeName(value)} has no slices; a list or string has`)
  const [start, stop, by] = bounds.map(bound)
  const step = by ?? 1
  if (step === 0) throw cannot("the step of a slice must not be 0")
  const length = typeof value === "string" ? characterCount(run, value) : value.length
  const lowest = step > 0 ? 0 : -1
  const highest = step > 0 ? length : length - 1
  const clamp = (at: number) => Math.min(Math.max(at < 0 ? at + length : at, lowest), highest)
  const from = start === undefined ? (step > 0 ? lowest : highest) : clamp(start)
  const to = stop === undefined ? (step > 0 ? highest : lowest) : clamp(stop)
  const count = Math.max(0, Math.ceil((to - from) / step))
  if (typeof value === "string" && step === 1) return substring(run, value, from, from + count)
  const source = typeof value === "string" ? characters(run, value) : value
  run.items(count)
  const taken = makeList(count, i => source[from + i * step] as Json)
  if (typeof value !== "string") return taken
  run.text(count * 2)
  return taken.join("")
}

function bound(value: Bound): number | undefined {
  if (value === undefined || value === null) return undefined
  if (typeof value === "number" && Number.isInteger(value)) return value
  throw cannot("the bounds of a slice must be whole numbers")
}

/**
 * Where a text occurs in another, in linear time. V8's own search is quadratic for some long needles
 * ("b" + "a" × 500,000 in "a" × 1,000,000 takes over a second), so those go through Knuth-Morris-Pratt.
 */

/** Below this many comparisons in the worst case the native search is used: 1 ms. */
const NATIVE = 1_000_000

type Find = (from: number) => number

/** A function that finds the next occurrence at or after an offset, or -1. `needle` is not empty. */
function finder(run: Run, text: string, needle: string): Find {
  run.scan(text.length + needle.length)
  if (needle.length > text.length) return () => -1
  if (needle.length === 1 || text.length * needle.length < NATIVE) return from => text.indexOf(needle, from)
  run.scan((text.length + needle.length) * 4)
  run.items(needle.length)
  return linear(text, needle)
}

function linear(text: string, needle: string): Find {
  const fallback = borders(needle)
  return from => {
    let matched = 0
    for (let i = from; i < text.length; i++) {
      const unit = text.charCodeAt(i)
      while (matched > 0 && needle.charCodeAt(matched) !== unit) matched = fallback[matched - 1] as number
      if (needle.charCodeAt(matched) === unit) matched += 1
      if (matched === needle.length) return i - matched + 1
    }
    return -1
  }
}

/** For each prefix, the length of its longest border. */
function borders(needle: string): Int32Array {
  const lengths = new Int32Array(needle.length)
  let length = 0
  for (let i = 1; i < needle.length; i++) {
    while (length > 0 && needle.charCodeAt(i) !== needle.charCodeAt(length))
      length = lengths[length - 1] as number
    if (needle.charCodeAt(i) === needle.charCodeAt(length)) length += 1
    lengths[i] = length
  }
  return lengths
}

/** Offsets of occurrences that do not overlap, at most `most` of them. */
export function occurrences(run: Run, text: string, needle: string, most: number): number[] {
  const find = finder(run, text, needle)
  const found: number[] = []
  for (let at = find(0); at !== -1 && found.length < most; at = find(at + needle.length)) {
    run.step()
    found.push(at)
  }
  return found
}
