/**
 * Core has no clock, no chance, no I/O and never waits: the same command on the same graph gives the same facts,
 * in the engine, in replay and in simulation. Time, ids and chance are arguments.
 */
import { everyNode, lineAt, parse, type SyntaxNode } from "./syntax.ts"

const FORBIDDEN_NAMES = new Set([
  ...["Date", "performance", "setTimeout", "setInterval", "setImmediate", "queueMicrotask", "Promise"],
  ...["crypto", "console", "process", "fetch", "require", "globalThis", "eval", "Function", "WeakRef"],
  ...["Intl", "Atomics", "SharedArrayBuffer", "FinalizationRegistry"],
])

export function impurities(file: string, text: string): readonly string[] {
  const found: string[] = []
  for (const { node, parent, key } of everyNode(parse(file, text))) {
    const what = impurity(node, parent, key)
    if (what !== null) found.push(`${file}:${lineAt(text, node.start)} ${what}`)
  }
  return found
}

function impurity(node: SyntaxNode, parent: SyntaxNode | null, key: string): string | null {
  if (node.type === "AwaitExpression" || node.await === true) return "await"
  if (node.async === true) return "async"
  if (node.type === "ImportExpression") return "import()"
  if (node.type === "MetaProperty") return "import.meta"
  if (node.type === "MemberExpression" && isRandom(node)) return "Math.random"
  if (node.type !== "Identifier" || isMereLabel(parent, key)) return null
  const name = String(node.name)
  if (name === "Date" && key === "object" && isReckoning(parent)) return null
  if (name === "Math" && key !== "object") return "Math as a value"
  return FORBIDDEN_NAMES.has(name) ? name : null
}

function isRandom({ object, property, computed }: SyntaxNode): boolean {
  const { name, value } = property as SyntaxNode
  if ((object as SyntaxNode).name !== "Math") return false
  return computed === true ? typeof value !== "string" || value === "random" : name === "random"
}

/** Turning a written date into a number reads no clock. */
function isReckoning(parent: SyntaxNode | null): boolean {
  const { name } = (parent?.property ?? {}) as { name?: unknown }
  return parent?.computed === false && (name === "parse" || name === "UTC")
}

/** `job.process`, `{ process: 1 }` and `readonly process: X` name a field, not the global of that name. */
function isMereLabel(parent: SyntaxNode | null, key: string): boolean {
  if (parent === null || parent.computed === true) return false
  if (parent.type === "Property") return key === "key" && parent.shorthand !== true
  return key === "property" || key === "key"
}
