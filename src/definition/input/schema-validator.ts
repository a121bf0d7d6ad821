/**
 * JSON Schema 2020-12, compiled to closures: no code is generated, and every step is counted, so a caller can bound the
 * work. The caller supplies the matching of patterns and formats (`Matchers`).
 *
 * 1. A check costs steps in proportion to the values it visits. `uniqueItems`, `enum` and `const` compare canonical text.
 * 2. Inside `anyOf`, `oneOf`, `contains`, `not` and `if` nothing is reported: only the choice itself, not its branches.
 * 3. Preconditions (input-schema.ts): keywords are well-formed, references resolve, and no chain of them is endless.
 */
import type { Json, JsonObject } from "../../core/json.ts"
import { isObject } from "../document/json-value.ts"
import { resolveReference } from "./input-schema.ts"
import {
  always,
  anyOf,
  type Check,
  type CheckRun,
  dependentRequired,
  type Evaluated,
  every,
  isMultipleOf,
  member,
  never,
  ofType,
  oneOf,
  oneOfValues,
  required,
  shown,
  silently,
  type TypeName,
  typeName,
  uniqueItems,
} from "./schema-checks.ts"

/** Spends steps in proportion to its time. */
export type Matcher = (text: string, run: CheckRun) => boolean

export interface Matchers {
  pattern(source: string): Matcher
  /** `undefined`: an unknown format, which is an annotation only. */
  format(name: string): Matcher | undefined
}

type Schema = Readonly<Record<string, unknown>>

export function compileSchema(root: JsonObject, matchers: Matchers): Check {
  return new Compiler(root, matchers).schema(root)
}

class Compiler {
  readonly #root: JsonObject
  readonly #matchers: Matchers
  readonly #known = new Map<unknown, Check>()

  constructor(root: JsonObject, matchers: Matchers) {
    this.#root = root
    this.#matchers = matchers
  }

  schema(schema: unknown): Check {
    if (!isObject(schema)) return schema === false ? never : always
    const known = this.#known.get(schema)
    if (known !== undefined) return known
    let built: Check = always
    // Recursion returns here before it is built.
    this.#known.set(schema, (value, run, evaluated) => built(value, run, evaluated))
    const [any, ...byType] = [this.#any(schema), this.#object(schema), this.#array(schema)]
    const [object, array] = byType.map(parts => every([...any, ...parts]))
    const string = every([...any, ...this.#string(schema)])
    const number = every([...any, ...this.#number(schema)])
    const rest = every(any)
    const checks: Record<TypeName, Check> = {
      object: object!,
      array: array!,
      string,
      number,
      null: rest,
      boolean: rest,
    }
    const looksBack = schema.unevaluatedProperties !== undefined || schema.unevaluatedItems !== undefined
    built = (value, run, evaluated) => {
      run.spend(1)
      const check = checks[typeName(value)]
      if (!looksBack) return check(value, run, evaluated)
      const own: Evaluated = new Set()
      const fits = check(value, run, own)
      if (evaluated !== null) for (const key of own) evaluated.add(key)
      return fits
    }
    this.#known.set(schema, built)
    return built
  }

  #list(schemas: unknown): Check[] {
    return (schemas as unknown[]).map(schema => this.schema(schema))
  }

  #map(schemas: unknown): [string, Check][] {
    return Object.entries(schemas as object).map(([key, schema]) => [key, this.schema(schema)])
  }

  #any(schema: Schema): Check[] {
    const parts: Check[] = []
    if (typeof schema.$ref === "string")
      parts.push(this.schema(resolveReference(this.#root, schema.$ref) ?? true))
    if (schema.type !== undefined) parts.push(ofType(schema.type as string | string[]))
    if (schema.const !== undefined)
      parts.push(oneOfValues([schema.const as Json], `The value does not match ${shown(schema.const)}.`))
    if (schema.enum !== undefined)
      parts.push(oneOfValues(schema.enum as Json[], `The value does not match any of ${shown(schema.enum)}.`))
    if (schema.not !== undefined) {
      const not = this.schema(schema.not)
      parts.push((value, run) =>
        silently(not, value, run, null) ? run.report('The value matched "not" schema.') : true,
      )
    }
    if (schema.anyOf !== undefined) parts.push(anyOf(this.#list(schema.anyOf)))
    if (schema.allOf !== undefined) parts.push(every(this.#list(schema.allOf)))
    if (schema.oneOf !== undefined) parts.push(oneOf(this.#list(schema.oneOf)))
    if (schema.if !== undefined) parts.push(this.#condition(schema))
    return parts
  }

  #condition(schema: Schema): Check {
    const [condition, then, otherwise] = [schema.if, schema.then ?? true, schema.else ?? true].map(part =>
      this.schema(part),
    ) as [Check, Check, Check]
    return (value, run, evaluated) => {
      const own: Evaluated | null = evaluated === null ? null : new Set()
      if (!silently(condition, value, run, own)) return otherwise(value, run, evaluated)
      if (own !== null) for (const key of own) evaluated!.add(key)
      return then(value, run, evaluated)
    }
  }

  #object(schema: Schema): Check[] {
    const parts: Check<JsonObject>[] = []
    if (schema.required !== undefined) parts.push(required(schema.required as string[]))
    const { minProperties: least, maxProperties: most } = schema as Record<string, number | undefined>
    if (least !== undefined || most !== undefined)
      parts.push((value, run) => {
        const count = Object.keys(value).length
        run.spend(count)
        if (least !== undefined && count < least)
          return run.report(`The value does not have at least ${least} properties.`)
        return most !== undefined && count > most
          ? run.report(`The value has more than ${most} properties.`)
          : true
      })
    if (schema.propertyNames !== undefined) {
      const names = this.schema(schema.propertyNames)
      parts.push((value, run) => {
        let fits = true
        for (const key of listKeys(value, run)) fits = member(names, key, key, run) && fits
        return fits
      })
    }
    if (schema.dependentRequired !== undefined)
      parts.push(dependentRequired(schema.dependentRequired as Record<string, string[]>))
    if (schema.dependentSchemas !== undefined)
      for (const [key, check] of this.#map(schema.dependentSchemas))
        parts.push((value, run, evaluated) => !Object.hasOwn(value, key) || check(value, run, evaluated))
    this.#members(schema, parts)
    return parts as Check[]
  }

  #members(schema: Schema, parts: Check<JsonObject>[]): void {
    const properties = schema.properties === undefined ? [] : this.#map(schema.properties)
    const patterns = (schema.patternProperties === undefined ? [] : this.#map(schema.patternProperties)).map(
      ([source, check]) => ({ matches: this.#matchers.pattern(source), check }),
    )
    if (properties.length > 0)
      parts.push((value, run, evaluated) => {
        run.spend(properties.length)
        let fits = true
        for (const [key, check] of properties) {
          if (!Object.hasOwn(value, key)) continue
          evaluated?.add(key)
          fits = member(check, value[key]!, key, run) && fits
          if (!fits && run.silent > 0) return false
        }
        return fits
      })
    if (patterns.length > 0)
      parts.push((value, run, evaluated) => {
        let fits = true
        for (const key of listKeys(value, run))
          for (const { matches, check } of patterns) {
            if (!matches(key, run)) continue
            evaluated?.add(key)
            fits = member(check, value[key]!, key, run) && fits
          }
        return fits
      })
    const declared = new Set(properties.map(([key]) => key))
    const isDeclared = (key: string, run: CheckRun) =>
      declared.has(key) || patterns.some(({ matches }) => matches(key, run))
    if (schema.additionalProperties !== undefined)
      parts.push(this.#rest(schema.additionalProperties, isDeclared))
    if (schema.unevaluatedProperties !== undefined) parts.push(this.#rest(schema.unevaluatedProperties))
  }

  /** Properties for which `isDeclared` is false; without it, those that no earlier schema has evaluated. */
  #rest(schema: unknown, isDeclared?: (key: string, run: CheckRun) => boolean): Check<JsonObject> {
    const check = this.schema(schema)
    return (value, run, evaluated) => {
      let fits = true
      for (const key of listKeys(value, run)) {
        if (isDeclared === undefined ? evaluated!.has(key) : isDeclared(key, run)) continue
        evaluated?.add(key)
        fits = member(check, value[key]!, key, run) && fits
        if (!fits && run.silent > 0) return false
      }
      return fits
    }
  }

  #array(schema: Schema): Check[] {
    const parts: Check<readonly Json[]>[] = []
    const { maxItems: most, minItems: least } = schema as Record<string, number | undefined>
    if (most !== undefined)
      parts.push(({ length }, run) =>
        length > most ? run.report(`Array has too many items (${length} > ${most}).`) : true,
      )
    if (least !== undefined)
      parts.push(({ length }, run) =>
        length < least ? run.report(`Array has too few items (${length} < ${least}).`) : true,
      )
    const first = schema.prefixItems === undefined ? [] : this.#list(schema.prefixItems)
    if (first.length > 0)
      parts.push((value, run, evaluated) => {
        let fits = true
        for (let i = 0; i < first.length && i < value.length; i++) {
          evaluated?.add(i)
          fits = member(first[i]!, value[i]!, i, run) && fits
        }
        return fits
      })
    if (schema.items !== undefined) parts.push(this.#items(schema.items, { first: first.length }))
    if (schema.contains !== undefined) parts.push(this.#contains(schema))
    if (schema.unevaluatedItems !== undefined) parts.push(this.#items(schema.unevaluatedItems, null))
    if (schema.uniqueItems === true) parts.push(uniqueItems)
    return parts as Check[]
  }

  /** Items after the first ones; without `from`, those that no earlier schema has evaluated. */
  #items(schema: unknown, from: { readonly first: number } | null): Check<readonly Json[]> {
    const check = this.schema(schema)
    return (value, run, evaluated) => {
      let fits = true
      run.spend(value.length)
      for (let i = from?.first ?? 0; i < value.length; i++) {
        if (from === null && evaluated!.has(i)) continue
        evaluated?.add(i)
        fits = member(check, value[i]!, i, run) && fits
        if (!fits && run.silent > 0) return false
      }
      return fits
    }
  }

  #contains(schema: Schema): Check<readonly Json[]> {
    const check = this.schema(schema.contains)
    const { minContains: least = 1, maxContains: most } = schema as Record<string, number | undefined>
    return (value, run, evaluated) => {
      let count = 0
      run.spend(value.length)
      for (const [i, item] of value.entries()) {
        if (!silently(check, item, run, null)) continue
        evaluated?.add(i)
        count++
      }
      if (count < least)
        return run.report(
          least === 1
            ? "Array does not contain item matching schema."
            : `Array must contain at least ${least} items matching schema. Only ${count} items were found.`,
        )
      return most !== undefined && count > most
        ? run.report(`Array may contain at most ${most} items matching schema. ${count} items were found.`)
        : true
    }
  }

  #string(schema: Schema): Check[] {
    const parts: Check<string>[] = []
    const { minLength: least, maxLength: most } = schema as Record<string, number | undefined>
    if (least !== undefined || most !== undefined)
      parts.push((value, run) => {
        run.spend(value.length >> 4)
        let length = 0
        for (const _ of value) length++
        if (least !== undefined && length < least)
          return run.report(`String is too short (${length} < ${least}).`)
        return most !== undefined && length > most
          ? run.report(`String is too long (${length} > ${most}).`)
          : true
      })
    if (schema.pattern !== undefined) {
      const matches = this.#matchers.pattern(schema.pattern as string)
      parts.push((value, run) => matches(value, run) || run.report("String does not match pattern."))
    }
    const format = schema.format === undefined ? undefined : this.#matchers.format(schema.format as string)
    if (format !== undefined)
      parts.push(
        (value, run) => format(value, run) || run.report(`String does not match format "${schema.format}".`),
      )
    return parts as Check[]
  }

  #number(schema: Schema): Check[] {
    const parts: Check<number>[] = []
    const bound = (limit: unknown, isWithin: (value: number, limit: number) => boolean, words: string) => {
      if (typeof limit === "number")
        parts.push((value, run) => isWithin(value, limit) || run.report(`${value} is ${words} ${limit}.`))
    }
    bound(schema.minimum, (value, limit) => value >= limit, "less than")
    bound(schema.maximum, (value, limit) => value <= limit, "greater than")
    bound(schema.exclusiveMinimum, (value, limit) => value > limit, "less than or equal to")
    bound(schema.exclusiveMaximum, (value, limit) => value < limit, "greater than or equal to")
    bound(schema.multipleOf, isMultipleOf, "not a multiple of")
    return parts as Check[]
  }
}

function listKeys(value: JsonObject, run: CheckRun): string[] {
  const keys = Object.keys(value)
  run.spend(keys.length)
  return keys
}
