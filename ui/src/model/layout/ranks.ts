export type Edges = readonly (readonly [number, number])[]

/** The longest path to each node. */
export function computeRanks(size: number, edges: Edges): number[] {
  const below: number[][] = Array.from({ length: size }, () => [])
  const open = new Int32Array(size)
  for (const [from, to] of edges) {
    below[from]!.push(to)
    open[to]!++
  }
  const ranks = new Array<number>(size).fill(0)
  const ready = ranks.flatMap((_, node) => (open[node] === 0 ? [node] : []))
  for (const node of ready)
    for (const next of below[node]!) {
      ranks[next] = Math.max(ranks[next]!, ranks[node]! + 1)
      if (--open[next]! === 0) ready.push(next)
    }
  return ranks
}
