/**
 * A DAG as an indented tree: each node is below the node that all paths to it pass through (its dominator), so the
 * branches of a fork are indented, and its join follows them at the depth of the fork. A chain is not indented.
 */

import type { RemoteGraph } from "../../client/index.ts"
import { valueIn } from "../../core/maps.ts"
import type { Graph } from "../../core/plan.ts"
import { rowLengths, topologicalOrder, transpose } from "../../definition/graph/graph.ts"

export type DrawnGraph = Pick<Graph, "order" | "dependencies"> & { readonly nodes: readonly unknown[] }

export interface TreeRow {
  readonly node: number
  /** The lines that lead to it: `│ ├ `. */
  readonly branch: string
}

/** A larger tree does not fit a terminal: its nodes are shown as a plain list. */
const MOST_NODES = 1000

const ROOT = -1

export function buildTree(graph: DrawnGraph): readonly TreeRow[] {
  if (graph.nodes.length > MOST_NODES) return graph.nodes.map((_, node) => ({ node, branch: "" }))
  const below = childrenByDominator(graph)
  const rows: TreeRow[] = []
  drawTree(below.get(ROOT) ?? [], (node, branch) => {
    rows.push({ node, branch })
    return below.get(node) ?? []
  })
  return rows
}

/** `draw` gets the lines that lead to an item, and returns what is below it. An only child is not indented. */
export function drawTree<T>(
  items: readonly T[],
  draw: (item: T, branch: string) => readonly T[],
  indent = "",
): void {
  for (const [index, item] of items.entries()) {
    const isLast = index === items.length - 1
    const [mark, further] = items.length === 1 ? ["", ""] : isLast ? ["└ ", "  "] : ["├ ", "│ "]
    drawTree(draw(item, `${indent}${mark}`), draw, `${indent}${further}`)
  }
}

export function nodeDependencies({ starts, items }: Graph["dependencies"], node: number): Int32Array {
  return items.subarray(starts[node], starts[node + 1])
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
    const parents = nodeDependencies(dependencies, node)
    const above = parents.length === 0 ? ROOT : parents.reduce(common)
    dominator[node] = above
    depth[node] = above === ROOT ? 0 : depth[above]! + 1
    valueIn(below, above, () => []).push(node)
  }
  return below
}

/** The edges in the form of the core, for drawing. */
export function toCoreGraph({ nodes, edges }: Pick<RemoteGraph, "nodes" | "edges">) {
  const positions = new Map(nodes.map(({ id }, index) => [id, index]))
  const above: number[][] = nodes.map(() => [])
  for (const { from, to } of edges) above[positions.get(to)!]!.push(positions.get(from)!)
  const starts = new Int32Array(nodes.length + 1)
  for (const [node, parents] of above.entries()) starts[node + 1] = starts[node]! + parents.length
  const dependencies = { starts, items: Int32Array.from(above.flat()) }
  const { order } = topologicalOrder(rowLengths(dependencies), transpose(dependencies))
  return { nodes, order, dependencies }
}
