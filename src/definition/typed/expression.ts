/** Writes template expressions: paths and literals as one would write them by hand, so that hashes agree. */
import { UmbraError } from "../../errors.ts"

/** The expression behind a ref. */
export interface Expression {
  /** The expression without its braces. `null`: template text with statements, which is not an expression. */
  readonly source: string | null
  /** May `.field`, `[0]` or `| filter` follow without parentheses? */
  readonly atomic: boolean
  /** Its form as a value of a definition. */
  readonly template: string
  /** The builders whose nodes it reads: a ref of one workflow is invalid in another. */
  readonly origins: ReadonlySet<object>
}

const identifier = /^[A-Za-z_][A-Za-z0-9_]*$/
const index = /^(0|-?[1-9][0-9]*)$/
const words = new Set(
  "and or not in is if else elif endif for endfor set endset true false none True False None".split(" "),
)

const isPlainName = (name: string): boolean => identifier.test(name) && !words.has(name)

export function expression(source: string, origins: ReadonlySet<object>, atomic = false): Expression {
  return { source, atomic, template: `{{ ${source} }}`, origins }
}

/** The expression of a node's whole output: `page`, or `nodes["my-page"]` if the id is not a plain name. */
export function nodePath(id: string): string {
  return isPlainName(id) ? id : `nodes[${JSON.stringify(id)}]`
}

/** `key` is what JavaScript passes to a proxy: the index of a list arrives as text. */
export function member(of: Expression, key: string): Expression {
  const base = operand(of)
  const source = index.test(key)
    ? `${base}[${key}]`
    : isPlainName(key)
      ? `${base}.${key}`
      : `${base}[${JSON.stringify(key)}]`
  return expression(source, of.origins, true)
}

/** The source as an operand of a larger expression. */
export function operand(of: Expression): string {
  if (of.source === null) {
    throw new UmbraError(
      "E101",
      `template text cannot be part of a larger expression: ${of.template}. ` +
        "Use it as a whole config value, or write a single {{ expression }} in expr().",
    )
  }
  return of.atomic ? of.source : `(${of.source})`
}

/** A JSON scalar as a literal of the template language. */
export function scalarLiteral(value: string | number | boolean | null): string {
  if (value === null) return "none"
  // A sign binds weaker than a filter: `-1 | abs` would be -1.
  if (typeof value === "number" && (value < 0 || Object.is(value, -0))) return `(${value})`
  return JSON.stringify(value)
}

/** Text that the template engine would parse as a delimiter. */
const delimiter = /\{(?=[{%#])/

/** A whole string that must be taken literally. */
export function literalText(text: string): string {
  return delimiter.test(text) ? `{{ ${JSON.stringify(text)} }}` : text
}

/** Text between two expressions: a `{` at its end would join the braces that follow. */
export function literalPiece(text: string, beforeExpression: boolean): string {
  const opening = beforeExpression ? /\{+(?:[%#]|$)|\{{2,}|\{[%#]/g : /\{{2,}|\{[%#]/g
  return text.replace(opening, found => `{{ ${JSON.stringify(found)} }}`)
}
