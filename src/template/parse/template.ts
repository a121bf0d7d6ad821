/** Whole templates: text, output and statements. */

import { didYouMean } from "../nearest.ts"
import type { Apply, Body, Expression, Statement, Target } from "./ast.ts"
import { parseExpression, parseOr, parseTuple } from "./expression.ts"
import { Parser } from "./parser.ts"
import { parseFilter } from "./postfix.ts"

export interface Program {
  readonly body: Body
  /** The whole source is one `{{ expression }}`. */
  readonly expression: Expression | null
  readonly depth: number
}

export function parseTemplate(source: string): Program {
  const p = new Parser(source)
  const { body } = parseBody(p, null)
  const only = body.length === 1 ? body[0] : undefined
  const whole = only?.kind === "output" && isWhole(source) ? only.expression : null
  return { body, expression: whole, depth: height(p, body) }
}

/** With a single output in the tree, text around it can only be removed white space, or comments. */
const isWhole = (source: string): boolean => source.startsWith("{{") && source.endsWith("}}")

/** Statements up to one of the `ends`, whose name has been read; `null` reads to the end of the source. */
function parseBody(
  p: Parser,
  block: { readonly name: string; readonly at: number; readonly ends: string[] } | null,
) {
  const body: Statement[] = []
  for (;;) {
    const { pieces, opening, at } = p.lexer.text()
    const text = pieces.join("")
    if (text !== "") body.push({ kind: "text", text, at, depth: 1 })
    if (opening === "end") {
      if (block === null) return { body, end: "" }
      p.fail(
        `this "${block.name}" is never closed; expected {% ${block.ends.join(" %} or {% ")} %}`,
        block.at,
      )
    }
    p.enter()
    if (opening === "output") {
      body.push(parseOutput(p))
    } else {
      const { text: word, at: start } = p.name("a statement such as if, for or set")
      if (block?.ends.includes(word)) return { body, end: word }
      body.push(p.nested(() => parseStatement(p, word, start)))
    }
    p.close()
  }
}

function parseOutput(p: Parser): Statement {
  const { at } = p.current
  const expression = parseTuple(p, parseExpression)
  return { kind: "output", expression, at, depth: p.over(expression) }
}

const STATEMENTS = ["if", "for", "set", "raw", "elif", "else", "endif", "endfor", "endset", "endraw"]
const LEFT_OUT = new Set(
  "macro call include import from extends block with filter do autoescape break continue trans debug".split(
    " ",
  ),
)

function parseStatement(p: Parser, word: string, at: number): Statement {
  if (word === "if") return parseIf(p, at)
  if (word === "for") return parseFor(p, at)
  if (word === "set") return parseSet(p, at)
  if (LEFT_OUT.has(word))
    p.fail(`"${word}" is not part of Umbra's templates; there are if, for, set and raw`, at)
  if (STATEMENTS.includes(word)) p.fail(`"${word}" without the block it belongs to`, at)
  return p.fail(`unknown statement "${word}"${didYouMean(word, STATEMENTS)}`, at)
}

function parseIf(p: Parser, at: number): Statement {
  const branches: { test: Expression; body: Body }[] = []
  let otherwise: Body | null = null
  for (let end = "elif"; end === "elif"; ) {
    const test = parseTuple(p, parseExpression)
    p.close()
    const part = parseBody(p, { name: "if", at, ends: ["elif", "else", "endif"] })
    branches.push({ test, body: part.body })
    end = part.end
    if (end === "else") {
      p.close()
      otherwise = parseBody(p, { name: "if", at, ends: ["endif"] }).body
    }
  }
  const tallest = branches.reduce((most, { test, body }) => Math.max(most, p.over(test), height(p, body)), 0)
  return {
    kind: "if",
    branches,
    otherwise,
    at,
    depth: p.over({ depth: tallest }, { depth: height(p, otherwise) }),
  }
}

function parseFor(p: Parser, at: number): Statement {
  const target = parseTargets(p, false)
  if (!p.skipWord("in")) p.unexpected('"in"')
  const sequence = parseTuple(p, parseOr)
  const filter = p.skipWord("if") ? parseExpression(p) : null
  if (p.atWord("recursive")) p.fail('"recursive" loops are not part of Umbra\'s templates')
  p.close()
  const { body, end } = parseBody(p, { name: "for", at, ends: ["else", "endfor"] })
  if (end === "else") p.close()
  const otherwise = end === "else" ? parseBody(p, { name: "for", at, ends: ["endfor"] }).body : null
  const depth = p.over(sequence, filter, { depth: height(p, body) }, { depth: height(p, otherwise) })
  return { kind: "for", target, sequence, filter, body, otherwise, at, depth }
}

function parseSet(p: Parser, at: number): Statement {
  const target = parseTargets(p, true)
  if (p.skip("=")) {
    const value = parseTuple(p, parseExpression)
    return { kind: "set", target, value, at, depth: p.over(value) }
  }
  const filters: Apply[] = []
  const text: Expression = { kind: "constant", value: "", at, depth: 1 }
  while (p.skip("|")) filters.push(parseFilter(p, text))
  if (p.current.type !== "close") p.unexpected('"=" or the end of the tag')
  const { body } = parseBody(p, { name: "set", at, ends: ["endset"] })
  return {
    kind: "set-block",
    target,
    body,
    filters,
    at,
    depth: p.over({ depth: height(p, body) }, ...filters),
  }
}

function parseTargets(p: Parser, fields: boolean): Target {
  return p.nested(() => {
    const first = parseTarget(p, fields)
    if (!p.at(",")) return first
    const targets = [first]
    while (p.skip(",")) {
      if (p.atWord("in") || p.at("=") || p.at(")")) break
      targets.push(parseTarget(p, fields))
    }
    return { kind: "many", targets }
  })
}

const NOT_TARGETS = new Set([
  "true",
  "false",
  "none",
  "True",
  "False",
  "None",
  "loop",
  "in",
  "not",
  "and",
  "or",
  "is",
  "if",
])

function parseTarget(p: Parser, fields: boolean): Target {
  if (p.skip("(")) {
    const inner = parseTargets(p, fields)
    p.expect(")")
    return inner
  }
  const { text: name, at } = p.name("a name to assign to")
  if (NOT_TARGETS.has(name)) p.fail(`"${name}" cannot be assigned to`, at)
  if (!fields || !p.skip(".")) return { kind: "one", name }
  return { kind: "field", name, field: p.name("the name of a field").text, at }
}

function height(p: Parser, body: Body | null): number {
  return (body ?? []).reduce((depth, statement) => Math.max(depth, p.over(statement)), 0)
}
