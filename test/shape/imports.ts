/** Every way a file can name another: static, dynamic, re-export, and types alone. */
import { everyNode, lineAt, parse } from "./syntax.ts"

export interface Import {
  /** As written; `(computed)` when a dynamic import is given anything but a string. */
  readonly specifier: string
  readonly line: number
}

const IMPORTING = new Set([
  "ImportDeclaration",
  "ExportNamedDeclaration",
  "ExportAllDeclaration",
  "ImportExpression",
  "TSImportType",
  "TSExternalModuleReference",
])

export function importsOf(file: string, text: string): readonly Import[] {
  const found: Import[] = []
  for (const { node } of everyNode(parse(file, text))) {
    const source = (node.source ?? node.expression) as { value?: unknown } | null | undefined
    if (!IMPORTING.has(node.type) || !source) continue
    const specifier = typeof source.value === "string" ? source.value : "(computed)"
    found.push({ specifier, line: lineAt(text, node.start) })
  }
  return found
}
