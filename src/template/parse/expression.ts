/** Expressions, by recursive descent, with Jinja's precedence: filters and tests bind tighter than any operator. */
import type { BinaryOperator, Comparison, Expression } from "./ast.ts"
import type { Parser } from "./parser.ts"
import { parseFilters, parsePostfix } from "./postfix.ts"

const COMPARISONS: ReadonlySet<string> = new Set(["==", "!=", "<", "<=", ">", ">="])

export function parseExpression(p: Parser): Expression {
  return p.nested(() => {
    let result = parseOr(p)
    while (p.atWord("if")) {
      const { at } = p.advance()
      const test = parseOr(p)
      const otherwise = p.skipWord("else") ? parseExpression(p) : null
      result = {
        kind: "conditional",
        test,
        consequent: result,
        otherwise,
        at,
        depth: p.over(test, result, otherwise),
      }
    }
    return result
  })
}

/** Without the conditional form, so that the `if` after `for x in y` belongs to the loop. */
export function parseOr(p: Parser): Expression {
  return parseLogic(p, "or", () => parseLogic(p, "and", () => parseNot(p)))
}

function parseLogic(p: Parser, operator: "or" | "and", parseOperand: () => Expression): Expression {
  let left = parseOperand()
  while (p.atWord(operator)) {
    const { at } = p.advance()
    const right = parseOperand()
    left = { kind: "logic", operator, left, right, at, depth: p.over(left, right) }
  }
  return left
}

function parseNot(p: Parser): Expression {
  if (!p.atWord("not")) return parseCompare(p)
  const { at } = p.advance()
  const operand = p.nested(() => parseNot(p))
  return { kind: "unary", operator: "not", operand, at, depth: p.over(operand) }
}

function parseCompare(p: Parser): Expression {
  const first = parseSum(p)
  const rest: { operator: Comparison; operand: Expression }[] = []
  const { at } = p.current
  for (let operator = comparison(p); operator !== null; operator = comparison(p)) {
    rest.push({ operator, operand: parseSum(p) })
  }
  if (rest.length === 0) return first
  return {
    kind: "compare",
    first,
    rest,
    at,
    depth: height(p, [first, ...rest.map(({ operand }) => operand)]),
  }
}

function comparison(p: Parser): Comparison | null {
  if (p.current.type === "operator" && COMPARISONS.has(p.current.text)) return p.advance().text as Comparison
  if (p.skipWord("in")) return "in"
  if (!p.atWord("not")) return null
  const next = p.peek()
  if (next.type !== "name" || next.text !== "in") return null
  p.advance()
  p.advance()
  return "not in"
}

function parseSum(p: Parser): Expression {
  let left = parseConcat(p)
  while (p.at("+") || p.at("-")) left = binary(p, left, parseConcat)
  return left
}

function parseConcat(p: Parser): Expression {
  const first = parseProduct(p)
  if (!p.at("~")) return first
  const parts = [first]
  const { at } = p.current
  while (p.skip("~")) parts.push(parseProduct(p))
  return { kind: "concat", parts, at, depth: height(p, parts) }
}

function parseProduct(p: Parser): Expression {
  let left = parsePower(p)
  while (p.at("*") || p.at("/") || p.at("//") || p.at("%")) left = binary(p, left, parsePower)
  return left
}

/** `2 ** 3 ** 2` is `(2 ** 3) ** 2` in Jinja. */
function parsePower(p: Parser): Expression {
  let left = parseUnary(p, true)
  while (p.at("**")) left = binary(p, left, inner => parseUnary(inner, true))
  return left
}

function binary(p: Parser, left: Expression, operand: (p: Parser) => Expression): Expression {
  const { at, text } = p.advance()
  const right = operand(p)
  return { kind: "binary", operator: text as BinaryOperator, left, right, at, depth: p.over(left, right) }
}

function parseUnary(p: Parser, withFilters: boolean): Expression {
  let result: Expression
  if (p.at("-") || p.at("+")) {
    const { at, text } = p.advance()
    const operand = p.nested(() => parseUnary(p, false))
    if (operand.kind === "constant" && typeof operand.value === "number") {
      // Folded, so that `x[-1]` is a constant path.
      return finish(p, { ...operand, value: text === "-" ? 0 - operand.value : operand.value }, withFilters)
    }
    result = { kind: "unary", operator: text as "-" | "+", operand, at, depth: p.over(operand) }
  } else {
    result = parsePostfix(p, parsePrimary(p))
  }
  return finish(p, result, withFilters)
}

const finish = (p: Parser, value: Expression, withFilters: boolean): Expression =>
  withFilters ? parseFilters(p, value) : value

const RESERVED: ReadonlySet<string> = new Set(["and", "or", "not", "in", "is", "if", "else", "elif"])
const WORDS: ReadonlyMap<string, true | false | null> = new Map([
  ["true", true],
  ["True", true],
  ["false", false],
  ["False", false],
  ["none", null],
  ["None", null],
])

export function parsePrimary(p: Parser): Expression {
  const { type, text, at } = p.current
  if (type === "name" && !RESERVED.has(text)) {
    p.advance()
    const value = WORDS.get(text)
    if (value !== undefined) return { kind: "constant", value, at, depth: 1 }
    return { kind: "name", name: text, at, depth: 1 }
  }
  if (type === "string") return parseStrings(p)
  if (type === "number") {
    p.advance()
    return { kind: "constant", value: parseNumber(p, text, at), at, depth: 1 }
  }
  if (p.at("(")) return p.nested(() => parseParentheses(p))
  if (p.at("[")) return p.nested(() => parseList(p))
  if (p.at("{")) return p.nested(() => parseMapping(p))
  return p.unexpected("a value")
}

/** Adjacent strings are one string. */
function parseStrings(p: Parser): Expression {
  const { at } = p.current
  const parts: string[] = []
  while (p.current.type === "string") parts.push(p.advance().text)
  return { kind: "constant", value: parts.join(""), at, depth: 1 }
}

function parseNumber(p: Parser, text: string, at: number): number {
  const value = Number(text.replaceAll("_", ""))
  if (!Number.isFinite(value)) p.fail(`the number ${text.slice(0, 20)} is too large`, at)
  return value
}

function parseParentheses(p: Parser): Expression {
  const { at } = p.advance()
  if (p.skip(")")) return { kind: "list", items: [], at, depth: 1 }
  const result = parseTuple(p, parseExpression)
  p.expect(")")
  return result
}

/** One expression, or several with commas between: a list. */
export function parseTuple(p: Parser, parse: (p: Parser) => Expression): Expression {
  const { at } = p.current
  const first = parse(p)
  if (!p.at(",")) return first
  const items = [first]
  while (p.skip(",")) {
    if (p.at(")") || p.current.type === "close") break
    items.push(parse(p))
  }
  return { kind: "list", items, at, depth: height(p, items) }
}

function parseList(p: Parser): Expression {
  const { at } = p.advance()
  const items: Expression[] = []
  while (!p.at("]")) {
    items.push(parseExpression(p))
    if (!p.at("]") && !p.skip(",")) p.unexpected('"," or "]"')
  }
  p.advance()
  return { kind: "list", items, at, depth: height(p, items) }
}

function parseMapping(p: Parser): Expression {
  const { at } = p.advance()
  const entries: [Expression, Expression][] = []
  while (!p.at("}")) {
    const key = parseExpression(p)
    p.expect(":")
    entries.push([key, parseExpression(p)])
    if (!p.at("}") && !p.skip(",")) p.unexpected('"," or "}"')
  }
  p.advance()
  return { kind: "mapping", entries, at, depth: height(p, entries.flat()) }
}

/** Literals can have more items than a call can have arguments. */
function height(p: Parser, items: readonly Expression[]): number {
  return items.reduce((depth, item) => Math.max(depth, p.over(item)), 1)
}
