/** Cycles among the nodes that Kahn's algorithm could not order: one per strongly connected component, O(V + E). */
import type { Adjacency } from "../../core/plan.ts"

/** Names shown of a long cycle, at its start and at its end. */
const shownNames = 10

/** `a → b → a` */
export function cycleText(names: readonly string[]): string {
  const shown = names.length === 0 ? [] : [...names, names[0]!]
  const hidden = shown.length - 2 * shownNames
  if (hidden > 1) shown.splice(shownNames, hidden, `… ${hidden} more …`)
  return shown.join(" → ")
}

/** Each cycle as positions, starting with its earliest node in the document; each node waits for the next. */
export function findCycles(dependencies: Adjacency, remaining: Int32Array): number[][] {
  const component = stronglyConnected(dependencies, remaining)
  const sizes = new Map<number, number>()
  for (const id of component) if (id !== 0) sizes.set(id, (sizes.get(id) ?? 0) + 1)
  const cycles: number[][] = []
  for (let node = 0; node < component.length; node++) {
    const id = component[node]!
    if ((sizes.get(id) ?? 0) < 2) continue
    sizes.delete(id)
    cycles.push(shortestCycle(dependencies, component, node))
  }
  return cycles
}

/** Breadth first from `start` within its component, until an edge leads back to `start`. */
function shortestCycle(dependencies: Adjacency, component: Int32Array, start: number): number[] {
  const cameFrom = new Map<number, number>()
  const queue = [start]
  for (let head = 0; head < queue.length; head++) {
    const node = queue[head]!
    for (let e = dependencies.starts[node]!; e < dependencies.starts[node + 1]!; e++) {
      const next = dependencies.items[e]!
      if (next === start) return walkBack(cameFrom, start, node)
      if (component[next] !== component[start] || cameFrom.has(next)) continue
      cameFrom.set(next, node)
      queue.push(next)
    }
  }
  throw new Error("a strongly connected component without a cycle")
}

function walkBack(cameFrom: ReadonlyMap<number, number>, start: number, last: number): number[] {
  const cycle: number[] = []
  for (let node = last; node !== start; node = cameFrom.get(node)!) cycle.push(node)
  cycle.push(start)
  return cycle.reverse()
}

/** Tarjan's algorithm with an explicit stack (a chain of 100,000 nodes would overflow the call stack). 0: not visited. */
function stronglyConnected(edges: Adjacency, remaining: Int32Array): Int32Array {
  const count = remaining.length
  const component = new Int32Array(count)
  const index = new Int32Array(count)
  const low = new Int32Array(count)
  const nextEdge = edges.starts.slice(0, count)
  const calls: number[] = []
  const open: number[] = []
  let visited = 0
  let components = 0
  for (let root = 0; root < count; root++) {
    if (remaining[root] === 0 || index[root] !== 0) continue
    calls.push(root)
    while (calls.length > 0) {
      const node = calls.at(-1)!
      if (index[node] === 0) {
        index[node] = low[node] = ++visited
        open.push(node)
      }
      const edge = nextEdge[node]!
      if (edge < edges.starts[node + 1]!) {
        nextEdge[node] = edge + 1
        const next = edges.items[edge]!
        if (remaining[next] === 0) continue
        if (index[next] === 0) calls.push(next)
        else if (component[next] === 0) low[node] = Math.min(low[node]!, index[next]!)
        continue
      }
      calls.pop()
      const caller = calls.at(-1)
      if (caller !== undefined) low[caller] = Math.min(low[caller]!, low[node]!)
      if (low[node] === index[node]) closeComponent(open, node, component, ++components)
    }
  }
  return component
}

function closeComponent(open: number[], root: number, component: Int32Array, id: number): void {
  while (true) {
    const member = open.pop()!
    component[member] = id
    if (member === root) return
  }
}
