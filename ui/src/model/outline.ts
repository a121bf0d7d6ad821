/** The order and depth of rows in the outline and the gantt; both follow from the compiled graph alone. */
import type { CompiledGraph } from "../../../src/core/index.ts"
import { computeRanks } from "./layout/ranks.ts"

export interface OutlineRow {
  readonly node: number
  readonly depth: number
}

const DEEPEST = 8

/**
 * A node stands below the first of its deepest dependencies. What merges several nodes stands at the left edge again, and
 * so does what is deeper than a screen is wide.
 */
export function outlineRows(graph: CompiledGraph): OutlineRow[] {
  const positions = new Map(graph.nodes.map(({ id }, position) => [id, position]))
  const above = graph.nodes.map(({ depends_on }) => depends_on.map(id => positions.get(id)!))
  const ranks = computeRanks(
    graph.nodes.length,
    above.flatMap((list, to) => list.map(from => [from, to] as const)),
  )
  const below: number[][] = graph.nodes.map(() => [])
  const roots: number[] = []
  for (const [node, list] of above.entries()) {
    const deepest = list.reduce<number | null>(
      (best, other) => (best === null || ranks[other]! > ranks[best]! ? other : best),
      null,
    )
    if (deepest === null || list.length > 1) roots.push(node)
    else below[deepest]!.push(node)
  }
  roots.sort((a, b) => ranks[a]! - ranks[b]! || a - b)
  const rows: OutlineRow[] = []
  const open = roots.toReversed().map(node => ({ node, depth: 0 }))
  for (let row = open.pop(); row !== undefined; row = open.pop()) {
    rows.push(row)
    const depth = row.depth >= DEEPEST ? 0 : row.depth + 1
    for (const node of below[row.node]!.toReversed()) open.push({ node, depth })
  }
  return rows
}
