/** Writes template expressions: paths and literals as one would write them by hand, so that hashes agree. */

import type { Json } from "../../core/json.ts"
import { UmbraError } from "../../errors.ts"
import { emitExpression } from "./emit.ts"
import type { Present, Ref, RefOf, Templated, TemplatedJson } from "./flow.ts"
import { readExpression, refTo } from "./ref.ts"

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
function literalPiece(text: string, beforeExpression: boolean): string {
  const opening = beforeExpression ? /\{+(?:[%#]|$)|\{{2,}|\{[%#]/g : /\{{2,}|\{[%#]/g
  return text.replace(opening, found => `{{ ${JSON.stringify(found)} }}`)
}

/** Operations on refs: put them into text, into an expression, give them a default, state their type. */

type Printable = string | number | boolean

/**
 * Text with refs in it: text`Summarise ${page.output.body}`. A value that may be missing needs a default first, and lists
 * and mappings need an explicit format (`expr`), so both are compile errors here.
 */
export function text(
  strings: TemplateStringsArray,
  ...values: (Printable | RefOf<Printable>)[]
): Ref<string> {
  const parts = strings.flatMap((piece, i) => (i < values.length ? [piece, values[i]] : [piece]))
  const origins = new Set<object>()
  const operands: string[] = []
  let template = ""
  let literal = ""
  for (const part of parts) {
    const found = readExpression(part)
    if (!found) {
      literal += String(part)
      continue
    }
    if (literal !== "") operands.push(scalarLiteral(literal))
    operands.push(emitExpression(part, { path: "text" }, origins))
    template += literalPiece(literal, true) + found.template
    literal = ""
  }
  if (operands.length === 0) return refTo(literalExpression(literal))
  // A string that is one whole expression would keep its type: a number must become text anyway.
  if (operands.length === 1 && literal === "") return refTo(expression(`${operands[0]} | string`, origins))
  if (literal !== "") operands.push(scalarLiteral(literal))
  const source = operands.join(" ~ ")
  return refTo({ source, atomic: false, template: template + literalPiece(literal, false), origins })
}

function literalExpression(literal: string): Expression {
  return { source: JSON.stringify(literal), atomic: true, template: literalText(literal), origins: new Set() }
}

/**
 * An expression of the template language whose type the author states: expr<number>`${page.output.items} | length`.
 * It may contain refs and JSON values. The other form takes a template as written in YAML:
 * expr<number>("{{ page.items | length }}").
 */
export function expr<T = Json>(template: string): Ref<T>
export function expr<T = Json>(
  strings: TemplateStringsArray,
  ...values: (TemplatedJson | RefOf<unknown>)[]
): Ref<T>
export function expr<T>(first: string | TemplateStringsArray, ...values: unknown[]): Ref<T> {
  if (typeof first === "string") return refTo(written(first))
  const origins = new Set<object>()
  const source = first
    .map(
      (piece, i) => piece + (i < values.length ? emitExpression(values[i], { path: "expr" }, origins) : ""),
    )
    .join("")
  return refTo(expression(notEmpty(source), origins))
}

/** A hand-written template, kept unchanged. A template that is one whole expression can be used inside others. */
function written(template: string): Expression {
  const origins = new Set<object>()
  if (!/\{[{%#]/.test(template)) return expression(notEmpty(template), origins)
  const inner = /^\s*\{\{-?((?:(?!\{[{%#]|[%}#]\}).)*?)-?\}\}\s*$/s.exec(template)?.[1]
  return { source: inner === undefined ? null : notEmpty(inner), atomic: false, template, origins }
}

function notEmpty(source: string): string {
  const trimmed = source.trim()
  if (trimmed === "")
    throw new UmbraError("E110", `expr is empty: write an expression such as expr\`\${ref} | length\`.`)
  return trimmed
}

/**
 * The ref's value, or `fallback` if there is none (an optional field, a skipped node, an index past the end).
 * It does not replace null, which is a value. `undefined` is accepted as a type for `noUncheckedIndexedAccess`.
 */
export function orElse<R extends RefOf<unknown> | undefined>(
  ref: R,
  fallback: Templated<Present<R>>,
): Ref<Present<R>> {
  const found = readExpression(ref)
  if (!found) throw new UmbraError("E101", "orElse expects a ref and a fallback value.")
  const origins = new Set(found.origins)
  const value = emitExpression(fallback, { path: "orElse" }, origins)
  return refTo(expression(`${operand(found)} | default(${value})`, origins))
}

/** States the type of a value that a schema left open (`unknown`). Nothing is checked at run time. */
export function cast<T>(ref: RefOf<unknown>): Ref<T> {
  const found = readExpression(ref)
  if (!found) throw new UmbraError("E101", "cast expects a ref.")
  return refTo(found)
}
