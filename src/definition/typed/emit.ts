/** Converts a value with refs to the plain JSON of a definition, or to one template expression. */
import type { Json } from "../../core/json.ts"
import { UmbraError } from "../../errors.ts"
import { literalText, operand, scalarLiteral } from "./expression.ts"
import { readExpression } from "./ref.ts"

export interface Place {
  /** The path of the value, for messages: `nodes.page.config`. */
  readonly path: string
  /** The builders whose refs may occur. Undefined: not checked, since the value is part of an expression that will be. */
  readonly origins?: ReadonlySet<object>
  readonly above?: readonly object[]
}

/** The value as it is in the definition: refs as templates, everything else literal, `undefined` left out. */
export function emit(value: unknown, place: Place): Json {
  const found = readExpression(value)
  if (found) {
    checkOrigin(found.origins, found.template, place)
    return found.template
  }
  if (typeof value === "string") return literalText(value)
  if (isScalar(value, place)) return value
  const inner = enter(value, place)
  if (Array.isArray(value)) return value.map((item, i) => emit(item, inner(`[${i}]`)))
  return Object.fromEntries(presentEntries(value).map(([key, item]) => [key, emit(item, inner(`.${key}`))]))
}

/** The value as part of an expression: refs by their paths, everything else as literals of the template language. */
export function emitExpression(value: unknown, place: Place, origins: Set<object>): string {
  const found = readExpression(value)
  if (found) {
    for (const origin of found.origins) origins.add(origin)
    return operand(found)
  }
  if (typeof value === "string" || isScalar(value, place)) return scalarLiteral(value)
  const inner = enter(value, place)
  if (Array.isArray(value)) {
    return `[${value.map((item, i) => emitExpression(item, inner(`[${i}]`), origins)).join(", ")}]`
  }
  const written = presentEntries(value).map(
    ([key, item]) => `${JSON.stringify(key)}: ${emitExpression(item, inner(`.${key}`), origins)}`,
  )
  return `{${written.join(", ")}}`
}

/** An optional key with the value `undefined` is left out. */
function presentEntries(value: unknown): [string, unknown][] {
  return Object.entries(value as object).filter(([, item]) => item !== undefined)
}

function isScalar(value: unknown, place: Place): value is number | boolean | null {
  if (value === null || typeof value === "boolean") return true
  if (typeof value === "number") {
    if (Number.isFinite(value)) return true
    throw notJson(place, `${value}`, "JSON has only finite numbers.")
  }
  if (typeof value === "object") return false
  throw notJson(place, typeof value, "Use JSON values, refs and text`…`.")
}

/** Enters a list or mapping, and rejects values that JSON would drop or repeat for ever. */
function enter(value: unknown, place: Place): (step: string) => Place {
  const container = value as object
  const above = place.above ?? []
  if (above.includes(container)) throw notJson(place, "a value that contains itself", "JSON has no cycles.")
  if (!Array.isArray(container)) {
    const prototype: unknown = Object.getPrototypeOf(container)
    if (prototype !== Object.prototype && prototype !== null)
      throw notJson(place, className(container), hint(container))
  }
  return step => ({ ...place, path: place.path + step, above: [...above, container] })
}

const className = (value: object): string => `a ${value.constructor?.name ?? "class instance"}`

function hint(value: object): string {
  if ("output" in value && "id" in value) return `Pass the node's output: ${String(value.id)}.output.`
  if (value instanceof Date) return "Pass date.toISOString()."
  return "Use plain objects and arrays."
}

function checkOrigin(origins: ReadonlySet<object>, template: string, place: Place): void {
  const allowed = place.origins
  if (allowed === undefined || [...origins].every(origin => allowed.has(origin))) return
  throw new UmbraError(
    "E111",
    `${place.path} uses ${template}, which belongs to another workflow, or is the item of another node. ` +
      "Use refs of this workflow's own flow.",
  )
}

function notJson(place: Place, what: string, next: string): UmbraError {
  return new UmbraError("E101", `${place.path} is ${what}, which a definition cannot contain. ${next}`)
}

/** Converts options to the form of a definition: `maxAttempts` becomes `max_attempts`, at any depth. `undefined` is left out. */
export function written(options: object): Record<string, unknown> {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined)
  return Object.fromEntries(
    entries.map(([key, value]) => [
      key.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`),
      typeof value === "object" && value !== null ? written(value) : value,
    ]),
  )
}
