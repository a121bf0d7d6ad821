/**
 * The results of expressions: JSON, or one of three kinds of values that exist only inside a template. Lists and mappings
 * contain JSON only; every value passes `data` before it is stored, printed or used in a computation.
 */
import type { Json, JsonObject } from "../../core/json.ts"
import { cannot, Fault, type Run } from "../run.ts"

export type Value = Json | Inner

abstract class Inner {
  /** The fault to throw when it is used as data. */
  abstract fault(): Fault
}

/** A missing name, key or item. Throws when it is used; `default` and `is defined` accept it. */
export class Missing extends Inner {
  readonly #describe: () => Fault

  /** The description is built only when it throws: `is defined` in a loop must stay cheap. */
  constructor(describe: () => Fault) {
    super()
    this.#describe = describe
  }

  override fault(): Fault {
    return this.#describe()
  }

  static because(message: string): Missing {
    return new Missing(() => new Fault("E201", message))
  }
}

/** An inline `if` without `else` whose condition is false: empty in text, missing as data. */
export const nothing: Missing = Missing.because("the condition is false and there is no else")

/** The `loop` of a `for`. */
export class Loop extends Inner {
  readonly sequence: readonly Json[]
  index0 = 0

  constructor(sequence: readonly Json[]) {
    super()
    this.sequence = sequence
  }

  override fault(): Fault {
    return cannot("`loop` is not a value; use one of its fields, such as loop.index")
  }

  get(name: string): Value {
    const { index0, sequence } = this
    const { length } = sequence
    switch (name) {
      case "index":
        return index0 + 1
      case "index0":
        return index0
      case "revindex":
        return length - index0
      case "revindex0":
        return length - index0 - 1
      case "first":
        return index0 === 0
      case "last":
        return index0 === length - 1
      case "length":
        return length
      case "previtem":
        return sequence[index0 - 1] ?? this.#none(index0 - 1, "the first item has no loop.previtem")
      case "nextitem":
        return sequence[index0 + 1] ?? this.#none(index0 + 1, "the last item has no loop.nextitem")
      default:
        return Missing.because(`\`loop\` has no field "${name}"; it has ${LOOP_FIELDS}`)
    }
  }

  /** An item may be null: that is not the same as no item. */
  #none(at: number, message: string): Value {
    return at >= 0 && at < this.sequence.length ? null : Missing.because(message)
  }
}

const LOOP_FIELDS = "index, index0, revindex, revindex0, first, last, length, previtem, nextitem, cycle(…)"

/** `namespace(…)`: the only value that a template can change from inside a loop. */
export class Namespace extends Inner {
  readonly values = new Map<string, Json>()

  override fault(): Fault {
    return cannot("a namespace is not a value; use one of its fields")
  }
}

/** The value as data, or its fault. */
export function data(value: Value): Json {
  if (value instanceof Inner) throw value.fault()
  return value
}

export const isMapping = (value: Value): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Inner)

export const isList = (value: Value): value is readonly Json[] => Array.isArray(value)

export const owns = (mapping: object, key: string): boolean =>
  Object.prototype.propertyIsEnumerable.call(mapping, key)

/** Assigns a key as data, whatever its name. */
export function put(mapping: Record<string, Json>, key: string, value: Json): void {
  if (key === "__proto__") {
    Object.defineProperty(mapping, key, { value, enumerable: true, configurable: true, writable: true })
  } else {
    mapping[key] = value
  }
}

export function typeName(value: Json): string {
  if (value === null) return "none"
  if (Array.isArray(value)) return "list"
  return typeof value === "object" ? "mapping" : typeof value
}

export function truthy(run: Run, value: Json): boolean {
  if (typeof value !== "object") return Boolean(value)
  if (value === null) return false
  return isList(value) ? value.length > 0 : run.keys(value).length > 0
}

/** Is the value true as a condition: not null, false, 0, "", [] or {}? */
export const isTruthy = (value: Json): boolean =>
  typeof value === "object" && value !== null ? Object.keys(value).length > 0 : Boolean(value)

/** `Array.from({ length }, make)`, which is five times slower. The caller has counted the items. */
export function makeList(length: number, make: (index: number) => Json): Json[] {
  const list: Json[] = []
  for (let i = 0; i < length; i++) list.push(make(i))
  return list
}

/** The items of a loop or filter: those of a list, the keys of a mapping, the characters of a string. */
export function sequence(run: Run, value: Json): readonly Json[] {
  if (isList(value)) return value
  if (isMapping(value)) return run.keys(value)
  if (typeof value === "string") return characters(run, value)
  throw cannot(`a ${typeName(value)} cannot be iterated; a list, mapping or string can`)
}

const SURROGATE = /[\ud800-\udfff]/

/** Characters are code points, as in Python. */
export function characters(run: Run, text: string): string[] {
  run.items(text.length)
  return SURROGATE.test(text) ? Array.from(text) : text.split("")
}

export function characterCount(run: Run, text: string): number {
  run.scan(text.length)
  if (!SURROGATE.test(text)) return text.length
  let count = 0
  for (const _ of text) count += 1
  return count
}

/** `text.slice` in code points, both bounds within the text. */
export function substring(run: Run, text: string, from: number, to: number): string {
  run.scan(text.length)
  run.text(Math.max(0, to - from))
  return SURROGATE.test(text) ? characters(run, text).slice(from, to).join("") : text.slice(from, to)
}
