/**
 * The query over the nodes of a graph: words separated by spaces. A state (`failed`, `waiting`) or a part of an id selects
 * nodes; `+` before a word adds all nodes upstream, `+` behind it all downstream.
 */
import type { CompiledGraph, GraphView } from "../../../src/core/index.ts"

export function matchingNodes(
  text: string,
  graph: CompiledGraph,
  view: GraphView,
): ReadonlySet<number> | null {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  if (words.length === 0) return null
  const positions = new Map(graph.nodes.map(({ id }, position) => [id, position]))
  const above = graph.nodes.map(({ depends_on }) => depends_on.map(id => positions.get(id)!))
  const below: number[][] = graph.nodes.map(() => [])
  for (const [node, list] of above.entries()) for (const other of list) below[other]!.push(node)
  const found = new Set<number>()
  for (const word of words) {
    const wanted = word.replace(/^\+|\+$/g, "")
    const own = view.nodes.flatMap(({ id, status }, node) =>
      wanted !== "" && (status.toLowerCase() === wanted || id.toLowerCase().includes(wanted)) ? [node] : [],
    )
    for (const node of own) found.add(node)
    if (word.startsWith("+")) reach(own, above, found)
    if (word.endsWith("+")) reach(own, below, found)
  }
  return found
}

function reach(from: readonly number[], next: readonly (readonly number[])[], found: Set<number>): void {
  const open = [...from]
  const seen = new Set(open)
  for (let node = open.pop(); node !== undefined; node = open.pop())
    for (const other of next[node]!)
      if (!seen.has(other)) {
        seen.add(other)
        found.add(other)
        open.push(other)
      }
}
