/**
 * Refs at run time: proxies that remember the path read from them.
 *
 * Invariant: a ref is never silently converted to something else. JavaScript converts values implicitly in many ways
 * (to text, keys, iterators, `toJSON`); each would lose the reference, so each throws an error that says what to write.
 */
import { valueIn } from "../../core/maps.ts"
import { UmbraError } from "../../errors.ts"
import { type Expression, member } from "./expression.ts"
import type { Ref } from "./flow.ts"

const content = Symbol("umbra.ref")
const inspected = Symbol.for("nodejs.util.inspect.custom")

/** The expression behind a ref, `undefined` for anything else. */
export function readExpression(value: unknown): Expression | undefined {
  if (typeof value !== "object" || value === null || !(content in value)) return undefined
  return (value as { [content]: Expression })[content]
}

export function refTo<T>(expression: Expression): Ref<T> {
  const fields = new Map<string, unknown>()
  const field = (key: string): unknown => valueIn(fields, key, () => refTo(member(expression, key)))
  const refuse = (what: string, instead: string) => (): never => {
    throw misuse(expression, what, instead)
  }
  const get = (target: object, key: string | symbol): unknown => {
    if (Object.hasOwn(target, key)) return Reflect.get(target, key)
    // JavaScript recognises a promise by its `then`: without this, `await ref` would never end.
    if (key === "then") return undefined
    if (key === "toJSON")
      return refuse("serialised", `Use the filter in a template: expr\`\${ref} | tojson\`.`)
    if (key === Symbol.toPrimitive) {
      return refuse(
        "converted to text or a number",
        `Its value is known only when the job runs. Write text\`… \${ref} …\` or expr\`\${ref} + 1\`.`,
      )
    }
    if (key === Symbol.iterator) {
      return refuse("iterated", 'Index it (ref[0]), or loop inside a template: expr("{% for x in … %}").')
    }
    return typeof key === "symbol" ? undefined : field(key)
  }
  const unchangeable = refuse("changed", "A ref only reads.")
  // `inspect` looks through proxies at their targets.
  const target = Object.freeze({ [content]: expression, [inspected]: () => `Ref ${expression.template}` })
  return new Proxy(target, {
    get,
    has: (target, key) => Object.hasOwn(target, key),
    ownKeys: refuse("spread or listed", "Name the required fields, or pass the ref as a whole."),
    set: unchangeable,
    deleteProperty: unchangeable,
    defineProperty: unchangeable,
  }) as unknown as Ref<T>
}

function misuse(expression: Expression, what: string, instead: string): UmbraError {
  return new UmbraError("E101", `the ref ${expression.template} cannot be ${what}. ${instead}`)
}
