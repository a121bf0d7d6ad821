/** What follows a value: `.key`, `[key]`, `[a:b:c]`, `.method(…)`, `| filter`, `is test`. */

import { filters } from "../filters/index.ts"
import { didYouMean } from "../nearest.ts"
import { type Given, nothingGiven } from "../run/bind.ts"
import { functions, methods } from "../run/methods.ts"
import type { Operation } from "../run/operation.ts"
import { tests } from "../run/tests.ts"
import type { Expression } from "./ast.ts"
import { parseExpression, parsePrimary } from "./expression.ts"
import type { Parser } from "./parser.ts"

export function parsePostfix(p: Parser, value: Expression): Expression {
  let result = value
  for (;;) {
    if (p.at(".")) result = parseMember(p, result)
    else if (p.at("[")) result = p.nested(() => parseSubscript(p, result))
    else if (p.at("(")) result = parseCall(p, result)
    else return result
  }
}

function parseMember(p: Parser, object: Expression): Expression {
  p.advance()
  const { type, text, at } = p.current
  if (type === "name") {
    p.advance()
    return { kind: "member", object, key: text, at, depth: p.over(object) }
  }
  if (type !== "number" || !/^\d+$/.test(text)) return p.unexpected("a name")
  p.advance()
  const key: Expression = { kind: "constant", value: Number(text), at, depth: 1 }
  return { kind: "item", object, key, at, depth: p.over(object) }
}

function parseSubscript(p: Parser, object: Expression): Expression {
  const { at } = p.advance()
  const bounds: (Expression | null)[] = []
  while (bounds.length < 3) {
    bounds.push(p.at(":") || p.at("]") ? null : parseExpression(p))
    if (!p.skip(":")) break
    if (bounds.length === 1 && p.at("]")) bounds.push(null)
  }
  p.expect("]")
  if (bounds.length > 1) return { kind: "slice", object, bounds, at, depth: p.over(object, ...bounds) }
  const key = bounds[0]
  if (!key) return p.fail("expected a key or index between the brackets", at)
  return { kind: "item", object, key, at, depth: p.over(object, key) }
}

/** Only functions and methods known by name can be called: no value is callable. */
function parseCall(p: Parser, callee: Expression): Expression {
  const { at } = callee
  if (callee.kind === "name") {
    const title = `function ${callee.name}()`
    const operation = find(p, functions, callee.name, `unknown function "${callee.name}"`, at)
    const input: Expression = { kind: "constant", value: null, at, depth: 1 }
    return p.apply({ operation, title, input, given: parseArguments(p), at })
  }
  if (callee.kind !== "member") return p.fail("only functions and methods known by name can be called here")
  const operation = find(p, methods, callee.key, `unknown method "${callee.key}"`, at)
  return p.apply({
    operation,
    title: `method .${callee.key}()`,
    input: callee.object,
    given: parseArguments(p),
    at,
  })
}

function find(
  p: Parser,
  known: ReadonlyMap<string, Operation>,
  name: string,
  problem: string,
  at: number,
): Operation {
  return known.get(name) ?? p.fail(`${problem}${didYouMean(name, known.keys())}`, at)
}

function parseArguments(p: Parser): Given {
  return p.nested(() => {
    const positional: Expression[] = []
    const named: { name: string; value: Expression; at: number }[] = []
    p.expect("(")
    while (!p.at(")")) {
      if (p.current.type === "name" && p.peek().text === "=" && p.peek().type === "operator") {
        const { text, at } = p.advance()
        p.advance()
        named.push({ name: text, value: parseExpression(p), at })
      } else {
        if (named.length > 0) p.fail("an argument without a name cannot follow one with a name")
        positional.push(parseExpression(p))
      }
      if (positional.length + named.length > MAX_ARGUMENTS) p.fail(`more than ${MAX_ARGUMENTS} arguments`)
      if (!p.at(")") && !p.skip(",")) p.unexpected('"," or ")"')
    }
    p.advance()
    return { positional, named }
  })
}

const MAX_ARGUMENTS = 1000

export function parseFilters(p: Parser, value: Expression): Expression {
  let result = value
  for (;;) {
    if (p.skip("|")) result = parseFilter(p, result)
    else if (p.skipWord("is")) result = parseTest(p, result)
    else return result
  }
}

/** Filters and tests that take the name of another one. */
const NAMED: ReadonlyMap<string, { readonly index: number; readonly known: ReadonlyMap<string, Operation> }> =
  new Map([
    ["map", { index: 0, known: filters }],
    ["select", { index: 0, known: tests }],
    ["reject", { index: 0, known: tests }],
    ["selectattr", { index: 1, known: tests }],
    ["rejectattr", { index: 1, known: tests }],
  ])

export function parseFilter(p: Parser, input: Expression): ReturnType<Parser["apply"]> {
  const { text, at } = p.name("the name of a filter")
  const operation = find(p, filters, text, `unknown filter "${text}"`, at)
  const given = p.at("(") ? parseArguments(p) : nothingGiven
  const named = NAMED.get(text)
  const other = named === undefined ? undefined : given.positional[named.index]
  if (named !== undefined && other?.kind === "constant" && typeof other.value === "string") {
    find(p, named.known, other.value, `unknown name "${other.value}" in ${text}`, other.at)
  }
  return p.apply({ operation, title: `filter "${text}"`, input, given, at })
}

/** Words that end a test written without brackets: `x is defined and …`. */
const NOT_ARGUMENTS: ReadonlySet<string> = new Set([
  "else",
  "or",
  "and",
  "if",
  "is",
  "in",
  "not",
  "recursive",
])

function parseTest(p: Parser, input: Expression): Expression {
  const negated = p.skipWord("not")
  const { text, at } = p.name("the name of a test")
  const operation = find(p, tests, text, `unknown test "${text}"`, at)
  const given = p.at("(") ? parseArguments(p) : bareArgument(p)
  return p.apply({ operation, title: `test "${text}"`, input, given, at, negated })
}

function bareArgument(p: Parser): Given {
  const { type, text } = p.current
  const begins =
    type === "string" ||
    type === "number" ||
    (type === "name" && !NOT_ARGUMENTS.has(text)) ||
    (type === "operator" && (text === "[" || text === "{"))
  if (!begins) return nothingGiven
  return { positional: [parsePostfix(p, parsePrimary(p))], named: [] }
}
