/** Operations on refs: put them into text, into an expression, give them a default, state their type. */
import type { Json } from "../../core/json.ts"
import { UmbraError } from "../../errors.ts"
import { emitExpression } from "./emit.ts"
import {
  type Expression,
  expression,
  literalPiece,
  literalText,
  operand,
  scalarLiteral,
} from "./expression.ts"
import { expressionOf, refTo } from "./ref.ts"
import type { Present, Ref, RefOf, Templated, TemplatedJson } from "./types.ts"

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
    const found = expressionOf(part)
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
  const found = expressionOf(ref)
  if (!found) throw new UmbraError("E101", "orElse expects a ref and a fallback value.")
  const origins = new Set(found.origins)
  const value = emitExpression(fallback, { path: "orElse" }, origins)
  return refTo(expression(`${operand(found)} | default(${value})`, origins))
}

/** States the type of a value that a schema left open (`unknown`). Nothing is checked at run time. */
export function cast<T>(ref: RefOf<unknown>): Ref<T> {
  const found = expressionOf(ref)
  if (!found) throw new UmbraError("E101", "cast expects a ref.")
  return refTo(found)
}
