import type { Json } from "../../core/json.ts"
import { trimEnd, trimStart } from "../parse/whitespace.ts"
import { type Operation, operation, wholeNumber } from "../run/operation.ts"
import { finite } from "../run/operators.ts"
import { typeName } from "../run/values.ts"
import { cannot, type Run } from "../run.ts"

/** Longer text is not a number. */
const MAX_DIGITS = 400
/** Each character can be matched in one way only: an ambiguous pattern took 100 µs for 400 digits. */
const DECIMAL = /^[+-]?(?:\d(?:_?\d)*(?:\.(?:\d(?:_?\d)*)?)?|\.\d(?:_?\d)*)(?:[eE][+-]?\d(?:_?\d)*)?$/
const PREFIXES: Readonly<Record<number, string>> = { 2: "0b", 8: "0o", 16: "0x" }

function toNumber(run: Run, value: Json): number | null {
  if (typeof value === "number" || typeof value === "boolean") return Number(value)
  if (typeof value !== "string" || value.length > MAX_DIGITS) return null
  run.scan(value.length * 8)
  const text = trimEnd(trimStart(value))
  if (!DECIMAL.test(text)) return null
  const number = Number(text.replaceAll("_", ""))
  return Number.isFinite(number) ? number : null
}

function toInt(run: Run, value: Json, [otherwise, base]: readonly (Json | undefined)[]): Json {
  const radix = wholeNumber(base, "base", 10)
  if (radix !== 0 && (radix < 2 || radix > 36)) throw cannot("int: base must be 0 or 2 to 36")
  const based = typeof value === "string" && radix !== 10 ? inBase(run, value, radix) : null
  const number = based ?? toNumber(run, value)
  return number === null ? (otherwise ?? 0) : Math.trunc(number) + 0
}

function inBase(run: Run, value: string, base: number): number | null {
  if (value.length > MAX_DIGITS) return null
  run.scan(value.length * 8)
  const text = trimEnd(trimStart(value)).toLowerCase()
  const sign = text.startsWith("-") ? -1 : 1
  let digits = text.replace(/^[+-]/, "")
  const marked = [2, 8, 16].find(each => digits.startsWith(PREFIXES[each] as string))
  const radix = base === 0 ? (marked ?? 10) : base
  if (marked === radix) digits = digits.slice(2).replace(/^_/, "")
  if (!/^[\da-z](?:_?[\da-z])*$/.test(digits)) return null
  let number = 0
  for (const digit of digits.replaceAll("_", "")) {
    const worth = Number.parseInt(digit, 36)
    if (worth >= radix) return null
    number = number * radix + worth
  }
  return Number.isFinite(number) ? sign * number : null
}

function needNumber(value: Json, name: string): number {
  if (typeof value === "number" || typeof value === "boolean") return Number(value)
  throw cannot(`${name} needs a number, not a ${typeName(value)}; convert it with | float or | int first`)
}

/** With more decimal places, rounding does not change the number. */
const MAX_PLACES = 20

function round(_run: Run, value: Json, [precision, method]: readonly (Json | undefined)[]): number {
  const number = needNumber(value, "round")
  const places = wholeNumber(precision, "precision", 0)
  if (method === undefined || method === "common") return roundHalfEven(number, places)
  const factor = 10 ** Math.max(-300, Math.min(300, places))
  if (method === "ceil") return finite(Math.ceil(number * factor) / factor)
  if (method === "floor") return finite(Math.floor(number * factor) / factor)
  throw cannot('round: method must be "common", "ceil" or "floor"')
}

/** Rounds the exact value of the double, ties to even, as Python does: 2.675 is below the tie, 0.125 is on it. */
function roundHalfEven(value: number, places: number): number {
  if (Math.abs(value) >= 1e21) return value
  if (places < 0) return roundToTens(value, -places)
  if (places > MAX_PLACES || (places === 0 && Number.isInteger(value))) return value
  const exact = Math.abs(value).toFixed(100)
  const point = exact.indexOf(".")
  const tail = exact.slice(point + 1 + places)
  const nearest = Number(Math.abs(value).toFixed(places))
  const isTie = tail.startsWith("5") && /^50*$/.test(tail)
  const kept = exact.slice(0, point + 1 + places)
  const last = kept.replace(".", "").at(-1) as string
  const result = isTie && "02468".includes(last) ? Number(kept) : nearest
  return Math.sign(value) * result + 0
}

function roundToTens(value: number, zeros: number): number {
  if (zeros > MAX_PLACES) return 0
  const unit = 10 ** zeros
  const low = Math.floor(value / unit)
  const rest = value - low * unit
  const up = rest * 2 > unit || (rest * 2 === unit && low % 2 !== 0)
  return (low + (up ? 1 : 0)) * unit + 0
}

export const numberFilters: readonly (readonly [string, Operation])[] = [
  ["int", operation("default? base?", toInt)],
  ["float", operation("default?", (run, value, [otherwise]) => toNumber(run, value) ?? otherwise ?? 0)],
  ["round", operation("precision? method?", round)],
  ["abs", operation("", (_run, value) => Math.abs(needNumber(value, "abs")))],
]
