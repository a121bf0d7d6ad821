/** One check of one value by a JSON Schema, and the keywords without nested schemas. See schema-validator.ts. */
import type { Json, JsonObject } from "../../core/json.ts"
import { sortedCopy } from "../document/json-value.ts"
import { type DocumentPath, formatPath } from "../problem.ts"

export interface InputProblem {
  /** For example `input.items[2].price`. */
  readonly path: string
  readonly message: string
}

/** Number of problems that are reported one by one; further ones are counted. */
export const problemsShown = 100

/** The check has used up its allowed work. */
export class StepsSpentError extends Error {}

/** Steps that take a millisecond on a usual machine. Steps instead of time: other processes do not change the result. */
export const stepsPerMs = 10_000

export interface CheckLimit {
  readonly steps: number
  readonly deadline?: number
}

/** One check of one value. */
export class CheckRun {
  /** When an uncountable match is interrupted, by `performance.now()`. */
  readonly deadline: number
  readonly path: (string | number)[] = []
  readonly problems: InputProblem[] = []
  /** Number of problems that are not listed. */
  more = 0
  /** Above 0: inside a choice. */
  silent = 0
  #left: number
  readonly #steps: number
  readonly #seen = new Set<string>()

  constructor({ steps, deadline = Number.POSITIVE_INFINITY }: CheckLimit) {
    this.#steps = steps
    this.#left = steps
    this.deadline = deadline
  }

  get spent(): number {
    return this.#steps - Math.max(0, this.#left)
  }

  spend(steps: number): void {
    this.#left -= steps
    if (this.#left < 0) throw new StepsSpentError("the check takes too many steps")
  }

  /** Returns false, as the reporting check does. */
  report(message: string, ...inner: DocumentPath): false {
    if (this.silent > 0) return false
    if (this.problems.length === problemsShown) {
      this.more++
      return false
    }
    const path = formatPath(["input", ...this.path, ...inner])
    const key = `${path} ${message}`
    if (this.#seen.has(key)) return false
    this.#seen.add(key)
    this.problems.push({ path, message })
    return false
  }
}

/** Members of a value that a schema has evaluated, for `unevaluatedProperties` and `unevaluatedItems`. */
export type Evaluated = Set<string | number>

export type Check<V = Json> = (value: V, run: CheckRun, evaluated: Evaluated | null) => boolean

export type TypeName = "null" | "boolean" | "object" | "array" | "number" | "string"

export function typeName(value: Json): TypeName {
  if (value === null) return "null"
  if (Array.isArray(value)) return "array"
  return typeof value as TypeName
}

export const always: Check = () => true
export const never: Check = (_, run) => run.report("Unknown key. Remove it.")

/** All parts check the value; inside a choice the first failure decides. */
export function every(parts: readonly Check[]): Check {
  if (parts.length === 0) return always
  if (parts.length === 1) return parts[0]!
  return (value, run, evaluated) => {
    let fits = true
    for (const part of parts)
      if (!part(value, run, evaluated)) {
        if (run.silent > 0) return false
        fits = false
      }
    return fits
  }
}

/** `check` inside a choice: problems are not reported. A check that throws ends the run. */
export function silently(check: Check, value: Json, run: CheckRun, evaluated: Evaluated | null): boolean {
  run.silent++
  const fits = check(value, run, evaluated)
  run.silent--
  return fits
}

/** The same text for equal values, whatever the order of their keys. */
function canonical(value: Json, run: CheckRun): string {
  const text = JSON.stringify(typeof value === "object" ? sortedCopy(value) : value)
  run.spend(1 + (text.length >> 3))
  return text
}

export const shown = (value: unknown): string => {
  const text = JSON.stringify(value)
  return text.length > 200 ? `${text.slice(0, 200)}…` : text
}

export function member(check: Check, value: Json, key: string | number, run: CheckRun): boolean {
  run.path.push(key)
  const fits = check(value, run, null)
  run.path.pop()
  return fits
}

export function ofType(type: string | readonly string[]): Check {
  const names = typeof type === "string" ? [type] : type
  const isFree = (value: Json, name: TypeName): boolean =>
    names.includes(name) || (name === "number" && names.includes("integer") && Number.isInteger(value))
  return (value, run) => {
    const name = typeName(value)
    return isFree(value, name) || run.report(`Expected ${names.join(" or ")}, found ${name}.`)
  }
}

export function oneOfValues(values: readonly Json[], message: string): Check {
  const simple = new Set<Json>(values.filter(value => typeof value !== "object" || value === null))
  const texts = new Set(
    values.filter(value => !simple.has(value)).map(value => JSON.stringify(sortedCopy(value))),
  )
  return (value, run) => {
    const isContainer = typeof value === "object" && value !== null
    const isOne = isContainer ? texts.size > 0 && texts.has(canonical(value, run)) : simple.has(value)
    return isOne || run.report(message)
  }
}

export function anyOf(branches: readonly Check[]): Check {
  return (value, run, evaluated) => {
    let fits = false
    for (const branch of branches) {
      const own: Evaluated | null = evaluated === null ? null : new Set()
      if (!silently(branch, value, run, own)) continue
      fits = true
      if (own === null) break
      for (const key of own) evaluated!.add(key)
    }
    return fits || run.report("The value does not match any subschema.")
  }
}

export function oneOf(branches: readonly Check[]): Check {
  return (value, run, evaluated) => {
    let matches = 0
    for (const branch of branches) {
      const own: Evaluated | null = evaluated === null ? null : new Set()
      if (!silently(branch, value, run, own)) continue
      matches++
      if (own !== null) for (const key of own) evaluated!.add(key)
    }
    if (matches === 1) return true
    return run.report(`The value does not match exactly one subschema (${matches} matches).`)
  }
}

export function required(keys: readonly string[]): Check<JsonObject> {
  return (value, run) => {
    run.spend(keys.length)
    let fits = true
    for (const key of keys) if (!Object.hasOwn(value, key)) fits = run.report("This value is required.", key)
    return fits
  }
}

export function dependentRequired(
  dependencies: Readonly<Record<string, readonly string[]>>,
): Check<JsonObject> {
  const entries = Object.entries(dependencies)
  return (value, run) => {
    let fits = true
    for (const [key, needed] of entries) {
      run.spend(1)
      if (!Object.hasOwn(value, key)) continue
      run.spend(needed.length)
      for (const other of needed)
        if (!Object.hasOwn(value, other))
          fits = run.report(`The value has "${key}" but does not have "${other}".`)
    }
    return fits
  }
}

export const uniqueItems: Check<readonly Json[]> = (value, run) => {
  const first = new Map<string, number>()
  for (const [i, item] of value.entries()) {
    const text = canonical(item, run)
    const earlier = first.get(text)
    if (earlier !== undefined) return run.report(`Duplicate items at indexes ${earlier} and ${i}.`)
    first.set(text, i)
  }
  return true
}

/** Computed with decimals as written: 0.3 is a multiple of 0.1, although the remainder of the two floats is not 0. */
export function isMultipleOf(value: number, divisor: number): boolean {
  const [a, aExponent] = decimal(value)
  const [b, bExponent] = decimal(divisor)
  const shift = BigInt(Math.abs(aExponent - bExponent))
  return aExponent >= bExponent ? (a * 10n ** shift) % b === 0n : a % (b * 10n ** shift) === 0n
}

function decimal(value: number): [coefficient: bigint, exponent: number] {
  const [digits, exponent = "0"] = Math.abs(value).toString().split("e") as [string, string?]
  const point = digits.indexOf(".")
  const fraction = point === -1 ? 0 : digits.length - point - 1
  return [BigInt(digits.replace(".", "")), Number(exponent) - fraction]
}
