import type { Graph } from "../plan.ts"

/** The nodes, from first to last, of the path through the graph whose times have the greatest sum. */
export function criticalPath({ order, dependencies }: Graph, nodeTime: (node: number) => number): number[] {
  const { starts, items } = dependencies
  const until = new Float64Array(order.length)
  const before = new Int32Array(order.length).fill(-1)
  let last = -1
  for (const node of order) {
    let latest = 0
    for (let i = starts[node]!; i < starts[node + 1]!; i++) {
      const dependency = items[i]!
      if (before[node] !== -1 && until[dependency]! <= latest) continue
      latest = until[dependency]!
      before[node] = dependency
    }
    until[node] = latest + nodeTime(node)
    if (last === -1 || until[node]! >= until[last]!) last = node
  }
  const path: number[] = []
  for (let node = last; node !== -1; node = before[node]!) path.push(node)
  return path.reverse()
}
