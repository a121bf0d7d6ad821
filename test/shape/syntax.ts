/** What a source file says, from its syntax tree: comments and strings cannot mislead a check. */
import { parseSync } from "oxc-parser"

export interface SyntaxNode {
  readonly type: string
  readonly start: number
  readonly [key: string]: unknown
}

export function parse(file: string, text: string): SyntaxNode {
  const { program, errors } = parseSync(file, text, { sourceType: "module" })
  if (errors[0]) throw new Error(`${file} cannot be parsed: ${errors[0].message}`)
  return program as unknown as SyntaxNode
}

const isNode = (value: unknown): value is SyntaxNode =>
  typeof value === "object" && value !== null && typeof (value as SyntaxNode).type === "string"

/** Every node below (and with) this one, with its parent and the key it stands under. */
export function* everyNode(
  node: SyntaxNode,
  parent: SyntaxNode | null = null,
  key = "",
): Generator<{ node: SyntaxNode; parent: SyntaxNode | null; key: string }> {
  yield { node, parent, key }
  for (const [name, value] of Object.entries(node)) {
    for (const child of Array.isArray(value) ? value : [value]) {
      if (isNode(child)) yield* everyNode(child, node, name)
    }
  }
}

export const lineAt = (text: string, offset: number): number => text.slice(0, offset).split("\n").length
