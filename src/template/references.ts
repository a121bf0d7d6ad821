/**
 * Which names a template reads from outside. A name is local to the template only where every path sets it: if only one
 * branch of an `if` sets it, it may still be read from outside.
 */

import { filters } from "./filters/index.ts"
import type { Body, Expression, For, Statement, Target } from "./parse/ast.ts"
import type { Program } from "./parse/template.ts"
import { methods } from "./run/methods.ts"
import type { Operation } from "./run/operation.ts"
import type { Reference, Template } from "./types.ts"

type Locals = ReadonlySet<string>
const NONE: Locals = new Set()

export function collectReferences(program: Program): readonly Reference[] {
  const found: Reference[] = []
  walkBody(program.body, NONE, found)
  return found
}

/** Returns the names that are certainly set after the body. */
function walkBody(body: Body, locals: Locals, found: Reference[]): Locals {
  let known = locals
  for (const statement of body) known = walkStatement(statement, known, found)
  return known
}

function walkStatement(statement: Statement, locals: Locals, found: Reference[]): Locals {
  switch (statement.kind) {
    case "text":
      return locals
    case "output":
      walk(statement.expression, locals, found)
      return locals
    case "set":
      walk(statement.value, locals, found)
      return withTarget(locals, statement.target)
    case "set-block":
      walkBody(statement.body, locals, found)
      for (const filter of statement.filters) walk(filter, locals, found)
      return withTarget(locals, statement.target)
    case "if": {
      const ways = statement.branches.map(({ test, body }) => {
        walk(test, locals, found)
        return walkBody(body, locals, found)
      })
      ways.push(statement.otherwise === null ? locals : walkBody(statement.otherwise, locals, found))
      return ways.reduce((common, way) => (common === way ? way : intersection(common, way)))
    }
    case "for":
      walkLoop(statement, locals, found)
      return locals
  }
}

function walkLoop(statement: For, locals: Locals, found: Reference[]): void {
  walk(statement.sequence, locals, found)
  const inside = withTarget(locals, statement.target)
  if (statement.filter !== null) walk(statement.filter, inside, found)
  walkBody(statement.body, new Set([...inside, "loop"]), found)
  if (statement.otherwise !== null) walkBody(statement.otherwise, locals, found)
}

const intersection = (a: Locals, b: Locals): Locals => new Set([...a].filter(name => b.has(name)))

function withTarget(locals: Locals, target: Target): Locals {
  const names = new Set(locals)
  const add = (each: Target): void => {
    if (each.kind === "one") names.add(each.name)
    else if (each.kind === "many") each.targets.forEach(add)
  }
  add(target)
  return names
}

function walk(expression: Expression, locals: Locals, found: Reference[]): void {
  if (expression.kind === "name" || expression.kind === "member" || expression.kind === "item") {
    walkPath(expression, locals, found)
    return
  }
  for (const part of parts(expression)) if (part !== null) walk(part, locals, found)
}

/** From the end of `a.b[0]` back to its root. */
function walkPath(expression: Expression, locals: Locals, found: Reference[]): void {
  let path: (string | number)[] = []
  let computed = false
  let at = expression
  while (at.kind === "member" || at.kind === "item") {
    const key = at.kind === "member" ? at.key : at.key.kind === "constant" ? at.key.value : undefined
    if (typeof key === "string" || typeof key === "number") {
      path.push(key)
    } else {
      if (at.kind === "item") walk(at.key, locals, found)
      path = []
      computed = true
    }
    at = at.object
  }
  if (at.kind !== "name") walk(at, locals, found)
  else if (!locals.has(at.name)) found.push({ name: at.name, path: path.reverse(), computed, offset: at.at })
}

function parts(expression: Expression): readonly (Expression | null)[] {
  switch (expression.kind) {
    case "slice":
      return [expression.object, ...expression.bounds]
    case "list":
      return expression.items
    case "mapping":
      return expression.entries.flat()
    case "unary":
      return [expression.operand]
    case "binary":
    case "logic":
      return [expression.left, expression.right]
    case "compare":
      return [expression.first, ...expression.rest.map(({ operand }) => operand)]
    case "concat":
      return expression.parts
    case "conditional":
      return [expression.test, expression.consequent, expression.otherwise]
    case "apply":
      return [expression.input, ...expression.arguments, ...expression.named.map(([, value]) => value)]
    default:
      return []
  }
}

/** Which expressions always yield text, if they yield anything. */
const textFilters = [
  ...["upper", "lower", "title", "capitalize", "trim", "replace", "join", "truncate", "indent", "string"],
  ...["tojson", "urlencode", "b64encode", "b64decode"],
]
const textMethods = ["upper", "lower", "capitalize", "strip", "lstrip", "rstrip", "replace", "join"]

const textOperations: ReadonlySet<Operation | undefined> = new Set([
  ...textFilters.map(name => filters.get(name)),
  ...textMethods.map(name => methods.get(name)),
])

export function alwaysText(expression: Expression): boolean {
  switch (expression.kind) {
    case "constant":
      return typeof expression.value === "string"
    case "concat":
      return true
    case "apply":
      return textOperations.has(expression.operation)
    case "slice":
      return alwaysText(expression.object)
    case "conditional":
      return (
        alwaysText(expression.consequent) && expression.otherwise !== null && alwaysText(expression.otherwise)
      )
    case "logic":
      return alwaysText(expression.left) && alwaysText(expression.right)
    default:
      return false
  }
}

/** What to write where text is not accepted. `yields`: what is expected. */
export function insteadOfText({ isExpression }: Pick<Template, "isExpression">, yields: string): string {
  return isExpression
    ? `Write an expression that yields ${yields}, without text in quotes, "~" or a filter that produces text.`
    : `Write one expression that yields ${yields}: "{{ … }}" with nothing around it.`
}
