import type { RemoteGraph } from "../../client/index.ts"
import { rowLengths, topologicalOrder, transpose } from "../../definition/graph/graph.ts"
import type { ShownGraph } from "./view.ts"

/** The edges in the form of the core, for drawing. */
export function graphOf({ nodes, edges }: Pick<RemoteGraph, "nodes" | "edges">): ShownGraph {
  const positions = new Map(nodes.map(({ id }, index) => [id, index]))
  const above: number[][] = nodes.map(() => [])
  for (const { from, to } of edges) above[positions.get(to)!]!.push(positions.get(from)!)
  const starts = new Int32Array(nodes.length + 1)
  for (const [node, parents] of above.entries()) starts[node + 1] = starts[node]! + parents.length
  const dependencies = { starts, items: Int32Array.from(above.flat()) }
  const { order } = topologicalOrder(rowLengths(dependencies), transpose(dependencies))
  return { nodes, order, dependencies }
}
