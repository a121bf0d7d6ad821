/** Which expressions always yield text, if they yield anything. */

import { filters } from "./filters/index.ts"
import type { Expression } from "./parse/ast.ts"
import { methods } from "./run/methods.ts"
import type { Operation } from "./run/operation.ts"
import type { Template } from "./types.ts"

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
