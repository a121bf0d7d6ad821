/**
 * A DAG as an indented tree: each node is below the node that all paths to it pass through (its dominator), so the
 * branches of a fork are indented, and its join follows them at the depth of the fork. A chain is not indented.
 */
import type { Graph } from "../../core/plan.ts"

export type DrawnGraph = Pick<Graph, "order" | "dependencies"> & { readonly nodes: readonly unknown[] }

export interface TreeRow {
  readonly node: number
  /** The lines that lead to it: `│ ├ `. */
  readonly branch: string
}

/** A larger tree does not fit a terminal: its nodes are shown as a plain list. */
const MOST_NODES = 1000

const ROOT = -1

export function treeOf(graph: DrawnGraph): readonly TreeRow[] {
  if (graph.nodes.length > MOST_NODES) return graph.nodes.map((_, node) => ({ node, branch: "" }))
  const below = childrenByDominator(graph)
  const rows: TreeRow[] = []
  const add = (parent: number, indent: string): void => {
    for (let children = below.get(parent); children !== undefined; ) {
      if (children.length > 1) {
        fork(children, indent)
        return
      }
      const only: number = children[0]!
      rows.push({ node: only, branch: indent })
      children = below.get(only)
    }
  }
  const fork = (children: readonly number[], indent: string): void => {
    for (const [index, node] of children.entries()) {
      const isLast = index === children.length - 1
      rows.push({ node, branch: `${indent}${isLast ? "└ " : "├ "}` })
      add(node, `${indent}${isLast ? "  " : "│ "}`)
    }
  }
  add(ROOT, "")
  return rows
}

function childrenByDominator({ nodes, order, dependencies }: DrawnGraph): Map<number, number[]> {
  const dominator = new Int32Array(nodes.length).fill(ROOT)
  const depth = new Int32Array(nodes.length)
  const common = (a: number, b: number): number => {
    while (a !== b) {
      if (a === ROOT || b === ROOT) return ROOT
      if (depth[a]! >= depth[b]!) a = dominator[a]!
      else b = dominator[b]!
    }
    return a
  }
  const below = new Map<number, number[]>()
  for (const node of order) {
    const parents = dependencies.items.subarray(dependencies.starts[node], dependencies.starts[node + 1])
    const above = parents.length === 0 ? ROOT : parents.reduce(common)
    dominator[node] = above
    depth[node] = above === ROOT ? 0 : depth[above]! + 1
    const siblings = below.get(above)
    if (siblings === undefined) below.set(above, [node])
    else siblings.push(node)
  }
  return below
}
